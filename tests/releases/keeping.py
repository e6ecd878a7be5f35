"""The files of a release: written, put away small, and taken out again.

A release is a folder of `kept`, by its MAJOR and MINOR: no PATCH writes other files. `told.json.xz` has what the code
of that release told of the others, and their digests.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import os
import re
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import closing
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psycopg

from askance_server.ledger.sqlite import FILE
from tests.harness.postgres import started
from tests.releases import ledger_story, wallet_story
from tests.releases.certain import certain

Json = dict[str, Any]

FOLDER: Final = Path(__file__).with_name("kept")
TOLD: Final = "told.json"
DUMP: Final = "ledger.sql"
FILES: Final = (FILE, DUMP, "wallet", "crew")
VERSION: Final = re.compile(r"[1-9]\d*\.\d+")
_HEADING: Final = re.compile(r"^## (\d+\.\d+)\.\d+ ", re.MULTILINE)


def released(changelog: str) -> set[str]:
    """The releases that a changelog names, from 1.0 on."""
    return {name for name in _HEADING.findall(changelog) if VERSION.fullmatch(name)}


def kept(folder: Path = FOLDER) -> list[str]:
    """The releases whose files are kept."""
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def missing(changelog: str, folder: Path = FOLDER) -> set[str]:
    """The releases that have left no files."""
    return released(changelog) - set(kept(folder))


def refusal(name: str, changelog: str) -> str:
    """Why the files of this release are not written; empty if they are."""
    if VERSION.fullmatch(name) is None:
        return f"{name} is no MAJOR.MINOR from 1.0 on"
    if name in released(changelog):
        return f"{name} is released: what it has written stays as it is"
    return ""


# ----------------------------------------------------------------------------------------------------------- written


def write(name: str, folder: Path = FOLDER) -> list[str]:
    """Write the files of a release; or what they lack, and then nothing is written."""
    with TemporaryDirectory() as place:
        contents, lacking = made(Path(place))
    if not lacking:
        (folder / name).mkdir(parents=True, exist_ok=True)
        for file, content in contents.items():
            (folder / name / f"{file}.xz").write_bytes(lzma.compress(content, preset=9))
    return lacking


def made(place: Path) -> tuple[dict[str, bytes], list[str]]:
    """The files of this code, made in an empty folder, and what they lack.

    They are the same each time, but for the moment at which PostgreSQL made its tables, and the parts of its counts,
    which the numbers of its processes choose.
    """
    place.chmod(0o700)
    with certain() as surroundings:
        ledger = ledger_story.live(place / "data", surroundings)
    with certain():
        wallets = wallet_story.live(place)
    with started() as (server, url), certain() as surroundings:
        database = ledger_story.live(place / "tokens", surroundings, _new_database(url))
        dumped = _dump(url.format("kept"), Path(server.bin_path))
    contents = {FILE: (place / "data" / FILE).read_bytes(), DUMP: dumped}
    contents |= {name: (place / name).read_bytes() for name in FILES[2:]}
    lacking = [*ledger_story.lacking(ledger["told"]), *wallet_story.lacking(wallets["told"])]
    lacking += [
        f"{file}: {table}" for file in (FILE, "wallet", "crew") for table in empty_tables(contents[file], place)
    ]
    lacking += [f"{DUMP}: {table}" for table in _empty_in_dump(dumped.decode())]
    if ledger["told"] != database["told"]:
        lacking.append(f"{DUMP}: what {FILE} tells")
    told = {"ledger": ledger, "wallets": wallets, "files": {file: digest(contents[file]) for file in contents}}
    return {**contents, TOLD: json.dumps(told, sort_keys=True).encode()}, lacking


def digest(content: bytes) -> str:
    """SHA-256."""
    return hashlib.sha256(content).hexdigest()


def _new_database(url: str) -> str:
    with psycopg.connect(url.format("postgres"), autocommit=True) as admin:
        admin.execute("CREATE DATABASE kept")
    return url.format("kept")


def _dump(url: str, programs: Path) -> bytes:
    """A database as SQL: without what only psql knows, and what only one version of PostgreSQL does."""
    command = [programs / "pg_dump", "--inserts", "--no-owner", "--no-privileges", url]
    written = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    lines = [line for line in written.splitlines() if line and not line.startswith(("\\", "SET ", "--"))]
    # Rows lie in a table as its pages had room.
    parts = (sorted(part) if rows else part for rows, part in groupby(lines, lambda line: line.startswith("INSERT ")))
    return "".join(f"{line}\n" for part in parts for line in part).encode()


def empty_tables(content: bytes, place: Path) -> Iterator[str]:
    """The tables of a file of SQLite that have no row."""
    path = place / f"{digest(content)}.sqlite"
    path.write_bytes(content)
    with closing(sqlite3.connect(path)) as db:
        names = db.execute(
            "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        ).fetchall()
        yield from (name for (name,) in names if db.execute(f"SELECT 1 FROM {name}").fetchone() is None)


def _empty_in_dump(dump: str) -> Iterator[str]:
    for name in re.findall(r"^CREATE TABLE public\.(\w+)", dump, re.MULTILINE):
        if f"INSERT INTO public.{name} " not in dump:
            yield name


# --------------------------------------------------------------------------------------------------------- taken out


def taken_out(name: str, folder: Path = FOLDER) -> dict[str, bytes]:
    """The files of a release."""
    return {file: lzma.decompress((folder / name / f"{file}.xz").read_bytes()) for file in (*FILES, TOLD)}


def changed(contents: dict[str, bytes]) -> list[str]:
    """The files of a release that are not what was written."""
    digests: Json = json.loads(contents[TOLD])["files"]
    return [file for file in FILES if digest(contents[file]) != digests[file]]


def put(path: Path, content: bytes) -> Path:
    """A file as its owner has it: nobody else reads it."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    path.parent.chmod(0o700)
    path.write_bytes(content)
    os.chmod(path, 0o600)  # noqa: PTH101 - of bytes that are there
    return path
