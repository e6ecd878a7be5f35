"""`askance ask`: a room answers, each person by a wallet of her own, and what is told is what left their devices.

People are Python's clients here; pages are a client of the same endpoints.
"""

from __future__ import annotations

import asyncio
import json
import ssl
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from typer.testing import CliRunner

from askance_client import Answered, Identity, Refusal, Server, User, Wallet
from askance_lab.commands.ask import app
from askance_lab.commands.shared.room_text import number_line, question_lines
from askance_protocol import Example
from askance_protocol.errors import AskanceError
from askance_protocol.rounds import read_study
from askance_server.core.export import verify_files
from askance_server.strategies.registry import registry
from tests.harness import warm
from tests.harness.certificates import made
from tests.harness.marks import SECONDS
from tests.harness.servers import ServerProcess


@dataclass(frozen=True, slots=True)
class Room:
    """A call of the command that runs, and the files of what it says."""

    process: Any
    out: Path
    err: Path

    def line(self, words: str) -> str:
        """The line that has these words, as soon as it is said."""
        until = time.monotonic() + SECONDS
        while time.monotonic() < until and self.process.poll() is None:
            if found := [line for line in self.err.read_text("utf-8").split("\n")[:-1] if words in line]:
                return found[0]
            time.sleep(0.05)
        raise AssertionError(self.err.read_text("utf-8"))

    def address(self) -> str:
        """Where people take part."""
        return self.line("take part: ").split("take part: ")[1]

    def end(self) -> tuple[int, Any]:
        """Its exit code, and what it has printed."""
        code = self.process.wait(SECONDS)
        printed = self.out.read_text("utf-8")
        assert printed, self.err.read_text("utf-8")
        return code, json.loads(printed)


@contextmanager
def room(folder: Path, *call: str) -> Iterator[Room]:
    command = ["ask", *call, "--json", "--out", "answers"]
    if "--server" not in call:
        command += ["--database", "data", *([] if "--port" in call else ["--port", "0"])]
    out, err = folder / "out", folder / "err"
    with out.open("wb") as told, err.open("wb") as said:
        process = warm.start(command, stdout=told, stderr=said, cwd=folder)
    try:
        yield Room(process, out, err)
    finally:
        process.terminate()
        process.wait(SECONDS)


async def answer(
    address: str, wallet: Path, said: object, token: str | None = None, trust: ssl.SSLContext | None = None
) -> list[Any]:
    """One person opens the address, and answers each of its questions."""
    parts = urlsplit(address)
    inside = parse_qs(parts.fragment)
    results: list[Any] = []
    async with Server(f"{parts.scheme}://{parts.netloc}", trust=trust) as server:
        for study in inside["study"]:
            spec = await server.document(f"/v1/studies/{study}")
            assert not isinstance(spec, Refusal)
            example = read_study(json.dumps(spec["study"])).example  # type: ignore[index]
            purse = Wallet.open(wallet, cap=3_000_000)
            try:
                purse.declare(example)
                user = User(Example.of(example, {example.fields[0].name: said}), purse)
                identity = await user.enrol(server, token or inside["join"][0])
                if not isinstance(identity, Identity):
                    return [*results, identity]
                results += await user.take_part(server, study)
            finally:
                purse.close()
    return results


def all_answer(address: str, folder: Path, said: Sequence[object]) -> list[list[Any]]:
    async def together() -> list[list[Any]]:
        calls = (answer(address, folder / f"{number}.wallet", each) for number, each in enumerate(said))
        return [await each for each in calls]

    return asyncio.run(together())


def exported(folder: Path) -> Any:
    return verify_files({path.name: path.read_bytes() for path in folder.iterdir()}, registry())


def test_a_room_answers_and_is_told_in_steps(tmp_path: Path) -> None:
    """Whoever comes while it is asked takes part; it ends at the number, and keeps what was published."""
    with room(
        tmp_path, "Have you ever copied homework?", "--choices", "yes,no", "--users", "7", "--live", "3"
    ) as asked:
        address = asked.address()
        assert urlsplit(address).path == "/take-part"
        assert urlsplit(address).query == ""
        results = all_answer(address, tmp_path, ["yes", "no", None, "yes", "yes", "no", "no"])
        code, told = asked.end()

    assert [[type(each) for each in mine] for mine in results] == [[Answered]] * 7
    assert code == 0
    [row] = told["questions"]
    assert (row["state"], row["cause"], row["received"]) == ("finished", "learned", 7)
    assert [each["name"] for each in row["estimates"]] == ["share(answer = 'yes')", "share(answer = 'no')"]
    found = exported(tmp_path / "answers")
    assert found.study.live == 3
    assert found.study.title == found.study.parameters["ask"] == "Have you ever copied homework?"
    # What was told while it ran was told of the first three, of six or more.
    assert sum(tally.received for tally in next(iter(found.answered.values()))) == 7
    steps = [line for line in asked.err.read_text("utf-8").splitlines() if "of the first" in line]
    assert not [line for line in steps if "of the first 3," not in line]


def test_an_evening_of_several_questions_is_kept_within_one_cap(tmp_path: Path) -> None:
    (tmp_path / "questions.toml").write_text(
        '[[question]]\nask = "Tea?"\nchoices = ["yes", "no"]\n'
        '[[question]]\nask = "How tired are you?"\nscale = "1-3"\nepsilon = "0.5"\n'
    )
    with room(tmp_path, "--file", "questions.toml", "--users", "1") as asked:
        address = asked.address()
        first, second = parse_qs(urlsplit(address).fragment)["study"]
        results = asyncio.run(answer(address.replace(f"study={second}&", ""), tmp_path / "a.wallet", "yes"))
        results += asyncio.run(answer(address.replace(f"study={first}&", ""), tmp_path / "b.wallet", 2))
        code, told = asked.end()

    assert [type(each) for each in results] == [Answered, Answered]
    assert [each.charged for each in results] == [1_000_000, 500_000]
    # Of the second, one part had nobody: it says so, by its exit code too.
    assert [row["question"] for row in told["questions"]] == ["Tea?", "How tired are you?"]
    assert [row["cause"] for row in told["questions"]] == ["learned", "too-few-reports"]
    assert code == 7
    assert {path.name for path in (tmp_path / "answers").iterdir()} == {first[:8], second[:8]}


def test_a_room_over_tls_is_shown_where_the_certificate_is_right(tmp_path: Path) -> None:
    """The address, and so the code, is https; the command itself believes its own certificate, and no other."""
    pair = made(tmp_path, "localhost")
    with room(tmp_path, "Tea?", "--choices", "yes,no", "--users", "1", *pair.options) as asked:
        address = asked.address()
        wall = asked.line("the wall: ")
        results = asyncio.run(answer(address, tmp_path / "a.wallet", "yes", trust=pair.trusting))
        code, told = asked.end()
        said = asked.err.read_text("utf-8")

    assert address.startswith("https://localhost:")
    assert "https://localhost:" in wall
    assert [type(each) for each in results] == [Answered]
    assert (code, told["questions"][0]["received"]) == (0, 1)
    assert "without TLS" not in said
    assert "is signed by nobody but itself: browsers warn of it" in said


def test_a_sheet_of_codes_lets_in_each_person_once(server: ServerProcess, tmp_path: Path) -> None:
    """On a server that runs. The control: the second with a code is refused, with the reason."""
    token = tmp_path / "operator.token"
    token.write_text(server.operator)
    token.chmod(0o600)
    call = ("Tea?", "--choices", "yes,no", "--codes", "2", "--users", "2", "--server", server.url)
    with room(tmp_path, *call, "--operator-token", str(token)) as asked:
        sheet = tmp_path / "answers-codes.html"
        asked.line("codes to print")
        addresses = [part.split("</p>")[0].replace("&amp;", "&") for part in sheet.read_text().split("<p>")[1:]]
        assert len(addresses) == 2
        assert sheet.stat().st_mode & 0o777 == 0o600
        assert [type(each) for each in asyncio.run(answer(addresses[0], tmp_path / "a.wallet", "yes"))] == [Answered]
        [refused] = asyncio.run(answer(addresses[0], tmp_path / "b.wallet", "no"))
        assert "all have come" in str(refused)
        assert [type(each) for each in asyncio.run(answer(addresses[1], tmp_path / "c.wallet", "no"))] == [Answered]
        code, told = asked.end()

    assert (code, told["questions"][0]["received"]) == (0, 2)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ([], "QUESTION"),
        (["Tea?"], "--choices"),
        (["Tea?", "--choices", "yes,no", "--scale", "1-3"], "exclude each other"),
        (["Tea?", "--choices", "yes"], "--choices"),
        (["Tea?", "--choices", "yes,yes"], "--choices"),
        (["Tea?", "--scale", "3-1"], "1-10"),
        (["x" * 201, "--choices", "yes,no"], "200"),
        (["Tea?", "--choices", "yes,no", "--epsilon", "0"], "--epsilon"),
        (["Tea?", "--choices", "yes,no", "--cap", "0.1"], "--cap"),
        (["Tea?", "--choices", "yes,no", "--until", "soon"], "--until"),
        (["Tea?", "--choices", "yes,no", "--codes", "3", "--users", "4"], "--codes"),
        (["Tea?", "--choices", "yes,no", "--public", "--server", "http://127.0.0.1:9"], "--public"),
        (["Tea?", "--choices", "yes,no", "--file", "questions.toml"], "--file"),
        (["--file", "nowhere.toml"], "nowhere.toml"),
        (["Tea?", "--choices", "yes,no", "--key", "room-key.pem"], "--certificate"),
        (["Tea?", "--choices", "yes,no", "--certificate", "none.pem", "--key", "none.pem"], "none.pem: cannot be read"),
        (["Tea?", "--choices", "yes,no", "--certificate", "a", "--server", "http://127.0.0.1:9"], "--certificate"),
    ],
)
def test_what_cannot_be_asked_is_refused_before_anything_is_started(
    call: list[str], words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(app, call)

    assert isinstance(found.exception, AskanceError)
    assert words in str(found.exception)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "text",
    [
        "x = 1",
        "[[question]]",
        "[[question]\n",
        '[[question]]\nask = "Tea?"',
        '[[question]]\nask = "Tea?"\nchoices = "yes,no"',
        '[[question]]\nask = "Tea?"\nchoices = ["yes", "no"]\nscale = "1-3"',
        '[[question]]\nask = "Tea?"\nchoices = ["yes", "no"]\ncolour = "red"',
        '[[question]]\nask = 7\nchoices = ["yes", "no"]',
        '[[question]]\nask = "Tea?"\nchoices = ["yes", "no"]\nepsilon = 1',
        '[[question]]\nask = "Tea?"\nscale = 3',
    ],
)
def test_a_file_that_asks_nothing_is_refused_with_its_place(text: str, tmp_path: Path) -> None:
    file = tmp_path / "questions.toml"
    file.write_text(text)
    found = CliRunner().invoke(app, ["--file", str(file)])

    assert isinstance(found.exception, AskanceError)
    assert str(file) in str(found.exception)


@pytest.mark.parametrize(
    ("low", "estimate", "high", "line"),
    [
        (0.123, 0.4, 0.711, "share(a): 12 % to 72 %"),
        (0.301, 0.4, 0.499, "share(a): 30 % to 50 %, about 40 %"),
        (0.1, 0.35, 0.6, "share(a): 10 % to 60 %"),
        (0.0, 0.25, 0.499, "share(a): 0 % to 50 %, about 25 %"),
    ],
)
def test_the_interval_comes_first_and_a_number_only_where_it_is_narrow(
    low: float, estimate: float, high: float, line: str
) -> None:
    assert number_line({"name": "share(a)", "low": low, "estimate": estimate, "high": high}, 1.0) == line


def test_a_scale_is_told_in_its_own_numbers() -> None:
    wide = {"name": "mean(answer)", "low": 2.0, "estimate": 5.0, "high": 8.0}
    assert number_line(wide, 9.0) == "mean(answer): 2.00 to 8.00"
    assert number_line({**wide, "low": 4.0, "high": 6.0}, 9.0) == "mean(answer): 4.00 to 6.00, about 5.00"


def test_a_long_name_is_cut() -> None:
    line = number_line({"name": "x" * 500, "low": 0.1, "estimate": 0.2, "high": 0.3}, 1.0)
    assert line.partition(": ")[0] == "x" * 119 + "…"


def looked(state: str, received: int, result: dict[str, Any]) -> list[str]:
    """The lines of a question whose second round is asked of 30."""
    rounds = [{"received": 99, "round": {"target": 99}}, {"received": received, "round": {"target": 30}}]
    rounds = [rounds[0], rounds[0], rounds[1]]
    nothing: dict[str, Any] = {"estimates": [], "live": [], "reason": "as it was"}
    return list(question_lines("Tea?", {"state": state, "rounds": rounds}, {**nothing, **result}, 9.0))


def test_a_question_is_told_as_it_stands() -> None:
    share = {"name": "share(a)", "low": 0.1, "estimate": 0.3, "high": 0.65, "reports": 1020, "level": 0.95}
    mean = {"name": "mean(a)", "low": 4.0, "estimate": 5.0, "high": 6.0, "reports": 1020, "level": 0.95}
    narrow = {**share, "name": "share(b)", "high": 0.5}
    known = [
        "    share(a): 10 % to 65 %",
        "    share(b): 10 % to 50 %, about 30 %",
        "    mean(a): 4.00 to 6.00, about 5.00",
    ]

    assert looked("running", 1, {}) == ["Tea?", "  1 of 30 answers"]
    live = looked("running", 1020, {"live": [share, narrow, mean], "estimates": [mean]})
    assert live == ["Tea?", "  1,020 of 30 answers", "  of the first 1,020, at 95 %:", *known]
    ended = looked("finished", 2000, {"live": [mean], "estimates": [share, narrow, mean]})
    assert ended == ["Tea?", "  2,000 answers", "  of all 1,020, at 95 %:", *known]
    assert looked("failed", 1, {}) == ["Tea?", "  1 answer", "  as it was"]
    assert looked("cancelled", 0, {}) == ["Tea?", "  0 answers", "  as it was"]
