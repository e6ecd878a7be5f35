"""usage: python made_up_table.py KIND USERS FILE

A table of made-up users, a row each, as CSV in FILE.csv, and what its columns may hold in FILE.json: what you try
questions on before there are users. KIND is a kind of population; `telemetry` is the app of docs/telemetry.md.
"""

import csv
import sys
from pathlib import Path

from askance_client.simulation.population import synthetic


def write(kind: str, users: int, file: Path) -> None:
    population = synthetic(kind, {}, seed=2)
    made = population.columns(range(users))
    with file.with_suffix(".csv").open("w", encoding="utf-8", newline="") as out:
        table = csv.DictWriter(out, list(population.schema.position), lineterminator="\n")
        table.writeheader()
        table.writerows(made.example(user).record() for user in range(users))
    file.with_suffix(".json").write_bytes(population.schema.to_bytes())


if len(sys.argv) != 4 or "--help" in sys.argv:
    sys.exit(__doc__)
write(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
