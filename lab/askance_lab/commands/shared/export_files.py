"""The files of an export on disk: a folder, a `.zip` of it, or a bulletin by itself. Nothing is written over."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from askance_protocol.errors import DataError
from askance_server.core.export import BULLETIN, zipped
from askance_server.core.verification import VerificationError

MOST_BYTES: Final = 256 << 20
"""Bytes of all files of an export: four times what a client reads of one study."""
_MOST_FILES: Final = 64


def read_export(path: Path) -> dict[str, bytes]:
    """The files of an export by their names."""
    try:
        if path.is_dir():
            return _read_folder(path)
        if zipfile.is_zipfile(path):
            return _read_zip(path)
        _check_size(path.stat().st_size, path)
        if path.suffix == ".jsonl":
            return {BULLETIN: path.read_bytes()}
    except OSError as error:
        remedy = "name what askance study export has written"
        raise DataError(f"cannot be read: {error.strerror}", where=str(path), remedy=remedy) from None
    what = "is no export: neither a folder, a .zip of one, nor a bulletin"
    raise VerificationError(what, where=str(path), remedy="was it cut? export it again: askance study export")


def write_export(path: Path, files: Mapping[str, bytes]) -> None:
    """Write an export to a new folder, or to a new file if its name ends in .zip."""
    try:
        if path.suffix != ".zip":
            path.mkdir(parents=True)
            for name, data in files.items():
                (path / name).write_bytes(data)
            return
        data = zipped(files)
        with path.open("xb") as file:
            file.write(data)
    except FileExistsError:
        raise DataError("is there already", where=str(path), remedy="name a new folder or file: --out") from None
    except OSError as error:
        remedy = "name a folder that you can write to: --out"
        raise DataError(f"cannot be written: {error.strerror}", where=str(path), remedy=remedy) from None


def _read_folder(path: Path) -> dict[str, bytes]:
    found = sorted(path.iterdir())[: _MOST_FILES + 1]
    _check_size(sum(each.stat().st_size for each in found), path)
    # What is no file is no file of an export: its name is all that is needed to say so.
    return {each.name: each.read_bytes() if each.is_file() else b"" for each in found}


def _read_zip(path: Path) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()[: _MOST_FILES + 1]
            _check_size(sum(each.file_size for each in members), path)
            names = [each.filename for each in members]
            if len(set(names)) < len(names):
                raise VerificationError("has a file twice", where=str(path))
            # A member's own size may lie; so no more is read than it says.
            return {each.filename: archive.open(each).read(each.file_size + 1) for each in members}
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        what = f"is a damaged .zip: {type(error).__name__}"
        raise VerificationError(what, where=str(path), remedy="export it again: askance study export") from None


def _check_size(size: int, path: Path) -> None:
    if size > MOST_BYTES:
        what = f"has {size:,} bytes, over the limit of {MOST_BYTES:,}"
        raise DataError(what, where=str(path), remedy="is it an export?")
