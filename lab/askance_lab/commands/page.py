"""`askance page`: the page on which people answer, as one file that need not come from who asks."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Final

import typer

from askance_client.page import read_page
from askance_lab.commands.shared.exit_codes import say
from askance_lab.commands.shared.options import JsonOption, examples
from askance_protocol.errors import DataError, UsageError

SCHEMA_VERSION: Final = 1

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance page --out take-part.html", "askance page --json", "askance page --out take-part.html --json"
    )
)
def page(
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="File to write to.  [default: standard output]")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Write the page on which people answer as one file, and say its SHA-256.

    A browser runs what it is given, and a server that asks may give it anything. A file that you, or somebody whom you
    trust, has written by this command does what this version does; and every installation of it writes the same bytes,
    so that two people can compare them: `sha256sum take-part.html`. It is opened with what stands behind the # of the
    link on the wall, and `server=` with the server's address.
    """
    made = read_page()
    if out is not None:
        _write(out, made.one_file)
    if as_json:
        answer = {
            "schema_version": SCHEMA_VERSION,
            "sha256": made.digest,
            "script_sha256": made.script_digest,
            "bytes": len(made.one_file),
            "file": None if out is None else str(out),
        }
        typer.echo(json.dumps(answer, ensure_ascii=False))
        return
    if out is None:
        if sys.stdout.isatty():
            raise UsageError("would fill the terminal", where="page", remedy="askance page > take-part.html")
        typer.echo(made.one_file, nl=False)
    say(f"SHA-256 of the file {made.digest}, the same from every copy of this version")


def _write(path: Path, content: bytes) -> None:
    try:
        path.write_bytes(content)
    except OSError as error:
        reason = (error.strerror or "it seems impossible").lower()
        raise DataError(f"cannot be written: {reason}", where=str(path), remedy="name another file: --out") from None
