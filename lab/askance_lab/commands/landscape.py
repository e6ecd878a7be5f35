"""`askance landscape`: five classes in four models, measured and beside the theorems' bounds."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from askance_lab.commands.fleet import JsonOption
from askance_lab.commands.shared.progress import ProgressBar
from askance_protocol.errors import ProtocolError

if TYPE_CHECKING:
    from askance_lab.theory.targets import Targets

app = typer.Typer()


@app.command()
def landscape(
    problems: Annotated[
        str, typer.Option("--classes", metavar="CLASS,…", help="Which classes; all, if it is not said.")
    ] = "",
    d: Annotated[str, typer.Option("--d", metavar="D,…", help="Of the dimensions of each learner, which.")] = "",
    epsilon: Annotated[str, typer.Option("--epsilon", help="ε of each user.")] = "1",
    delta: Annotated[str, typer.Option("--delta", help="δ, where a learner has one.")] = "1e-6",
    alpha: Annotated[float, typer.Option("--alpha", help="The error that a hypothesis may have.")] = 0.1,
    beta: Annotated[float, typer.Option("--beta", help="The chance with which a learner may fail.")] = 0.1,
    seeds: Annotated[int, typer.Option("--seeds", min=10, help="Runs at each number of users.")] = 100,
    out: Annotated[Path, typer.Option("--out", help="Where results and plots go.")] = Path("askance-landscape"),
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Processes that share the runs.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was measured there before.")] = False,
    show: Annotated[bool, typer.Option("--show", help="Only print what was measured there before.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how many users each model needs: local at once, local in rounds, a curator, and no privacy at all."""
    from askance_lab.engines import engine  # noqa: PLC0415 - takes a while
    from askance_lab.experiments.landscape import report  # noqa: PLC0415
    from askance_lab.experiments.landscape.cells import CELLS  # noqa: PLC0415
    from askance_lab.experiments.landscape.measurement import known, run_all, tasks_of  # noqa: PLC0415

    terms = terms_of(epsilon, delta, alpha, beta)
    kept = out / "found.json"
    if kept.exists() and not (resume or show):
        raise ProtocolError(
            "has results already", where=str(out), remedy="go on with --resume, or choose another --out"
        )
    chosen = _classes(problems, [cell.problem for cell in CELLS])
    cells = [cell for cell in CELLS if cell.problem in chosen]
    tasks = tasks_of(cells, terms, seeds, _numbers(d))
    if not tasks:
        raise ProtocolError("leave nothing to measure", where="--classes, --d", remedy="leave one of them out")
    if show:
        found = known(tasks, kept)
        results = report.results_of(found, terms, seeds)
    else:
        out.mkdir(parents=True, exist_ok=True)
        bar = ProgressBar("landscape", len(tasks))
        with engine(workers=workers) as processes:
            found = run_all(tasks, kept, processes, progress=bar.at)
        bar.end()
        results = report.write(out, found, terms, seeds)
    said = [*report.tables(found, terms, cells), *report.conclusions(found)]
    typer.echo(json.dumps(results) if as_json else "\n".join(said))


def terms_of(epsilon: str, delta: str, alpha: float, beta: float) -> Targets:
    """What is wanted, and what may be spent, as it is said on a command line."""
    from askance_lab.theory.targets import Targets  # noqa: PLC0415 - takes a while
    from askance_protocol import checks  # noqa: PLC0415
    from askance_protocol.budget import MICRO, limit_from_text  # noqa: PLC0415

    checks.between("alpha", alpha, 0.001, 0.2)
    checks.between("beta", beta, 0.01, 0.5)
    try:
        delta_ = Fraction(delta)
    except ValueError:
        raise ProtocolError(f"{delta!r} is not a number", where="--delta", remedy="write it as 1e-6") from None
    checks.open_unit("delta", float(delta_))
    return Targets(Fraction(checks.count("epsilon", limit_from_text(epsilon)), MICRO), delta_, alpha, beta)


def _classes(text: str, known: list[str]) -> set[str]:
    chosen = {part.strip() for part in text.split(",") if part.strip()} or set(known)
    unknown = chosen - set(known)
    if unknown:
        names = ", ".join(dict.fromkeys(known))
        raise ProtocolError(f"{', '.join(sorted(unknown))} is no class here", where="--classes", remedy=f"use {names}")
    return chosen


def _numbers(text: str) -> list[int]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise ProtocolError(f"{text!r} is not a list of whole numbers", where="--d", remedy="write it as 8,16,32")
    return [int(part) for part in parts]
