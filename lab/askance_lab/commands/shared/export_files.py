"""The files of an export on disk: a folder, a `.zip` of it, or a bulletin by itself. Nothing is written over."""

from __future__ import annotations

import io
import stat
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from askance_protocol.errors import DataError
from askance_server.core.archive import unzipped, zipped
from askance_server.core.export import BULLETIN, FILES, FileReader, check_longest
from askance_server.core.verification import VerificationError


def read_export(path: Path) -> dict[str, FileReader]:
    """Readers of the files of an export by their names."""
    try:
        kind = path.stat().st_mode
        if stat.S_ISDIR(kind):
            return _read_folder(path)
        if path.suffix == ".jsonl":
            return {BULLETIN: partial(_read_file, path)}
        # To open a pipe would wait for its writer.
        if stat.S_ISREG(kind):
            with path.open("rb") as file:
                begin = file.read(4)
            if begin == b"PK\3\4":
                return unzipped(path)
    except OSError as error:
        raise _unreadable(path, error) from None
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


def _read_folder(path: Path) -> dict[str, FileReader]:
    """Readers of its files. Of more than one that is no file of an export the first is enough to say so."""
    found = dict[str, FileReader]()
    for each in path.iterdir():
        # A directory or a pipe of a right name is refused as what it is when it is read.
        found[each.name] = partial(_read_file, each)
        if len(found) > len(FILES):
            break
    return found


def _read_file(path: Path, most: int) -> bytes:
    try:
        if not path.is_file():
            raise VerificationError("is no file")
        with path.open("rb") as file:
            size = file.seek(0, io.SEEK_END)
            check_longest(size, most)
            file.seek(0)
            # It may have grown since.
            data = file.read(most + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    check_longest(len(data), most)
    return data


def _unreadable(path: Path, error: OSError) -> DataError:
    remedy = "name what askance study export has written"
    return DataError(f"cannot be read: {error.strerror}", where=str(path), remedy=remedy)
