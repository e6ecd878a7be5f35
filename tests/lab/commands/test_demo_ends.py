"""However `askance demo` ends, no process and no file of it is left, and it says why it ended."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.scratch import ended_in_order, remove_abandoned, scratch_folder
from tests.lab.commands.calls import COMMAND

SECONDS = 500
"""What takes longer is stuck, also where six processes share a machine with much else to do."""


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str] | None = None) -> None:
    end = time.monotonic() + SECONDS
    while not condition():
        assert process is None or process.poll() is None, process.communicate()
        assert time.monotonic() < end
        time.sleep(0.02)


def processes_of(folder: Path) -> dict[int, list[str]]:
    """The processes of this machine whose command names the folder."""
    found = dict[int, list[str]]()
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if any(str(folder) in word for word in words):
            found[int(path.parent.name)] = words
    return found


@contextmanager
def running_demo(scratch: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A demo whose server and client run, and which is at work on its live concept, or waits for its users."""
    few = ["--users", "3000", "--clients", "1", "--concepts", "1", "--port", "0", *options]
    environment = {name: text for name, text in os.environ.items() if not name.startswith("ASKANCE_")}
    process = subprocess.Popen(
        [*COMMAND, "demo", *few],
        env={**environment, "TMPDIR": str(scratch)},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        wait_for(lambda: len(processes_of(scratch)) == 2, process)
        wait_for(lambda: any(scratch.glob("*/client-0/*.wallets")), process)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_leaves_nothing_behind(number: signal.Signals, tmp_path: Path) -> None:
    with running_demo(tmp_path) as process:
        process.send_signal(number)
        process.send_signal(number)
        process.wait(SECONDS)

        assert process.returncode == (Exit.INTERRUPTED if number is signal.SIGINT else 128 + number)
        assert list(tmp_path.iterdir()) == []
        assert processes_of(tmp_path) == {}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("word", "code", "said"),
    [
        ("serve", Exit.UNREACHABLE, "the demo's server: has ended by SIGKILL"),
        ("fleet", Exit.USAGE, "client 1 of 1: has ended by SIGKILL, its users answer no more"),
    ],
)
def test_a_server_or_a_client_that_dies_ends_it_and_is_named(word: str, code: Exit, said: str, tmp_path: Path) -> None:
    with running_demo(tmp_path) as process:
        [victim] = [pid for pid, words in processes_of(tmp_path).items() if word in words]
        os.kill(victim, signal.SIGKILL)
        _, errors = process.communicate(timeout=SECONDS)

        assert (process.returncode, said in errors) == (code, True), errors
        assert "run askance demo again" in errors
        assert "Traceback" not in errors
        assert list(tmp_path.iterdir()) == []
        assert processes_of(tmp_path) == {}


@pytest.mark.slow
def test_where_it_is_killed_its_processes_end_and_the_next_one_removes_its_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with running_demo(tmp_path) as process:
        remove_abandoned("demo")
        assert len(list(tmp_path.iterdir())) == 1, "the control: one in use is not removed"

        process.kill()
        process.wait(SECONDS)
        wait_for(lambda: processes_of(tmp_path) == {})

        assert len(list(tmp_path.iterdir())) == 1

        def removed() -> bool:
            remove_abandoned("demo")
            return not any(tmp_path.iterdir())

        # A process that ends has no command any more, a moment before the kernel takes back its lock.
        wait_for(removed)


@pytest.mark.slow
def test_a_busy_port_is_said(tmp_path: Path) -> None:
    """And the demo is ended there: what follows is told of elsewhere."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with running_demo(tmp_path, "--port", str(port)) as process:
            process.terminate()
            _, errors = process.communicate(timeout=SECONDS)

    assert f"port {port} is taken: the demo's server has port " in errors


# ---------------------------------------------------------------------------------------------------------- the folder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def test_a_folder_is_gone_after_its_block_also_after_an_error(temporary: Path) -> None:
    def fail() -> None:
        with scratch_folder("demo") as folder:
            (folder.path / "file").touch()
            raise ValueError("planted")

    with pytest.raises(ValueError, match="planted"):
        fail()
    assert list(temporary.iterdir()) == []


def test_only_what_nobody_holds_is_removed(temporary: Path) -> None:
    dead, held, foreign, other = (temporary / f"askance-{name}" for name in ("demo-a", "demo-b", "demo-c", "run-d"))
    for folder in (dead, held, foreign, other):
        folder.mkdir()
    for folder in (dead, held, other):
        (folder / "alive").touch()
    (temporary / "askance-demo-link").symlink_to(other)

    with (held / "alive").open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        remove_abandoned("demo")

    assert not dead.exists()
    assert held.exists()
    assert foreign.exists(), "without the file it may be anybody's"
    assert (other / "alive").exists(), "neither of another kind, nor through a link"


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_the_first_signal_is_an_exception_and_the_second_is_not_heard(name: str) -> None:
    program = f"""
import os, signal
from askance_lab.commands.shared.scratch import ended_in_order
try:
    with ended_in_order():
        try:
            os.kill(os.getpid(), signal.{name})
        finally:
            os.kill(os.getpid(), signal.{name})
            print("in order", flush=True)
except (KeyboardInterrupt, SystemExit) as error:
    print(type(error).__name__, error.args)
"""
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=SECONDS, check=False)
    number = signal.Signals[name]
    told = "KeyboardInterrupt ()" if name == "SIGINT" else f"SystemExit ({128 + number},)"
    assert run.stdout.splitlines() == ["in order", told], run.stderr

    # The control: without it the process is ended at once.
    bare = program.replace("with ended_in_order():", "if True:").replace("SIGINT", "SIGTERM")
    run = subprocess.run([sys.executable, "-c", bare], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert "in order" not in run.stdout


def test_what_was_ignored_stays_ignored() -> None:
    """Of nohup, and of jobs in the background."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ended_in_order():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)
