"""`askance refutation`: KLNRS08, Theorem 5.1 against d + 1 queries that learn what it says they cannot."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Final

import typer

from askance_lab.commands.shared.options import JsonOption, examples
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.experiments.refutation import LARGEST, RefutationVerdict, refute
from askance_protocol.errors import UsageError

SCHEMA_VERSION: Final = 1
DIMENSIONS: Final = tuple(1 << power for power in range(1, LARGEST.bit_length()))

app = typer.Typer()


@app.command(epilog=examples("askance refutation", "askance refutation --d 4", "askance refutation --d 8 --json"))
def refutation(
    d: Annotated[
        int,
        typer.Option("--d", help=f"Dimension: one of {', '.join(map(str, DIMENSIONS))}, as all concepts are tried."),
    ] = LARGEST,
    as_json: JsonOption = False,
) -> None:
    """Try d + 1 nonadaptive queries on every concept of MASKED-PARITY, at the tolerance that KLNRS08 allows them.

    Its Theorem 5.1 says that they are too few. From d = 8 on they learn all concepts; below, a lie within the tolerance
    hides the mask bit, and the theorem is not refuted.
    """
    if d not in DIMENSIONS:
        raise UsageError(f"{d} is not one of {', '.join(map(str, DIMENSIONS))}", where="--d", remedy="use --d 8")
    with ProgressBar("concepts", 2 ** (d + 1)) as bar:
        verdict = refute(d, bar.at)
        bar.end()
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **asdict(verdict), "refuted": verdict.refuted}))
    else:
        typer.echo(_text(verdict))


def _text(verdict: RefutationVerdict) -> str:
    above = "above" if verdict.bias > verdict.tolerance else "below"
    conclusion = "the theorem is false" if verdict.refuted else "the theorem is not refuted"
    return (
        f"KLNRS08, Thm 5.1 at d = {verdict.d}: more than {verdict.claimed} queries of tolerance "
        f"{verdict.tolerance:.4f} are needed\n"
        f"{verdict.queries} queries at that tolerance learn {verdict.learned} of {verdict.concepts} concepts, "
        f"whatever is answered within it\n"
        f"the bent query moves by {verdict.bias:.4f}, {above} the tolerance\n"
        f"at d = {verdict.d} {conclusion}"
    )
