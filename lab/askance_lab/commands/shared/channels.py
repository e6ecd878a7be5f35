"""A channel, as the commands name it: its kind, its ε and its size. The kinds are those that the protocol has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import typer

from askance_lab.commands.shared.completion import words
from askance_lab.commands.shared.parse_set import parse_set
from askance_protocol.budget import limit_from_text
from askance_protocol.channels import CHANNELS, Channel
from askance_protocol.errors import UsageError
from askance_protocol.text import QUOTED, one_of, printable, quoted

KINDS: Final = tuple(sorted(name for name, kind in CHANNELS.items() if kind.build is not None))
"""The kinds that can be named by their ε and their size alone."""

KindOption: TypeAlias = Annotated[
    str,
    typer.Option("--kind", metavar="KIND", help=f"Which randomizer: {', '.join(KINDS)}.", autocompletion=words(*KINDS)),
]
ChannelEpsilonOption: TypeAlias = Annotated[
    str, typer.Option("--epsilon", help="Privacy parameter ε of the channel, in decimal.")
]
KOption: TypeAlias = Annotated[
    int | None,
    typer.Option("--k", help=f"Number of categories of a kary channel.  [default: {CHANNELS['kary'].options['k'][0]}]"),
]
RangeOption: TypeAlias = Annotated[
    int | None,
    typer.Option(
        "--range",
        help="Largest input of a geometric or laplace channel; the least is 0.  "
        f"[default: {CHANNELS['geometric'].options['range'][0]}]",
    ),
]
ChannelSetOption: TypeAlias = Annotated[
    list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A whole number that another channel takes.")
]


def build(kind: str, epsilon: str, k: int | None, range_: int | None, more: Sequence[str] = ()) -> Channel:
    """The channel that the options name. An option that its kind does not have is refused."""
    if kind not in KINDS:
        raise UsageError(f"{quoted(kind)} is no kind of channel", where="--kind", remedy=one_of(kind, KINDS))
    known, make = CHANNELS[kind].options, CHANNELS[kind].build
    assert make is not None  # noqa: S101 - told the type checker: these are the kinds that have it
    given = {name: value for name, value in {"k": k, "range": range_, **parse_set(more)}.items() if value is not None}
    for name in given:
        if name not in known:
            shown, has = printable(name, QUOTED), ", ".join(known) or "none"
            raise UsageError(
                f"a {kind} channel has no {shown}", where=f"--{shown}", remedy=f"leave it out: it has {has}"
            )
    defaults = {name: default for name, (default, _) in known.items()}
    return make(micro_epsilon=limit_from_text(epsilon), **(defaults | given))
