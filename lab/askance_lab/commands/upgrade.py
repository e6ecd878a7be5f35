"""`askance upgrade`: bring a ledger and wallets of an older version to this one, after a try and a backup."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

from askance_client.wallet import SCHEMA_VERSION as WALLET_VERSION
from askance_client.wallet import WalletFile, try_upgrade, wallet_version
from askance_lab.commands.shared.extras import require
from askance_lab.commands.shared.options import (
    ConfigOption,
    DatabaseOption,
    DataDirectoryOption,
    JsonOption,
    examples,
)
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.scratch import ended_in_order, remove_abandoned, scratch_folder
from askance_protocol.errors import AskanceError, Code, DataError
from askance_protocol.progress import Tell
from askance_server.backups import fingerprint_of, make_backup
from askance_server.durable import make_directory
from askance_server.ledger import Fault, audit_ledger, older_schema, open_ledger, refuse_servers
from askance_server.ledger.schemas import migrations
from askance_server.ledger.sqlite import FILE, copy_ledger
from askance_server.settings import Settings, read_settings

SCHEMA_VERSION: Final = 1
_SCRATCH: Final = "upgrade"

app = typer.Typer()


class UpgradeError(AskanceError):
    """A ledger that is not whole once it is of this version."""

    code = Code.CHECK_FAILED


class UpgradeState(StrEnum):
    """What became of a file."""

    CURRENT = "current"
    OLDER = "older"
    UPGRADED = "upgraded"


@dataclass(frozen=True, slots=True)
class Upgradable:
    """A ledger or a wallet, and its version."""

    kind: str
    where: str
    found: int
    current: int
    state: UpgradeState

    @classmethod
    def of(cls, kind: str, where: str, found: int, current: int) -> Upgradable:
        """What was found somewhere."""
        return cls(kind, where, found, current, UpgradeState.OLDER if found < current else UpgradeState.CURRENT)


@app.command(
    epilog=examples(
        "askance upgrade --check",
        "askance upgrade --database ./study --backup backups/before",
        "askance upgrade --wallet askance.wallet",
        "askance upgrade --database postgresql://user@host/name --json",
    )
)
def upgrade(
    database: DatabaseOption = None,
    wallets: Annotated[
        list[Path] | None,
        typer.Option(
            "--wallet",
            metavar="FILE",
            help="A wallet to bring up to date; may be given again. Without --database then nothing else is.",
        ),
    ] = None,
    backup: Annotated[
        Path | None,
        typer.Option(
            "--backup",
            metavar="DIR",
            help="Where the ledger's backup is made before.  [default: askance-backup- and the time]",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Show what would be upgraded, try it on a copy, and change nothing.")
    ] = False,
    data_directory: DataDirectoryOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Bring a ledger and wallets of an older version to this one. Stop the servers before.

    It is tried on a copy, a backup of the ledger is made, and what comes of it is verified. Of a wallet no copy is
    kept: one that is put back has forgotten what was spent since.
    """
    settings = None
    if database is not None or not wallets:
        settings = read_settings({"database": database, "data_directory": data_directory}, config=config)
        if settings.is_postgres:
            require("psycopg")
    # All are looked at before any is changed.
    found = [*([] if settings is None else [_ledger_at(settings)]), *map(_wallet_at, wallets or ())]
    place = backup or Path(time.strftime("askance-backup-%Y%m%dT%H%M%SZ", time.gmtime()))
    made: Path | None = None
    done: list[Upgradable] = []
    # Copies on which an upgrade was tried that was killed: of a ledger, or of a wallet with its owner's example.
    for folder in (None, place.absolute().parent):
        remove_abandoned(_SCRATCH, folder)
    with ended_in_order(), ProgressBar("upgrading", quiet=True) as bar:
        for each in found:
            if each.state is UpgradeState.OLDER:
                if settings is not None and each.kind == "ledger":
                    made = _upgrade_ledger(settings, each, None if check else place, bar.tell)
                else:
                    _upgrade_wallet(Path(each.where), check=check)
            upgraded = each.state is UpgradeState.OLDER and not check
            done.append(replace(each, state=UpgradeState.UPGRADED) if upgraded else each)
    _tell(done, made, check=check, as_json=as_json)


# ------------------------------------------------------------------------------------------------------------ a ledger


def _ledger_at(settings: Settings) -> Upgradable:
    if not settings.is_postgres and not (path := Path(settings.database) / FILE).exists():
        raise DataError("is not there", where=str(path), remedy="name the server's directory: --database DIR")
    current = max(migrations("postgres" if settings.is_postgres else "sqlite"))
    found = older_schema(settings.database)
    if found == 0:
        raise DataError("holds no ledger", where=settings.shown_database, remedy="name the database that servers use")
    return Upgradable.of("ledger", settings.shown_database, current if found is None else found, current)


def _upgrade_ledger(settings: Settings, found: Upgradable, place: Path | None, tell: Tell) -> Path | None:
    """Try it, back up, upgrade, verify; without a place, only try. The backup."""
    refuse_servers(settings.database)
    fingerprint = fingerprint_of(settings)
    if not settings.is_postgres:
        # Beside the backup there is room for a copy; who only looks may have no place but that for scratch.
        if within := place and place.absolute().parent:
            make_directory(within)
        with scratch_folder(_SCRATCH, within) as scratch:
            copy_ledger(Path(settings.database), scratch.path)
            faults = _upgraded(str(scratch.path), fingerprint, tell)
        _refuse_faults(
            found, faults, "nothing was changed; see what is wrong: askance doctor --deep, then restore a backup"
        )
    if place is None:
        return None
    made = make_backup(settings, place, tell).folder
    refuse_servers(settings.database)
    faults = _upgraded(settings.database, fingerprint, tell)
    _refuse_faults(found, faults, f"start no server; go back to the version from before, and restore {made}")
    return made


def _upgraded(database: str, fingerprint: str | None, tell: Tell) -> Sequence[Fault]:
    """Bring a ledger up to date; what is wrong with it then."""
    open_ledger(database).close()
    return audit_ledger(database, fingerprint, tell)


def _refuse_faults(found: Upgradable, faults: Sequence[Fault], remedy: str) -> None:
    if faults:
        what = f"is not whole once it is of schema {found.current}: {faults[0].where}: {faults[0].what}"
        raise UpgradeError(what, where=found.where, remedy=remedy)


# ------------------------------------------------------------------------------------------------------------ a wallet


def _wallet_at(path: Path) -> Upgradable:
    if not path.exists():
        raise DataError("is not there", where=str(path), remedy="name the wallet that --wallet named")
    return Upgradable.of("wallet", str(path), wallet_version(path), WALLET_VERSION)


def _upgrade_wallet(path: Path, *, check: bool) -> None:
    with scratch_folder(_SCRATCH) as scratch:
        try_upgrade(path, scratch.path)
    if not check:
        WalletFile.open(path).close()


# ------------------------------------------------------------------------------------------------------------- to tell


def _tell(found: Sequence[Upgradable], backup: Path | None, *, check: bool, as_json: bool) -> None:
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "changed": any(each.state is UpgradeState.UPGRADED for each in found),
            "backup": None if backup is None else str(backup),
            "found": [asdict(each) for each in found],
        }
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    for each in found:
        typer.echo(f"{each.kind}  {each.where}: {_WORDS[each.state].format(each)}")
    if backup is not None:
        typer.echo(f"the ledger as it was before is in {backup}; once a server has run on, it is an old one")
    if check:
        typer.echo("nothing was changed")


_WORDS: Final = {
    UpgradeState.CURRENT: "version {0.found}, which is current",
    UpgradeState.OLDER: "version {0.found}, would be brought to {0.current}",
    UpgradeState.UPGRADED: "brought from version {0.found} to {0.current}, and verified",
}
