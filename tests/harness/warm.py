"""The `askance` command, or a program around it, as a process of its own that begins in milliseconds.

Theory of operation
-------------------
To load what the command is made of takes a second of processor time, and the tests start it hundreds of times. So one
program loads it once for each test worker (`python -m tests.harness.warm ADDRESS`), and forks for each call: the child
gets the arguments, the environment, the working directory and the streams of its caller, and runs the command's `main`
as a new interpreter would. A caller sends them over a Unix socket, hears the child's process id, and at its end the
exit code. Where the environment tells Python itself something else, a new interpreter it is.

What is the same: a process, which is killed, stopped and heard as any other; nothing is open, drawn or started before
the fork. What is not: modules are imported already. Tests of imports, of memory and of what the interpreter does start
an interpreter, and so do `tests/lab/commands/test_serve.py`, `test_cli.py` and `tests/e2e` with commands of their own.
`ASKANCE_COLD=1` starts an interpreter everywhere.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import functools
import gc
import io
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import types
import warnings
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import IO, Any, Final

from tests.harness.marks import SECONDS

COLD: Final = os.environ.get("ASKANCE_COLD") == "1"
_STREAMS: Final = 3
_LONGEST: Final = 1 << 20


def _interpreted(program: str | None) -> list[str]:
    """An interpreter that runs the command, or a program."""
    return [sys.executable, "-W", "error", "-c", program or "from askance_lab.cli import main; main()"]


# --------------------------------------------------------------------------------------------------- in the program


def _serve(address: str) -> None:
    """Fork for each call, until whoever started this program is gone."""
    _load()
    woken, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    callers = dict[int, socket.socket]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
        listener.bind(address)
        listener.listen(64)
        print("ready", flush=True)
        while True:
            ready, _, _ = select.select([listener, woken, sys.stdin], [], [])
            if sys.stdin in ready:
                return
            if woken in ready:
                os.read(woken, 1 << 12)
                _reap(callers)
            if listener in ready:
                caller, _ = listener.accept()
                if (child := _fork(caller, [wake, woken], [listener, *callers.values()])) is not None:
                    callers[child] = caller


def _load() -> None:
    """Import what any command imports, and what it imports while it runs."""
    commands = import_module("askance_lab.cli").CommandModules()
    for name in commands:
        import_module(f"askance_lab.commands.{name.replace('-', '_')}")
    for name in ("askance_server.app", "askance_server.ledger.sqlite", "rich.console", "uvicorn", "uvloop"):
        import_module(name)
    gc.collect()
    gc.freeze()


def _reap(callers: dict[int, socket.socket]) -> None:
    """Tell each caller whose child has ended its exit code."""
    for child in list(callers):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            with callers.pop(child) as caller, contextlib.suppress(OSError):
                caller.send(str(os.waitstatus_to_exitcode(status)).encode())


def _fork(caller: socket.socket, pipe: Sequence[int], others: Sequence[socket.socket]) -> int | None:
    """The child of one call, without what the program has open; None where the caller is gone before it speaks."""
    said, streams = _received(caller)
    if not said:
        caller.close()
        return None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # threads of numpy's library look after forks themselves
        child = os.fork()
    if child:
        for stream in streams:
            os.close(stream)
        with contextlib.suppress(OSError):
            caller.send(str(child).encode())
        return child
    code = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for each in (caller, *others):
            each.close()
        for end in pipe:
            os.close(end)
        code = _called(json.loads(said), streams)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        os._exit(code)


def _received(caller: socket.socket) -> tuple[bytes, list[int]]:
    """What a caller wants, and its streams."""
    streams = array.array("i")
    said, more, _, _ = caller.recvmsg(_LONGEST, socket.CMSG_SPACE(_STREAMS * streams.itemsize))
    for level, kind, data in more:
        if (level, kind) == (socket.SOL_SOCKET, socket.SCM_RIGHTS):
            streams.frombytes(data)
    return said, list(streams)


def _called(call: dict[str, Any], streams: Sequence[int]) -> int:
    """Run the command as a new interpreter would, with its ends in their order; the exit code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(call["folder"])
    os.umask(call["mask"])
    environment, arguments = call["environment"], call["arguments"]
    if _for_python(environment) != _for_python(os.environ):
        os.execve(sys.executable, [*_interpreted(call["program"]), *arguments], environment)
    os.environ.clear()
    os.environ.update(environment)
    sys.stdin, sys.stdout, sys.stderr = (
        io.TextIOWrapper(open(number, mode, closefd=False), "utf-8", errors, line_buffering=errors != "strict")  # noqa: SIM115
        for number, (mode, errors) in enumerate(_STREAMED)
    )
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    # A pool of processes that are spawned looks at what was run: a command that was given by `-c` is no file.
    main, program = types.ModuleType("__main__"), call["program"]
    sys.modules["__main__"] = main
    sys.argv = ["askance" if program is None else "-c", *arguments]
    run = import_module("askance_lab.cli").main
    code = _exit_code(run if program is None else lambda: exec(program, main.__dict__))
    shutdown: Any = threading
    for end in (shutdown._shutdown, atexit._run_exitfuncs, sys.stdout.flush, sys.stderr.flush):
        with contextlib.suppress(BrokenPipeError, ValueError):
            end()
    return code


def _for_python(environment: Mapping[str, str]) -> dict[str, str]:
    """What an interpreter reads when it starts."""
    return {name: value for name, value in environment.items() if name.startswith("PYTHON")}


_STREAMED: Final = (("rb", "strict"), ("wb", "strict"), ("wb", "backslashreplace"))
"""How an interpreter opens its three streams."""


def _exit_code(main: Any) -> int:
    try:
        main()
    except SystemExit as end:
        if end.code is None or isinstance(end.code, int):
            return end.code or 0
        print(end.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        sys.excepthook(KeyboardInterrupt, error, error.__traceback__)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


# ------------------------------------------------------------------------------------------------------ for its callers


@functools.cache
def address() -> str:
    """The program of this worker, started by the first who asks; where it listens."""
    folder = tempfile.mkdtemp(prefix="askance-warm-")
    where = str(Path(folder) / "socket")
    program = subprocess.Popen(
        [sys.executable, "-W", "error", "-m", __name__, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert program.stdin is not None
    assert program.stdout is not None
    assert program.stdout.readline() == b"ready\n"
    atexit.register(_end, program, folder)
    return where


def _end(program: subprocess.Popen[bytes], folder: str) -> None:
    assert program.stdin is not None
    assert program.stdout is not None
    program.stdin.close()
    program.stdout.close()
    program.wait(SECONDS)
    (Path(folder) / "socket").unlink()
    Path(folder).rmdir()


class Warm:
    """A call of the command, in the way of `subprocess.Popen`."""

    def __init__(
        self,
        arguments: Sequence[str],
        program: str | None = None,
        *,
        cwd: Path | str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: int | IO[Any] | None = None,
        stdout: int | IO[Any] | None = None,
        stderr: int | IO[Any] | None = None,
    ) -> None:
        self.args, self.returncode = ["askance", *arguments], None
        self.stdin = self.stdout = self.stderr = None
        given = list[int]()
        mine = list[int]()
        for name, wanted, number in (("stdin", stdin, 0), ("stdout", stdout, 1), ("stderr", stderr, 2)):
            if wanted == subprocess.PIPE:
                read, write = os.pipe()
                theirs, ours = (read, write) if number == 0 else (write, read)
                setattr(self, name, open(ours, "wb" if number == 0 else "rb", buffering=-1))  # noqa: PTH123, SIM115
                mine.append(theirs)
            elif wanted == subprocess.STDOUT:
                theirs = given[1]
            else:
                theirs = number if wanted is None else wanted if isinstance(wanted, int) else wanted.fileno()
            given.append(theirs)
        mask = os.umask(0)
        os.umask(mask)
        call = {
            "program": program,
            "arguments": list(arguments),
            "environment": dict(os.environ if env is None else env),
            "folder": str(cwd or Path.cwd()),
            "mask": mask,
        }
        self._caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self._caller.connect(address())
            socket.send_fds(self._caller, [json.dumps(call).encode()], given)
            self.pid = int(self._caller.recv(64))
        finally:
            for stream in mine:
                os.close(stream)

    def poll(self) -> int | None:
        """The exit code, if it has ended."""
        return self._hear(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, once it has ended."""
        if self._hear(timeout) is None:
            raise subprocess.TimeoutExpired(self.args, timeout or 0)
        assert self.returncode is not None
        return self.returncode

    def _hear(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            self._caller.settimeout(seconds)
            with contextlib.suppress(BlockingIOError, TimeoutError):
                told = self._caller.recv(64)
                assert told, "the program that starts commands is gone"
                self._caller.close()
                self.returncode = int(told)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it, unless it has ended."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL."""
        self.send_signal(signal.SIGKILL)


def start(arguments: Sequence[str], program: str | None = None, **more: Any) -> Any:
    """Start `askance`, or a program instead, with these arguments: like `subprocess.Popen`, with `Warm`'s options."""
    return subprocess.Popen([*_interpreted(program), *arguments], **more) if COLD else Warm(arguments, program, **more)


def run(
    arguments: Sequence[str], program: str | None = None, *, seconds: float = SECONDS, **more: Any
) -> subprocess.CompletedProcess[str]:
    """Run it to its end, with nothing to read, in `cwd` and `env`; its exit code, output and errors."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors, Path(os.devnull).open("rb") as nothing:
        process = start(arguments, program, stdin=nothing, stdout=out, stderr=errors, **more)
        try:
            code = process.wait(seconds)
        finally:
            process.kill()
        for file in (out, errors):
            file.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read().decode(), errors.read().decode())


# ---------------------------------------------------------------------------------------------- for a shell's commands

_STAND_IN: Final = """#!{python} -IS
import json, os, signal, socket, sys
mask = os.umask(0)
os.umask(mask)
call = {{"program": None, "arguments": sys.argv[1:], "environment": dict(os.environ)}}
call |= {{"folder": os.getcwd(), "mask": mask}}
caller = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
caller.connect({address!r})
socket.send_fds(caller, [json.dumps(call).encode()], [0, 1, 2])
child = int(caller.recv(64))
for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
    signal.signal(number, lambda number, _: os.kill(child, number))
# Who reads what the command writes waits for its end, and not for this one's.
nothing = os.open(os.devnull, os.O_RDWR)
for stream in (0, 1, 2):
    os.dup2(nothing, stream)
code = int(caller.recv(64))
os._exit(code if code >= 0 else 128 - code)
"""


@functools.cache
def stand_in() -> Path | None:
    """A folder for the PATH with an `askance` that is started by the program; None where nothing is kept warm."""
    if COLD:
        return None
    folder = Path(tempfile.mkdtemp(prefix="askance-stand-in-"))
    command = folder / "askance"
    command.write_text(_STAND_IN.format(python=sys.executable, address=address()), "utf-8")
    command.chmod(0o755)
    atexit.register(lambda: (command.unlink(), folder.rmdir()))
    return folder


if __name__ == "__main__":
    _serve(sys.argv[1])
