"""How many users a fleet and a gateway bring through a round over HTTP.

Prints one JSON object: real users with wallets, by processes; and the seconds in which a gateway speaks for a million,
from the reading of the study to the last acknowledgement. Exits 6 where a figure misses its goal.

    python benchmarks/fleet.py
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from askance_lab.remote.local_server import local_server

USERS: Final = 5_000
MILLION: Final = 1_000_000
GOAL_SECONDS: Final = 10
COMMAND: Final = (sys.executable, "-c", "from askance_lab.cli import main; main()", "load", "--json")


def load(url: str, folder: Path, *options: str) -> dict[str, Any]:
    """The figures of one `askance load`, in processes of its own."""
    tokens = ("--operator-token", str(folder / "operator.token"), "--enrolment-token", str(folder / "enrolment.token"))
    run = subprocess.run([*COMMAND, "--server", url, *tokens, *options], stdout=subprocess.PIPE, check=True)  # noqa: S603 - our own command
    figures: dict[str, Any] = json.loads(run.stdout)
    return figures


def main() -> None:
    """Measure both, print, compare with the goal."""
    figures: dict[str, Any] = {"schema_version": 1, "users": USERS, "machine_load": os.getloadavg()[0]}
    with tempfile.TemporaryDirectory(prefix="askance-fleet-") as folder, local_server(Path(folder), "1") as server:
        for processes in (1, 2, 4):
            loaded = load(server.url, server.directory, "--users", str(USERS), "--processes", str(processes))
            figures[f"users_per_second_{processes}"] = loaded["reports_per_second"]
            figures[f"p99_milliseconds_{processes}"] = loaded["p99_milliseconds"]
        figures["gateway_seconds"] = load(server.url, server.directory, "--users", str(MILLION), "--batch", "100000")[
            "seconds"
        ]
    figures["missed"] = ["gateway_seconds"] if figures["gateway_seconds"] > GOAL_SECONDS else []
    print(json.dumps(figures))
    sys.exit(6 if figures["missed"] else 0)


if __name__ == "__main__":
    main()
