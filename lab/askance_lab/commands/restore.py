"""`askance restore`: put a backup where no ledger is, after looking whether it is whole, and say what is lost by it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Final

import typer

from askance_lab.commands.shared.extras import require
from askance_lab.commands.shared.options import (
    ConfigOption,
    DatabaseOption,
    DataDirectoryOption,
    JsonOption,
    examples,
)
from askance_lab.commands.shared.progress import ProgressBar
from askance_server.backups import Backup, KnownLoss, check_backup, read_backup, restore_backup
from askance_server.settings import Settings, read_settings

SCHEMA_VERSION: Final = 1

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance restore backups/monday --check",
        "askance restore backups/monday --replaces askance-data.old",
        "askance restore backups/monday --database ./study --accept-loss",
        "askance restore backups/monday --database postgresql://user@host/empty --accept-loss",
    )
)
def restore(
    backup: Annotated[Path, typer.Argument(metavar="BACKUP", help="The folder that askance backup made.")],
    database: DatabaseOption = None,
    replaces: Annotated[
        Path | None,
        typer.Option(
            "--replaces",
            metavar="DIR",
            help="The directory that this takes the place of, moved away: it shows what came after the backup.",
        ),
    ] = None,
    accept_loss: Annotated[
        bool,
        typer.Option("--accept-loss", help="Go on although what users have spent since the backup is forgotten."),
    ] = False,
    check: Annotated[bool, typer.Option("--check", help="Only look whether the backup is whole.")] = False,
    data_directory: DataDirectoryOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Put a backup where no ledger is, after looking whether it is whole.

    Nothing is overwritten: move the old directory away, or name an empty database. What users have spent since the
    backup is forgotten, so that the server would ask them again; this is said, and has to be accepted.
    """
    found = read_backup(backup)
    if found.manifest.ledger == "postgres":
        require("psycopg")
    with ProgressBar("looking at the backup", quiet=True) as bar:
        if check:
            check_backup(found, bar.tell)
            _tell_checked(found, as_json=as_json)
            return
        settings = read_settings({"database": database, "data_directory": data_directory}, config=config)
        loss = restore_backup(found, settings, replaced=replaces, accept_loss=accept_loss, tell=bar.tell)
    _tell_restored(found, settings, loss, as_json=as_json)


def _tell_checked(backup: Backup, *, as_json: bool) -> None:
    made_at = backup.manifest.made_at
    document = {"schema_version": SCHEMA_VERSION, "backup": str(backup.folder), "made_at": made_at, "whole": True}
    typer.echo(json.dumps(document) if as_json else f"{backup.folder}: of {made_at}, looked at and whole")


def _tell_restored(backup: Backup, settings: Settings, loss: KnownLoss, *, as_json: bool) -> None:
    made_at, steps = backup.manifest.made_at, list(_next(backup, settings, loss))
    if as_json:
        document = {
            "schema_version": SCHEMA_VERSION,
            "backup": str(backup.folder),
            "made_at": made_at,
            "database": settings.shown_database,
            "lost_commits": loss.commits,
            "next": steps,
        }
        typer.echo(json.dumps(document, ensure_ascii=False))
        return
    typer.echo(f"{settings.shown_database}: as it was at {made_at}, looked at and whole; {loss.told}")
    for step in steps:
        typer.echo(f"→ {step}")


def _next(backup: Backup, settings: Settings, loss: KnownLoss) -> Iterator[str]:
    """What the operator has to do, each in a sentence."""
    if not backup.has_key:
        yield "give the server the key that it had: ASKANCE_SERVER_KEY, or server.key in its directory"
    if backup.is_older:
        yield f"bring it up to date: askance upgrade --database {settings.shown_database}"
    if not loss.is_none:
        yield "cancel the studies that are open, and open new ones: clients that have read further refuse these"
        yield (
            "if anybody enrolled or got a new token since, delete server.key: all tokens are void, and their numbers"
            " are given out again"
        )
