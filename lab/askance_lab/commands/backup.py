"""`askance backup`: copy a server's ledger and key into one folder, while the server runs, and verify it."""

from __future__ import annotations

import json
import time
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
from askance_protocol.text import counted
from askance_server.backups import Backup, make_backup
from askance_server.settings import read_settings

SCHEMA_VERSION: Final = 1

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance backup",
        "askance backup --database ./study --out backups/monday",
        "askance backup --database postgresql://user@host/name --out backups/monday",
        "askance backup --config askance.toml --json",
    )
)
def backup(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            metavar="DIR",
            help="The folder to make, which must not be there.  [default: askance-backup- and the time]",
        ),
    ] = None,
    database: DatabaseOption = None,
    data_directory: DataDirectoryOption = None,
    config: ConfigOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy a server's ledger and key into one folder, while the server runs, and look whether it is whole.

    Of a PostgreSQL database, pg_dump has to be installed here. A backup is as secret as the server's own directory:
    who has its key can speak for every user.
    """
    settings = read_settings({"database": database, "data_directory": data_directory}, config=config)
    if settings.is_postgres:
        require("psycopg")
    place = out or Path(time.strftime("askance-backup-%Y%m%dT%H%M%SZ", time.gmtime()))
    with ProgressBar("copying", quiet=True) as bar:
        made = make_backup(settings, place, bar.tell)
    typer.echo(json.dumps(described(made), ensure_ascii=False) if as_json else _told(made, settings.shown_database))


def described(backup: Backup) -> dict[str, object]:
    """A backup as programs are told of it."""
    manifest = backup.manifest
    return {
        "schema_version": SCHEMA_VERSION,
        "backup": str(backup.folder),
        "made_at": manifest.made_at,
        "askance": manifest.askance,
        "ledger": manifest.ledger,
        "ledger_schema": manifest.ledger_schema,
        "commits": manifest.commits,
        "has_key": backup.has_key,
        "bytes": sum(file.bytes for file in manifest.files.values()),
    }


def _told(backup: Backup, database: str) -> str:
    files = backup.manifest.files
    size = sum(file.bytes for file in files.values())
    lines = [f"{backup.folder}: {database}, {counted(len(files), 'file')}, {size:,} bytes, looked at and whole"]
    if backup.has_key:
        lines.append("it holds server.key: keep it as secret as the server's own directory")
    elif backup.manifest.key_fingerprint is None:
        lines.append("there was no server.key: tokens that were given out are of no use without it")
    else:
        lines.append("the key is not in it, because it is a setting: keep that, too")
    return "\n".join(lines)
