"""`askance wallet`: what a wallet has spent, its rounds, and what it has read, to compare with a friend's."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, TypeAlias

import typer

from askance_client import BulletinReader, ReportState, Wallet
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.options import JsonOption, examples
from askance_lab.remote.study_client import connected, raise_refused
from askance_protocol.budget import to_text
from askance_protocol.errors import DataError, UsageError
from askance_protocol.text import counted

SCHEMA_VERSION: Final = 1

PathArgument: TypeAlias = Annotated[Path, typer.Argument(metavar="PATH", help="The wallet: a file.")]

app = typer.Typer(
    help="A wallet: what it has spent, and what it has read.",
    no_args_is_help=True,
    epilog=examples(
        "askance wallet show askance.wallet",
        "askance wallet heads askance.wallet",
        "askance wallet heads askance.wallet --compare 'STUDY LENGTH HEAD'",
    ),
)


def _open(path: Path) -> Wallet:
    if not path.exists():
        raise DataError("is not there", where=str(path), remedy="name the wallet that --wallet named")
    return Wallet.open(path)


@app.command(
    epilog=examples(
        "askance wallet show askance.wallet",
        "askance wallet show third.wallet --json",
        "askance wallet show --json askance.wallet",
    )
)
def show(path: PathArgument, as_json: JsonOption = False) -> None:
    """Show what a wallet has spent, its rounds by study, and what it has read. Never a token, nor what was sent."""
    with closing(_open(path)) as wallet:
        spending = wallet.spending
        rounds: list[dict[str, Any]] = [
            {
                "study": report.study,
                "round": report.round,
                "micro_epsilon": report.charge * (2 if report.state is ReportState.CONFLICT else 1),
                "state": "waiting" if report.state is ReportState.STORED else report.state.value,
            }
            for report in sorted(wallet.reports.values(), key=lambda each: (each.study or "", each.round))
        ]
        document: dict[str, Any] = {
            "schema_version": SCHEMA_VERSION,
            "cap_micro_epsilon": wallet.cap,
            "spent_micro_epsilon": spending.spent,
            "remaining_micro_epsilon": max(wallet.cap - spending.spent, 0),
            "elsewhere_micro_epsilon": spending.elsewhere,
            "rounds": rounds,
            "heads": _heads(wallet),
        }
    if as_json:
        typer.echo(json.dumps(document))
        return
    cap, spent, left, elsewhere = (
        to_text(document[f"{name}_micro_epsilon"]) for name in ("cap", "spent", "remaining", "elsewhere")
    )
    typer.echo(f"cap ε = {cap} · spent ε = {spent} · remaining ε = {left} · by other copies ε = {elsewhere}")
    for each in rounds:
        study = (each["study"] or "-")[:8]
        typer.echo(f"study {study} round {each['round'][:8]}: ε = {to_text(each['micro_epsilon'])} {each['state']}")
    for each in document["heads"]:
        typer.echo(
            f"study {each['study'][:8]}: {counted(each['length'], 'entry', 'entries')} read, head {each['head'][:8]}"
        )


@app.command(
    epilog=examples(
        "askance wallet heads askance.wallet",
        "askance wallet heads askance.wallet --compare 'STUDY LENGTH HEAD'",
        "askance wallet heads askance.wallet --json",
    )
)
def heads(
    path: PathArgument,
    compare: Annotated[
        str | None, typer.Option("--compare", metavar="LINE", help="A friend's line: study, length, head.")
    ] = None,
    server: Annotated[
        str | None, typer.Option("--server", metavar="URL", help="With --compare: first read on, from this server.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print a line for each study that was read, to compare with a friend's: study, number of entries, head.

    With --compare: whether the friend has read the same history. Exit code 6 if it is another one. The one who has
    read more entries compares: a head names all entries before it. With --server this wallet first reads on.
    """
    if server is not None and compare is None:
        raise UsageError("is of no use without --compare", where="--server", remedy="give a friend's line to compare")
    with closing(_open(path)) as wallet:
        if compare is not None:
            study, length, head = _line(compare)
            if server is not None and not asyncio.run(_read_on(wallet, study, server)):
                who = "the server shows another than this wallet has read, or less of it"
                _tell(study, length, same=False, as_json=as_json, who=who)
            _compare(wallet, study, length, head, as_json=as_json)
            return
        lines = _heads(wallet)
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "heads": lines}))
        return
    for each in lines:
        typer.echo(f"{each['study']} {each['length']} {each['head']}")


def _heads(wallet: Wallet) -> list[dict[str, Any]]:
    pins = ((study, wallet.pin(study)) for study in wallet.studies())
    return [{"study": study, "length": pin.length, "head": pin.head} for study, pin in pins if pin is not None]


def _line(text: str) -> tuple[str, int, str]:
    match text.split():
        case [study, length, head] if length.isascii() and length.isdigit() and 0 < len(length) < 10:
            return study, int(length), head
        case _:
            remedy = "give the line that `askance wallet heads` printed: study, length, head"
            raise UsageError("is no line to compare", where="--compare", remedy=remedy)


def _compare(wallet: Wallet, study: str, length: int, head: str, *, as_json: bool) -> None:
    known: Mapping[int, str] = wallet.heads(study)
    if length not in known:
        read = max(known, default=0)
        what = (
            f"this wallet has read {counted(read, 'entry', 'entries')} of that study, and does not know entry {length}"
        )
        raise UsageError(
            what,
            where="--compare",
            remedy="let the one who has read more compare with the other's line, or read on with --server URL",
        )
    other = f"entry {length - 1} is another one for your friend; the server has lied to one of you"
    _tell(study, length, same=known[length] == head, as_json=as_json, who=other)


def _tell(study: str, length: int, *, same: bool, as_json: bool, who: str) -> NoReturn:
    if as_json:
        typer.echo(json.dumps({"schema_version": SCHEMA_VERSION, "study": study, "length": length, "same": same}))
    else:
        typer.echo(f"the same history: both have read the same {length} entries" if same else f"two histories: {who}")
    raise typer.Exit(Exit.OK if same else Exit.CHECK_FAILED)


async def _read_on(wallet: Wallet, study: str, url: str) -> bool:
    """Read what was published since, as far as it goes on with what this wallet has read; False if it does not.

    All of it is read and checked again, from the first entry: who shows another history now is found out, too.
    """
    async with connected(url) as server:
        reader = BulletinReader(server, study)
        raise_refused(await reader.refresh())
    return wallet.note_history(study, reader.history.heads)
