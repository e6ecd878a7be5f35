"""`askance ask`: ask a room a question that nobody would answer aloud, and show what it says, the interval first.

Theory of operation
-------------------
One command is the whole evening: it starts a server, or uses one, opens a study for each question, prints where people
take part, and shows the answers as they come. When it ends is fixed before anybody answers, by a number of answers or
by a time: an interval of 95 % holds at one look, and who stops where she likes what she sees has looked often.

People enrol themselves, while it runs, by a token that lets in so many for so long, or by codes that let in one each.
However it ends before that, the same call goes on with what is open: nobody is asked twice (`room_studies`).
What is told before the end is told in steps (`StudySpec.live`), so that nobody reads the answer of the last one.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import ssl
import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from askance_client import Server, UnreachableError
from askance_lab.commands.shared.durations import seconds_of
from askance_lab.commands.shared.exit_codes import Exit, exit_of_cause, say
from askance_lab.commands.shared.export_files import write_export
from askance_lab.commands.shared.operator_token import operator_token
from askance_lab.commands.shared.options import (
    MOST_USERS,
    CertificateOption,
    EpsilonOption,
    JsonOption,
    KeyOption,
    OperatorOption,
    examples,
)
from askance_lab.commands.shared.private_files import PrivateFile
from askance_lab.commands.shared.qr import sheet, terminal_code
from askance_lab.commands.shared.room_questions import RoomQuestion, question_of, questions_in
from askance_lab.commands.shared.room_studies import STRATEGY, asked_before, wait_until_free
from askance_lab.commands.shared.room_text import EXPOSED, question_lines
from askance_lab.commands.shared.scratch import ended_in_order
from askance_lab.commands.shared.urls import is_loopback, read_url
from askance_lab.remote.local_server import local_server
from askance_lab.remote.management import (
    ServerDocument,
    cause_there,
    enrolment_codes,
    enrolment_token,
    entries_of,
    find_study,
    is_over,
    result_of,
)
from askance_lab.remote.study_client import connected, create, unwrap
from askance_protocol.budget import limit_from_text, to_text
from askance_protocol.errors import DataError, ProtocolError, UsageError
from askance_protocol.schema import IntegerField
from askance_protocol.text import counted
from askance_server.certificate import read_certificate
from askance_server.core.export import export_files, verify_files
from askance_server.strategies.registry import registry

SCHEMA_VERSION: Final = 1
LIVE: Final = 10
"""Answers of a step in which they are told."""
_POLL: Final = 0.5
_LATER: Final = 3600
"""Seconds for which people may still enrol when the last question has ended: they may have come late."""
_DEADLINE: Final = "12h"
"""For how long a question waits for a number of answers."""

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class Evening:
    """What is asked, of how many, until when."""

    questions: Sequence[RoomQuestion]
    users: int
    """Answers at which a question ends."""
    seats: int
    """Number of people who may enrol."""
    seconds: int
    codes: Path | None
    live: int
    out: Path


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question of the room, and the study that asks it."""

    question: RoomQuestion
    id: str
    came: int = 0
    """Answers that there were when this command began."""


@app.command(
    epilog=examples(
        "askance ask 'Have you ever copied homework?' --choices yes,no --public --users 30",
        "askance ask 'How sure are you of your job?' --scale 1-10 --until 10min",
        "askance ask 'Tea?' --choices yes,no --public --certificate room.pem --key room-key.pem",
        "askance ask --file questions.toml --codes 30 --until 2h --json",
    )
)
def ask(
    question: Annotated[str | None, typer.Argument(help="The question, in words that everybody understands.")] = None,
    choices: Annotated[
        str | None, typer.Option("--choices", metavar="A,B", help="What can be answered, with commas between.")
    ] = None,
    scale: Annotated[str | None, typer.Option("--scale", metavar="L-H", help="Ask for a number, from L to H.")] = None,
    file: Annotated[
        Path | None, typer.Option("--file", metavar="FILE", help="TOML file of several questions, in place of one.")
    ] = None,
    epsilon: EpsilonOption = "1",
    cap: Annotated[
        str | None,
        typer.Option("--cap", help="ε that one person spends in the whole evening.  [default: that of all questions]"),
    ] = None,
    users: Annotated[
        int | None, typer.Option("--users", metavar="N", min=1, max=1_000_000, help="End at so many answers.")
    ] = None,
    until: Annotated[
        str | None,
        typer.Option("--until", metavar="TIME", help="End after this time: 90s, 10min, 2h.  [default: 15min]"),
    ] = None,
    codes: Annotated[
        int | None,
        typer.Option("--codes", metavar="N", min=1, max=10_000, help="Make a sheet of N codes, one for each person."),
    ] = None,
    live: Annotated[
        int, typer.Option("--live", metavar="K", min=2, max=MOST_USERS, help="Tell the answers so far in steps of K.")
    ] = LIVE,
    public: Annotated[bool, typer.Option("--public", help="Let the other devices of this network take part.")] = False,
    certificate: CertificateOption = None,
    key: KeyOption = None,
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port of the server that is started.")] = 8080,
    database: Annotated[
        Path, typer.Option("--database", metavar="PATH", help="Where the server that is started keeps its ledger.")
    ] = Path("askance-room"),
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="DIR", help="New folder for what was published.  [default: answers-…]"),
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            help="Ask on this server, instead of starting one. Of https, SSL_CERT_FILE names a certificate to trust.",
        ),
    ] = None,
    operator: OperatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Ask a room: one command starts a server, opens the question, shows where to answer and what is known.

    When it ends is fixed beforehand: an interval of 95 % holds at one look, and not at every look.
    """
    asked = _questions(question, choices, scale, file, epsilon)
    if public and server is not None:
        raise UsageError("exclude each other", where="--public, --server", remedy="let that server be public")
    if server is not None and (certificate is not None or key is not None):
        raise UsageError("exclude each other", where="--certificate, --server", remedy="let that server speak TLS")
    shown = read_certificate(certificate, key)
    cap = _cap(cap, asked)
    evening = _evening(asked, users, until, codes, live, out)
    start = ServerOptions(database, cap, port, certificate, key, public=public)
    with ended_in_order(), _served(server, operator, start) as (url, token):
        place = read_url(url)
        if shown is not None:
            for warning in shown.warnings(place.host):
                say(warning)
        elif not is_loopback(place.host) and place.scheme == "http":
            say(EXPOSED)
        try:
            rows, lines = asyncio.run(_ask(url, token, evening, None if shown is None else shown.trusted_alone()))
        except (KeyboardInterrupt, SystemExit):
            kept = f"{url} goes on asking" if server else f"nobody is asked any more, and {database} keeps the answers"
            say(f"stopped: {kept}; the same call goes on with what is open")
            raise
    if as_json:
        told = {"schema_version": SCHEMA_VERSION, "url": url if server else None, "questions": rows}
        typer.echo(json.dumps(told, ensure_ascii=False))
    else:
        typer.echo("\n".join([*lines, f"all that was published is in {evening.out}: askance study verify"]))
    ends = [exit_of_cause(row["cause"], finished=row["state"] == "finished") for row in rows]
    raise typer.Exit(next((each for each in ends if each), Exit.OK))


def _questions(
    words: str | None, choices: str | None, scale: str | None, file: Path | None, epsilon: str
) -> list[RoomQuestion]:
    if file is not None:
        if words is not None or choices is not None or scale is not None:
            remedy = "put all questions into the file, or ask one without it"
            raise UsageError("exclude each other", where="--file, QUESTION", remedy=remedy)
        return questions_in(file, epsilon)
    if words is None:
        raise UsageError("is missing", where="QUESTION", remedy="ask something, or name a file of questions: --file")
    return [question_of(words, choices, scale, epsilon)]


def _cap(cap: str | None, asked: Sequence[RoomQuestion]) -> str:
    """What one person may spend: all questions, unless it is said; then at least one of them."""
    in_all = sum(each.micro_epsilon for each in asked)
    if cap is None:
        return to_text(in_all)
    try:
        given = limit_from_text(cap)
    except ProtocolError as error:
        raise UsageError(error.what, where="--cap", remedy=error.remedy) from None
    if given < min(each.micro_epsilon for each in asked):
        raise UsageError("pays for no question", where="--cap", remedy=f"give {to_text(in_all)}, which pays for all")
    return cap


def _evening(
    asked: Sequence[RoomQuestion], users: int | None, until: str | None, codes: int | None, live: int, out: Path | None
) -> Evening:
    # Some come and do not answer, or come again with another browser.
    seats = codes if codes is not None else 300 if users is None else users + max(20, users // 2)
    if users is not None and users > seats:
        raise UsageError(f"{users} are more than there are codes", where="--users", remedy="make more: --codes")
    ends = until or (_DEADLINE if users is not None else "15min")
    folder = out or Path(f"answers-{secrets.token_hex(4)}")
    if folder.exists():
        raise DataError("is there already", where=str(folder), remedy="name a new folder: --out")
    sheet_file = None if codes is None else folder.with_name(f"{folder.name}-codes.html")
    return Evening(asked, users or seats, seats, seconds_of(ends, "--until"), sheet_file, live, folder)


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """With what a server is started."""

    database: Path
    cap: str
    port: int
    certificate: Path | None
    key: Path | None
    public: bool

    def words(self) -> Iterator[str]:
        """Options of `askance serve`."""
        yield from ("--enrolment", "limited")
        if self.public:
            yield from ("--host", _address_here())
        if self.certificate is not None:
            yield from ("--certificate", str(self.certificate), "--key", str(self.key))


@contextmanager
def _served(server: str | None, operator: Path | None, start: ServerOptions) -> Generator[tuple[str, str]]:
    """URL and operator's token: of a server that runs, or of one that is started and ends with this command."""
    if server is not None:
        yield server, operator_token(operator, server)
        return
    wait_until_free(start.database)
    with local_server(start.database, start.cap, start.port, more=tuple(start.words())) as started:
        try:
            yield started.url, started.operator
        except UnreachableError:
            if (what := started.end) is None:
                raise
            # Whatever it had acknowledged is in its ledger.
            raise UnreachableError(what, where="the room's server", remedy="the same call goes on with it") from None


def _address_here() -> str:
    """The address of this machine in the network that leads on. Nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # An address that is nobody's (RFC 5737).
            return str(probe.getsockname()[0])
        except OSError:
            remedy = "join a network, or leave --public out"
            raise DataError("has no address that others could reach", where="this machine", remedy=remedy) from None


# --------------------------------------------------------------------------------------------------------- the evening


async def _ask(
    url: str, token: str, evening: Evening, trust: ssl.SSLContext | None
) -> tuple[list[dict[str, Any]], list[str]]:
    """Open the questions, say where they are answered, watch until the last has ended, and write what was published.

    Returns what they have come to, for programs and for people.
    """
    async with connected(url, trust) as server:
        before = unwrap(await server.studies())
        asked = [await _open(server, token, each, evening, asked_before(before, each)) for each in evening.questions]
        await _invite(server, token, asked, evening)
        lines = await _watch(server, asked)
        return [await _written(server, each, evening, len(asked)) for each in asked], lines


async def _open(
    server: Server, token: str, question: RoomQuestion, evening: Evening, before: ServerDocument | None
) -> OpenQuestion:
    """Open a question, or go on with it if it is open."""
    if before is not None and not is_over(before):
        came = int(before["rounds"][-1]["received"])
        have = counted(came, "person has answered", "people have answered")
        say(f"goes on with a question that is open: {have}, and it ends as was said when it was opened")
        return OpenQuestion(question, before["id"], came)
    if before is not None:
        remedy = f"askance study export {before['id'][:8]} --server {server.url} has what it came to"
        say(f"was asked here before, and has ended: {remedy}; who has spent her cap is not asked again")
    parameters: dict[str, Any] = {
        "ask": question.words,
        "epsilon": question.epsilon,
        "users": evening.users,
        "deadline_seconds": evening.seconds,
    }
    study = STRATEGY, parameters, question.words
    opened = await create(server, token, *study, simulated=False, example=question.example, live=evening.live)
    return OpenQuestion(question, opened.id)


async def _invite(server: Server, token: str, asked: Sequence[OpenQuestion], evening: Evening) -> None:
    """Print where people take part, and with what they enrol."""
    seconds = evening.seconds + _LATER
    # Of those who have come some link or code before this one has let in each.
    seats = max(1, evening.seats - max(each.came for each in asked))
    if evening.codes is None:
        ticket = await enrolment_token(server, token, seats, seconds, simulated=False)
        address = _address(server.url, asked, str(ticket["token"]))
        if sys.stderr.isatty():
            typer.echo(terminal_code(address), nl=False, err=True)
        say(f"take part: {address}")
        for each in asked:
            say(f"the wall: {server.url}/wall?study={each.id}#{urlencode({'join': str(ticket['token'])})}")
        return
    file = PrivateFile.new(evening.codes)
    try:
        codes = await enrolment_codes(server, token, seats, seconds, simulated=False)
        file.write(sheet("Askance", [_address(server.url, asked, code) for code in codes]))
    finally:
        file.close()
    say(f"{counted(seats, 'code')} to print and to cut, each for one person, are in {evening.codes}")
    for each in asked:
        say(f"the wall: {server.url}/wall?study={each.id}")


def _address(url: str, asked: Sequence[OpenQuestion], token: str) -> str:
    """Where a person takes part. What stands behind the # stays in her browser: it is in no request and in no log."""
    return f"{url}/take-part#{urlencode([*(('study', each.id) for each in asked), ('join', token)])}"


async def _watch(server: Server, asked: Sequence[OpenQuestion]) -> list[str]:
    """Show what is known until the last question has ended: drawn anew on a terminal, elsewhere what is new."""
    before = list[str]()
    with Live(console=Console(stderr=True), auto_refresh=False, transient=True, vertical_overflow="crop") as screen:
        while True:
            lines, over = await _look(server, asked)
            if sys.stderr.isatty():
                screen.update(Text("\n".join(lines)), refresh=True)
            else:
                typer.echo("".join(f"{line}\n" for line in lines if line not in before), nl=False, err=True)
            if over:
                return lines
            before = lines
            await asyncio.sleep(_POLL)


async def _look(server: Server, asked: Sequence[OpenQuestion]) -> tuple[list[str], bool]:
    lines, over = list[str](), True
    for each in asked:
        study = await find_study(server, each.id)
        result = await result_of(server, study)
        lines += question_lines(each.question.words, study, result, _spread(each.question))
        over = over and is_over(study)
    return lines, over


def _spread(question: RoomQuestion) -> float:
    """How far apart the ends of a scale are."""
    field = question.example.fields[0]
    return float(field.high - field.low) if isinstance(field, IntegerField) else 1.0


async def _written(server: Server, asked: OpenQuestion, evening: Evening, number: int) -> dict[str, Any]:
    """Export a question that has ended, verified, and tell what it has come to."""
    study = await find_study(server, asked.id)
    result = await result_of(server, study)
    cause = await cause_there(server, study)
    strategies = registry()
    files = export_files(await entries_of(server, asked.id, lambda _: None), strategies)
    verify_files(files, strategies)
    folder = evening.out if number == 1 else evening.out / asked.id[:8]
    write_export(folder, files)
    return _told(asked, study, result, None if cause is None else cause.value, folder)


def _told(
    asked: OpenQuestion, study: Mapping[str, Any], result: Mapping[str, Any], cause: str | None, folder: Path
) -> dict[str, Any]:
    return {
        "question": asked.question.words,
        "study": asked.id,
        "state": study["state"],
        "cause": cause,
        "received": study["rounds"][-1]["received"],
        "estimates": result["estimates"],
        "export": str(folder),
    }
