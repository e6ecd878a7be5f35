"""A temporary folder of a command that starts processes: it is gone when the command has ended, however it ends.

Theory of operation
-------------------
`SIGTERM` and `SIGHUP` would end this process at once, and leave folder and processes behind. `ended_in_order` makes
each an exception, as `SIGINT` is one, so every `with` block is left in order. The first signal is the only one that is
heard: a second must not interrupt the removal. Nothing can be done about `SIGKILL` when it comes. So each folder holds
a file that is locked as long as the command lives, or one of its processes that was given the descriptor; the next
command of the same kind removes folders of its user whose lock nobody holds.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

_LOCK: Final = "alive"
_SIGNALS: Final = tuple(
    getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)
)  # Windows has no SIGHUP


@dataclass(frozen=True, slots=True)
class ScratchFolder:
    """A temporary folder, and the descriptors that processes of the command hold to say that it is in use."""

    path: Path
    descriptors: tuple[int, ...]


@contextmanager
def scratch_folder(kind: str, within: Path | None = None) -> Generator[ScratchFolder]:
    """A folder for this command alone, removed at the end; folders that dead commands have left are removed first.

    It is made in another folder, or where temporary files are.
    """
    remove_abandoned(kind, within)
    path = Path(tempfile.mkdtemp(prefix=f"askance-{kind}-", dir=within))
    descriptor = os.open(path / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        yield ScratchFolder(path, (descriptor,) if _locked(descriptor) else ())
    finally:
        os.close(descriptor)
        shutil.rmtree(path, ignore_errors=True)


def remove_abandoned(kind: str, within: Path | None = None) -> None:
    """Remove this user's folders of a kind that no living command holds. One without the file is not touched."""
    folder = within or Path(tempfile.gettempdir())
    # Who may not look into it has left nothing there.
    for path in folder.glob(f"askance-{kind}-*") if os.access(folder, os.R_OK | os.X_OK) else ():
        with suppress(OSError):
            if path.is_symlink() or not _mine(path):
                continue
            descriptor = os.open(path / _LOCK, os.O_RDWR)
            try:
                if _locked(descriptor):
                    shutil.rmtree(path, ignore_errors=True)
            finally:
                os.close(descriptor)


def _mine(path: Path) -> bool:
    return not hasattr(os, "getuid") or path.stat().st_uid == os.getuid()


def _locked(descriptor: int) -> bool:
    """Lock the file, for as long as any process has this descriptor; False where another holds it, or none can."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@contextmanager
def ended_in_order() -> Generator[None]:
    """Within the block the first signal to end is an exception, and those after it are not heard."""
    before = {number: signal.getsignal(number) for number in _SIGNALS}
    # What is ignored stays so: nohup, and jobs of a shell in the background.
    heard = {number: handler for number, handler in before.items() if handler is not signal.SIG_IGN}

    def end(number: int, _frame: object) -> NoReturn:
        for each in heard:
            signal.signal(each, signal.SIG_IGN)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    for number in heard:
        signal.signal(number, end)
    try:
        yield
    finally:
        for number, handler in heard.items():
            signal.signal(number, handler)
