"""`askance client`: take part in a study as one person, with an example from your file and a wallet of your own.

Theory of operation
-------------------
A person consents to what she can name: the fields that she has declared, and a study by its digest. So nothing is asked
of her file before she has agreed, and the study that is shown is the one that is answered: both come from one reader of
one bulletin, whose first entry has the named digest. Whatever else the server says of its studies is not looked at.

She agrees on a terminal, or by `--yes`, which goes with something that she named: `--study`, or the fields that she
declared by `--schema`. What she agrees to first is kept in her wallet as her declaration. A study that she has answered
before is not shown again: her wallet has pinned its history.
"""

from __future__ import annotations

import asyncio
import json
import os
import select
import signal
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from askance_client import (
    Answered,
    BulletinReader,
    Identity,
    Reason,
    Refusal,
    Result,
    Server,
    StudyNews,
    Unanswered,
    User,
    Wallet,
    enrol,
)
from askance_client.consent import PublicFacts, refuse_study
from askance_client.news import late_rounds
from askance_lab.commands.shared.consent_text import consent_text
from askance_lab.commands.shared.exit_codes import Exit, say
from askance_lab.commands.shared.options import (
    A_YEAR,
    DEFAULT_SERVER,
    MOST_USERS,
    EnrolmentOption,
    JsonOption,
    ServerOption,
    examples,
    read_token,
)
from askance_lab.commands.shared.participation import (
    WHOLE_NAME,
    NewsTeller,
    close_command,
    next_study,
    population_for,
    study_digits,
    told_ending,
    typed_again,
    whole_name,
)
from askance_lab.commands.shared.table_options import (
    ColumnOption,
    HighOption,
    LowOption,
    MissingOption,
    TableOptions,
)
from askance_lab.remote.study_client import raise_refused, unwrap
from askance_protocol.budget import limit_from_text, to_text
from askance_protocol.errors import DataError, UsageError

SCHEMA_VERSION: Final = 1
_HEARD: Final = 0.2
"""Seconds within which an interruption is heard while she is asked."""

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """What one person asks for."""

    server: str
    study: str
    table: TableOptions
    row: int
    wallet: Path
    cap: str | None
    enrolment: Path | None
    wait: float
    simulated: bool
    once: bool
    moved: bool
    yes: bool


@app.command(
    epilog=examples(
        "askance client --data me.csv --cap 1 --enrolment-token askance-data/enrolment.token",
        "askance client --data people.csv --row 3 --wallet third.wallet --cap 1 --schema fields.json --yes",
        "askance client --data me.csv --server http://127.0.0.1:9000 --study ID --yes --once --json",
    )
)
def client(
    data: Annotated[
        Path, typer.Option("--data", metavar="FILE", help="CSV, Parquet or NumPy file that has your example in a row.")
    ],
    row: Annotated[
        int, typer.Option("--row", min=1, max=MOST_USERS, help="Row of the file that is yours; 1 is the first.")
    ] = 1,
    server: ServerOption = DEFAULT_SERVER,
    study: Annotated[
        str,
        typer.Option(
            "--study",
            metavar="ID",
            help="Study to take part in, by the first digits of its id.  [default: the next one that is open]",
        ),
    ] = "",
    wallet: Annotated[
        Path, typer.Option("--wallet", metavar="FILE", help="Your wallet; it is made if there is none.")
    ] = Path("askance.wallet"),
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema",
            metavar="FILE",
            help="JSON file of the fields that you may be asked about; your wallet keeps them.  "
            "[default: those of the first study that you agree to]",
        ),
    ] = None,
    column: ColumnOption = None,
    low: LowOption = None,
    high: HighOption = None,
    missing: MissingOption = None,
    yes: Annotated[
        bool,
        typer.Option("--yes", help="Agree without being asked: to the study of --study, or to any about your fields."),
    ] = False,
    cap: Annotated[
        str | None, typer.Option("--cap", help="ε that a new wallet will ever spend; an old one has its cap already.")
    ] = None,
    enrolment: EnrolmentOption = None,
    simulated: Annotated[bool, typer.Option("--simulated", help="Take part in simulated studies too.")] = False,
    once: Annotated[
        bool, typer.Option("--once", help="Answer what is asked now and stop, instead of waiting for more rounds.")
    ] = False,
    moved: Annotated[
        bool, typer.Option("--moved", help="Let the wallet accept that its server is now found at --server.")
    ] = False,
    wait: Annotated[
        float, typer.Option("--wait", min=0, max=A_YEAR, help="Seconds to wait for a study to appear.")
    ] = 600,
    as_json: JsonOption = False,
) -> None:
    """Take part in a study as one person: your example stays in its file, your spending in your wallet.

    Before anything is drawn you read title, questions, fields and prices, and are asked.

    Exit code 5 means that a round asked for more than your budget, 6 that the server did not play by the rules, or that
    the study has failed or was cancelled, 7 that it had too few users.
    """
    if not data.exists():
        raise DataError("is not there", where=str(data), remedy="name the file that holds your example: --data FILE")
    if cap is None and not wallet.exists():
        raise UsageError("is new and has no cap", where=str(wallet), remedy="say what it may ever spend: --cap 1")
    if not yes and not sys.stdin.isatty():
        remedy = "agree by --yes, to what you name: --study ID or --schema FILE"
        raise UsageError("is asked for on a terminal, and there is none", where="consent", remedy=remedy)
    table = TableOptions.of(data, schema, column, low, high, missing)
    table.check_present()
    named = study_digits(study) if study else ""
    options = ClientOptions(server, named, table, row, wallet, cap, enrolment, wait, simulated, once, moved, yes)
    chosen = list[str]()
    try:
        results, ended = asyncio.run(_take_part(options, chosen))
    except KeyboardInterrupt:
        say(f"stopped; your wallet is whole, and goes on with what it has drawn: {typed_again(*chosen)}")
        raise
    echo_results(results, as_json=as_json)
    raise typer.Exit(exit_of(results) or ended)


async def _take_part(options: ClientOptions, chosen: list[str]) -> tuple[list[Result], Exit]:
    """The results of her rounds, and the exit code for how the study has ended.

    `chosen`: where the option that names the study is put, once it is known, if she has named none.
    """
    declared = options.table.declared()
    cap = None if options.cap is None else limit_from_text(options.cap)
    if options.yes and not options.study and declared is None and not options.wallet.exists():
        raise _agrees_to_nothing()
    # All that can be refused without a wallet is refused before one is made.
    token = read_token(options.enrolment, "enrolment token")
    async with Server(options.server) as server:
        await server.check()
        # Of one that is named whole the bulletin is read, and nothing else of the server.
        whole = not options.study or WHOLE_NAME.fullmatch(options.study) is not None
        name = options.study if whole else await whole_name(server, options.study)
    wallet = Wallet.open(options.wallet, cap=cap)
    try:
        if declared is not None:
            wallet.declare(declared)
        if options.yes and not options.study and wallet.declared is None:
            raise _agrees_to_nothing()
        if options.yes and name != options.study and wallet.declared is None:
            what, remedy = "names any study that begins so", f"with --yes give all its digits: --study {name}"
            raise UsageError(what, where="--study", remedy=remedy)
        async with Server(options.server) as server:
            if options.moved:
                wallet.moved(server.url)
            # First, because a round is planned over users who are there.
            identity = unwrap(await enrol(wallet, server, token))
            reader = BulletinReader(server, name or await next_study(options.server, set(), options.wait))
            chosen += [] if options.study else ["--study", reader.study]
            refusal = await reader.refresh()
            if refusal is not None and refusal.reason is Reason.UNREADABLE:
                raise_refused(refusal)
            refusal = refusal or _refuse(reader, wallet, identity, simulated=options.simulated)
            if refusal is not None:
                return [refusal], Exit.OK
            if reader.ended and not _has_answered(reader, wallet):
                # There is nothing to agree to.
                late = late_rounds(reader.history, np.array([identity.user], np.uint64), lambda _: np.zeros(1, np.bool))
                NewsTeller("")(StudyNews(over=reader.history.bulletin.state.value, late=late))
                return [], await told_ending(reader)
            if not _agreed(reader, wallet, identity, yes=options.yes):
                say("you did not agree; nothing was drawn, and nothing was sent")
                return [], Exit.OK
            return await _answer(server, reader, wallet, options), await told_ending(reader)
    finally:
        wallet.close()


def _agrees_to_nothing() -> UsageError:
    remedy = "say what you may be asked about: --schema FILE; or which study you agree to: --study ID"
    return UsageError("agrees to nothing that you have named", where="--yes", remedy=remedy)


def _refuse(reader: BulletinReader, wallet: Wallet, identity: Identity, *, simulated: bool) -> Refusal | None:
    """The reason to answer nothing of the study, whatever she would say to it; her example is not needed for it."""
    history = reader.history
    facts = PublicFacts(identity.user, history.study.example, simulated, wallet.declared)
    return refuse_study(history, wallet.pin(reader.study), facts)


def _agreed(reader: BulletinReader, wallet: Wallet, identity: Identity, *, yes: bool) -> bool:
    """Show the study, and ask. One that she has answered before she has agreed to."""
    if _has_answered(reader, wallet):
        return True
    typer.echo(consent_text(reader.history, identity.user, wallet.spending), err=True)
    return yes or _confirmed()


def _has_answered(reader: BulletinReader, wallet: Wallet) -> bool:
    """Whether her wallet has a report to one of the study's rounds."""
    return any(wallet.stored(id_) is not None for id_ in reader.history.rounds)


def _confirmed() -> bool:
    """Ask on the terminal; whatever is not yes is no. Ctrl-C is heard at once, though an event loop is running.

    A signal that comes between the question and a read that waits would be heard when she has answered.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        typer.echo("Take part? [y/N]: ", nl=False, err=True)
        while os.name == "posix" and not select.select([sys.stdin], [], [], _HEARD)[0]:
            pass
        return sys.stdin.readline().strip().lower() in {"y", "yes"}
    finally:
        signal.signal(signal.SIGINT, before)


async def _answer(server: Server, reader: BulletinReader, wallet: Wallet, options: ClientOptions) -> list[Result]:
    """Now that she has agreed, read her row, and answer."""
    study = reader.history.study
    if wallet.declared is None:
        wallet.declare(study.example)
    example = population_for(study, 0, replace(options.table, row=options.row), wallet.declared).example(0)
    user = User(example, wallet, simulated=options.simulated)
    tell = NewsTeller(f"its operator may close it: {close_command(options.server, reader.study, None)}")
    if not options.once:
        return await user.follow(server, reader, tell=tell)
    results = await user.take_part(server, reader)
    tell(replace(user.news(reader, {each.round: each for each in results}), answered=0))
    return results


def echo_results(results: Sequence[Result], *, as_json: bool) -> None:
    """Print the result of each of a user's rounds, and nothing of her answers."""
    rows = [_row(result) for result in results]
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "rounds": rows}, ensure_ascii=False))
        return
    for each in rows:
        why = f" {each['reason']}" if "reason" in each else ""
        typer.echo(f"round {(each['round'] or '-')[:8]}: {each['result']}{why}: {each['detail']}")
    if not rows:
        typer.echo("nothing was asked of you")


def _row(result: Result) -> dict[str, Any]:
    match result:
        case Answered(round=round_, charged=charged):
            detail = f"ε = {to_text(charged)}"
            return {"round": round_, "result": "answered", "micro_epsilon": charged, "detail": detail}
        case Unanswered(round=round_, problem=problem):
            return {"round": round_, "result": "unanswered", "detail": problem}
        case Refusal(reason=reason, detail=detail, round=round_):
            return {"round": round_, "result": "refused", "reason": reason.value, "detail": detail}


def exit_of(results: Sequence[Result]) -> Exit:
    """The exit code: a refusal for her budget is told apart from one for a server that lies."""
    reasons = Counter(result.reason for result in results if isinstance(result, Refusal))
    if reasons[Reason.BEYOND_CAP] or reasons[Reason.BEYOND_STUDY_CAP]:
        return Exit.BUDGET_REFUSED
    if reasons and set(reasons) == {Reason.DEADLINE_PASSED}:
        return Exit.TOO_FEW_USERS
    return Exit.CHECK_FAILED if reasons else Exit.OK
