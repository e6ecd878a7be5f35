"""`askance users`: enrol users, invite them, make codes, count them, and renew the tokens of those who lost theirs."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer

from askance_lab.commands.shared.durations import seconds_of
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.operator_token import operator_token
from askance_lab.commands.shared.options import DEFAULT_SERVER, JsonOption, OperatorOption, ServerOption, examples
from askance_lab.commands.shared.private_files import PrivateFile
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.remote.management import count_users, enrol_users, enrolment_codes, enrolment_token, renew_token
from askance_lab.remote.study_client import connected
from askance_protocol.errors import UsageError
from askance_protocol.text import counted

SCHEMA_VERSION: Final = 1

_USERS: Final = re.compile(r"([0-9]{1,15})(?:-([0-9]{1,15}))?", re.ASCII)
_MOST: Final = 1_000_000_000
_MOST_RENEWED: Final = 10_000
_PRINT: Final = Path("-")
Write: TypeAlias = Callable[[str], None]

app = typer.Typer(
    help="Users: enrol, invite, make codes, count, renew tokens.",
    no_args_is_help=True,
    epilog=examples(
        "askance users enrol 25 --out tokens.csv",
        "askance users count",
        "askance users renew 3 --out token.csv",
    ),
)


@app.command(
    epilog=examples(
        "askance users enrol 25 --out tokens.csv",
        "askance users enrol 100-199 --out second.csv",
        "askance users enrol 1000000 --simulated --json",
    )
)
def enrol(
    users: Annotated[
        str, typer.Argument(metavar="N|FIRST-LAST", help="How many; or the numbers that they have to get.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="FILE",
            help="New file for their tokens, a line for each user; only you can read it. - prints them.  "
            "[default: users.csv; with --simulated none]",
        ),
    ] = None,
    simulated: Annotated[
        bool, typer.Option("--simulated", help="They are made up: a gateway reports for them, without tokens.")
    ] = False,
    server: ServerOption = DEFAULT_SERVER,
    operator: OperatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Enrol users, and keep the token of each in a file that only you can read.

    Numbers are given in order. FIRST-LAST enrols nobody unless FIRST is the next of them.
    """
    numbers = _numbers(users, "users")
    first, count = (numbers.start, len(numbers)) if "-" in users else (None, numbers.stop - 1)
    if not 1 <= count <= _MOST:
        raise UsageError(f"{count} is not from 1 to {_MOST}", where="users", remedy="say how many enrol")
    file = out or (None if simulated else Path("users.csv"))
    token = operator_token(operator, server)
    with _kept(file, as_json=as_json) as write:
        given = asyncio.run(_enrol(server, token, first, count, simulated=simulated, write=write))
    if as_json:
        told = {"users": count, "numbers": [[each.start, each.stop - 1] for each in given], "simulated": simulated}
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **told, "file": None if file is None else str(file)}))
    elif file != _PRINT:
        where = "" if file is None else f"; their tokens are in {file}"
        typer.echo(f"{', '.join(map(_words, given))} enrolled{where}")
    if first is not None and given != [range(first, first + count)]:
        typer.echo("askance: others enrolled at the same time: the numbers are not those that were asked for", err=True)
        raise typer.Exit(Exit.CHECK_FAILED)


async def _enrol(
    url: str, token: str, first: int | None, count: int, *, simulated: bool, write: Write | None
) -> list[range]:
    given: list[range] = []
    async with connected(url) as server:
        if first is not None:
            following = int((await count_users(server, token))["users"])
            if following != first:
                what, remedy = f"the next number is {following}", f"enrol {following}-{following + count - 1}"
                raise UsageError(what, where=f"users {first}-{first + count - 1}", remedy=remedy)
        with ProgressBar("enrolment", count) as bar:
            pieces = enrol_users(server, token, count, simulated=simulated, with_tokens=write is not None)
            async for piece in pieces:
                if write is not None:
                    write(_lines(piece.numbers, piece.tokens))
                if given and given[-1].stop == piece.numbers.start:
                    given[-1] = range(given[-1].start, piece.numbers.stop)
                else:
                    given.append(piece.numbers)
                bar.at(sum(map(len, given)))
    return given


@app.command(
    epilog=examples(
        "askance users invite 30 --for 2h --out invitation.token",
        "askance users invite 500 --for 7d --simulated --out fleet.token",
        "askance users invite 1 --for 10min --out friend.token --json",
    )
)
def invite(
    users: Annotated[int, typer.Argument(metavar="N", min=1, max=10_000_000, help="How many it lets in, in all.")],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="New file for the token; only you can read it. - prints it.")
    ],
    duration: Annotated[
        str, typer.Option("--for", metavar="TIME", help="For how long it does: 90s, 30min, 2h, 7d.")
    ] = "1d",
    simulated: Annotated[
        bool, typer.Option("--simulated", help="It is for made-up users; without it for real ones.")
    ] = False,
    server: ServerOption = DEFAULT_SERVER,
    operator: OperatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make an enrolment token with which so many users enrol themselves, for some time.

    It is what `askance client` and `askance fleet` take by --enrolment-token.
    """
    seconds = seconds_of(duration, "--for")
    token = operator_token(operator, server)

    async def mint(write: Write) -> dict[str, Any]:
        async with connected(server) as there:
            made = await enrolment_token(there, token, users, seconds, simulated=simulated)
            write(f"{made['token']}\n")
            return {name: made[name] for name in ("id", "users", "expires", "simulated")}

    with _kept(out, as_json=as_json) as write:
        assert write is not None  # noqa: S101 - told the type checker: a file is named
        made = asyncio.run(mint(write))
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **made, "file": str(out)}))
    elif out != _PRINT:
        kind = "simulated users" if simulated else "users"
        typer.echo(f"a token for {users:,} {kind}, for {duration}, is in {out}")


@app.command(
    epilog=examples(
        "askance users codes 30 --for 2h --out codes.txt",
        "askance users codes 500 --for 7d --out codes.txt --json",
        "askance users codes 3 --for 10min --out -",
    )
)
def codes(
    number: Annotated[int, typer.Argument(metavar="N", min=1, max=10_000, help="How many codes, for a user each.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="FILE", help="New file for the codes, a line each; only you can read it. - prints."
        ),
    ] = Path("codes.txt"),
    duration: Annotated[
        str, typer.Option("--for", metavar="TIME", help="For how long they let somebody in: 90s, 30min, 2h, 7d.")
    ] = "1d",
    simulated: Annotated[
        bool, typer.Option("--simulated", help="They are for made-up users; without it for real ones.")
    ] = False,
    server: ServerOption = DEFAULT_SERVER,
    operator: OperatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make one-time codes: each is an enrolment token that lets in one user, once.

    Who holds one enrols by it; who comes second with the same one is refused, whoever she is.
    """
    seconds = seconds_of(duration, "--for")
    token = operator_token(operator, server)

    async def mint(write: Write) -> None:
        async with connected(server) as there:
            write(
                "".join(
                    f"{code}\n" for code in await enrolment_codes(there, token, number, seconds, simulated=simulated)
                )
            )

    with _kept(out, as_json=as_json) as write:
        assert write is not None  # noqa: S101 - told the type checker: a file is named
        asyncio.run(mint(write))
    if as_json:
        told = {"codes": number, "seconds": seconds, "simulated": simulated, "file": str(out)}
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **told}))
    elif out != _PRINT:
        typer.echo(f"{number:,} codes, each for one user within {duration}, are in {out}")


@app.command(
    epilog=examples(
        "askance users count",
        "askance users count --server http://127.0.0.1:9000",
        "askance users count --json",
    )
)
def count(server: ServerOption = DEFAULT_SERVER, operator: OperatorOption = None, as_json: JsonOption = False) -> None:
    """Count the users of a server: real ones, simulated ones, and those who did not say."""
    token = operator_token(operator, server)

    async def look() -> dict[str, Any]:
        async with connected(server) as there:
            return dict(await count_users(there, token))

    found = asyncio.run(look())
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **found}))
        return
    kinds = ", ".join(f"{name} {number:,}" for name, number in found["kinds"].items())
    typer.echo(f"{counted(found['users'], 'user')}: {kinds}")


@app.command(
    epilog=examples(
        "askance users renew 3 --out token.csv",
        "askance users renew 10-19 --out tokens.csv",
        "askance users renew 3 --out token.csv --json",
    )
)
def renew(
    users: Annotated[str, typer.Argument(metavar="N|FIRST-LAST", help="The number of a user, or of several.")],
    out: Annotated[
        Path,
        typer.Option(
            "--out",
            metavar="FILE",
            help="New file for the new tokens, a line for each; only you can read it. - prints them.",
        ),
    ] = Path("renewed.csv"),
    server: ServerOption = DEFAULT_SERVER,
    operator: OperatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give users new tokens who lost theirs: all that they had are void. Numbers and accounts stay as they are."""
    numbers = _numbers(users, "users")
    if "-" not in users:
        numbers = range(numbers.stop - 1, numbers.stop)
    if len(numbers) > _MOST_RENEWED:
        raise UsageError(
            f"{len(numbers):,} are more than {_MOST_RENEWED:,}", where="users", remedy="renew some at a time"
        )
    token = operator_token(operator, server)

    async def renewed(write: Write) -> None:
        async with connected(server) as there:
            for user in numbers:
                # Kept before the next is made: the one that she had is void from now on.
                write(_lines(range(user, user + 1), [await renew_token(there, token, user)]))

    with _kept(out, as_json=as_json) as write:
        assert write is not None  # noqa: S101 - told the type checker: a file is named
        asyncio.run(renewed(write))
    if as_json:
        told = {"first": numbers.start, "last": numbers.stop - 1, "file": str(out)}
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **told}))
    elif out != _PRINT:
        typer.echo(f"{_words(numbers)} renewed; the new tokens are in {out}")


# ---------------------------------------------------------------------------------------------------------- in common


@contextmanager
def _kept(file: Path | None, *, as_json: bool) -> Generator[Write | None]:
    """What takes tokens: a new private file, or standard output where it is named; None: nobody wants them."""
    if file is None:
        yield None
    elif file == _PRINT:
        if as_json:
            raise UsageError("exclude each other", where="--out -, --json", remedy="name a file for the tokens")
        yield lambda text: typer.echo(text, nl=False)
    else:
        kept = PrivateFile.new(file)
        try:
            yield kept.write
        finally:
            kept.close()


def _lines(numbers: range, tokens: Sequence[str]) -> str:
    return "".join(f"{number},{token}\n" for number, token in zip(numbers, tokens, strict=True))


def _numbers(text: str, where: str) -> range:
    """The range 1 .. N of a number, FIRST .. LAST of two."""
    found = _USERS.fullmatch(text)
    if found is None or (found[2] is not None and int(found[2]) < int(found[1])):
        raise UsageError(f"{text!r} is no number of users", where=where, remedy="write it as 25, or as 10-34")
    return range(1, int(found[1]) + 1) if found[2] is None else range(int(found[1]), int(found[2]) + 1)


def _words(numbers: range) -> str:
    return f"user {numbers.start}" if len(numbers) == 1 else f"users {numbers.start} .. {numbers.stop - 1}"
