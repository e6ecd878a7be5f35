"""What a disk may hold after the power was cut, from a record of all that a process wrote and synced.

Theory of operation
-------------------
*Record.* `record` forks a child and follows its system calls (ptrace): what it writes, where it cuts files, which files
and directories it syncs, which names it makes, changes and removes, in all of its threads. What the child hands to
`say` stands in the record at the moment at which the outside can have heard of it. A call that changes a file in a way
that this module does not know ends the child: a record with a gap proves nothing.

*Disk.* POSIX promises of a file what was written before an `fsync` that has returned, and of a name what a directory
held before an fsync of the directory that has returned. Of anything later a power cut keeps what it likes: each sector
of each write by itself (`Cut.kept`), and of the names a beginning, as file systems with a journal do. `disk_after` is
what the next start finds. Memory that is mapped and written (SQLite's index of its write-ahead log) never
reaches the disk here; the log itself is the truth of it.
"""

from __future__ import annotations

import ctypes
import os
import platform
import random
import signal
import sys
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias

SECTOR: Final = 512

# ------------------------------------------------------------------------------------------------------------- records


@dataclass(frozen=True, slots=True)
class Written:
    """Bytes that were written to a file."""

    file: int
    offset: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Resized:
    """A file that was cut, or lengthened by zeros."""

    file: int
    size: int


@dataclass(frozen=True, slots=True)
class Synced:
    """A sync of a file that has returned; it covers what stands in the record before `upto`."""

    file: int
    upto: int


@dataclass(frozen=True, slots=True)
class NamesSynced:
    """The same of the names in a directory."""

    directory: str
    upto: int


@dataclass(frozen=True, slots=True)
class Renamed:
    """Names that come, change or go: `new` is a file, a directory or nothing that `path` now names."""

    path: str
    new: int | None
    gone: str | None = None
    """The name that went at the same time."""


@dataclass(frozen=True, slots=True)
class Said:
    """What the outside has heard."""

    text: str


Event: TypeAlias = Written | Resized | Synced | NamesSynced | Renamed | Said

DIRECTORY: Final = -1
"""In the place of a file: the name is a directory's."""


@dataclass(slots=True)
class Record:
    """Everything that a process did to the files of a folder, in order."""

    root: str
    names: dict[str, int] = field(default_factory=dict[str, int])
    """What was there before: the file of each name, and `DIRECTORY` for directories."""
    contents: dict[int, bytes] = field(default_factory=dict[int, bytes])
    events: list[Event] = field(default_factory=list[Event])
    exit: int = 0
    """How the process ended."""

    def said(self, before: int) -> list[str]:
        """What the outside had heard by then."""
        return [event.text for event in self.events[:before] if isinstance(event, Said)]


# ---------------------------------------------------------------------------------------------------------------- cuts


@dataclass(frozen=True, slots=True)
class Cut:
    """A power cut before the event `at`, and the share of what was not synced that the disk keeps all the same."""

    at: int
    kept: float
    seed: int


def disk_after(record: Record, cut: Cut) -> tuple[dict[str, bytes], set[str]]:
    """The files and directories that the next start finds."""
    dice = random.Random(cut.seed)
    past = record.events[: cut.at]
    names = _names_after(record, past, cut.kept, dice)
    synced: dict[int, int] = defaultdict(int)
    for event in past:
        if isinstance(event, Synced):
            synced[event.file] = max(synced[event.file], event.upto)
    contents: dict[int, bytearray] = defaultdict(bytearray)
    for file, content in record.contents.items():
        contents[file] = bytearray(content)
    for place, event in enumerate(past):
        if isinstance(event, Written | Resized):
            safe = place < synced[event.file]
            _write(contents[event.file], event, lambda safe=safe: safe or dice.random() < cut.kept)
    # A name whose directory has none leads nowhere.
    reached = {path: file for path, file in names.items() if _stands(path, names, record.root)}
    directories = {path for path, file in reached.items() if file == DIRECTORY}
    return {path: bytes(contents[file]) for path, file in reached.items() if file != DIRECTORY}, directories


def _write(content: bytearray, event: Written | Resized, keeps: Callable[[], bool]) -> None:
    """What is kept of one write, sector by sector."""
    if isinstance(event, Resized):
        if keeps():
            del content[event.size :]
            content.extend(bytes(event.size - len(content)))
        return
    begin, end = event.offset, event.offset + len(event.data)
    while begin < end:
        upto = min(end, (begin // SECTOR + 1) * SECTOR)
        if keeps():
            content.extend(bytes(max(0, upto - len(content))))
            content[begin:upto] = event.data[begin - event.offset : upto - event.offset]
        begin = upto


def _names_after(record: Record, past: list[Event], kept: float, dice: random.Random) -> dict[str, int]:
    synced: dict[str, int] = defaultdict(int)
    for event in past:
        if isinstance(event, NamesSynced):
            synced[event.directory] = max(synced[event.directory], event.upto)
    changes = [(place, event) for place, event in enumerate(past) if isinstance(event, Renamed)]
    pending = [place for place, event in changes if place >= synced[str(Path(event.path).parent)]]
    # In the order of the journal: what comes after something that is lost is lost as well.
    first_lost = dice.randint(0, len(pending)) if 0 < kept < 1 else round(kept) * len(pending)
    names, lost = dict(record.names), set(pending[first_lost:])
    for place, event in changes:
        if place in lost:
            continue
        if event.gone is not None:
            names.pop(event.gone, None)
        if event.new is None:
            names.pop(event.path, None)
        else:
            names[event.path] = event.new
    return names


def _stands(path: str, names: dict[str, int], root: str) -> bool:
    above = str(Path(path).parent)
    return above == root or (names.get(above) == DIRECTORY and _stands(above, names, root))


def lay_out(record: Record, cut: Cut, folder: Path) -> None:
    """Make the files and directories in an empty folder that stands for the one of the record."""
    files, directories = disk_after(record, cut)
    for path in sorted(directories):
        (folder / Path(path).relative_to(record.root)).mkdir(mode=0o700)
    for path, content in files.items():
        place = folder / Path(path).relative_to(record.root)
        place.touch(mode=0o600)
        place.write_bytes(content)


# -------------------------------------------------------------------------------------------------------- system calls

_NUMBERS: Final = {
    "x86_64": """
        write 1, pwrite 18, writev 20, pwritev 296, pwritev2 328, fsync 74, fdatasync 75, truncate 76, ftruncate 77,
        fallocate 285, sendfile 40, copy_file_range 326, mmap 9, open 2, creat 85, openat 257, openat2 437, rename 82,
        renameat 264, renameat2 316, link 86, linkat 265, unlink 87, unlinkat 263, mkdir 83, mkdirat 258, rmdir 84,
        io_uring_setup 425, io_setup 206""",
    "aarch64": """
        write 64, pwrite 68, writev 66, pwritev 70, pwritev2 287, fsync 82, fdatasync 83, truncate 45, ftruncate 46,
        fallocate 47, sendfile 71, copy_file_range 285, mmap 222, openat 56, openat2 437, renameat 38, renameat2 276,
        linkat 37, unlinkat 35, mkdirat 34, io_uring_setup 425, io_setup 0""",
}
_CALLS: Final = {
    machine: {int(number): name for name, number in map(str.split, numbers.split(","))}
    for machine, numbers in _NUMBERS.items()
}
"""The calls that change files, by number: it differs between machines."""

_UNKNOWN: Final = {
    *("pwritev", "pwritev2", "truncate", "fallocate", "sendfile", "copy_file_range", "openat2"),
    *("io_uring_setup", "io_setup"),
}
"""Those whose effect is not recorded: if one of them concerns a file here, the record is refused."""

_TRACEME, _SYSCALL, _SETOPTIONS, _SYSCALL_INFO = 0, 24, 0x4200, 0x420E
_FORK, _VFORK, _CLONE = 1, 2, 3
_OPTIONS: Final = 1 | 1 << _FORK | 1 << _VFORK | 1 << _CLONE | 0x100000  # TRACESYSGOOD … EXITKILL
_WALL: Final = 0x40000000
_AT_FDCWD: Final = -100
_MAP_SHARED, _PROT_WRITE = 1, 2


class _Info(ctypes.Structure):
    """`struct ptrace_syscall_info`; at an exit `values[0]` is what the call returned."""

    _fields_ = (
        ("op", ctypes.c_uint8),
        ("_pad", ctypes.c_uint8 * 3),
        ("arch", ctypes.c_uint32),
        ("_ip", ctypes.c_uint64),
        ("_sp", ctypes.c_uint64),
        ("values", ctypes.c_int64 * 8),
    )


class TraceError(Exception):
    """The record would have a gap, or this machine does not let a process be followed."""


_LIBC: Final = ctypes.CDLL(None, use_errno=True)
_LIBC.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
_LIBC.ptrace.restype = ctypes.c_long


def _ptrace(request: int, pid: int, address: int = 0, data: int = 0) -> int:
    result: int = _LIBC.ptrace(request, pid, address, data)
    if result < 0:
        raise TraceError(f"ptrace({request:#x}): {os.strerror(ctypes.get_errno())}")
    return result


@dataclass(slots=True)
class _Pending:
    """A call that has begun: its name, its arguments, and what was there at its beginning."""

    name: str
    arguments: tuple[int, ...]
    data: bytes = b""
    paths: tuple[str, ...] = ()
    begun: int = 0
    """The length of the record at its beginning."""


Say: TypeAlias = Callable[[str], None]


def record(root: Path, work: Callable[[Say], None]) -> Record:
    """Fork a child that does this work, and record what it does to the files in a folder.

    Call it in a program of its own: it waits for any child there is.
    """
    heard = os.open(os.devnull, os.O_WRONLY)
    pid = os.fork()
    if not pid:
        _run_child(work, heard)
    try:
        return _Tracer(pid, os.path.realpath(root), heard).run()
    finally:
        os.close(heard)


def _run_child(work: Callable[[Say], None], heard: int) -> None:
    code = 1
    try:
        _ptrace(_TRACEME, 0)
        os.kill(os.getpid(), signal.SIGSTOP)
        work(lambda text: _ignored(os.write(heard, text.encode())))
        code = 0
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        sys.stderr.flush()
    finally:
        os._exit(code)


def _ignored(_: object) -> None: ...


class _Tracer:
    def __init__(self, pid: int, root: str, heard: int) -> None:
        self.pid, self.heard = pid, heard
        self.record = Record(root)
        self.known: dict[tuple[int, int], int] = {}
        """The file of each inode."""
        self.files = 0
        self.pending: dict[int, _Pending] = {}
        self.calls = _CALLS[platform.machine()]
        self._look_around()
        self.names = dict(self.record.names)
        """As the child sees them."""

    def _look_around(self) -> None:
        """Note what is there before the child begins: it counts as synced."""
        for folder, directories, files in os.walk(self.record.root):
            for name in directories:
                self.record.names[f"{folder}/{name}"] = DIRECTORY
            for name in files:
                path = f"{folder}/{name}"
                file = self._file_of(Path(path).stat())
                self.record.names[path] = file
                self.record.contents[file] = Path(path).read_bytes()

    def _file_of(self, stat: os.stat_result, *, new: bool = False) -> int:
        key = (stat.st_dev, stat.st_ino)
        if new or key not in self.known:
            self.known[key] = self.files
            self.files += 1
        return self.known[key]

    # ---------------------------------------------------------------------------------------------------- following

    def run(self) -> Record:
        """Follow the child to its end."""
        os.waitpid(self.pid, 0)
        _ptrace(_SETOPTIONS, self.pid, 0, _OPTIONS)
        self.memory = os.open(f"/proc/{self.pid}/mem", os.O_RDONLY)
        _ptrace(_SYSCALL, self.pid)
        threads = {self.pid}
        try:
            while threads:
                tid, status = os.waitpid(-1, _WALL)
                if os.WIFEXITED(status) or os.WIFSIGNALED(status):
                    threads.discard(tid)
                    if tid == self.pid:
                        self.record.exit = os.waitstatus_to_exitcode(status)
                    continue
                known = tid in threads
                threads.add(tid)
                try:
                    _ptrace(_SYSCALL, tid, 0, self._stopped(tid, status, known=known))
                except TraceError:
                    if Path(f"/proc/{tid}").exists():
                        raise
        except BaseException:
            os.kill(self.pid, signal.SIGKILL)
            raise
        finally:
            os.close(self.memory)
        return self.record

    def _stopped(self, tid: int, status: int, *, known: bool) -> int:
        """Look at what a thread stopped for; the signal to go on with."""
        stop = os.WSTOPSIG(status)
        if status >> 16 in {_FORK, _VFORK}:
            raise TraceError("the child has a child, which is not followed")
        if stop != signal.SIGTRAP | 0x80:
            # A new thread begins with a stop of its own, and the old one stops for it.
            return 0 if stop == signal.SIGTRAP or (stop == signal.SIGSTOP and not known) else stop
        info = _Info()
        _ptrace(_SYSCALL_INFO, tid, ctypes.sizeof(info), ctypes.addressof(info))
        if info.op == 1:
            name = self.calls.get(info.values[0])
            if name is not None:
                self.pending[tid] = self._begin(name, tuple(info.values[1:7]))
        elif info.op == 2 and (call := self.pending.pop(tid, None)) is not None and info.values[0] >= 0:
            self._end(call, info.values[0])
        return 0

    # ------------------------------------------------------------------------------------------------- at the beginning

    def _begin(self, name: str, arguments: tuple[int, ...]) -> _Pending:
        first, second, third, *_ = arguments
        call = _Pending(name, arguments, begun=len(self.record.events))
        if name == "write":
            call.data = self._read(second, third)
            if first == self.heard:
                self.record.events.append(Said(call.data.decode()))
        elif name == "pwrite":
            call.data = self._read(second, third)
        elif name == "writev" and self._within(first):
            vectors = memoryview(self._read(second, third * 16)).cast("Q")
            call.data = b"".join(self._read(*vectors[at : at + 2]) for at in range(0, len(vectors), 2))
        elif name in {"open", "creat", "unlink", "mkdir", "rmdir"}:
            call.paths = (self._path(_AT_FDCWD, first),)
        elif name in {"openat", "unlinkat", "mkdirat"}:
            call.paths = (self._path(first, second),)
        elif name in {"rename", "link"}:
            call.paths = (self._path(_AT_FDCWD, first), self._path(_AT_FDCWD, second))
        elif name in {"renameat", "renameat2", "linkat"}:
            call.paths = (self._path(first, second), self._path(third, arguments[3]))
        elif name == "mmap":
            self._check_mapping(third, arguments[3], arguments[4])
        elif name in _UNKNOWN:
            self._check_unknown(name, first)
        return call

    def _check_mapping(self, protection: int, flags: int, descriptor: int) -> None:
        if not protection & _PROT_WRITE or flags & 3 != _MAP_SHARED:
            return
        path = self._within(descriptor & 0xFFFFFFFF)
        if path is not None and not path.endswith("-shm"):
            raise TraceError(f"{path} is mapped to be written")

    def _check_unknown(self, name: str, descriptor: int) -> None:
        if name in {"truncate", "openat2"} or name.startswith("io") or self._within(descriptor):
            raise TraceError(f"the child calls {name}, whose effect is not recorded")

    def _read(self, address: int, size: int) -> bytes:
        data = os.pread(self.memory, size, address)
        if len(data) < size:
            raise TraceError("the child's memory cannot be read")
        return data

    def _path(self, directory: int, address: int) -> str:
        text = b""
        while b"\0" not in text:  # Up to the end of the page that it is in, and then the next.
            at = address + len(text)
            text += self._read(at, 4096 - at % 4096)
        name = os.fsdecode(text.partition(b"\0")[0])
        at = ctypes.c_int32(directory & 0xFFFFFFFF).value
        above = Path(f"/proc/{self.pid}", *(("cwd",) if at == _AT_FDCWD else ("fd", f"{at}"))).readlink()
        path = above / name
        return str(path.parent.resolve() / path.name)

    def _within(self, descriptor: int) -> str | None:
        """The path of an open file in the folder."""
        try:
            path = str(self._descriptor(descriptor).readlink())
        except OSError:
            return None
        return (
            path
            if path.startswith((self.record.root + "/", self.record.root + " ")) or path == self.record.root
            else None
        )

    # ------------------------------------------------------------------------------------------------------- at the end

    def _end(self, call: _Pending, result: int) -> None:
        record, first = self.record, call.arguments[0]
        match call.name:
            case "write" | "writev" | "pwrite":
                if self._within(first) is not None:
                    offset = call.arguments[3] if call.name == "pwrite" else self._position(first) - result
                    record.events.append(Written(self._open_file(first), offset, call.data[:result]))
            case "ftruncate":
                if self._within(first) is not None:
                    record.events.append(Resized(self._open_file(first), call.arguments[1]))
            case "fsync" | "fdatasync":
                path = self._within(first)
                if path is not None and (path == record.root or self.names.get(path) == DIRECTORY):
                    record.events.append(NamesSynced(path, call.begun))
                elif path is not None:
                    record.events.append(Synced(self._open_file(first), call.begun))
            case "open" | "creat" | "openat":
                self._opened(call.paths[0], result, *self._flags(call))
            case _ if call.paths:
                self._named(call)
            case _:
                pass

    def _flags(self, call: _Pending) -> tuple[int]:
        return ({"open": call.arguments[1], "openat": call.arguments[2]}.get(call.name, os.O_CREAT | os.O_TRUNC),)

    def _opened(self, path: str, descriptor: int, flags: int) -> None:
        names = self.names
        if self._within(descriptor) is None or (path in names and names[path] == DIRECTORY) or path == self.record.root:
            return
        if path not in names:
            # A new one, also where it has the inode of one that is gone.
            file = self._file_of(self._descriptor(descriptor).stat(), new=True)
            self._rename(Renamed(path, file))
        elif flags & os.O_TRUNC:
            self.record.events.append(Resized(names[path], 0))

    def _named(self, call: _Pending) -> None:
        names, (first, *rest) = self.names, call.paths
        inside = [path for path in call.paths if path.startswith(self.record.root + "/")]
        if not inside:
            return
        if len(inside) < len(call.paths):
            raise TraceError(f"{call.name} leads out of the folder: {call.paths}")
        if call.name in {"mkdir", "mkdirat"}:
            self._rename(Renamed(first, DIRECTORY))
        elif call.name in {"link", "linkat"}:
            self._rename(Renamed(rest[0], names[first]))
        elif rest:
            self._rename(Renamed(rest[0], names[first], gone=first))
        else:
            self._rename(Renamed(first, None))

    def _rename(self, event: Renamed) -> None:
        self.record.events.append(event)
        if event.gone is not None:
            self.names.pop(event.gone)
        if event.new is None:
            self.names.pop(event.path, None)
        else:
            self.names[event.path] = event.new

    def _open_file(self, descriptor: int) -> int:
        return self._file_of(self._descriptor(descriptor).stat())

    def _descriptor(self, descriptor: int) -> Path:
        return Path(f"/proc/{self.pid}/fd/{descriptor}")

    def _position(self, descriptor: int) -> int:
        line = Path(f"/proc/{self.pid}/fdinfo/{descriptor}").read_text(encoding="ascii").partition("\n")[0]
        return int(line.partition(":")[2])
