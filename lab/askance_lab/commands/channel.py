"""`askance channel`: look at a randomizer's table, and draw from it as a user's device would."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import Annotated, Final

import numpy as np
import typer

from askance_protocol import budget
from askance_protocol.channels import BinaryResponse, Channel, DiscreteLaplace, KaryResponse, TwoSidedGeometric
from askance_protocol.channels.ratio import WORD
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import OsRandom

SCHEMA_VERSION: Final = 1

_DEFAULT_K: Final = 4
_DEFAULT_RANGE: Final = 10
_SHOWN: Final = 8
_CHUNK: Final = 1 << 16


class ChannelKind(StrEnum):
    """The kinds of channel."""

    BINARY = "binary"
    KARY = "kary"
    GEOMETRIC = "geometric"
    LAPLACE = "laplace"


app = typer.Typer(help="Randomizers, as exact integer tables.", no_args_is_help=True)

KindOption = Annotated[ChannelKind, typer.Option("--kind", help="Which randomizer.")]
EpsilonOption = Annotated[str, typer.Option("--epsilon", help="ε, in decimal. More than six digits are cut off.")]
KOption = Annotated[int | None, typer.Option("--k", help=f"kary: how many categories ({_DEFAULT_K}).")]
RangeOption = Annotated[
    int | None, typer.Option("--range", help=f"geometric, laplace: inputs are 0 .. range ({_DEFAULT_RANGE}).")
]
JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]


@app.command()
def describe(
    kind: KindOption, epsilon: EpsilonOption, k: KOption = None, range_: RangeOption = None, as_json: JsonOption = False
) -> None:
    """Print a channel's table: for each input, how many of the 2^64 words choose each outcome."""
    channel = build(kind, epsilon, k, range_)
    if as_json:
        typer.echo(json.dumps(description(channel, kind)))
    else:
        typer.echo(_readable(channel, kind, epsilon))


@app.command()
def sample(
    kind: KindOption,
    epsilon: EpsilonOption,
    given: Annotated[int, typer.Option("--input", help="Which input, counted from 0.")],
    count: Annotated[int, typer.Option("--n", min=0, help="How many outcomes.")],
    k: KOption = None,
    range_: RangeOption = None,
    raw: Annotated[bool, typer.Option("--raw", help="Little-endian uint32, nothing else.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Draw outcomes from the operating system's randomness, as a real client does: there is no seed."""
    channel = build(kind, epsilon, k, range_)
    inputs = np.full(min(count, _CHUNK), channel.check_input(given), np.uint16)
    if as_json and raw:
        raise ProtocolError("--raw and --json exclude each other", where="output", remedy="choose one")
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


def build(kind: ChannelKind, epsilon: str, k: int | None, range_: int | None) -> Channel:
    """The channel that the options name. An option that its kind does not have is refused."""
    micro_epsilon = budget.limit_from_text(epsilon)
    if k is not None and kind is not ChannelKind.KARY:
        raise ProtocolError(f"a {kind} channel has no k", where="--k", remedy="leave it out, or use --kind kary")
    if range_ is not None and kind not in {ChannelKind.GEOMETRIC, ChannelKind.LAPLACE}:
        raise ProtocolError(f"a {kind} channel has no range", where="--range", remedy="leave it out")
    match kind:
        case ChannelKind.BINARY:
            return BinaryResponse(micro_epsilon)
        case ChannelKind.KARY:
            return KaryResponse(micro_epsilon, _DEFAULT_K if k is None else k)
        case ChannelKind.GEOMETRIC:
            return TwoSidedGeometric(micro_epsilon, _DEFAULT_RANGE if range_ is None else range_)
        case ChannelKind.LAPLACE:
            return DiscreteLaplace(micro_epsilon, _DEFAULT_RANGE if range_ is None else range_)


def description(channel: Channel, kind: ChannelKind) -> dict[str, object]:
    """The table as the contract has it. Weights are text: they are larger than a JSON number is exact."""
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": kind.value,
        "inputs": channel.inputs,
        "outcomes": channel.outcomes,
        "weights": [[str(weight) for weight in row] for row in channel.table()],
        "certified_micro_epsilon": channel.certified_micro_epsilon,
    }


def _readable(channel: Channel, kind: ChannelKind, epsilon: str) -> str:
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
