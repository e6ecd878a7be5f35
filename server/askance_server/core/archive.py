"""An export as one file: a .zip in the one form that `zipped` writes, with nothing before, between or behind its files.

Two programs may read two contents from one .zip: by the directory at its end, or by the headers of its files; with a
file twice, or with another archive in front. So the reader takes what the writer writes, and refuses all else. Only the
packing itself is free, because versions of zlib pack differently. A file is unpacked to the length that it announces.
"""

from __future__ import annotations

import io
import struct
import zipfile
import zlib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final

from askance_server.core.export import FILES, FileReader, check_longest
from askance_server.core.verification import VerificationError

_EPOCH: Final = (1980, 1, 1, 0, 0, 0)
_END: Final = struct.Struct("<4s4H2LH")
"""The last bytes of an archive: its files, and the length and place of its directory."""
_DIRECTORY: Final = sum(46 + len(name) for name in FILES)
"""Bytes of the directory of an archive of these files, without a comment."""
_FIXED: Final = (
    "orig_filename",
    "filename",
    "date_time",
    "compress_type",
    "comment",
    "extra",
    "create_version",
    "extract_version",
    "reserved",
    "flag_bits",
    "volume",
    "internal_attr",
    "external_attr",
    "header_offset",
)
"""What `zipped` alone decides about a file. The system is that of the machine."""
_PIECE: Final = 1 << 16
_REMEDY: Final = "unpack it and verify the folder; or export it again: askance study export"


def zipped(files: Mapping[str, bytes]) -> bytes:
    """The files of an export as one. Without the time at which it was made: the same study is the same file."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), data, zipfile.ZIP_DEFLATED)
    return made.getvalue()


def unzipped(path: Path) -> dict[str, FileReader]:
    """Readers of the files of an archive that `zipped` wrote; VerificationError if it is not such a one."""
    try:
        return _readers(path)
    except VerificationError as error:
        where = ": ".join(part for part in (str(path), error.where) if part)
        raise VerificationError(error.what, where=where, remedy=_REMEDY) from None
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        raise VerificationError("is a damaged .zip", where=str(path), remedy=_REMEDY) from None


def _readers(path: Path) -> dict[str, FileReader]:
    _check_end(path)
    readers, place = dict[str, FileReader](), 0
    with zipfile.ZipFile(path) as archive, path.open("rb") as file:
        # The directory has as many bytes as the four entries need, so there are no more than that.
        for info, name in zip(archive.infolist(), FILES, strict=True):
            place = _check_member(file, info, name, place)
            readers[name] = partial(_unpack, path, place, info)
            place += info.compress_size
        if place != file.seek(0, io.SEEK_END) - _END.size - _DIRECTORY:
            raise VerificationError("has something between its files")
    return readers


def _check_member(file: BinaryIO, info: zipfile.ZipInfo, name: str, place: int) -> int:
    """Compare both descriptions of a file with the one that it can have here. Returns where its packed bytes begin."""
    due = zipfile.ZipInfo(name, _EPOCH)
    due.compress_type, due.external_attr, due.header_offset = zipfile.ZIP_DEFLATED, 0o600 << 16, place
    if any(getattr(info, each) != getattr(due, each) for each in _FIXED) or info.create_system not in {0, 3}:
        raise VerificationError("is not described as askance study export writes it", where=name)
    header = info.FileHeader(zip64=False)
    file.seek(place)
    if file.read(len(header)) != header:
        raise VerificationError("is described in two ways", where=name)
    return place + len(header)


def _check_end(path: Path) -> None:
    """Look at the last bytes, which say how large the directory is, before the directory is read."""
    size = path.stat().st_size
    due = (b"PK\5\6", 0, 0, len(FILES), len(FILES), _DIRECTORY, size - _END.size - _DIRECTORY, 0)
    with path.open("rb") as file:
        file.seek(max(0, size - _END.size))
        end = file.read(_END.size)
    if len(end) != _END.size or _END.unpack(end) != due:
        raise VerificationError("is no export: this .zip was cut, or holds something beside the four files")


def _unpack(path: Path, place: int, info: zipfile.ZipInfo, most: int) -> bytearray:
    """A packed file, unpacked to the length that it announces, which is at most `most`."""
    check_longest(info.file_size, most)
    # Packing adds a few bytes to what cannot be packed. Blocks without content would keep the reader busy.
    check_longest(info.compress_size, info.file_size + info.file_size // 64 + 1024)
    unpacker, found, remaining = zlib.decompressobj(-zlib.MAX_WBITS), bytearray(), info.compress_size
    with path.open("rb") as file:
        file.seek(place)
        while remaining and not unpacker.eof:
            packed = file.read(min(_PIECE, remaining))
            remaining -= len(packed)
            try:
                found += unpacker.decompress(packed, info.file_size + 1 - len(found))
            except zlib.error:
                raise VerificationError("is damaged: it cannot be unpacked") from None
            if unpacker.unconsumed_tail or len(found) > info.file_size or not packed:
                break
    whole = unpacker.eof and not remaining and not unpacker.unused_data
    if not whole or len(found) != info.file_size or zlib.crc32(found) != info.CRC:
        raise VerificationError("is damaged: it unpacks to other bytes than it announces")
    return found
