"""`askance separation`: measure the separation, draw it, and say what it shows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from askance_lab.commands.fleet import JsonOption
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.engines import engine
from askance_lab.experiments.separation.measurement import SeparationPoint, measure, results_of, settings_of, verdict
from askance_lab.experiments.separation.report import rows, write
from askance_protocol.errors import ProtocolError

app = typer.Typer()


@app.command()
def separation(
    d: Annotated[str, typer.Option("--d", metavar="D,…", help="Dimensions: powers of two.")] = "4,8,16",
    epsilon: Annotated[str, typer.Option("--epsilon", help="ε of each report.")] = "1",
    users: Annotated[
        str, typer.Option("--users", metavar="N,…", help="Numbers of users; around those needed, if not said.")
    ] = "",
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="Runs of each point.")] = 20,
    out: Annotated[Path, typer.Option("--out", help="Where results, plots and report go.")] = Path(
        "askance-separation"
    ),
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Processes that share the runs.")] = 1,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with what was measured there before.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Measure what is learned in rounds and not at once, and draw it."""
    measured = out / "measured.json"
    if measured.exists() and not resume:
        raise ProtocolError(
            "has results already", where=str(out), remedy="go on with --resume, or choose another --out"
        )
    settings = settings_of(_numbers(d, "--d"), epsilon, _numbers(users, "--users") if users else [])
    out.mkdir(parents=True, exist_ok=True)
    bar = ProgressBar("separation", len(settings) * seeds)
    with engine(workers=workers) as processes:
        points = measure(settings, seeds, measured, processes, progress=bar.at)
    bar.end()
    results = results_of(points)
    write(out, points, results)
    typer.echo(json.dumps(results) if as_json else _text(points, out))


def _numbers(text: str, where: str) -> list[int]:
    """Whole numbers, with commas between."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() and int(part) for part in parts):
        raise ProtocolError(f"{text!r} is not a list of whole numbers", where=where, remedy="write it as 8,16,32")
    return sorted({int(part) for part in parts})


def _text(points: Sequence[SeparationPoint], out: Path) -> str:
    head = f"{'d':>4} {'users':>11}  {'learner':<12}{'right':>12}  {'95 %':<14}{'mean error':>11}"
    lines = [
        f"{d:>4} {users:>11}  {learner:<12}{right:>12}  {interval}  {error:>10}"
        for d, users, learner, right, interval, error in rows(points)
    ]
    return "\n".join([head, *lines, "", *verdict(points), f"report: {out / 'report.html'}"])
