"""`askance study`: open a study, see how it goes, close and cancel it, and check what it has published."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias

import typer
from rich.console import Console
from rich.live import Live

from askance_lab.commands.shared import study_text
from askance_lab.commands.shared.durations import seconds_of
from askance_lab.commands.shared.estimates_text import most_estimates
from askance_lab.commands.shared.exit_codes import Exit, exit_of_cause
from askance_lab.commands.shared.export_files import read_export, write_export
from askance_lab.commands.shared.operator_token import operator_token
from askance_lab.commands.shared.options import (
    DEFAULT_SERVER,
    MOST_USERS,
    AlphaOption,
    AskOption,
    BetaOption,
    DimensionOption,
    EpsilonOption,
    JsonOption,
    OperatorOption,
    ServerOption,
    SetOption,
    StrategyArgument,
    ToleranceOption,
    examples,
    parse_asks,
)
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.commands.shared.private_files import PrivateFile
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.table_options import (
    ColumnOption,
    HighOption,
    LowOption,
    MissingOption,
    TableOptions,
)
from askance_lab.commands.shared.tables import echo_table
from askance_lab.remote.management import (
    NotOverError,
    StudyProgress,
    cancel_study,
    cause_there,
    close_round,
    entries_of,
    find_study,
    follow_study,
    is_over,
    result_of,
)
from askance_lab.remote.study_client import TooFewUsersThereError, connected, unwrap
from askance_lab.remote.study_client import create as create_study
from askance_protocol.errors import DataError, UsageError
from askance_protocol.parameters import Parameters
from askance_protocol.rounds import Cause, Entry
from askance_protocol.schema import Schema
from askance_protocol.text import counted, printable
from askance_server.core.export import Pinned, export_files, verify_files
from askance_server.core.verification import VerificationError, VerifiedStudy, same
from askance_server.strategies.registry import registry

SCHEMA_VERSION: Final = 1
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)

StudyArgument: TypeAlias = Annotated[
    str,
    typer.Argument(metavar="STUDY", help="Its id, or the first digits of it.  [default: the newest study]"),
]
NamedStudyArgument: TypeAlias = Annotated[
    str, typer.Argument(metavar="STUDY", help="Its id, or the first digits of it, four or more.")
]

app = typer.Typer(
    help="Studies: open, watch, close, export, verify.",
    no_args_is_help=True,
    epilog=examples(
        "askance study create mean --title Sleep --epsilon 1",
        "askance study watch",
        "askance study verify sleep",
    ),
)


# ------------------------------------------------------------------------------------------------------------ opening


@dataclass(frozen=True, slots=True)
class NewStudyOptions:
    """What an operator says of a new study."""

    title: str
    strategy: str
    parameters: Parameters
    simulated: bool
    gateway: Path | None
    example: Schema | None
    """The fields, where the strategy takes what there is."""
    live: int | None
    """In steps of how many reports open rounds are told."""


@app.command(
    epilog=examples(
        "askance study create mean --title Sleep --epsilon 1 --deadline 2h",
        "askance study create mean --schema people.json --column minutes --high 180",
        "askance study create survey --schema people.json --ask 'mean(minutes, 0, 120)' --ask 'share(country)'",
        "askance study create masked-parity --d 8 --simulated --gateway-token gateway.token --watch",
    )
)
def create(
    strategy: StrategyArgument,
    title: Annotated[
        str | None,
        typer.Option("--title", help="What users read before they answer.  [default: the strategy's name]"),
    ] = None,
    d: DimensionOption = None,
    epsilon: EpsilonOption = "1",
    alpha: AlphaOption = None,
    beta: BetaOption = None,
    tolerance: ToleranceOption = None,
    ask: AskOption = None,
    more: SetOption = None,
    schema: Annotated[
        Path | None,
        typer.Option(
            "--schema", metavar="FILE", help="JSON document of the fields, for a strategy that asks about any of them."
        ),
    ] = None,
    column: ColumnOption = None,
    low: LowOption = None,
    high: HighOption = None,
    missing: MissingOption = None,
    users: Annotated[
        str,
        typer.Option("--users", metavar="all|needed", help="Ask all who can still pay, or as many as are needed."),
    ] = "all",
    deadline: Annotated[
        str, typer.Option("--deadline", metavar="TIME", help="How long a round waits for reports: 90s, 30min, 2h, 7d.")
    ] = "1h",
    simulated: Annotated[
        bool, typer.Option("--simulated", help="Ask made-up users only, for whom a gateway may report.")
    ] = False,
    live: Annotated[
        int | None,
        typer.Option(
            "--live",
            metavar="K",
            min=2,
            max=MOST_USERS,
            help="Tell counts of open rounds in steps of K reports.  [default: not at all]",
        ),
    ] = None,
    gateway: Annotated[
        Path | None,
        typer.Option("--gateway-token", metavar="FILE", help="With --simulated: new file for the gateway's token."),
    ] = None,
    watching: Annotated[bool, typer.Option("--watch", help="Then watch it until it has ended.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    operator: OperatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open a study: its first round asks users from now on.

    What would fail at once is refused, with the reason: exit code 7 for too few users, 6 where the strategy fails.
    """
    own = {"d": d, "alpha": alpha, "beta": beta, "tolerance": tolerance, **parse_asks(ask), **parse_set(more or [])}
    if gateway is not None and not simulated:
        raise UsageError("is for simulated studies", where="--gateway-token", remedy="give --simulated, too")
    if watching and as_json:
        raise UsageError("exclude each other", where="--watch, --json", remedy="choose one; watch prints JSON lines")
    table = TableOptions.of(None, schema, column, low, high, missing)
    table.check_present()
    example = table.declared()
    planned = {"users": users, "epsilon": epsilon, "deadline_seconds": seconds_of(deadline, "--deadline")}
    given = {name: value for name, value in own.items() if value is not None}
    if example is not None:
        example = _asked_of(example, strategy, given)
    asked = NewStudyOptions(
        strategy if title is None else title, strategy, {**planned, **given}, simulated, gateway, example, live
    )
    token = operator_token(operator, server)
    study = asyncio.run(_create(server, token, asked))
    if watching:
        raise typer.Exit(_watch(server, str(study["id"])))
    if as_json:
        told = {**study_text.summary(study), "rounds": study_text.round_rows(study)}
        file = None if gateway is None else str(gateway)
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **told, "gateway_token_file": file}))
        return
    typer.echo(f"study {study['id']} is {study['state']}")
    for each in study["rounds"]:
        typer.echo(f"round {each['round']['number']}: {study_text.round_line(each, time.time())}")
    typer.echo(f"askance study watch {study['id'][:8]}")


def _asked_of(declared: Schema, strategy: str, parameters: Parameters) -> Schema:
    """The fields that are asked, if the strategy knows which: no user needs others, and nobody has to read of them."""
    known = registry().get(strategy)
    if known is None or known.fields is None:
        return declared
    asked = set(known.fields(parameters))
    # What is not declared is refused by the server, which then says what is.
    if not asked <= set(declared.position):
        return declared
    return Schema(fields=tuple(field for field in declared.fields if field.name in asked))


async def _create(url: str, token: str, asked: NewStudyOptions) -> Mapping[str, Any]:
    kept = None if asked.gateway is None else PrivateFile.new(asked.gateway)
    try:
        async with connected(url) as server:
            study = asked.strategy, asked.parameters, asked.title
            try:
                options: Any = {"simulated": asked.simulated, "example": asked.example, "live": asked.live}
                opened = await create_study(server, token, *study, **options)
            except TooFewUsersThereError as error:
                raise TooFewUsersThereError(error.what, where=error.where, remedy=_more_users(asked)) from None
            if kept is not None:
                kept.write(opened.gateway_token + "\n")
            return await find_study(server, opened.id)
    finally:
        if kept is not None:
            kept.close()


def _more_users(asked: NewStudyOptions) -> str:
    """What to do about too few users, in the words of commands."""
    enrol = "enrol more, askance users enrol"
    if asked.parameters["users"] == "all":
        return f"{enrol}; or ask at a smaller --epsilon, which more can still pay"
    return f"{enrol}; or ask for less, askance plan {asked.strategy}; or take who is there, --users all"


# ------------------------------------------------------------------------------------------------------------ looking


@app.command(
    "list",
    epilog=examples(
        "askance study list",
        "askance study list --running",
        "askance study list --server http://127.0.0.1:9000 --json",
    ),
)
def list_(
    running: Annotated[bool, typer.Option("--running", help="Only studies that have not ended.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """List the studies of a server, oldest first."""

    async def look() -> list[Mapping[str, Any]]:
        async with connected(server) as there:
            return [each for each in unwrap(await there.studies()) if not (running and is_over(each))]

    studies = asyncio.run(look())
    if as_json:
        told = [study_text.summary(each) for each in studies]
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "studies": told}))
    elif not studies:
        typer.echo("no study is running" if running else "there is no study")
    else:
        echo_table(study_text.rows(studies), study_text.COLUMNS, [study_text.cells(each) for each in studies])


@app.command(
    epilog=examples(
        "askance study show",
        "askance study show 1f2e3d4c",
        "askance study show 1f2e3d4c --json",
    )
)
def show(study: StudyArgument = "", server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Show a study: what it asks, its rounds and their reports, and what is known by now."""
    found = asyncio.run(_progress(server, study))
    if as_json:
        typer.echo(json.dumps(_shown(found), ensure_ascii=False))
    else:
        typer.echo(study_text.description(found.study, found.result, time.time(), _most_of(found)))


async def _progress(url: str, study: str) -> StudyProgress:
    async with connected(url) as server:
        found = await find_study(server, study)
        return StudyProgress(found, await result_of(server, found), await cause_there(server, found))


def _most_of(found: StudyProgress) -> int:
    """How many of its estimates are shown."""
    return most_estimates(registry().get(str(found.study["study"]["strategy"])))


def _shown(found: StudyProgress) -> dict[str, Any]:
    spec = found.study["study"]
    return {
        "schema_version": SCHEMA_VERSION,
        **study_text.summary(found.study),
        "rounds": study_text.round_rows(found.study),
        "parameters": spec["parameters"],
        "interactive": spec["interactive"],
        "example": spec["example"],
        "head": found.study["head"],
        "length": found.study["length"],
        **_came_to(found),
    }


def _came_to(found: StudyProgress) -> dict[str, Any]:
    return {
        "cause": None if found.cause is None else found.cause.value,
        "reason": found.result["reason"],
        "hypothesis": found.result["hypothesis"],
        "text": found.result["text"],
        "estimates": list(found.result.get("estimates", ())),
        "estimates_left_out": found.result.get("estimates_left_out", 0),
    }


@app.command(
    epilog=examples(
        "askance study result",
        "askance study result 1f2e3d4c",
        "askance study result 1f2e3d4c --json",
    )
)
def result(study: StudyArgument = "", server: ServerOption = DEFAULT_SERVER, as_json: JsonOption = False) -> None:
    """Print what a study has come to: its estimates with their intervals, and what was learned.

    The exit code says how it ended: 0 learned, 7 too few users or reports, 6 otherwise; 7 also where it goes on still.
    """
    found = asyncio.run(_progress(server, study))
    if as_json:
        told = {"study": found.study["id"], "state": found.study["state"], **_came_to(found)}
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **told}, ensure_ascii=False))
    if not is_over(found.study):
        waiting = [
            study_text.round_line(each, time.time()) for each in found.study["rounds"] if each["state"] == "open"
        ]
        what = "; ".join(["has not ended", *waiting])
        name = printable(str(found.study["id"]), 64)[:8]
        raise NotOverError(
            what, where=f"study {name}", remedy=f"askance study watch {name}, or close it: askance study close {name}"
        )
    if not as_json:
        typer.echo(study_text.outcome(found.result, _most_of(found)))
    raise typer.Exit(_exit_of(found))


def _exit_of(found: StudyProgress) -> Exit:
    cause: Cause | None = found.cause
    return exit_of_cause(None if cause is None else cause.value, finished=found.study["state"] == "finished")


@app.command(
    epilog=examples(
        "askance study watch",
        "askance study watch 1f2e3d4c --server http://127.0.0.1:9000",
        "askance study watch 1f2e3d4c --server http://127.0.0.1:8081",
    )
)
def watch(study: StudyArgument = "", server: ServerOption = DEFAULT_SERVER) -> None:
    """Watch a study until it has ended: rounds, reports, and estimates as they come.

    On a terminal it is drawn anew; elsewhere each change is a line of JSON. The exit code says how the study ended.
    """
    raise typer.Exit(_watch(server, study))


def _watch(url: str, study: str) -> Exit:
    if sys.stdout.isatty():
        # Drawn anew each second, because the time that is left goes on where nothing else does.
        with Live(console=Console(), refresh_per_second=1, vertical_overflow="crop") as live:
            signal.signal(signal.SIGWINCH, partial(_draw_in_new_window, live))
            return asyncio.run(_follow(url, study, partial(_draw, live)))
    return asyncio.run(_follow(url, study, _write_line))


def _draw(live: Live, now: StudyProgress) -> None:
    live.update(study_text.StudyScreen(now.study, now.result), refresh=True)


def _draw_in_new_window(live: Live, _signal: int, _frame: object) -> None:
    """Begin at the top of a window that has another size now: its lines are no longer where they were drawn."""
    live.console.clear()
    live.refresh()


def _write_line(now: StudyProgress) -> None:
    typer.echo(_line(now))


def _line(now: StudyProgress) -> str:
    told = {"schema_version": SCHEMA_VERSION, "event": "ended" if is_over(now.study) else "progress"}
    summary = {name: now.study[name] for name in ("id", "state", "paused")}
    return json.dumps(
        {**told, **summary, "rounds": study_text.round_rows(now.study), **_came_to(now)}, ensure_ascii=False
    )


async def _follow(url: str, study: str, tell: Callable[[StudyProgress], None]) -> Exit:
    async with connected(url) as server:
        found = await find_study(server, study)
        last: StudyProgress | None = None
        async for now in follow_study(server, str(found["id"])):
            last = now
            tell(now)
    assert last is not None  # noqa: S101 - told the type checker: a study is told of at least once
    return _exit_of(last)


# ------------------------------------------------------------------------------------------------------------- ending


@app.command(
    epilog=examples(
        "askance study close 1f2e3d4c",
        "askance study close 1f2e3d4c --operator-token operator.token",
        "askance study close 1f2e3d4c --json",
    )
)
def close(
    study: NamedStudyArgument,
    server: ServerOption = DEFAULT_SERVER,
    operator: OperatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """Close the open round of a study before its time: it goes on with the reports that came."""
    token = operator_token(operator, server)

    async def end() -> StudyProgress:
        async with connected(server) as there:
            after = await close_round(there, token, await find_study(there, study))
            return StudyProgress(after, await result_of(there, after), await cause_there(there, after))

    found = asyncio.run(end())
    if as_json:
        typer.echo(json.dumps(_shown(found), ensure_ascii=False))
        return
    for each in found.study["rounds"]:
        typer.echo(f"round {each['round']['number']}: {each['state']}, {study_text.round_line(each, time.time())}")
    if is_over(found.study):
        typer.echo(study_text.outcome(found.result, _most_of(found)))
    else:
        typer.echo(f"study {found.study['id'][:8]} goes on")


@app.command(
    epilog=examples(
        "askance study cancel 1f2e3d4c",
        "askance study cancel 1f2e3d4c --yes",
        "askance study cancel 1f2e3d4c --yes --json",
    )
)
def cancel(
    study: NamedStudyArgument,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask again: there is no way back.")] = False,
    server: ServerOption = DEFAULT_SERVER,
    operator: OperatorOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a study for good, without a result. What users have spent stays spent."""
    token = operator_token(operator, server)
    if not yes and not sys.stdin.isatty():
        raise UsageError("cannot be taken back", where="cancel", remedy="say that you mean it: --yes")

    async def end() -> Mapping[str, Any] | None:
        async with connected(server) as there:
            found = await find_study(there, study)
            told = f"End {printable(str(found['study']['title']), 80)!r} ({found['id'][:8]}) without a result?"
            if not yes and not typer.confirm(told, err=True):
                return None
            return await cancel_study(there, token, found)

    found = asyncio.run(end())
    if found is None:
        typer.echo("askance: nothing was cancelled", err=True)
        raise typer.Exit(Exit.USAGE)
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, **study_text.summary(found)}))
    else:
        typer.echo(f"study {found['id'][:8]} is {found['state']}")


# ---------------------------------------------------------------------------------------------- taking away, checking


@app.command(
    epilog=examples(
        "askance study export 1f2e3d4c --out sleep",
        "askance study export 1f2e3d4c --out sleep.zip",
        "askance study export 1f2e3d4c --out sleep --json",
    )
)
def export(
    study: NamedStudyArgument,
    out: Annotated[
        Path, typer.Option("--out", metavar="PATH", help="New folder for the files; or one new file that ends in .zip.")
    ],
    server: ServerOption = DEFAULT_SERVER,
    as_json: JsonOption = False,
) -> None:
    """Write bulletin, tallies and result of a study to files that anybody can verify: askance study verify PATH.

    What is written is verified first: exit code 6 if the server shows something that cannot be true.
    """
    if out.exists():
        raise DataError("is there already", where=str(out), remedy="name a new folder or file: --out")

    async def read(bar: ProgressBar) -> tuple[list[Entry], Mapping[str, Any]]:
        async with connected(server) as there:
            found = await find_study(there, study)
            bar.total = int(found["length"])
            return await entries_of(there, str(found["id"]), bar.at), await result_of(there, found)

    with ProgressBar("reading the bulletin", quiet=True) as bar:
        entries, told = asyncio.run(read(bar))
    strategies = registry()
    with ProgressBar("verifying", quiet=True) as bar:
        files = export_files(entries, strategies, bar.tell)
        bar.begin("verifying again, as it is written")
        found = verify_files(files, strategies)
    _compare_result(found, told)
    write_export(out, files)
    _tell_verified(found, as_json=as_json, path=out)


def _compare_result(found: VerifiedStudy, told: Mapping[str, Any]) -> None:
    """Refuse a server whose result is not what its own bulletin says."""
    end = found.ended
    learned = None if end is None or end.hypothesis is None else end.hypothesis
    # Of a study of version 0.1 the bulletin has no hypothesis, so there is nothing to compare.
    if learned is not None and (told["text"] != learned.text or not same(told["hypothesis"], dict(learned.value))):
        raise VerificationError("says that something else was learned than its bulletin", where="server")


@app.command(
    epilog=examples(
        "askance study verify sleep",
        "askance study verify sleep.zip --head DIGEST",
        "askance study verify sleep/bulletin.jsonl --json",
    )
)
def verify(
    path: Annotated[
        Path, typer.Argument(metavar="PATH", help="What was exported: a folder, a .zip, or a bulletin.jsonl by itself.")
    ],
    study: Annotated[
        str, typer.Option("--study", metavar="ID", help="Id that the study has to have, as you know it from elsewhere.")
    ] = "",
    head: Annotated[
        str,
        typer.Option(
            "--head", metavar="DIGEST", help="Digest that one of its entries has to have: from a wallet, say."
        ),
    ] = "",
    as_json: JsonOption = False,
) -> None:
    """Verify an exported study, without a server: digests, chain, questions, tallies, estimates and hypothesis.

    Exit code 6 if anything does not follow; the message names the file and the entry. Whether others have seen the
    same history is told by its head alone: compare it, by --head or with the line that is printed.
    """
    pinned = Pinned(_digest(study, "--study"), _digest(head, "--head"))
    with ProgressBar("verifying", quiet=True) as bar:
        found = verify_files(read_export(path), registry(), pinned, bar.tell)
    _tell_verified(found, as_json=as_json, path=path)


def _digest(text: str, option: str) -> str | None:
    if text and _DIGEST.fullmatch(text) is None:
        raise UsageError("is no digest", where=option, remedy="give all of its 64 digits, 0-9 and a-f")
    return text or None


def _tell_verified(found: VerifiedStudy, *, as_json: bool, path: Path) -> None:
    reports = sum(closed.received for closed in found.closed.values())
    if as_json:
        told = {
            "path": str(path),
            "study": found.study.digest(),
            "length": found.bulletin.length,
            "head": found.bulletin.head,
            "state": found.bulletin.state.value,
            "rounds": len(found.rounds),
            "reports": reports,
        }
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "verified": True, **told}))
        return
    counts = (
        counted(found.bulletin.length, "entry", "entries"),
        counted(len(found.rounds), "round"),
        counted(reports, "report"),
    )
    typer.echo(f"{path}: {', '.join(counts)}, {found.bulletin.state.value}")
    typer.echo("every digest, question, tally, estimate and conclusion follows; to compare with a wallet:")
    # In one line, however long: it is what askance wallet heads --compare takes.
    typer.echo(f"{found.study.digest()} {found.bulletin.length} {found.bulletin.head}")
