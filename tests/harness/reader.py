"""The shell of somebody who types what a page says: one for the whole page, as at a terminal.

Each command of a page begins where the one before has left the shell: in its folder, with its variables and its jobs. A
page whose second `cd build/room` leads nowhere, because its reader is there already, fails here as it does for her.
"""

from __future__ import annotations

import os
import re
import select
import shlex
import signal
import subprocess
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final, Self

SECONDS: Final = 120.0
"""How long one command may take."""
LATE: Final = 0.3
"""Seconds by which what a command leaves in the background begins later than it could."""
BACKGROUND: Final = re.compile(r"(?:(?<=; )|^)(?P<job>[^;]*[^;&]) &$")
"""What a command leaves in the background, if it ends with that."""


def begun_late(command: str, late: float = LATE) -> str:
    """A command whose background begins a moment later than it could, as it does now and then on a busy machine.

    So a page whose next command takes for granted what that one has yet to do fails each time, not once in a hundred.
    """
    return BACKGROUND.sub(lambda found: f"{{ sleep {late}; exec {found['job']}; }} &", command)


class ReaderShell:
    """A bash that takes one command after the other, and says what each has printed, in the order of a screen."""

    def __init__(self, folder: Path, env: Mapping[str, str], late: float = LATE) -> None:
        self._late = late
        # A session of its own, so that what a page has started ends with it.
        self._bash = subprocess.Popen(
            ["bash", "--noprofile", "--norc"],
            cwd=folder,
            env=dict(env),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, command: str, seconds: float = SECONDS) -> str:
        """What a command prints, standard output and errors together; `TimeoutError` where no prompt comes back."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        with tempfile.NamedTemporaryFile() as screen:
            # In this shell, so that what it sets stays; and nothing that it starts reads the commands that follow.
            line = f"eval {shlex.quote(begun_late(command, self._late))} </dev/null >{screen.name} 2>&1; echo\n"
            self._bash.stdin.write(line.encode())
            self._bash.stdin.flush()
            if not select.select([self._bash.stdout], [], [], seconds)[0]:
                self.close()
                raise TimeoutError(f"{command}: no prompt after {seconds:g} s")
            if not os.read(self._bash.stdout.fileno(), 1):
                raise EOFError(f"{command}: it has ended the shell")
            return Path(screen.name).read_text("utf-8", errors="replace")

    def close(self) -> None:
        """End the shell, and what it has started and not ended."""
        # A shell that waits for a command looks at a signal only afterwards.
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in _session(self._bash.pid):
                with suppress(ProcessLookupError):
                    os.kill(process, number)
        for stream in (self._bash.stdin, self._bash.stdout):
            if stream is not None:
                with suppress(BrokenPipeError):
                    stream.close()
        self._bash.wait()


def _session(leader: int) -> list[int]:
    """The processes of a session, whatever groups they have made of themselves."""
    found = list[int]()
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if os.getsid(int(folder.name)) == leader:
                found.append(int(folder.name))
    return found
