"""`askance separation`: measure learners of MASKED-PARITY by rounds and users, and draw what it shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import typer

from askance_lab.commands.shared.completion import STRATEGIES
from askance_lab.commands.shared.engine_options import ClusterOption, EngineOption, WorkersOption, shared_work
from askance_lab.commands.shared.extras import require
from askance_lab.commands.shared.options import (
    MOST_RUNS,
    CountsOption,
    EpsilonOption,
    JsonOption,
    ResumeOption,
    examples,
    read_numbers,
)
from askance_lab.commands.shared.resuming import measuring
from askance_lab.commands.shared.tables import echo_table
from askance_lab.commands.shared.window import NARROW, window_width, wrapped
from askance_lab.experiments.separation import users as limits
from askance_lab.experiments.separation.measurement import (
    LEARNERS,
    SCHEMA_VERSION,
    SeparationPoint,
    measure,
    results_of,
    settings_of,
    verdict,
)
from askance_lab.experiments.separation.report import HEAD, rows, write
from askance_protocol.budget import charge_from_text, to_text
from askance_protocol.errors import UsageError

_DIMENSIONS: Final = "4,8,16"

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance separation --table",
        "askance separation --d 4,8 --learner masked-parity --learner masked-parity-pooled --workers 2",
        "askance separation --d 8 --users 3000,4000 --out eight --resume",
    )
)
def separation(
    d: Annotated[
        str,
        typer.Option(
            "--d",
            metavar="D,…",
            help="Dimensions to measure, powers of two with commas between.  [default: 4,8,16; of --table 8,16,32,64]",
            show_default=False,
        ),
    ] = _DIMENSIONS,
    epsilon: EpsilonOption = "1",
    users: Annotated[
        str,
        typer.Option(
            "--users", metavar="N,…", help="Numbers of users to measure.  [default: some around those needed]"
        ),
    ] = "",
    seeds: Annotated[
        int, typer.Option("--seeds", min=1, max=MOST_RUNS, help="Number of runs at each dimension and number of users.")
    ] = 20,
    learner: Annotated[
        list[str] | None,
        typer.Option(
            "--learner",
            metavar="NAME",
            autocompletion=STRATEGIES,
            help="Strategy to measure; may be given again.  [default: the three above]",
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Directory for the results, the plots and the report.")
    ] = Path("askance-separation"),
    engine: EngineOption = "local",
    workers: WorkersOption = 1,
    counts: CountsOption = False,
    cluster: ClusterOption = None,
    resume: ResumeOption = False,
    table: Annotated[
        bool,
        typer.Option(
            "--table",
            help="Measure nothing: print the users that were measured, and what is proved of others.",
        ),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure learners of MASKED-PARITY by rounds and users.

    By default these are masked-parity-pooled, which takes up to six rounds, masked-parity-two-rounds, which takes two
    rounds, and masked-parity-noninteractive, which takes one round. Each gets the same numbers of users, and each row
    says the rounds that its runs took. KLNRS11, §5.3: a learner in one round needs exponentially many users.
    """
    if table:
        dimensions = limits.DIMENSIONS if d == _DIMENSIONS else sorted({*read_numbers(d, "--d", least=1)})
        _echo_limits(limits.table(dimensions, to_text(charge_from_text(epsilon))), as_json=as_json)
        return
    measured = out / "measured.json"
    if measured.exists() and not resume:
        raise UsageError("has results already", where=f"--out {out}", remedy="go on with --resume, or choose another")
    dimensions = sorted({*read_numbers(d, "--d", least=1)})
    numbers = sorted({*read_numbers(users, "--users", least=1)})
    settings = settings_of(dimensions, epsilon, numbers, learner or LEARNERS, counts=counts)
    require("matplotlib")  # before anything is measured that it has to draw
    out.mkdir(parents=True, exist_ok=True)
    with (
        measuring("separation", len(settings) * seeds, out, resume=resume) as at,
        shared_work(engine, workers, cluster) as processes,
    ):
        points = measure(settings, seeds, measured, processes, progress=at)
    results = results_of(points)
    write(out, points, results)
    if as_json:
        typer.echo(json.dumps(results))
    else:
        _echo(points, out)


def _echo_limits(users: Sequence[limits.SeparationUsers], *, as_json: bool) -> None:
    if not users:
        remedy = "choose d up to 256 and ε below 20"
        raise UsageError("are beyond what the limits are computed for", where="--d, --epsilon", remedy=remedy)
    if as_json:
        found = {
            "schema_version": SCHEMA_VERSION,
            "rows": [row for each in users for row in each.rows()],
            "limits": [each.to_json() for each in users],
        }
        typer.echo(json.dumps(found))
        return
    words = [line for each in limits.WORDS for line in wrapped(each)]
    plain = "\n".join([*limits.lines(users), *words])
    if window_width() >= NARROW:
        # As documents have it: what its columns are about stands above them.
        typer.echo(plain)
        return
    echo_table(plain, limits.HEAD, limits.rows(users))
    echo_table("", limits.LIMITS, limits.limit_rows(users), below=words)


def _echo(points: Sequence[SeparationPoint], out: Path) -> None:
    cells = rows(points)
    lines = [
        f"{d:>4}{users:>11}  {learner:<29}{rounds:>6}{right:>9}  {interval:<13}{error:>6}"
        for d, users, learner, rounds, right, interval, error in (HEAD, *cells)
    ]
    said = [line for each in verdict(points) for line in wrapped(each)]
    below = ["", *said, f"report: {out / 'report.html'}"]
    echo_table("\n".join([*lines, *below]), HEAD, cells, below=below)
