"""This project beside pure-ldp, multi-freq-ldpy, OpenDP and diffprivlib: one table of one run.

Each library is installed into an environment of its own, which is made for this and thrown away, with what it needs and
does not declare; the versions are those below. Users a second stand beside `rng.random(n) < p` in the same process.
Errors are those of as many users at the same ε; shares are cut at 0 and made to add up to 1, as multi-freq-ldpy does.
Exits 6 where one of the goals is missed.

    python benchmarks/peers.py [--only NAME] [--keep FOLDER] [--json] [--planted speed|error]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from measuring import MISSED, PLANTED, Figure, machine

ROOT: Final = Path(__file__).parents[1]
WORKER: Final = Path(__file__).with_name("peers_libraries.py")
EPSILON: Final = 1
CELLS: Final = 128
USERS: Final = 20_000
BIT_USERS: Final = 1_000
SECONDS: Final = 2.0
"""For each speed; four times as many for an error."""
STARTS: Final = 7

NONE: Final = "–"


@dataclass(frozen=True, slots=True)
class Peer:
    """A library: what is installed, and the least program that makes a report."""

    packages: tuple[str, ...]
    undeclared: tuple[str, ...]
    """What it needs and does not say."""
    first_report: str


OURS: Final = "askance"
PEERS: Final = {
    OURS: Peer(
        (),
        (),
        "from askance_protocol.channels import BinaryResponse; from askance_protocol.randomness import OsRandom;"
        " BinaryResponse(1_000_000).randomize(1, OsRandom())",
    ),
    "pure-ldp": Peer(
        ("pure-ldp==1.2.0", "numpy==2.4.6"),
        ("scikit-learn==1.7.2", "statsmodels==0.15.0"),
        "from pure_ldp.frequency_oracles import DEClient; DEClient(epsilon=1, d=2).privatise(1)",
    ),
    "multi-freq-ldpy": Peer(
        ("multi-freq-ldpy==0.2.5", "numpy==2.4.6", "numba==0.68.1"),
        (),
        "from multi_freq_ldpy.pure_frequency_oracles.GRR import GRR_Client; GRR_Client(1, 2, 1.0)",
    ),
    "opendp": Peer(
        ("opendp==0.16.0",),
        ("numpy==2.4.6",),  # Of this benchmark.
        "import opendp.prelude as dp; dp.enable_features('contrib'); dp.m.make_randomized_response_bool(0.73)(True)",
    ),
    "diffprivlib": Peer(
        ("diffprivlib==0.6.6", "numpy==2.4.6"),
        ("scikit-learn==1.7.2",),  # It declares 1.4 and later, and imports what 1.9 has no more.
        "from diffprivlib.mechanisms import Binary; Binary(epsilon=1, value0='0', value1='1').randomise('1')",
    ),
}

Row = dict[str, Any]


def main() -> int:
    """Measure each library, one environment at a time; print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=sorted(PEERS), help="a library; may be given again")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="environments are kept here, and used again")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--planted", choices=("speed", "error"), help="spoil our own: a goal must be missed")
    given = parser.parse_args()
    rows = [row(name, given.keep, given.planted) for name in PEERS if not given.only or name in given.only]
    figures = figures_of(rows)
    missed = [name for name, figure in figures.items() if figure.missed]
    if given.json:
        terms = {"epsilon": EPSILON, "cells": CELLS, "users": USERS, "bit_users": BIT_USERS}
        told = {name: figure.to_json() for name, figure in figures.items()}
        result = {"schema_version": 1, "machine": machine(), **terms, "rows": rows, "figures": told, "missed": missed}
        print(json.dumps(result, indent=1, ensure_ascii=False))
    else:
        print("\n".join([*markdown(rows), "", *goals(figures), "", *installed(rows)]))
    if missed:
        print(f"missed: {', '.join(missed)}", file=sys.stderr)
    return MISSED if missed else 0


# ------------------------------------------------------------------------------------------------------ environments


def row(name: str, keep: Path | None, planted: str | None) -> Row:
    """What was measured of one library."""
    print(f"{name} …", file=sys.stderr)
    with environment(name, keep) as (python, megabytes):
        spoilt = {"speed": {"times": PLANTED}, "error": {"spoil": 0.01}} if name == OURS else {}
        asked = {"library": name, "epsilon": EPSILON, "cells": CELLS, "users": USERS, "bit_users": BIT_USERS}
        asked |= {"seconds": SECONDS, **spoilt.get(planted or "", {})}
        done = subprocess.run(  # noqa: S603 - the environment's own Python
            [python, str(WORKER)], input=json.dumps(asked), capture_output=True, text=True, check=True
        )
        frozen = run(python, "-m", "pip", "freeze").split()
        versions = [each for each in frozen if "==" in each]
        return {
            "library": name,
            "packages": PEERS[name].packages,
            "undeclared": PEERS[name].undeclared,
            "installed": versions,
            "megabytes": round(megabytes, 1),
            "start_seconds": round(start_seconds(python, PEERS[name].first_report), 3),
            **json.loads(done.stdout),
        }


@contextlib.contextmanager
def environment(name: str, keep: Path | None) -> Generator[tuple[str, float]]:
    """The Python of an environment with this library, and how many megabytes that has added to it."""
    with contextlib.ExitStack() as stack:
        parent = keep or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askance-peers-")))
        folder = parent / name
        python, note = folder / "bin" / "python", folder / "megabytes"
        if not note.exists():
            venv.create(folder, with_pip=True, clear=True)
            before = megabytes_of(folder)
            install(str(python), name)
            note.write_text(str(megabytes_of(folder) - before), "ascii")
        yield str(python), float(note.read_text("ascii"))


def install(python: str, name: str) -> None:
    """The library; of ours what the lock names, and then this tree."""
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    if name == OURS:
        run(*pip, "--require-hashes", "-r", str(ROOT / "demo-requirements.txt"))
        run(*pip, "--no-deps", "--no-build-isolation", str(ROOT))
    else:
        run(*pip, *PEERS[name].packages, *PEERS[name].undeclared)


def run(*command: str) -> str:
    """What a command prints."""
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout  # noqa: S603 - named above


def megabytes_of(folder: Path) -> float:
    """Of all files of an environment, without what Python compiles by itself."""
    files = (each for each in folder.rglob("*") if each.is_file() and not each.is_symlink() and each.suffix != ".pyc")
    return sum(each.stat().st_size for each in files) / 1e6


def start_seconds(python: str, program: str) -> float:
    """Seconds from the start of Python to the first report, beyond those of a Python that does nothing."""
    taken: dict[str, list[float]] = {program: [], "pass": []}
    for _ in range(STARTS + 1):
        for each, times in taken.items():
            begin = time.perf_counter()
            run(python, "-W", "ignore", "-c", each)
            times.append(time.perf_counter() - begin)
    return statistics.median(taken[program][1:]) - statistics.median(taken["pass"][1:])


# ------------------------------------------------------------------------------------------------------------- goals


def best_of(row: Row) -> Row | None:
    """The oracle for cells with the least error; None if a library has none."""
    return min((each for each in row["cells"] if each["error"]), key=lambda each: each["error"]["rmse"], default=None)


def many(measured: Row) -> float:
    """Speed with many users beside the baseline: of a call for many, or of a loop over users."""
    return float(measured["bulk_beside_baseline"] or measured["singly_beside_baseline"])


def figures_of(rows: Sequence[Row]) -> dict[str, Figure]:
    """Ours beside the best of the others; goals where we claim something."""
    mine = next((row for row in rows if row["library"] == OURS), None)
    others = [row for row in rows if row["library"] != OURS]
    if mine is None or not others:
        return {}
    theirs = [each for row in others for each in row["cells"]]
    ours: Row = best_of(mine) or {}

    def ratio(of: Sequence[float], own: float, **goal: float) -> Figure:
        return Figure((own / max(of),), **goal)

    figures = {
        "bit_in_bulk": ratio([many(row["bit"]) for row in others], many(mine["bit"]), at_least=10),
        "bit_singly": ratio(
            [row["bit"]["singly_beside_baseline"] for row in others],
            mine["bit"]["singly_beside_baseline"],
            at_least=0.1,
        ),
        "cells_in_bulk": ratio([many(each) for each in theirs], many(ours), at_least=10),
        "cells_singly": ratio([each["singly_beside_baseline"] for each in theirs], ours["singly_beside_baseline"]),
    }
    for name, own, errors in (
        ("cells", ours["error"], [each["error"] for each in theirs]),
        ("bit", mine["bit"]["error"], [row["bit"]["error"] for row in others]),
    ):
        best = min((error for error in errors if error), key=lambda error: error["rmse"])
        figures[f"{name}_error"] = Figure((own["rmse"] / best["rmse"],))
        # Both ends in our favour: 1 or less, if noise may be all that is between them.
        figures[f"{name}_error_beyond_noise"] = Figure((own["low"] / best["high"],), at_most=1)
    return figures


# ------------------------------------------------------------------------------------------------------------- table

HEADER: Final = (
    "library",
    "a bit, in bulk",
    "a bit, one at a time",
    "128 cells, in bulk",
    "128 cells, one at a time",
    "bytes a report",
    "error of a share",
    "error of a bit",
    "first report after",
    "size",
)


def markdown(rows: Sequence[Row]) -> list[str]:
    """The table, and below it why something is missing."""
    lines = [HEADER, ("---",) * len(HEADER), *map(line_of, rows)]
    whys = [f"{row['library']}: {row['why']}." for row in rows if row["why"]]
    return [*(f"| {' | '.join(line)} |" for line in lines), "", *whys]


SAID: Final = {
    "bit_in_bulk": "a bit, in bulk: times the speed of the fastest other",
    "bit_singly": "a bit, one at a time: the same",
    "cells_in_bulk": "128 cells, in bulk: the same",
    "cells_singly": "128 cells, one at a time: the same",
    "cells_error": "error of a share, beside the least of the others",
    "cells_error_beyond_noise": "the same, our lower end beside its upper end",
    "bit_error": "error of a bit, beside the least of the others",
    "bit_error_beyond_noise": "the same, our lower end beside its upper end",
}


def goals(figures: Mapping[str, Figure]) -> list[str]:
    """A table of ours beside the best of the others, and of what is asked of it."""
    lines = [("beside the best other", "ratio", "goal"), ("---",) * 3]
    for name, figure in figures.items():
        least = f"at least {figure.at_least:g}" if figure.at_least is not None else NONE
        goal = f"at most {figure.at_most:g}" if figure.at_most is not None else least
        lines.append((SAID[name], f"{figure.median:.3g}", goal))
    return [f"| {' | '.join(line)} |" for line in lines]


def line_of(row: Row) -> tuple[str, ...]:
    """One library. Of what it has for cells, that with the least error."""
    bit, cells = row["bit"], best_of(row)
    return (
        row["library"],
        speed(bit, "bulk"),
        speed(bit, "singly"),
        NONE if cells is None else speed(cells, "bulk"),
        NONE if cells is None else speed(cells, "singly"),
        NONE if cells is None else f"{cells['bytes']:.0f}",
        NONE if cells is None else f"{error(cells)} ({cells['oracle']})",
        error(bit),
        f"{row['start_seconds']:.2f} s",
        f"{row['megabytes']:.0f} MB",
    )


def speed(measured: Row, how: str) -> str:
    """Users a second; – if there is no call for it."""
    value = measured[how]
    if value is None:
        return f"{NONE} (a loop)"
    return f"{value / 1e6:.3g} M" if value >= 1e6 else f"{value / 1e3:.3g} k"


def error(measured: Row) -> str:
    """With its interval; – if nothing is estimated."""
    found: Mapping[str, float] | None = measured["error"]
    return (
        f"{NONE} (no estimator)" if found is None else f"{found['rmse']:.4f} ± {(found['high'] - found['low']) / 2:.4f}"
    )


def installed(rows: Sequence[Row]) -> list[str]:
    """What was installed."""
    return [
        f"{row['library']}: {', '.join([*row['packages'], *row['undeclared']]) or 'this tree, and its lock'}"
        for row in rows
    ]


if __name__ == "__main__":
    sys.exit(main())
