"""A terminal for tests: a command runs on it, answers are typed, an interrupt is sent, and all of it within a time."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from tests.harness.marks import SECONDS


@dataclass(frozen=True, slots=True)
class TerminalRun:
    """What came of a command on a terminal."""

    code: int
    shown: str
    """All that came to the terminal."""
    out: str
    """Standard output, where it went elsewhere."""


@dataclass(slots=True)
class Typist:
    """Somebody at the keyboard, who does each thing once: types answers, and interrupts."""

    question: str = "[y/N]: "
    """What each answer is typed after."""
    answers: list[str] = field(default_factory=list[str])
    interrupt_at: str | None = None
    """What is waited for before an interrupt is sent."""

    def see(self, shown: bytes, keyboard: int, process: subprocess.Popen[bytes]) -> None:
        """Do what is to be done when so much is shown."""
        if self.answers and shown.endswith(self.question.encode()):
            os.write(keyboard, f"{self.answers.pop(0)}\n".encode())
        if self.interrupt_at is not None and self.interrupt_at.encode() in shown:
            self.interrupt_at = None
            process.send_signal(signal.SIGINT)


def on_terminal(
    command: Sequence[object],
    typist: Typist | None = None,
    *,
    columns: int = 80,
    out_elsewhere: bool = False,
    environment: Mapping[str, str] | None = None,
    seconds: float = SECONDS,
) -> TerminalRun:
    """Run a command on a terminal of so many columns. What takes longer than `seconds` is killed: TimeoutError."""
    near, far = pty.openpty()
    fcntl.ioctl(far, termios.TIOCSWINSZ, struct.pack("HHHH", 24, columns, 0, 0))
    with closing(os.fdopen(near, "r+b", buffering=0)) as terminal:
        process = subprocess.Popen(
            list(map(str, command)),
            stdin=far,
            stdout=subprocess.PIPE if out_elsewhere else far,
            stderr=far,
            env=environment,
            start_new_session=True,
        )
        os.close(far)
        shown, end = b"", time.monotonic() + seconds
        try:
            for piece in _pieces(terminal.fileno(), end):
                shown += piece
                if typist is not None:
                    typist.see(shown, terminal.fileno(), process)
            out, _ = process.communicate(timeout=max(0, end - time.monotonic()))
        except (TimeoutError, subprocess.TimeoutExpired):
            raise TimeoutError(f"is not through after {seconds:g} s, and has shown {shown.decode()!r}") from None
        finally:
            process.kill()
            process.communicate()
    return TerminalRun(process.returncode, shown.decode(), (out or b"").decode())


def _pieces(terminal: int, end: float) -> Iterator[bytes]:
    """What comes to the terminal until nobody has its other end any more; TimeoutError if that is not by `end`."""
    while select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux says so that the other end is closed.
            piece = b""
        if not piece:
            return
        yield piece
    raise TimeoutError
