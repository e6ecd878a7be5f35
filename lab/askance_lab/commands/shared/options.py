"""Options and arguments that several commands have, each with its one help text; and how their values are read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final, TypeAlias

import typer

from askance_lab.commands.shared.completion import POPULATIONS, STRATEGIES, columns
from askance_protocol.budget import limit_from_text
from askance_protocol.errors import DataError, ProtocolError, UsageError
from askance_protocol.text import quoted

MOST_USERS: Final = 10**14
"""The largest number of users, and of a row: fewer than a round can have."""
MOST_REPORTS: Final = 10**9
"""The largest number of reports that one call draws, or sends in a second."""
MOST_RUNS: Final = 10**6
"""The largest number of runs of one thing."""
A_YEAR: Final = 366 * 24 * 3600
"""The longest wait, in seconds."""
DEFAULT_SERVER: Final = "http://127.0.0.1:8080"
_LONGEST_EXAMPLE: Final = 76
"""Columns of a line of a help's examples, which are indented by four."""
_OPTION: Final = re.compile(r" (?=--)")
_TOKEN: Final = re.compile(r"[!-~]{1,4096}", re.ASCII)

# ---------------------------------------------------------------------------------------------------------- in general

JsonOption: TypeAlias = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]
SeedOption: TypeAlias = Annotated[
    int,
    typer.Option("--seed", min=0, help="Seed of the simulated users and their noise; the same seed repeats a run."),
]
CountsOption: TypeAlias = Annotated[
    bool,
    typer.Option(
        "--counts",
        help="Make no user: draw the tallies of each round from their exact law. As fast for 10^12 users as for 10^3.",
    ),
]
ResumeOption: TypeAlias = Annotated[
    bool, typer.Option("--resume", help="Go on with the measurements that --out has already.")
]

# ------------------------------------------------------------------------------------------------------------- a study

StrategyArgument: TypeAlias = Annotated[
    str,
    typer.Argument(
        help="Name of the strategy: mean, histogram, conjunction, masked-parity, decision-tree, …",
        autocompletion=STRATEGIES,
    ),
]
DimensionOption: TypeAlias = Annotated[
    int | None, typer.Option("--d", min=1, help="Dimension of the examples, for strategies that learn bit vectors.")
]
EpsilonOption: TypeAlias = Annotated[str, typer.Option("--epsilon", help="Privacy parameter ε of each user's report.")]
AlphaOption: TypeAlias = Annotated[
    str | None, typer.Option("--alpha", help="Largest error that the learned hypothesis should have.")
]
BetaOption: TypeAlias = Annotated[
    str | None, typer.Option("--beta", help="Probability with which the study may fail.  [default: 0.05]")
]
ToleranceOption: TypeAlias = Annotated[
    str | None, typer.Option("--tolerance", help="Error that the strategy allows in the answer to a query.")
]
SetOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="NAME=VALUE", help="Another parameter of the strategy, such as cells=4. May be given again."
    ),
]
AskOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--ask",
        metavar="QUESTION",
        help="A question of the strategy survey: mean(minutes, 0, 120), share(country), histogram(version) or "
        "share(plan = 'pro' and minutes > 30). May be given again.",
    ),
]
PopulationOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--population",
        metavar="KIND",
        autocompletion=POPULATIONS,
        help="Kind of simulated users, in place of the strategy's own; --set reaches their parameters too.",
    ),
]
DataOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--data",
        metavar="FILE",
        help="CSV, Parquet or NumPy file with a row for each user, instead of simulated users.",
    ),
]
LabelOption: TypeAlias = Annotated[
    str | None,
    typer.Option("--label", metavar="COL", help="Column of --data that is to be predicted.", autocompletion=columns),
]

SchemaOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--schema",
        metavar="FILE",
        help="JSON document that declares the columns of --data. Without it they are inferred from the rows, "
        "and what is printed tells about these: no ε covers it.",
    ),
]
PositiveOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--positive",
        metavar="VALUE",
        help="Value of the label that counts as +1; every other counts as -1.  [default: the larger of its two values]",
    ),
]

# ------------------------------------------------------------------------------------------------------------ a server

ServerOption: TypeAlias = Annotated[
    str,
    typer.Option(
        "--server",
        envvar="ASKANCE_SERVER",
        metavar="URL",
        help="URL of the server to talk to. Of one with https, SSL_CERT_FILE names a certificate to trust.",
    ),
]
CertificateOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--certificate", metavar="FILE", help="Speak TLS with this certificate, in PEM, and those that signed it."
    ),
]
KeyOption: TypeAlias = Annotated[
    Path | None, typer.Option("--key", metavar="FILE", help="The private key of --certificate, in PEM.")
]
EnrolmentOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--enrolment-token",
        metavar="FILE",
        envvar="ASKANCE_ENROLMENT_TOKEN_FILE",
        help="File with the token that lets users enrol: enrolment.token in the server's data directory.",
    ),
]
OperatorOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--operator-token",
        metavar="FILE",
        envvar="ASKANCE_OPERATOR_TOKEN_FILE",
        help="File with the token that opens studies: operator.token in the server's data directory.",
    ),
]
DatabaseOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--database",
        metavar="URL|PATH",
        help="Where the ledger is kept: a directory, or the URL of a PostgreSQL database.  [default: ./askance-data]",
    ),
]
DataDirectoryOption: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--data-directory",
        help="Where the server's key and its token files are kept.  [default: the directory of the database]",
    ),
]
ConfigOption: TypeAlias = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Settings file to read.  [default: askance.toml, if there is one]"),
]
ProcessesOption: TypeAlias = Annotated[
    int, typer.Option("--processes", min=1, max=64, help="Number of processes that share the users.")
]
ConnectionsOption: TypeAlias = Annotated[
    int, typer.Option("--connections", min=1, max=512, help="Number of connections that each process opens.")
]


def examples(*lines: str) -> str:
    """The end of a command's help: lines that can be typed as they stand, a long one with the shell's own breaks."""
    return "\n".join(["\b", "Examples:", *(f"  {part}" for line in lines for part in _broken(line))])


def _broken(line: str) -> list[str]:
    """A command in parts that fit, each of which begins with an option."""
    if len(line) <= _LONGEST_EXAMPLE:
        return [line]
    parts = [""]
    for words in _OPTION.split(line):
        longer = f"{parts[-1]} {words}".strip()
        if len(longer) <= _LONGEST_EXAMPLE - len("     \\"):
            parts[-1] = longer
        else:
            parts.append(words)
    return " \\\n    ".join(parts).split("\n")


def read_limit(text: str, option: str) -> int:
    """Micro-ε of an ε that must not be exceeded, from an option that is not --epsilon."""
    try:
        return limit_from_text(text)
    except ProtocolError as error:
        raise UsageError(error.what, where=option, remedy=error.remedy) from None


def read_token(path: Path | None, what: str) -> str:
    """The token that a file holds; the empty token where no file is named."""
    if path is None:
        return ""
    try:
        return sound_token(path.read_text("ascii"), str(path), what)
    except (OSError, UnicodeDecodeError):
        raise DataError("cannot be read", where=str(path), remedy=f"name the file that holds the {what}") from None


def parse_asks(questions: Sequence[str] | None) -> dict[str, str]:
    """Questions as the parameters of a study: ask1, ask2, …"""
    return {f"ask{number}": text for number, text in enumerate(questions or (), 1)}


def sound_token(text: str, where: str, what: str) -> str:
    """A token without what stands around it. What cannot stand in a header is none, and is not repeated."""
    if _TOKEN.fullmatch(text.strip()) is None:
        raise DataError("holds no token", where=where, remedy=f"name the file that holds the {what}")
    return text.strip()


def read_numbers(text: str, option: str, *, least: int = 0) -> list[int]:
    """Whole numbers with commas between them, in the order given; none for the empty text."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(
        part.isascii() and part.isdigit() and len(part) < 16 and least <= int(part) <= MOST_USERS for part in parts
    ):
        what = f"{quoted(text)} is not a list of whole numbers from {least} to {MOST_USERS}"
        raise UsageError(what, where=option, remedy="write it as 8,16,32")
    return [int(part) for part in parts]
