"""`askance landscape`: the number of users that five classes need in four models, beside the theorems' bounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from askance_lab.commands.shared.engine_options import ClusterOption, EngineOption, WorkersOption, shared_work
from askance_lab.commands.shared.extras import require
from askance_lab.commands.shared.options import MOST_RUNS, JsonOption, ResumeOption, examples, read_numbers
from askance_lab.commands.shared.resuming import measuring
from askance_lab.commands.shared.targets import read_targets
from askance_lab.experiments.landscape import report
from askance_lab.experiments.landscape.cells import CELLS
from askance_lab.experiments.landscape.measurement import known, run_all, tasks_of
from askance_protocol.errors import UsageError
from askance_protocol.text import listed, one_of

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance landscape --workers 2",
        "askance landscape --classes POINT,PARITY --d 8,16 --seeds 20 --out some",
        "askance landscape --out some --show",
    )
)
def landscape(
    problems: Annotated[
        str, typer.Option("--classes", metavar="CLASS,…", help="Concept classes to measure.  [default: all five]")
    ] = "",
    d: Annotated[
        str,
        typer.Option("--d", metavar="D,…", help="Dimensions to measure.  [default: all that each learner is made for]"),
    ] = "",
    epsilon: Annotated[str, typer.Option("--epsilon", help="Privacy parameter ε that each user is promised.")] = "1",
    delta: Annotated[
        str, typer.Option("--delta", help="Privacy parameter δ, for learners that are (ε, δ)-private.")
    ] = "1e-6",
    alpha: Annotated[float, typer.Option("--alpha", help="Largest error that a hypothesis may have.")] = 0.1,
    beta: Annotated[float, typer.Option("--beta", help="Probability with which a learner may fail.")] = 0.1,
    seeds: Annotated[
        int, typer.Option("--seeds", min=10, max=MOST_RUNS, help="Number of runs at each number of users.")
    ] = 100,
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="Directory for the results and the plots.")] = Path(
        "askance-landscape"
    ),
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    cluster: ClusterOption = None,
    resume: ResumeOption = False,
    show: Annotated[
        bool, typer.Option("--show", help="Measure nothing: print the results that --out has already.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure how many users each model needs: local at once, local in rounds, a curator, and no privacy at all.

    All of it takes some twenty minutes on two cores; interrupted, it goes on with --resume.
    """
    targets = read_targets(epsilon, delta, alpha, beta)
    measured = out / "found.json"
    if measured.exists() and not (resume or show):
        raise UsageError("has results already", where=f"--out {out}", remedy="go on with --resume, or choose another")
    chosen = _classes(problems, [cell.problem for cell in CELLS])
    cells = [cell for cell in CELLS if cell.problem in chosen]
    tasks = tasks_of(cells, targets, seeds, read_numbers(d, "--d"))
    if not tasks:
        raise UsageError("leave nothing to measure", where="--classes, --d", remedy="leave one of them out")
    if show:
        users = known(tasks, measured)
        if not users:
            raise UsageError("has no such results", where=f"--out {out}", remedy="measure them: leave out --show")
        results = report.results_of(users, targets, seeds)
    else:
        require("matplotlib")  # before anything is measured that it has to draw
        out.mkdir(parents=True, exist_ok=True)
        with (
            measuring("landscape", len(tasks), out, resume=resume) as at,
            shared_work(engine, workers, cluster) as processes,
        ):
            users = run_all(tasks, measured, processes, progress=at)
        results = report.write(out, users, targets, seeds)
    text = [*report.tables(users, targets, cells), *report.conclusions(users)]
    typer.echo(json.dumps(results) if as_json else "\n".join(text))


def _classes(text: str, known: Sequence[str]) -> set[str]:
    chosen = {part.strip() for part in text.split(",") if part.strip()} or set(known)
    unknown = chosen - set(known)
    if unknown:
        remedy = one_of(min(unknown), dict.fromkeys(known))
        raise UsageError(f"{listed(sorted(unknown))} is no class here", where="--classes", remedy=remedy)
    return chosen
