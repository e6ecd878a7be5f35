"""Exports that are small on disk and large in memory; run as a program, it verifies them and prints what each has cost.

    python -m tests.server.core.bombs verify|leniently FOLDER

prints a line of JSON for each file or folder in FOLDER: whether it was refused, megabytes at the peak of the process
while it was read, seconds of CPU.
"""

from __future__ import annotations

import json
import os
import resource
import struct
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from askance_server.core.archive import zipped
from askance_server.core.export import BULLETIN, FILES, MANIFEST, RESULT, TALLIES
from tests.server.core.forging import EPOCH, Files, archive, described

MB: Final = 1 << 20
LIMIT: Final = 300
"""Megabytes that a verification may take."""
SECONDS: Final = 10
"""Of CPU that a verification may take."""
ADDRESSES: Final = 900 * MB
"""Of the child: so that what takes too much takes no more than this from the machine."""

Pieces = Iterable[bytes]


def packed(pieces: Pieces) -> tuple[bytes, int, int]:
    """What the pieces are packed to, their CRC and their length."""
    packer, made, crc, size = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS), bytearray(), 0, 0
    for piece in pieces:
        made += packer.compress(piece)
        crc, size = zlib.crc32(piece, crc), size + len(piece)
    return bytes(made + packer.flush()), crc, size


def archived(files: dict[str, tuple[bytes, int, int]]) -> bytes:
    """An archive as `study export` writes it, of files that are packed already, whatever is said of their length."""
    made, directory = bytearray(), bytearray()
    for name, (data, crc, size) in files.items():
        rest = struct.pack("<HHHHHIIIHH", 20, 0, zipfile.ZIP_DEFLATED, 0, 33, crc, len(data), size, len(name), 0)
        directory += b"PK\1\2" + struct.pack("<BB", 20, 3) + rest
        directory += struct.pack("<HHHII", 0, 0, 0, 0o600 << 16, len(made)) + name.encode()
        made += b"PK\3\4" + rest + name.encode() + data
    end = struct.pack("<4H2LH", 0, 0, len(files), len(files), len(directory), len(made), 0)
    return bytes(made + directory + b"PK\5\6" + end)


def bomb(genuine: Files, name: str, pieces: Pieces, *, said: int | None = None) -> bytes:
    """A genuine export, of which one file is this; `said` is the length that is announced."""
    files = {each: packed([data]) for each, data in genuine.items()}
    data, crc, size = packed(pieces)
    return archived({**files, name: (data, crc, size if said is None else said)})


def times(piece: bytes, megabytes: float) -> Pieces:
    """The piece again and again, until there are so many megabytes."""
    block = piece * (MB // len(piece))
    return (block for _ in range(int(megabytes * MB / len(block))))


def entry(genuine: Files, begin: bytes, pieces: Pieces, end: bytes) -> Pieces:
    """The first entries of a bulletin, and one that is large."""
    lines = genuine[BULLETIN].splitlines(keepends=True)
    yield b"".join(lines[:3])
    yield lines[3].partition(b'"tallies":')[0] + begin
    yield from pieces
    yield end + b"}\n"


def _folder(path: Path, genuine: Files, name: str, size: int) -> None:
    """An export whose file is as long as that, and takes no room on the disk."""
    path.mkdir()
    for each, data in genuine.items():
        (path / each).write_bytes(data)
    with (path / name).open("r+b") as file:
        file.truncate(size)


def _alone(path: Path, size: int) -> None:
    with path.open("wb") as file:
        file.truncate(size)


def _many(genuine: Files) -> bytes:
    """An archive with very many files in its directory."""
    return archived(
        {**{each: packed([data]) for each, data in genuine.items()}, **{f"{n}": (b"", 0, 0) for n in range(60_000)}}
    )


def _one_behind_all(_: Files) -> bytes:
    """All four files have the same content."""
    return archived(dict.fromkeys(FILES, packed(times(b"[],", 60))))


def _other_method(genuine: Files, method: int) -> bytes:
    found = described({**genuine, RESULT: b"".join(times(b"[],", 64))})
    for info, _ in found:
        info.compress_type = method
        info.date_time = EPOCH
    return archive(found)


def _empty_blocks(genuine: Files) -> bytes:
    """Packed bytes that unpack to nothing, for a long time."""
    files = {each: packed([data]) for each, data in genuine.items()}
    return archived({**files, RESULT: (b"\0\0\0\xff\xff" * (4 * MB) + b"\3\0", 0, 0)})


ZIPS: Final[dict[str, Callable[[Files], bytes]]] = {
    "empty lists in a result": lambda of: bomb(of, RESULT, [b"[", *times(b"[],", 250), b"[]]"]),
    "numbers in tallies": lambda of: bomb(of, TALLIES, [b'{"form": [', *times(b"1,", 250), b"1]}"]),
    "a manifest that is padded": lambda of: bomb(of, MANIFEST, [of[MANIFEST], *times(b" ", 250)]),
    "a result of brackets": lambda of: bomb(of, RESULT, times(b"[", 60)),
    "a result of one long number": lambda of: bomb(of, RESULT, times(b"9", 60)),
    "a result of escapes": lambda of: bomb(of, RESULT, [b'"', *times(b"\\u0041", 60), b'"']),
    "a bulletin of line ends": lambda of: bomb(of, BULLETIN, times(b"\n", 63)),
    "a bulletin beyond the limit": lambda of: bomb(of, BULLETIN, times(b"\n", 250)),
    "a bulletin of one line": lambda of: bomb(of, BULLETIN, [*times(b"[],", 63), b"\n"]),
    "an entry of empty lists": lambda of: bomb(of, BULLETIN, entry(of, b'"tallies":[', times(b"[],", 15), b"[]]}")),
    "an entry of half a million lists": lambda of: bomb(
        of, BULLETIN, entry(of, b'"tallies":[', times(b"[],", 1.5), b"[]]}")
    ),
    "an entry of numbers": lambda of: bomb(of, BULLETIN, entry(of, b'"tallies":[[[', times(b"999,", 15), b"1]]]}")),
    "an entry of fewer numbers": lambda of: bomb(
        of, BULLETIN, entry(of, b'"tallies":[[[', times(b"999,", 3.9), b"1]]]}")
    ),
    "an entry of fewer members": lambda of: bomb(
        of, BULLETIN, entry(of, b'"tallies":{"a":1', times(b',"a":1', 2.9), b"}}")
    ),
    "an entry of members": lambda of: bomb(of, BULLETIN, entry(of, b'"tallies":{"a":1', times(b',"a":1', 15), b"}}")),
    "an entry of text": lambda of: bomb(of, BULLETIN, entry(of, b'"tallies":"', times(b"\\u0041", 15), b'"}')),
    "an entry that is doubled": lambda of: bomb(of, BULLETIN, times(of[BULLETIN].splitlines(keepends=True)[0], 63)),
    "a length that is not true": lambda of: bomb(of, RESULT, times(b"[],", 250), said=1000),
    "a length that is 0": lambda of: bomb(of, BULLETIN, times(b"\n", 250), said=0),
    "sixty thousand files": _many,
    "one content behind four files": _one_behind_all,
    "packed by LZMA": lambda of: _other_method(of, zipfile.ZIP_LZMA),
    "blocks without content": _empty_blocks,
    "an archive in an archive": lambda of: bomb(of, RESULT, [zipped(of) + bomb(of, TALLIES, times(b"1,", 63))]),
}
SPARSE: Final[dict[str, Callable[[Path, Files], None]]] = {
    "a sparse result": lambda path, of: _folder(path, of, RESULT, 1 << 40),
    "a sparse bulletin": lambda path, of: _folder(path, of, BULLETIN, 1 << 40),
    "a sparse bulletin below the limit": lambda path, of: _folder(path, of, BULLETIN, 63 * MB),
    "a sparse bulletin.jsonl": lambda path, of: _alone(path.with_suffix(".jsonl"), 1 << 40),
    "a sparse zip": lambda path, of: _alone(path.with_suffix(".zip"), 1 << 40),
}


def lay(folder: Path, genuine: Files, which: Iterable[str]) -> None:
    """Write these bombs into a folder."""
    for name in which:
        if name in ZIPS:
            (folder / f"{name}.zip").write_bytes(ZIPS[name](genuine))
        else:
            SPARSE[name](folder / name, genuine)


def _memory(line: str) -> int:
    """Megabytes that the system says of this process: at its peak, or now."""
    text = Path("/proc/self/status").read_text("utf-8")
    return int(text.partition(line)[2].split()[0]) // 1024


def _leniently(path: Path) -> None:
    """As version 1.0 has read a .zip."""
    with zipfile.ZipFile(path) as archive_:
        files = {each.filename: archive_.open(each).read(each.file_size + 1) for each in archive_.infolist()}
    json.loads(files[RESULT])


def main() -> None:
    """Verify what is in a folder, each in its turn."""
    from askance_lab.commands.shared.export_files import read_export
    from askance_protocol.errors import AskanceError
    from askance_server.core.export import verify_files
    from askance_server.strategies.registry import registry

    strategies = registry()

    def read(path: Path) -> None:
        if sys.argv[1] == "verify":
            verify_files(read_export(path), strategies)
        else:
            _leniently(path)

    for path in sorted(Path(sys.argv[2]).iterdir()):
        sys.stdout.flush()
        whole = _memory("VmRSS:")
        if pid := os.fork():
            _, status = os.waitpid(pid, 0)
            if status:
                print(json.dumps({"bomb": path.stem, "said": "died", "peak": 0, "seconds": SECONDS}))
            continue
        # A child begins without the pages that it has not looked at: they count as its own.
        more = whole - _memory("VmRSS:")
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
        try:
            read(path)
            said = "accepted"
        except MemoryError:
            said = "MemoryError"
        except AskanceError as error:
            said = str(error)
        peak = _memory("VmHWM:") + more
        print(json.dumps({"bomb": path.stem, "said": said, "peak": peak, "seconds": time.process_time()}), flush=True)
        os._exit(0)


if __name__ == "__main__":
    main()
