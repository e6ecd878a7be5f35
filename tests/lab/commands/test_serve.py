"""`askance serve`: it announces itself, moves on from a busy port, and ends with the code for how it ended."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from askance_lab.commands.shared.exit_codes import Exit
from tests.harness import certificates
from tests.harness.marks import SECONDS

# The service itself is tested elsewhere: here it is a stand-in that does what the line says.
STAND_IN = """
import os, sys, threading, time, types
from contextlib import asynccontextmanager
from fastapi import FastAPI
from askance_lab import cli

def create_app(settings, *, stop=None, opened=None, take_part=None):
    @asynccontextmanager
    async def lifespan(app):
        {opening}
        yield
        print("closed in good order", file=sys.stderr)
    app = FastAPI(lifespan=lifespan)
    @app.get("/healthz")
    def healthz(): return {{"port": settings.port}}
    return app

sys.modules["askance_server.app"] = types.SimpleNamespace(create_app=create_app, open_resources=lambda settings: None)
cli.main()
"""


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("ASKANCE_")]:
        monkeypatch.delenv(name)
    return tmp_path


@contextmanager
def serving(
    *options: str, opening: str = "pass", stdout: Any = subprocess.PIPE, before: str = "", **environ: str
) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", before + STAND_IN.format(opening=opening), "serve", *options]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=stdout, stderr=pipe, text=True, env={**os.environ, **environ}) as process:
        try:
            yield process
        finally:
            process.kill()


def stopped(process: subprocess.Popen[str], number: signal.Signals = signal.SIGTERM) -> tuple[int, str]:
    process.send_signal(number)
    _, errors = process.communicate(timeout=SECONDS)
    return process.returncode, errors


def test_serve_moves_on_from_a_busy_port_says_so_answers_and_stops_in_good_order(directory: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as busy:
        port = busy.getsockname()[1]
        url = "postgresql://ask:s3cret@db/x"
        with serving("--port", str(port), "--json", ASKANCE_DATABASE=url, ASKANCE_PROT="1") as process:
            assert process.stdout is not None
            announced = json.loads(process.stdout.readline())
            answer = httpx.get(announced["url"] + "/healthz", trust_env=False)
            code, errors = stopped(process)

    assert announced["schema_version"] == 1
    assert announced["asked_port"] == port == answer.json()["port"]
    assert f"http://127.0.0.1:{port}" < announced["url"]
    assert announced["operator_token_file"] == str(directory / "askance-data" / "operator.token")
    assert announced["database"] == "postgresql://ask:…@db/x"
    assert announced["pid"] == process.pid
    assert (code, "closed in good order" in errors) == (Exit.OK, True)
    assert f"port {port} is taken" in errors
    assert "ASKANCE_PROT is no setting" in errors
    assert "s3cret" not in errors
    assert "server" not in answer.headers


def told_by(directory: Path) -> list[str]:
    """What a shell knows that has read the file `env`."""
    names = ("ASKANCE_SERVER", "ASKANCE_OPERATOR_TOKEN_FILE", "ASKANCE_ENROLMENT_TOKEN_FILE", "SERVER_PID")
    # In a child, because what the file sets is for other commands.
    said = ". ./env && " + "; ".join(f"printenv {name} || echo none" for name in names)
    run = subprocess.run(["bash", "-c", said], cwd=directory, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


@pytest.mark.parametrize("limited", [False, True])
def test_a_file_tells_a_shell_where_the_server_is_until_it_ends(directory: Path, limited: bool) -> None:
    env = directory / "env"
    env.write_text("# Written by askance serve, for a shell to read.\nexport ASKANCE_SERVER=earlier\n", "utf-8")
    who = ("--enrolment", "limited") if limited else ()
    with serving("--port", "0", "--json", "--database", "a room's data", "--env", "./env", *who) as process:
        assert process.stdout is not None
        announced = json.loads(process.stdout.readline())
        told = told_by(directory)
        code, _ = stopped(process)

    data = directory / "a room's data"
    tokens = [str(data / "operator.token"), "none" if limited else str(data / "enrolment.token")]
    assert told == [announced["url"], *tokens, str(announced["pid"])]
    assert code == Exit.OK
    assert list(directory.iterdir()) == []


def test_serve_speaks_tls_by_the_name_of_its_certificate_and_says_what_browsers_will(directory: Path) -> None:
    pair = certificates.made(directory, "localhost")
    with serving("--port", "0", "--json", *pair.options) as process:
        assert process.stdout is not None
        url = json.loads(process.stdout.readline())["url"]
        answer = httpx.get(url + "/healthz", trust_env=False, verify=pair.trusting)
        with pytest.raises(httpx.RemoteProtocolError):
            httpx.get(url.replace("https:", "http:") + "/healthz", trust_env=False)
        code, errors = stopped(process)

    assert url.startswith("https://localhost:")
    assert (answer.status_code, code, "Traceback" in errors) == (200, Exit.OK, False)
    # It is local: a browser is to forget it with the evening.
    assert "strict-transport-security" not in answer.headers
    assert "room.pem is signed by nobody but itself: browsers warn of it" in errors
    assert "closed in good order" in errors


@pytest.mark.parametrize("secure", [False, True])
def test_of_an_open_address_it_says_that_tokens_travel_in_the_clear_unless_they_do_not(
    directory: Path, *, secure: bool
) -> None:
    pair = certificates.made(directory, "127.0.0.1")
    with serving("--host", "0.0.0.0", "--port", "0", *(pair.options if secure else ())) as process:
        assert process.stdout is not None
        process.stdout.readline()
        _, errors = stopped(process)

    assert ("tokens travel in the clear: give --certificate and --key" in errors) is not secure


def test_serve_says_in_one_line_where_it_is_and_ctrl_c_ends_it_well(directory: Path) -> None:
    with serving("--port", "0", "--database", "data") as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        code, errors = stopped(process, signal.SIGINT)

    assert line.startswith("Askance serves http://127.0.0.1:")
    assert str(directory / "data") in line
    assert str(directory / "data" / "operator.token") in line
    assert (code, "closed in good order" in errors) == (Exit.OK, True)
    assert "Traceback" not in errors


def test_a_stop_while_the_ledger_is_still_being_read_is_a_good_end_and_announces_nothing(directory: Path) -> None:
    opening = "print('opening', file=sys.stderr, flush=True)\n        while not os.path.exists('go'): time.sleep(0.01)"
    with serving("--port", "0", opening=opening) as process:
        assert process.stderr is not None
        assert any("opening" in line for line in iter(process.stderr.readline, ""))
        process.send_signal(signal.SIGTERM)
        (directory / "go").touch()
        printed, errors = process.communicate(timeout=SECONDS)

    assert (process.returncode, printed) == (Exit.OK, "")
    assert "closed in good order" in errors


def test_a_stop_before_the_start_has_begun_is_a_good_end() -> None:
    before = "import sys, uvicorn\nuvicorn.Server.run = lambda *_: sys.exit(0)\n"
    with serving("--port", "0", before=before) as process:
        assert process.communicate(timeout=SECONDS) == ("", "")

    assert process.returncode == Exit.OK


def test_a_server_whose_standard_output_is_on_a_full_disk_serves_all_the_same() -> None:
    with Path("/dev/full").open("w") as disk, serving("--port", "0", stdout=disk) as process:
        assert process.stderr is not None
        while "serves http" not in (line := process.stderr.readline()):
            assert line, "it has ended"
        url = line.split()[2].rstrip(",")
        answer = httpx.get(url + "/healthz", trust_env=False)
        code, errors = stopped(process)

    assert "No space left on device" in line
    assert (answer.status_code, code, "Traceback" in errors) == (200, Exit.OK, False)


def test_a_start_that_fails_is_an_internal_error_and_announces_nothing() -> None:
    with serving("--port", "0", opening="raise RuntimeError('user.AAAAAAAA.BBBBBBBBBBBB')") as process:
        printed, errors = process.communicate(timeout=SECONDS)

    assert (process.returncode, printed) == (Exit.INTERNAL, "")
    assert "did not start" in errors
    assert "BBBBBBBBBBBB" not in errors


def test_a_server_whose_log_cannot_be_written_ends_with_an_error() -> None:
    with serving("--port", "0", opening="threading.Timer(0.3, stop).start()") as process:
        _, errors = process.communicate(timeout=SECONDS)

    assert process.returncode == Exit.INTERNAL
    assert "closed in good order" in errors
    assert "had to stop" in errors


def test_a_bad_setting_is_a_usage_error_that_names_its_source() -> None:
    with serving(ASKANCE_PORT="x") as process:
        printed, errors = process.communicate(timeout=SECONDS)

    assert (process.returncode, printed) == (Exit.USAGE, "")
    assert errors.startswith("askance: ASKANCE_PORT: ")


# ------------------------------------------------------------------------------------------------------ refused starts

REFUSED: dict[str, tuple[Callable[[Path], tuple[str, ...]], Exit, str]] = {}
"""What is in the way: how it comes there and which options the start has, its exit code, and what is said."""


def refused(code: Exit, says: str) -> Callable[[Callable[[Path], tuple[str, ...]]], Callable[[Path], tuple[str, ...]]]:
    def add(make: Callable[[Path], tuple[str, ...]]) -> Callable[[Path], tuple[str, ...]]:
        REFUSED[make.__name__] = make, code, says
        return make

    return add


@refused(Exit.USAGE, "file: cannot be made: File exists (choose another place")
def a_file_for_a_directory(here: Path) -> tuple[str, ...]:
    (here / "file").write_text("")
    return ("--database", "file")


@refused(Exit.USAGE, "cannot be made: Not a directory (choose another place")
def a_directory_in_a_file(here: Path) -> tuple[str, ...]:
    (here / "file").write_text("")
    return ("--database", "file/data")


@refused(Exit.USAGE, "File name too long (choose another place")
def a_name_of_a_thousand_letters(here: Path) -> tuple[str, ...]:
    return ("--database", "a" * 1000)


@refused(Exit.USAGE, "server.key: does not hold 64 hexadecimal digits (restore it from a backup")
def half_a_key(here: Path) -> tuple[str, ...]:
    made(here, "server.key", "abcdef")
    return ()


@refused(Exit.USAGE, "server.key: others can read it or write it: its mode is 0644 (chmod 600")
def a_key_that_everybody_can_read(here: Path) -> tuple[str, ...]:
    made(here, "server.key", "0" * 64).chmod(0o644)
    return ()


@refused(Exit.USAGE, "operator.token: cannot be read: Is a directory (run as")
def a_directory_for_a_token(here: Path) -> tuple[str, ...]:
    made(here, "server.key", "0" * 64)
    (here / "askance-data" / "operator.token").mkdir()
    return ()


@refused(Exit.INTERNAL, "is not a ledger or is damaged: file is not a database (restore it from a backup)")
def noise_for_a_ledger(here: Path) -> tuple[str, ...]:
    made(here, "ledger.sqlite", "noise" * 1000)
    return ()


@refused(Exit.UNREACHABLE, "cannot be opened: unable to open database file")
def a_directory_for_a_ledger(here: Path) -> tuple[str, ...]:
    (made(here, "x", "").parent / "ledger.sqlite").mkdir()
    return ()


@refused(Exit.INTERNAL, "has schema 999, this program knows")
def a_ledger_of_a_newer_program(here: Path) -> tuple[str, ...]:
    with contextlib.closing(sqlite3.connect(made(here, "x", "").with_name("ledger.sqlite"))) as db:
        db.execute("PRAGMA user_version = 999")
    return ()


@refused(Exit.USAGE, "lock: cannot be used: Is a directory (choose another place")
def a_directory_for_the_lock(here: Path) -> tuple[str, ...]:
    (made(here, "x", "").with_name("lock")).mkdir()
    return ()


@refused(Exit.USAGE, f"is in use by process {os.getpid()} (stop it, or give another directory")
def another_server(here: Path) -> tuple[str, ...]:
    path = made(here, "lock", "")
    descriptor = os.open(path, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.write(descriptor, str(os.getpid()).encode())
    HELD.append(descriptor)
    return ()


@refused(Exit.USAGE, "notes: is another file (name a file that does not exist yet")
def a_file_of_somebody_for_the_env(here: Path) -> tuple[str, ...]:
    (here / "notes").write_text("mine", "utf-8")
    return ("--env", "notes")


@refused(Exit.USAGE, "nowhere/env: cannot be written: No such file or directory (name a file in a directory of yours")
def no_directory_for_the_env(here: Path) -> tuple[str, ...]:
    return ("--env", "nowhere/env")


@refused(Exit.UNREACHABLE, "See that the server runs and takes connections")
def no_database(here: Path) -> tuple[str, ...]:
    return ("--database", "postgresql://ask:s3cret@127.0.0.1:1/nothing")


@refused(Exit.USAGE, "the database URL: cannot be read (write postgresql://user@host:5432/database")
def a_url_that_is_none(here: Path) -> tuple[str, ...]:
    return ("--database", "postgresql://ask:s3cret@127.0.0.1/nothing?nonsense=1")


@refused(Exit.USAGE, "is taken, and so are the next 19 (choose another with --port")
def twenty_busy_ports(here: Path) -> tuple[str, ...]:
    first = 40_000
    while len(HELD_PORTS) < 20:
        with contextlib.suppress(OSError):
            HELD_PORTS.extend(socket.create_server(("127.0.0.1", first + each)) for each in range(len(HELD_PORTS), 20))
            continue
        while HELD_PORTS:
            HELD_PORTS.pop().close()
        first += 100
    return ("--port", str(first))


@refused(Exit.USAGE, "nowhere.invalid: has no address (try 127.0.0.1)")
def a_host_without_an_address(here: Path) -> tuple[str, ...]:
    return ("--host", "nowhere.invalid")


@refused(Exit.USAGE, "cannot be listened on: Cannot assign requested address (choose an address of this machine")
def an_address_of_another_machine(here: Path) -> tuple[str, ...]:
    return ("--host", "192.0.2.1")


@refused(Exit.USAGE, "--certificate: is given without --key (TLS needs both, or neither)")
def a_certificate_without_a_key(here: Path) -> tuple[str, ...]:
    return ("--certificate", "room.pem")


@refused(Exit.USAGE, "room-key.pem: is not the key of ")
def the_key_of_another_certificate(here: Path) -> tuple[str, ...]:
    (here / "askance.toml").write_text(f"key = '{certificates.made(here / 'other').key}'\n")
    return ("--certificate", str(certificates.made(here).certificate))


@refused(Exit.USAGE, "room-key.pem: is locked with a password (open it once: openssl pkey ")
def a_locked_key(here: Path) -> tuple[str, ...]:
    return certificates.made(here, password="secret").options


HELD: list[int] = []
HELD_PORTS: list[socket.socket] = []


def made(here: Path, name: str, text: str) -> Path:
    """A file of the data directory, private."""
    (here / "askance-data").mkdir(mode=0o700, exist_ok=True)
    file = here / "askance-data" / name
    file.write_text(text)
    file.chmod(0o600)
    return file


FORKS = """
import contextlib, json, os, sys
from askance_lab import cli
import askance_lab.commands.serve as serve
for line in sys.stdin:
    here, options, late = json.loads(line)
    if not (child := os.fork()):
        os.chdir(here)
        for name, number in (("printed", 1), ("said", 2)):
            os.dup2(os.open(name, os.O_CREAT | os.O_WRONLY, 0o600), number)
        if late:
            serve.open_resources = lambda settings: None
        sys.argv = ["askance", "serve", *options]
        try:
            cli.main()
        except SystemExit as end:
            os._exit(end.code)
        os._exit(99)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
"""Starts as often as asked, each in a process of its own, and loads what they need once."""


@pytest.fixture(scope="module")
def forks() -> Iterator[subprocess.Popen[str]]:
    environ = {name: value for name, value in os.environ.items() if not name.startswith("ASKANCE_")}
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", FORKS], stdin=pipe, stdout=pipe, text=True, env=environ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(SECONDS) == 0


def start(forks: subprocess.Popen[str], here: Path, *options: str, late: bool = False) -> tuple[int, str, list[str]]:
    """Exit code, what was printed, and the lines of the error."""
    assert forks.stdin is not None
    assert forks.stdout is not None
    print(json.dumps([str(here), options, late]), file=forks.stdin, flush=True)
    code = int(forks.stdout.readline())
    return code, (here / "printed").read_text(), (here / "said").read_text().splitlines()


@pytest.mark.parametrize("what", REFUSED)
def test_a_start_that_is_refused_says_in_one_line_why_and_what_to_do(
    forks: subprocess.Popen[str], what: str, directory: Path
) -> None:
    make, code, says = REFUSED[what]
    try:
        options = make(directory)
        port = () if "--port" in options else ("--port", "0")
        got, printed, lines = start(forks, directory, *port, *options)
    finally:
        while HELD:
            os.close(HELD.pop())
        while HELD_PORTS:
            HELD_PORTS.pop().close()

    assert (got, printed, len(lines)) == (code, "", 1), lines
    assert lines[0].startswith("askance: ")
    assert says in lines[0]
    assert "s3cret" not in lines[0]


def test_the_control_a_ledger_that_is_opened_by_the_application_is_refused_in_many_lines(
    forks: subprocess.Popen[str], directory: Path
) -> None:
    noise_for_a_ledger(directory)
    code, printed, lines = start(forks, directory, "--port", "0", late=True)

    assert (code, printed) == (Exit.INTERNAL, "")
    assert len(lines) > 1
