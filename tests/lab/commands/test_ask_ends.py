"""However `askance ask` ends, the same call goes on with what is open: nobody is lost, and nobody pays twice."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client import Answered
from askance_lab.commands.shared import room_studies
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.room_questions import question_of
from askance_lab.commands.shared.room_studies import asked_before
from askance_protocol.budget import MICRO
from askance_protocol.rounds import StudySpec
from askance_server.ledger.sqlite import SqliteLedger
from askance_server.ledger.sqlite.opening import lock
from tests.harness.marks import SECONDS
from tests.harness.ports import lasting_port
from tests.lab.commands.test_ask import Room, all_answer, exported, room
from tests.lab.commands.test_demo_ends import wait_for

TEA: Final = ("Tea?", "--choices", "yes,no", "--users", "7", "--live", "2")


def processes_in(folder: Path) -> list[int]:
    """The processes that were started in this folder."""
    found = list[int]()
    for path in Path("/proc").glob("[0-9]*/cwd"):
        with suppress(OSError):
            if path.readlink() == folder:
                found.append(int(path.parent.name))
    return found


def answer(address: str, place: Path, *words: str) -> list[list[Any]]:
    """So many people answer, with the wallets of this place."""
    place.mkdir(exist_ok=True)
    return all_answer(address, place, words)


def said(asked: Room, words: str) -> str:
    """The line of a command that has ended."""
    [line] = [line for line in asked.err.read_text("utf-8").splitlines() if words in line]
    return line


def spent(folder: Path) -> tuple[int, int, list[int]]:
    """How many studies and users the ledger has, and what each user who has answered has spent."""
    with closing(SqliteLedger.open(folder / "data")) as ledger:
        assert ledger.verify() == []
        accounts = [ledger.standing(user).account.spent for user in range(ledger.enrolled())]
        return len(list(ledger.studies())), ledger.enrolled(), [each for each in accounts if each]


def kill(asked: Room) -> None:
    asked.process.send_signal(signal.SIGKILL)
    asked.process.wait(SECONDS)


def take_part(addresses: list[str], folder: Path, people: Iterator[int], number: int) -> None:
    """Some by the first address, some by the last: both let in, and lead to the same server."""
    for turn, who in enumerate(islice(people, number)):
        [results] = answer(addresses[-(turn % 2)], folder / f"person-{who}", "yes")
        assert [type(each) for each in results] == [Answered]


def received_in_the_end(folder: Path, call: Sequence[str]) -> int:
    """Answers of an evening that one person has answered, and that the same call goes on with: six others come."""
    with room(folder, *call) as asked:
        asked.line("1 person has answered")
        answer(asked.address(), folder / "others", *["no"] * 6)
        code, told = asked.end()
    assert code == 0
    received: int = told["questions"][0]["received"]
    return received


@pytest.mark.slow
def test_an_evening_that_is_killed_again_and_again_is_gone_on_with(tmp_path: Path) -> None:
    """Killed before it has said an address, before anybody answers, and between answers; started again at once."""
    call = (*TEA, "--port", str(lasting_port()))
    addresses, people = list[str](), iter(range(7))
    with room(tmp_path, *call) as asked:
        wait_for((tmp_path / "data" / "lock").exists)
        kill(asked)
    for answers in (0, 2, 2):
        with room(tmp_path, *call) as asked:
            addresses.append(asked.address())
            take_part(addresses, tmp_path, people, answers)
            kill(asked)
    with room(tmp_path, *call) as asked:
        addresses.append(asked.address())
        # Who has answered sends what she has sent, whatever she says now.
        for who in range(4):
            answer(addresses[-1], tmp_path / f"person-{who}", "no")
        take_part(addresses, tmp_path, people, 3)
        code, told = asked.end()
    assert len({address.partition("#")[0] for address in addresses}) == 1
    assert said(asked, "goes on with").endswith("4 people have answered, and it ends as was said when it was opened")
    assert code == 0
    [row] = told["questions"]
    assert (row["state"], row["received"]) == ("finished", 7)
    found = exported(tmp_path / "answers")
    assert sum(tally.received for tally in next(iter(found.answered.values()))) == 7
    wait_for(lambda: processes_in(tmp_path) == [])
    assert spent(tmp_path) == (1, 7, [MICRO] * 7)


@pytest.mark.slow
def test_control_another_question_is_asked_anew_and_what_is_open_stays(tmp_path: Path) -> None:
    port = str(lasting_port())
    with room(tmp_path, *TEA, "--port", port) as asked:
        answer(asked.address(), tmp_path / "anna", "yes")
        kill(asked)
    with room(tmp_path, "Coffee?", *TEA[1:], "--port", port) as asked:
        # She has paid with all she had, and is told so.
        [results] = answer(asked.address(), tmp_path / "anna", "yes")
        assert not [each for each in results if isinstance(each, Answered)]
        asked.process.terminate()
        asked.process.wait(SECONDS)
    wait_for(lambda: processes_in(tmp_path) == [])
    assert spent(tmp_path) == (2, 1, [MICRO])


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_ends_it_in_order_and_says_how_to_go_on(number: signal.Signals, tmp_path: Path) -> None:
    call = (*TEA, "--port", str(lasting_port()))
    with room(tmp_path, *call) as asked:
        answer(asked.address(), tmp_path / "anna", "yes")
        asked.process.send_signal(number)
        asked.process.send_signal(number)
        code = asked.process.wait(SECONDS)
        line = said(asked, "stopped")

    assert code == (Exit.INTERRUPTED if number is signal.SIGINT else 128 + number)
    assert line.endswith(
        "nobody is asked any more, and data keeps the answers; the same call goes on with what is open"
    )
    assert "Traceback" not in asked.err.read_text("utf-8")
    assert asked.out.read_text() == ""
    assert processes_in(tmp_path) == []
    assert not (tmp_path / "answers").exists()
    assert spent(tmp_path) == (1, 1, [MICRO])
    assert received_in_the_end(tmp_path, call) == 7


@pytest.mark.slow
def test_a_server_that_is_killed_under_it_is_told_and_the_same_call_goes_on(tmp_path: Path) -> None:
    call = (*TEA, "--port", str(lasting_port()))
    with room(tmp_path, *call) as asked:
        answer(asked.address(), tmp_path / "anna", "yes")
        [server] = [id_ for id_ in processes_in(tmp_path) if id_ != asked.process.pid]
        os.kill(server, signal.SIGKILL)
        assert asked.process.wait(SECONDS) == Exit.UNREACHABLE
        line = said(asked, "has ended by SIGKILL")
    assert line.endswith("(the same call goes on with it)")
    assert received_in_the_end(tmp_path, call) == 7


@pytest.mark.slow
def test_codes_are_made_for_those_who_have_not_come(tmp_path: Path) -> None:
    port = str(lasting_port())
    call = ("Tea?", "--choices", "yes,no", "--codes", "3", "--port", port)
    sheet = tmp_path / "answers-codes.html"
    with room(tmp_path, *call) as asked:
        asked.line("3 codes to print")
        addresses = [part.split("</p>")[0].replace("&amp;", "&") for part in sheet.read_text().split("<p>")[1:]]
        answer(addresses[0], tmp_path / "anna", "yes")
        kill(asked)
    sheet.rename(tmp_path / "printed.html")
    with room(tmp_path, *call) as asked:
        asked.line("2 codes to print")
        # Those that were printed before still let in one each.
        answer(addresses[1], tmp_path / "berta", "no")
        answer(addresses[2], tmp_path / "carla", "no")
        code, told = asked.end()
    assert (code, told["questions"][0]["received"]) == (0, 3)


def study(words: str, state: str, id_: str, choices: str = "yes,no", epsilon: str = "1", **more: Any) -> Any:
    spec = StudySpec(
        title=words,
        nonce="00" * 16,
        example=question_of(words, choices, None, epsilon).example,
        parameters={"ask": words, "epsilon": epsilon},
        interactive=False,
        cap=MICRO,
        **{"strategy": "poll", "simulated": False, **more},
    )
    return {"id": id_, "state": state, "study": json.loads(spec.to_bytes())}


def test_a_question_is_known_again_by_all_that_an_answer_depends_on() -> None:
    tea = question_of("Tea?", "yes,no", None, "1")
    others = [
        study("Coffee?", "running", "a"),
        study("Tea?", "running", "b", choices="yes,no,both"),
        study("Tea?", "running", "c", epsilon="0.5"),
        study("Tea?", "running", "d", simulated=True),
        study("Tea?", "running", "e", strategy="survey"),
    ]
    ended, open_, later = study("Tea?", "finished", "f"), study("Tea?", "running", "g"), study("Tea?", "failed", "h")

    assert asked_before(others, tea) is None
    assert asked_before([*others, ended], tea) == ended
    assert asked_before([ended, open_, *others, later], tea) == open_
    assert asked_before([ended, later], tea) == later


class Clock:
    """A time that goes on while somebody sleeps; after some sleeps something happens."""

    def __init__(self, sleeps: int, happens: Callable[[], None]) -> None:
        self.now, self.left, self.happens = 100.0, sleeps, happens

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert 0 < seconds < 1
        self.now += seconds
        self.left -= 1
        if not self.left:
            self.happens()


def test_a_ledger_that_is_in_use_is_waited_for_and_not_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    room_studies.wait_until_free(tmp_path / "data")
    assert not (tmp_path / "data").exists()

    held = lock(tmp_path)
    clock = Clock(3, lambda: os.close(held))
    monkeypatch.setattr(room_studies, "time", clock)
    room_studies.wait_until_free(tmp_path)
    assert clock.left == 0
    # It is free now, for whoever starts next.
    held = lock(tmp_path)
    clock = Clock(1000, lambda: None)
    monkeypatch.setattr(room_studies, "time", clock)
    room_studies.wait_until_free(tmp_path)
    os.close(held)
    assert clock.now == pytest.approx(105, abs=0.1)
