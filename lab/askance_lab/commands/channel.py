"""`askance channel`: a randomizer's exact table, outcomes as a user's device draws them, and what each would need."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Final

import numpy as np
import typer

from askance_lab.commands.shared.channels import (
    ChannelEpsilonOption,
    ChannelSetOption,
    KindOption,
    KOption,
    RangeOption,
    build,
)
from askance_lab.commands.shared.options import MOST_USERS, JsonOption, examples
from askance_lab.commands.shared.tables import echo_table
from askance_protocol import budget, checks
from askance_protocol.budget import limit_from_text
from askance_protocol.channels import Channel
from askance_protocol.channels.ratio import WORD
from askance_protocol.errors import UsageError
from askance_protocol.queries.query import MAX_CELLS
from askance_protocol.randomness import OsRandom
from askance_server.core.channel_needs import compare

SCHEMA_VERSION: Final = 1

_SHOWN: Final = 8
_CHUNK: Final = 1 << 16

app = typer.Typer(
    help="Randomizers, as exact integer tables.",
    no_args_is_help=True,
    epilog=examples(
        "askance channel describe --kind kary --epsilon 1 --k 3",
        "askance channel describe --kind geometric --epsilon 0.5 --range 20 --json",
        "askance channel sample --kind binary --epsilon 1 --input 1 --n 1000 --raw",
        "askance channel compare --cells 16 --epsilon 4",
    ),
)


@app.command(
    epilog=examples(
        "askance channel describe --kind binary --epsilon 1",
        "askance channel describe --kind kary --epsilon 2 --k 5",
        "askance channel describe --kind laplace --epsilon 4 --range 3 --json",
    )
)
def describe(
    kind: KindOption,
    epsilon: ChannelEpsilonOption,
    k: KOption = None,
    range_: RangeOption = None,
    more: ChannelSetOption = None,
    as_json: JsonOption = False,
) -> None:
    """Print a channel's table: for each input, how many of the 2^64 words choose each outcome."""
    channel = build(kind, epsilon, k, range_, more or [])
    if as_json:
        typer.echo(json.dumps(description(channel, kind)))
    else:
        typer.echo(_readable(channel, kind, epsilon))


@app.command(
    epilog=examples(
        "askance channel sample --kind binary --epsilon 1 --input 0 --n 20",
        "askance channel sample --kind kary --epsilon 1 --k 3 --input 2 --n 50 --json",
        "askance channel sample --kind geometric --epsilon 1 --input 0 --n 1000000 --raw",
    )
)
def sample(
    kind: KindOption,
    epsilon: ChannelEpsilonOption,
    given: Annotated[
        int, typer.Option("--input", help="The true value that is randomized: an input of the channel, from 0.")
    ],
    count: Annotated[int, typer.Option("--n", min=0, max=MOST_USERS, help="Number of outcomes to draw.")],
    k: KOption = None,
    range_: RangeOption = None,
    more: ChannelSetOption = None,
    raw: Annotated[bool, typer.Option("--raw", help="Write little-endian uint32 and nothing else.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw outcomes from the operating system's randomness, as a real client does: there is no seed."""
    channel = build(kind, epsilon, k, range_, more or [])
    inputs = np.full(min(count, _CHUNK), channel.check_input(given), np.uint16)
    if as_json and raw:
        raise UsageError("exclude each other", where="--raw, --json", remedy="choose one")
    source = OsRandom()
    pieces = (channel.sample(inputs[: count - begin], source).outcomes for begin in range(0, count, _CHUNK))
    if as_json:
        outcomes = [outcome for piece in pieces for outcome in piece.tolist()]
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "simulated": source.simulated, "outcomes": outcomes}))
        return
    for piece in pieces:
        if raw:
            sys.stdout.buffer.write(piece.astype("<u4").tobytes())
        else:
            sys.stdout.write("".join(f"{outcome}\n" for outcome in piece.tolist()))
    sys.stdout.flush()


@app.command(
    name="compare",
    epilog=examples(
        "askance channel compare --cells 4 --epsilon 1",
        "askance channel compare --cells 16 --epsilon 4 --tolerance 0.01",
        "askance channel compare --cells 200 --epsilon 2 --beta 0.001 --json",
    ),
)
def compared(
    cells: Annotated[
        int,
        typer.Option(
            "--cells", min=2, max=MAX_CELLS, help="Number of cells of a partition, of which each user is in one."
        ),
    ],
    epsilon: ChannelEpsilonOption,
    tolerance: Annotated[
        float, typer.Option("--tolerance", help="Error that is allowed in the share of a cell.")
    ] = 0.05,
    beta: Annotated[
        float, typer.Option("--beta", help="Probability with which some share may be further off than that.")
    ] = 0.05,
    as_json: JsonOption = False,
) -> None:
    """Compare how many reports each channel needs for the share of every cell, for every population.

    A study is planned with the first of those that are offered.
    """
    for where, value in (("--tolerance", tolerance), ("--beta", beta)):
        checks.open_unit(where, value)
    needs = compare(cells, limit_from_text(epsilon), tolerance, beta)
    if as_json:
        lines = [
            {
                "name": each.name,
                "reports": each.reports,
                "times": each.times,
                "offered": each.offered,
                "source": each.source,
            }
            for each in needs
        ]
        asked = {"cells": cells, "epsilon": epsilon, "tolerance": tolerance, "beta": beta}
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **asked, "channels": lines}))
        return
    rows = [
        (each.name, f"{each.reports:,}", f"{each.times:.2f}", each.source + ("" if each.offered else " (to compare)"))
        for each in needs
    ]
    title = f"{cells:,} cells at ε = {epsilon}, each within {tolerance:g} with probability {1 - beta:g}"
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    plain = "\n".join(
        f"  {name:<{widths[0]}}  {reports:>{widths[1]}}  {times:>{widths[2]}}  {source}"
        for name, reports, times, source in rows
    )
    taken = next(each.name for each in needs if each.offered)
    below = [f"A study is planned with {taken}: it needs the fewest reports, whatever the shares are."]
    echo_table(
        "\n".join([title, plain, *below]),
        ("channel", "reports", "times", "described by"),
        rows,
        title=title,
        below=below,
    )


def description(channel: Channel, kind: str) -> dict[str, object]:
    """What `describe --json` prints. Weights are text: they are larger than the exact numbers of JSON."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind,
        "inputs": channel.inputs,
        "outcomes": channel.outcomes,
        "weights": [[str(weight) for weight in row] for row in channel.table()],
        "certified_micro_epsilon": channel.certified_micro_epsilon,
    }


def _readable(channel: Channel, kind: str, epsilon: str) -> str:
    certified = budget.to_text(channel.certified_micro_epsilon)
    lines = [
        f"{kind} channel: {channel.inputs} inputs, {channel.outcomes} outcomes",
        f"ε asked {epsilon}, certified {certified}",
        "Pr[outcome | input], each a whole number of 2^64:",
    ]
    for given in range(min(channel.inputs, _SHOWN)):
        row = channel.weights(given)[:_SHOWN]
        more = "  …" if channel.outcomes > _SHOWN else ""
        lines.append(f"  input {given}:  " + "  ".join(f"{weight / WORD:.6f}" for weight in row) + more)
    if channel.inputs > _SHOWN:
        lines.append("  …")
    return "\n".join([*lines, "All weights: --json."])
