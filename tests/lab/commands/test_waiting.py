"""Who takes part is told what she waits for and what she is too late for, and, when she is stopped, how to go on."""

from __future__ import annotations

import os
import shlex
import subprocess
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from askance_client import Wallet, news, user
from askance_client.simulation import fleet
from askance_client.transport import Polling
from askance_lab.commands.shared import participation
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.rounds import Cohort, StudyEnded
from tests.client.liar import USER, Json, Liar
from tests.harness import warm
from tests.harness.servers import ServerProcess
from tests.lab.commands.calls import COMMAND
from tests.lab.commands.terminals import Typist, on_terminal
from tests.lab.commands.test_ended_studies import COMMANDS, ended, told
from tests.lab.commands.two_faced import ASKS_VALUE, VALUE, keeps, serving_liar
from tests.protocol.studies import FAR

LEARNED = StudyEnded(state="finished", reason="it learned")


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Looks follow each other quickly, and each is told of."""
    monkeypatch.setattr(user, "Polling", lambda _: Polling(0.01))
    monkeypatch.setattr(fleet, "_POLL", 0.01)
    monkeypatch.setattr(fleet, "_TELL_EVERY", 0.0)


def lines_of(stderr: str, *, about: str) -> list[str]:
    return [line for line in stderr.splitlines() if about in line]


# ------------------------------------------------------------------------------------------------------- short rounds


@pytest.mark.usefixtures("hasty")
@COMMANDS
@pytest.mark.parametrize("changes", [True, False], ids=["as it is", "control"])
def test_a_short_round_is_told_once_and_again_when_it_has_changed(
    command: str, changes: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two looks find one report, and six find two. The control compares nothing, and tells at each look."""
    if not changes:
        monkeypatch.setattr(participation.NewsTeller, "__call__", tells_always)
        monkeypatch.setattr(news.StudyNews, "__eq__", lambda *_: False)
    liar, looks = keeps(VALUE, ASKS_VALUE), 0

    def rounds() -> list[dict[str, Any]]:
        nonlocal looks
        looks += 1
        if looks == 8:
            ended(liar, LEARNED)
        [round_] = [entry["notice"]["round"] for entry in liar.entries if entry["notice"]["kind"] == "round"]
        return [{"id": liar.round_id, "state": "open", "received": 1 if looks < 3 else 2, "round": round_}]

    with serving_liar(liar, rounds=rounds) as url:
        run = told(command, url, tmp_path)

    assert run.exit_code == Exit.OK
    found = lines_of(run.stderr, about="of 10 reports")
    assert (len(found) == 2) is changes
    until = news.local_time(FAR, time.time())
    assert found[0].startswith(f"askance: round 1 has 1 of 10 reports, and waits until {until} (")
    assert found[-1].startswith("askance: round 1 has 2 of 10 reports")
    words = f"askance study close {liar.id[:8]} --server {url}"
    who = "its operator may close it" if command == "client" else "to close it now"
    assert all(line.endswith(f" left); {who}: {words}") for line in found)


def tells_always(self: participation.NewsTeller, heard: news.StudyNews) -> None:
    for line in heard.waiting(time.time()):
        participation.say(f"{line}; {self.closing}")


@pytest.mark.slow
def test_the_command_that_closes_a_short_round_works_as_it_was_told(server: ServerProcess, tmp_path: Path) -> None:
    """Three of four made-up users come. The control: the fourth is waited for until then."""
    server.post("/v1/enrolments", token=server.enrolment, json={"simulated": True})
    token = os.path.relpath(server.directory / "enrolment.token", tmp_path)
    arguments = ["fleet", "--server", server.url, "--users", "3", "--enrolment-token", token, "--wait", "0"]
    first = command(arguments, tmp_path)
    assert "3 users are enrolled" in first.stderr
    assert first.returncode == Exit.USAGE
    study = server.study(simulated=True)["id"]

    came = command(arguments, tmp_path)

    assert came.returncode == Exit.OK
    [line] = lines_of(came.stderr, about="3 of 4 reports")
    assert server.get(f"/v1/studies/{study}").json()["state"] == "sealed"
    words = shlex.split(line.partition("to close it now: ")[2])
    assert words[:3] == ["askance", "study", "close"]
    closed = command(words[1:], tmp_path)
    assert closed.returncode == Exit.OK, closed.stderr
    assert server.get(f"/v1/studies/{study}").json()["state"] == "finished"


def command(arguments: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """The command as it is typed in a folder."""
    return warm.run(arguments, cwd=folder)


# --------------------------------------------------------------------------------------------------------- who is late


def closed_before(liar: Liar) -> None:
    liar.publish({"kind": "closed", "round": liar.round_id, "reason": "deadline", "received": 1})
    ended(liar, LEARNED)


def finished_before(liar: Liar) -> None:
    del liar.entries[1:]
    ended(liar, LEARNED)


def opened_before(liar: Liar) -> None:
    del liar.entries[1:]
    liar.ask(ASKS_VALUE, cohort=Cohort(users=USER))
    ended(liar, LEARNED)


def in_time(liar: Liar) -> None:
    """The last of those who were there when it was opened."""
    del liar.entries[1:]
    liar.ask(ASKS_VALUE, cohort=Cohort(users=USER + 1))

    def end_when_heard(_: Json) -> None:
        if liar.heard and liar.entries[-1]["notice"]["kind"] != "ended":
            ended(liar, LEARNED)

    liar.says["bulletin"] = end_when_heard


LATE: dict[str, tuple[Callable[[Liar], None], list[str]]] = {
    "a closed round": (
        closed_before,
        ["the study had finished before you came", "round 1 closed before you answered"],
    ),
    "a study that is over": (finished_before, ["the study had finished before you came"]),
    "an older round": (opened_before, ["round 1 was opened before you enrolled, and does not ask you"]),
    "the control": (in_time, []),
}


@pytest.mark.usefixtures("hasty")
@COMMANDS
@pytest.mark.parametrize("name", LATE)
def test_who_comes_late_is_told_for_what(command: str, name: str, tmp_path: Path) -> None:
    """One who comes when a study is over is not asked whether she agrees to it, either."""
    change, wanted = LATE[name]
    liar = keeps(VALUE, ASKS_VALUE)
    change(liar)
    with serving_liar(liar) as url:
        run = told(command, url, tmp_path)

    assert run.exit_code == Exit.OK
    for line in wanted:
        assert run.stderr.splitlines().count(f"askance: {line}") == 1
    if not wanted:
        assert lines_of(run.stderr, about="before you") == []
    assert len(liar.bodies) == (0 if wanted else 1)
    assert ("price " in run.stderr) is (command == "client" and not wanted)


# ------------------------------------------------------------------------------------------------------ interruptions


def interrupted(arguments: list[object], when: str) -> tuple[int, str]:
    """Run the command on a terminal, and interrupt it when it shows this."""
    run = on_terminal([*COMMAND, *arguments], Typist(interrupt_at=when))
    return run.code, run.shown


@pytest.mark.slow
def test_one_who_is_interrupted_is_told_how_to_go_on_and_sends_nothing_else(tmp_path: Path) -> None:
    """While she waits for a study, at the question whether she agrees, and when her report is with the server."""
    (tmp_path / "me.csv").write_text("value\n0.5\n")
    (tmp_path / "enrolment.token").write_text("enrolment.token")
    (tmp_path / "fields.json").write_bytes(VALUE.to_bytes())
    liar = keeps(VALUE, ASKS_VALUE)
    with serving_liar(liar) as url:
        told = ["client", "--server", url, "--data", tmp_path / "me.csv", "--wallet", tmp_path / "wallet", "--cap", 1]
        told += ["--enrolment-token", tmp_path / "enrolment.token", "--schema", tmp_path / "fields.json"]
        again = "stopped; your wallet is whole, and goes on with what it has drawn: askance client"

        code, shown = interrupted(told, "[y/N]: ")
        assert (code, len(liar.bodies)) == (Exit.INTERRUPTED, 0)
        assert again in shown

        code, shown = interrupted([*told, "--yes"], "you have answered 1 round of the study")
        assert (code, len(liar.bodies)) == (Exit.INTERRUPTED, 1)
        assert "Traceback" not in shown
        words = shlex.split(shown.replace("\r\n", "\n").partition("it has drawn: ")[2].splitlines()[0])
        assert words[-2:] == ["--study", liar.id]

        with closing(Wallet.open(tmp_path / "wallet")) as wallet:
            assert wallet.spending.spent == 1_000_000
        ended(liar, LEARNED)
        run = command(words[1:], tmp_path)
        assert run.returncode == Exit.OK
        assert "answered: ε = 1" in run.stdout
        # The same report is known, so nothing was drawn or sent again.
        assert len(liar.bodies) == 1


@pytest.mark.slow
def test_one_who_waits_for_a_study_says_so_and_stops_when_she_is_told(server: ServerProcess, tmp_path: Path) -> None:
    (tmp_path / "me.csv").write_text("value\n0.5\n")
    (tmp_path / "fields.json").write_bytes(VALUE.to_bytes())
    told = [
        "client",
        "--server",
        server.url,
        "--data",
        tmp_path / "me.csv",
        "--wallet",
        tmp_path / "wallet",
        "--cap",
        1,
    ]
    told += ["--enrolment-token", server.directory / "enrolment.token", "--schema", tmp_path / "fields.json", "--yes"]

    code, shown = interrupted(told, f"waits 600 s at most for a study of {server.url}")

    assert code == Exit.INTERRUPTED
    assert "Traceback" not in shown
    assert "stopped; your wallet is whole" in shown
    with closing(Wallet.open(tmp_path / "wallet")) as wallet:
        assert wallet.identity is not None
