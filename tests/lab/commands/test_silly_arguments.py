"""Silly arguments of every command: one line that says what is wrong and what to do, the right exit code, no traces."""

from __future__ import annotations

import http.server
import logging
import os
import re
import shlex
import signal
import socket
import subprocess
import threading
import zipfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn, get_args

import pytest
import typer

from askance_client import Wallet
from askance_client.transport.patience import Patience
from askance_lab import cli
from askance_lab.cli import CommandModules
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.errors import UsageError
from askance_server.ledger import LedgerError
from askance_server.logs import configure
from tests.harness.marks import SECONDS
from tests.harness.servers import serving
from tests.lab.commands.calls import COMMAND, at_home
from tests.lab.commands.silly_calls import TABLE, Row
from tests.lab.commands.test_cli import leaves

NEWS = re.compile(r'\{"event"|askance: [0-9,]+ users? (is|are) enrolled')
"""What is said of what goes well before the error."""
COMMANDS = list(CommandModules())


@dataclass(frozen=True)
class Ended:
    """How a call has ended."""

    code: int
    out: str
    err: str
    left: frozenset[str] = frozenset()
    """Files and folders that it has left behind."""


class Other(http.server.BaseHTTPRequestHandler):
    """A web server that is something else."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<h1>It works!</h1>")

    do_POST = do_GET

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - as http.server names it
        """Say nothing."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, dict[str, str]]]:
    """A folder with files of every kind, servers of every kind, and what stands for them in a call."""
    folder = tmp_path_factory.mktemp("silly")
    (folder / "folder").mkdir()
    (folder / "file").write_text("x\n")
    (folder / "me.csv").write_text("value\n0.5\n")
    (folder / "good.csv").write_text("minutes,country\n10,at\n20,de\n30,at\n40,de\n")
    (folder / "good.txt").write_text("minutes\n10\n")
    (folder / "words.csv").write_text("value\none\ntwo\n")
    (folder / "empty.csv").write_bytes(b"")
    (folder / "header.csv").write_text("minutes,country\n")
    (folder / "binary.csv").write_bytes(bytes(range(256)) * 8)
    (folder / "latin.csv").write_bytes("minutes,stra\xdfe\n1,\xe4\n".encode("latin-1"))
    (folder / "ragged.csv").write_text("minutes,country\n1,at,3\n2\n")
    (folder / "huge.csv").write_text("minutes\n" + "9" * 1_000_000 + "\n")
    (folder / "broken.parquet").write_bytes(b"PAR1PAR1")
    (folder / "broken.npy").write_bytes(b"\x93NUMPY\x01\x00v\x00{}")
    (folder / "loop.csv").symlink_to("loop.csv")
    (folder / "good.json").write_text('{"fields": [{"kind": "integer", "name": "minutes", "low": 0, "high": 100}]}')
    (folder / "other.json").write_text('{"fields": [{"kind": "integer", "name": "nothing", "low": 0, "high": 9}]}')
    (folder / "list.json").write_text("[1, 2]")
    (folder / "deep.json").write_text("[" * 100_000)
    (folder / "wrong.toml").write_text("capp = 1\n")
    (folder / "wrong.token").write_text("wrong\n")
    (folder / "damaged").mkdir()
    for name in ("measured.json", "found.json"):
        (folder / "damaged" / name).write_text("{")
    with zipfile.ZipFile(folder / "good.zip", "w") as archive:
        archive.writestr("bulletin.jsonl", "")
    for name in ("my.wallet", "other.wallet"):
        Wallet.open(folder / name, cap=1_000_000).close()
    # Another address of the loopback for each process, so that runs beside each other do not take each other's port.
    own = f"127.{1 + os.getpid() // 65_536 % 200}.{os.getpid() // 256 % 256}.{1 + os.getpid() % 250}"
    with (
        serving(folder / "data") as server,
        http.server.ThreadingHTTPServer(("127.0.0.1", 0), Other) as other,
        socket.socket() as closed,
        socket.socket() as last,
    ):
        threading.Thread(target=other.serve_forever, daemon=True).start()
        # Bound and not listening: nobody else gets it, and nobody is there.
        closed.bind(("127.0.0.1", 0))
        last.bind((own, 65535))
        last.listen()
        [token] = server.enrol(1)
        (folder / "user.token").write_text(token + "\n")
        operator, enrolment = (server.directory / f"{name}.token" for name in ("operator", "enrolment"))
        yield (
            folder,
            {
                "own": own,
                "operated": f"--server {server.url} --operator-token {operator}",
                "tokens": f"--operator-token {operator} --enrolment-token {enrolment}",
                "entering": f"--server {server.url} --enrolment-token {enrolment}",
                "scratch": str(tmp_path_factory.mktemp("scratch") / "fleet"),
                "other_wallet": "other.wallet",
                "mine": f"--data me.csv --cap 1 --yes --study {64 * '0'}",
                "server": server.url,
                "other": f"http://127.0.0.1:{other.server_address[1]}",
                "closed": f"http://127.0.0.1:{closed.getsockname()[1]}",
                "port": str(closed.getsockname()[1]),
                "operator": str(operator),
                "enrolment": str(enrolment),
                "user": "user.token",
                "wallet": "my.wallet",
                "digest": 64 * "0",
                "long": 300 * "9",
            },
        )
        other.shutdown()


def called(
    call: str,
    place: tuple[Path, Mapping[str, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Ended:
    """The call, in its folder, without the pauses between attempts."""
    folder, names = place
    for name in [name for name in os.environ if name.startswith("ASKANCE_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(folder)
    monkeypatch.setattr(Patience, "pause", lambda *_: 0.0)
    monkeypatch.setattr(socket, "getaddrinfo", resolved)
    root = logging.getLogger()
    logs, level = root.handlers[:], root.level
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGALRM)}
    before = there(folder)
    signal.signal(signal.SIGALRM, stuck)
    signal.alarm(SECONDS)
    try:
        code, out, err = at_home(capsys, *shlex.split(call.format_map(names)))
    finally:
        signal.alarm(0)
        for number, handler in handlers.items():
            signal.signal(number, handler)
        # A server that was asked to start has taken over all logs of this process, and silenced some of them.
        configure("debug")
        root.handlers[:] = logs
        root.setLevel(level)
    left = there(folder) - before
    for name in sorted(left, reverse=True):
        path = folder / name
        path.rmdir() if path.is_dir() else path.unlink()
    return Ended(code, out, err, left)


RESOLVE = socket.getaddrinfo


def resolved(host: Any, *arguments: Any, **more: Any) -> Any:
    """Look an address up, but ask nobody for a name that does not exist."""
    if str(host).endswith(".invalid"):
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
    return RESOLVE(host, *arguments, **more)


def stuck(*_: object) -> NoReturn:
    """End a call that goes on, such as a server that has started where it should have refused."""
    raise KeyboardInterrupt


def there(folder: Path) -> frozenset[str]:
    """Everything in the folder but what the server writes."""
    return frozenset(
        str(path.relative_to(folder)) for path in folder.rglob("*") if path.relative_to(folder).parts[0] != "data"
    )


def faults(row: Row, ended: Ended, names: Mapping[str, str]) -> list[str]:
    """What is wrong with the end of a silly call."""
    _, code, words = row
    lines = [line for line in ended.err.splitlines() if line and not NEWS.match(line)]
    said = "\n".join(lines)
    found = [f"ended with {ended.code}, not {int(code)}"] if ended.code != code else []
    found += [f"{len(lines)} lines"] if len(lines) != 1 else []
    found += ["no remedy"] if not re.search(r"[:(] ?.*\(.+\)$", said) else []
    found += ["no name of ours in front"] if not said.startswith("askance: ") else []
    found += [f"not {word!r}" for word in (word.format_map(names) for word in words) if word not in said]
    found += [
        f"{bad.group()!r}" for bad in re.finditer(r"Traceback|fault of this program|parameters\.\w+|\w+=\d+_\d+", said)
    ]
    found += ["something on standard output"] if ended.out else []
    found += [f"left {name}" for name in sorted(ended.left)]
    return found


@pytest.mark.parametrize("command", [*COMMANDS, ""])
def test_silly_arguments_are_answered_in_one_line(
    command: str,
    place: tuple[Path, dict[str, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = [row for row in TABLE if row[0].split()[0] == command or (not command and row[0].split()[0] not in COMMANDS)]
    assert rows
    wrong = list[str]()
    for row in rows:
        ended = called(row[0], place, capsys, monkeypatch)
        if found := faults(row, ended, place[1]):
            wrong.append(f"askance {row[0]}\n    {'; '.join(found)}\n    {ended.err[:400]}{ended.out[:200]}")

    assert not wrong, "\n".join(wrong)


def test_the_table_has_every_command() -> None:
    names = [" ".join(words) for name in COMMANDS for words, _ in leaves(name)]
    calls = [f"{call} " for call, _, _ in TABLE]
    assert [name for name in names if not any(call.startswith(f"{name} ") for call in calls)] == []
    assert len(TABLE) >= 150
    assert len(set(TABLE)) == len(TABLE)


# ---------------------------------------------------------------------------------------------------------- controls


def planted() -> typer.Typer:
    """A group of commands that answer silly arguments badly, and one that answers them well."""
    group = typer.Typer(rich_markup_mode=None)

    @group.command()
    def sound(cap: str = "") -> None:  # pyright: ignore[reportUnusedFunction] - typer calls these
        raise UsageError(f"{cap!r} is too much", where="cap", remedy="give less")

    @group.command()
    def raw() -> None:  # pyright: ignore[reportUnusedFunction]
        raise ValueError("invalid literal")

    @group.command()
    def two() -> None:  # pyright: ignore[reportUnusedFunction]
        typer.echo("askance: something is wrong", err=True)
        raise UsageError("is wrong", where="--cap", remedy="give less")

    @group.command()
    def named() -> None:  # pyright: ignore[reportUnusedFunction]
        raise UsageError("say what it may spend", where="--cap", remedy="cap=1_000_000")

    @group.command()
    def mute() -> None:  # pyright: ignore[reportUnusedFunction]
        raise typer.Exit(2)

    @group.command()
    def loud() -> None:  # pyright: ignore[reportUnusedFunction]
        typer.echo("a result")
        raise UsageError("is wrong", where="--cap", remedy="give less")

    @group.command()
    def untidy() -> None:  # pyright: ignore[reportUnusedFunction]
        Path("left").write_text("")
        raise UsageError("is wrong", where="--cap", remedy="give less")

    @group.command()
    def helpless() -> None:  # pyright: ignore[reportUnusedFunction]
        raise LedgerError("is wrong", where="--cap")

    @group.command()
    def many(users: Annotated[int, typer.Option()]) -> None:  # pyright: ignore[reportUnusedFunction]
        len(range(users))

    return group


@pytest.mark.parametrize(
    ("call", "found"),
    [
        ("sound --cap 3", []),
        ("raw", ["ended with 1, not 2", "not '--cap'", "'fault of this program'"]),
        ("two", ["2 lines"]),
        ("named", ["'cap=1_000'"]),
        ("mute", ["0 lines", "no remedy", "no name of ours in front", "not '--cap'"]),
        ("loud", ["something on standard output"]),
        ("untidy", ["left left"]),
        ("helpless", ["ended with 1, not 2", "no remedy"]),
        ("many --users 1", ["ended with 0, not 2", "0 lines", "no remedy", "no name of ours in front", "not '--cap'"]),
        (f"many --users {10**20}", ["ended with 1, not 2", "not '--cap'", "'fault of this program'"]),
    ],
)
def test_control_a_bad_answer_is_found(
    call: str,
    found: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(cli, "app", planted())
    ended = called(call, (tmp_path, {}), capsys, monkeypatch)

    assert faults((call, Exit.USAGE, ("--cap",)), ended, {}) == found


# -------------------------------------------------------------------------------------------------- as a shell calls it


@pytest.mark.parametrize(
    ("line", "code", "out", "err"),
    [
        ("askance channel describe --kind binary --epsilon ½ >&- <&-", 2, "", "askance: --epsilon: '½' .*\\)\n"),
        ("askance study cancel abcd --operator-token x <&-", 2, "", "askance: (x|cancel): .*\\)\n"),
        ("askance theory 2>&1 | head -0", 0, "", ""),
        ("LC_ALL=C PYTHONIOENCODING=ascii askance plan mean --epsilon ½", 2, "", "askance: --epsilon: .*\\)\n"),
        ("PYTHONIOENCODING=latin-1 askance theory laplace | grep -c u03b5", 0, "[1-9][0-9]*\n", ""),
        ("env -u HOME COLUMNS=20 TERM=dumb askance plan mean --epsilon 0", 2, "", "askance: --epsilon: 0 .*\\)\n"),
        ("askance channel describe --kind binary --epsilon 1 >/dev/full", 2, "", "askance: .* space.*\\)\n"),
    ],
)
def test_streams_and_surroundings_of_every_kind(line: str, code: int, out: str, err: str, tmp_path: Path) -> None:
    shell = line.replace("askance ", shlex.join(COMMAND) + " ")
    run = subprocess.run(["bash", "-c", shell], capture_output=True, cwd=tmp_path, timeout=SECONDS, check=False)

    assert run.returncode == code, run.stderr
    assert re.fullmatch(out, run.stdout.decode())
    assert re.fullmatch(err, run.stderr.decode()), run.stderr.decode()
    assert not list(tmp_path.iterdir())


# -------------------------------------------------------------------------------------------------- numbers of any size

SOUND = """
ask Tea? --choices yes,no
audit --kind kary --epsilon 1
channel compare --cells 4 --epsilon 1
channel describe --kind kary --epsilon 1
channel sample --kind kary --epsilon 1 --input 0 --n 1
client {mine} --server {server}
converse --kind kary --epsilon 1
curator parity
demo
fleet --users 1 {entering} --wallets {scratch}
health --server {server}
landscape
load --users 1 --server {server} {tokens}
oracles
plan masked-parity
refutation
run masked-parity --users 100
schema good.csv
separation
serve
study create masked-parity {operated}
survey --data good.csv --ask mean(minutes,0,100)
users codes 1 {entering}
users invite 1 --out invitations --server {server} --enrolment-token {enrolment}
"""
"""A call of each command that has a number, as somebody may type it before that."""

ANY: Final = frozenset({"--seed", "--low", "--high"})
"""Numbers that may be of any size: the seed of a simulation. Bounds of a column are held by what the column takes."""


def numbers(name: str) -> Iterator[tuple[str, Any]]:
    """Each number of a command, off its own list of parameters, with the call that it is put into."""
    calls = [line for line in SOUND.splitlines() if line]
    for words, command in leaves(name):
        for each in command.params:
            if {int, float} & {each.type_descriptor.annotation, *get_args(each.type_descriptor.annotation)}:
                [call] = [call for call in calls if f"{call} ".startswith(f"{' '.join(words)} ")]
                yield call, each


def silly(parameter: Any) -> list[str]:
    """Values that are no number of this parameter. That no text is a whole number holds for all of them alike."""
    whole = float not in {parameter.type_descriptor.annotation, *get_args(parameter.type_descriptor.annotation)}
    least = [] if parameter.min is None else [str(parameter.min - 1)]
    beyond = [] if parameter.opts[0] in ANY else [str(10**20)]
    return [*least, *beyond, "1e400", *([] if whole else ["nan", "inf", "''"])]


def with_number(call: str, parameter: Any, value: str) -> str:
    """The call with this value, in place of one that it has."""
    words, option = call.split(), parameter.opts[0]
    if not option.startswith("-"):
        return re.sub(r"(?<= )1(?= )", value, call, count=1)
    if option in words:
        at = words.index(option)
        del words[at : at + 2]
    return f"{' '.join(words)} {option} {value}"


@pytest.mark.parametrize("command", COMMANDS)
def test_a_number_of_any_size_is_answered_in_one_line(
    command: str,
    place: tuple[Path, dict[str, str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wrong = list[str]()
    for call, parameter in numbers(command):
        for value in silly(parameter):
            typed = with_number(call, parameter, value)
            ended = called(typed, place, capsys, monkeypatch)
            if found := faults((typed, Exit.USAGE, ()), ended, place[1]):
                wrong.append(f"askance {typed}\n    {'; '.join(found)}\n    {ended.err[:400]}{ended.out[:200]}")

    assert not wrong, "\n".join(wrong)
