"""Strategies whose code changes under a study: what users have answered stays, and the study goes on in the end.

Each change is tried over the embedded ledger and over PostgreSQL, where replicas may have different code.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.examples import Columns
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import Cause, Entry, StudyEnded
from askance_protocol.schema import BitsField, Schema
from askance_server import app
from askance_server.core import study as core
from askance_server.core.replay import ReplayError
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.core.study import Ended, Paused, Strategies, Waiting
from askance_server.driver import Driver
from askance_server.ledger import MemoryLedger
from askance_server.ledger.base import Ledger
from askance_server.ledger.postgres import PostgresLedger
from askance_server.ledger.sqlite import SqliteLedger
from askance_server.strategies.registry import Registry, registry
from tests.harness.servers import Service, is_problem
from tests.server.learners import COIN, bit, strategy_of, study
from tests.server.ledger.ledgers import Keeper

pytest_plugins = ("tests.server.ledger.ledgers",)

NOW = 1_800_000_000
USERS = 3000
COLUMNS = Columns.of(COIN, {"x": np.random.default_rng(2).integers(0, 2, (USERS, 4))})


# ------------------------------------------------------------------------------------------ a strategy, and its changes


def three_rounds(_: Parameters) -> Asking:
    """Ask for three bits, one after the other: the second depends on the answer to the first."""
    [first] = yield [Ask(bit(0), 0.2)]
    [second] = yield [Ask(bit(1 + int(first > 2)), 0.2)]
    [third] = yield [Ask(bit(3), 0.2)]
    return Hypothesis("three shares", {"shares": [first, second, third]})


def other_queries(_: Parameters) -> Asking:
    [first] = yield [Ask(bit(3), 0.2)]
    return Hypothesis("another share", {"shares": [first]})


def more_queries(_: Parameters) -> Asking:
    yield [Ask(bit(0), 0.2), Ask(bit(1), 0.2)]
    return Hypothesis("", {})


def another_second_round(_: Parameters) -> Asking:
    yield [Ask(bit(0), 0.2)]
    yield [Ask(bit(2), 0.2)]
    return Hypothesis("", {})


def ends_early(_: Parameters) -> Asking:
    return Hypothesis("known before", {})
    yield


def raises_at_once(_: Parameters) -> Asking:
    raise RuntimeError("a module is missing")
    yield


def raises_in_the_middle(_: Parameters) -> Asking:
    yield [Ask(bit(0), 0.2)]
    raise RuntimeError("a module is missing")


def refuses(_: Parameters) -> Schema:
    raise ValueError("these parameters are not taken any more")


THEN = strategy_of(three_rounds, rounds=3)
WIDER = Schema(fields=(BitsField(name="x", width=5),))
CHANGES: dict[str, Strategies] = {
    "not installed": {},
    "other queries": {"small": strategy_of(other_queries)},
    "more queries": {"small": strategy_of(more_queries)},
    "another second round": {"small": strategy_of(another_second_round)},
    "ends early": {"small": strategy_of(ends_early)},
    "raises at once": {"small": strategy_of(raises_at_once)},
    "raises in the middle": {"small": strategy_of(raises_in_the_middle)},
    "fewer rounds": {"small": replace(THEN, rounds=1)},
    "not interactive": {"small": replace(THEN, interactive=False)},
    "other examples": {"small": replace(THEN, schema=lambda _: WIDER)},
    "refuses its parameters": {"small": replace(THEN, schema=refuses)},
}
SPEC = study(THEN, epsilon="4", beta="0.01", users="all")
ID = SPEC.digest()


# -------------------------------------------------------------------------------------------- a study, step by step


def answer(ledger: Ledger, id_: str, most: int | None = None) -> int:
    """Let users of a round report who have not; the same ones with the same outcomes in every run."""
    round_ = ledger.round(id_)
    users = np.flatnonzero(round_.asked(range(USERS)))[:most]
    reports = round_.respond_all(users, COLUMNS.take(users), SimulatedRandom(7))
    return int((ledger.charge(id_, users.astype(np.uint64), reports.outcomes) == 0).sum())


def begun(ledger: Ledger, rounds: int) -> None:
    """A study of which so many rounds are answered, and of the next one half is reported."""
    ledger.enrol(USERS, 4 * MICRO)
    driver = Driver(ledger, {"small": THEN})
    driver.publish(SPEC)
    for _ in range(rounds):
        answer(ledger, waiting(driver).round)
    at = waiting(driver)
    assert 0 < answer(ledger, at.round, at.target // 2) < at.target


def waiting(driver: Driver) -> Waiting:
    """The next step of the study, which is that it waits."""
    due = driver.advance(ID, NOW)
    assert isinstance(due, Waiting)
    return due


def to_its_end(driver: Driver) -> Ended:
    """Drive the study: whenever it waits, its users answer."""
    while isinstance(due := driver.advance(ID, NOW), Waiting):
        answer(driver.ledger, due.round)
    assert isinstance(due, Ended)
    return due


@cache
def undisturbed() -> list[Entry]:
    """The bulletin of the same study under the code that it began with."""
    ledger = MemoryLedger()
    begun(ledger, 0)
    to_its_end(Driver(ledger, {"small": THEN}))
    return ledger.entries(ID)


def learned() -> Hypothesis:
    """What the study learns under the code that it began with, from the bulletin."""
    end = undisturbed()[-1].notice
    assert isinstance(end, StudyEnded)
    assert end.hypothesis is not None
    return Hypothesis(end.hypothesis.text, end.hypothesis.value)


def kinds(ledger: Ledger) -> list[str]:
    return [entry.notice.kind for entry in ledger.entries(ID)]


def survives(open_ledger: Callable[[], Ledger], changed: Strategies, rounds: int) -> list[str]:
    """What is lost where a server starts with other code while a round is open, and later with the old code again."""
    lost: list[str] = []
    begun(ledger := open_ledger(), rounds)
    driver = Driver(ledger := open_ledger(), changed)
    before = ledger.entries(ID)
    due = driver.advance(ID, NOW)
    if not isinstance(due, Waiting) or ledger.entries(ID) != before:
        lost.append("the round is not open any more")
    if not driver.paused(ID):
        lost.append("nobody is told")
    # Users report as before; the round closes and is answered, because that is not for a strategy to say.
    if isinstance(due, Waiting) and answer(ledger, due.round) != due.target - due.received:
        lost.append("reports are refused")
    for _ in range(2):
        for _ in range(2):
            due = driver.advance(ID, NOW)
            if not isinstance(due, Paused) or driver.paused(ID) != due.reason:
                lost.append(f"it is not paused: {due}")
        driver = Driver(ledger := open_ledger(), changed)
    if kinds(ledger)[-1] != "answers" or kinds(ledger)[: len(before)] != [entry.notice.kind for entry in before]:
        lost.append(f"an entry was appended: {kinds(ledger)[-1]}")
    # And now the code is back.
    driver = Driver(ledger := open_ledger(), {"small": THEN})
    due = driver.advance(ID, NOW)
    if isinstance(due, Paused) or driver.paused(ID):
        lost.append("it does not go on")
    while isinstance(due := driver.advance(ID, NOW), Waiting):
        answer(ledger, due.round)
    if ledger.entries(ID) != undisturbed():
        lost.append("it came to something else")
    return lost


@pytest.mark.parametrize("change", CHANGES)
def test_a_running_study_is_paused_and_goes_on_when_the_code_is_back(keeper: Keeper, change: str) -> None:
    """To the digest: the same entries as if nothing had happened."""
    assert survives(keeper.reopen, CHANGES[change], rounds=1) == []


BEHIND = {"another second round", "fewer rounds", "raises in the middle"}
"""Changes that show in the second round, and not before."""


@pytest.mark.parametrize("change", [name for name in CHANGES if name not in BEHIND])
def test_so_is_one_whose_first_round_is_open(change: str) -> None:
    ledger = MemoryLedger()

    assert survives(lambda: ledger, CHANGES[change], rounds=0) == []


class NeverRaised(Exception):
    """Stands where an error is not told apart."""


@pytest.mark.parametrize("change", [name for name in CHANGES if name != "not installed"])
def test_control_a_driver_that_takes_a_changed_strategy_for_a_failed_one_destroys_the_study(
    change: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the driver did before: the study ended with `failed` on its bulletin."""
    monkeypatch.setattr(core, "ReplayError", NeverRaised)
    monkeypatch.setattr(Driver, "_second_opinion", lambda _self, _view, end: end)
    ledger = MemoryLedger()

    lost = survives(lambda: ledger, CHANGES[change], rounds=1)

    assert "an entry was appended: ended" in lost
    assert "it came to something else" in lost


def test_an_operator_may_cancel_a_paused_study(keeper: Keeper) -> None:
    begun(keeper.ledger, 1)
    driver = Driver(keeper.ledger, {})
    answer(keeper.ledger, waiting(driver).round)
    assert isinstance(driver.advance(ID, NOW), Paused)
    assert driver.paused_count == 1

    driver.cancel(ID)

    due = driver.advance(ID, NOW)
    assert isinstance(due, Ended)
    assert (due.cause, driver.paused(ID), driver.paused_count) == (Cause.CANCELLED, None, 0)


def test_a_paused_study_still_closes_at_its_deadline(keeper: Keeper) -> None:
    """Of what came: that depends on reports and clock, and not on a strategy."""
    begun(keeper.ledger, 1)
    driver = Driver(keeper.ledger, {})
    at = waiting(driver)
    assert isinstance(driver.advance(ID, at.deadline), Paused)
    assert kinds(keeper.ledger)[-2:] == ["closed", "answers"]

    assert to_its_end(Driver(keeper.ledger, {"small": THEN})).reason.startswith("three shares (fewer reports")


# ------------------------------------------------------------------------------------------- failures, and replicas


def test_a_strategy_that_fails_on_new_answers_ends_its_study() -> None:
    """Where the process that fails has asked the round: the code is the same, and so is its failure."""
    _, driver = opened(strategy_of(raises_in_the_middle))
    end = to_its_end(driver)

    assert (end.state, end.cause) == ("failed", Cause.STRATEGY)
    assert "a module is missing" in end.reason


def test_a_failure_of_the_moment_ends_nothing() -> None:
    """A second run from the beginning counts: here the file is there again."""
    missing = iter([True])

    def fails_once(parameters: Parameters) -> Asking:
        asking = three_rounds(parameters)
        first = yield next(asking)
        if next(missing, False):
            raise OSError("a file cannot be read")
        return (yield from resumed(asking, first))

    _, driver = opened(strategy_of(fails_once))

    assert to_its_end(driver).cause is Cause.LEARNED


def resumed(asking: Asking, answers: Any) -> Asking:
    """The rest of a strategy that has asked once."""
    try:
        while True:
            answers = yield asking.send(answers)
    except StopIteration as stop:
        return stop.value


def test_a_failure_on_what_another_process_asked_pauses_the_study() -> None:
    """It could be that of other code: with the code that asked, the study goes on."""
    ledger, driver = opened(THEN)
    answer(ledger, waiting(driver).round)
    restarted = Driver(ledger, {"small": strategy_of(raises_in_the_middle)})

    due = restarted.advance(ID, NOW)
    assert isinstance(due, Paused)
    assert "a module is missing (another process asked the last round" in due.reason
    assert to_its_end(Driver(ledger, {"small": THEN})).cause is Cause.LEARNED
    assert ledger.entries(ID) == undisturbed()


def opened(strategy: Strategy) -> tuple[MemoryLedger, Driver]:
    """A study in its first round, and the server that has asked it."""
    ledger = MemoryLedger()
    ledger.enrol(USERS, 4 * MICRO)
    driver = Driver(ledger, {"small": strategy})
    driver.publish(SPEC)
    waiting(driver)
    return ledger, driver


@pytest.mark.parametrize("change", CHANGES)
def test_a_replica_with_other_code_stands_by_while_another_runs_the_study(database: str, change: str) -> None:
    """Whatever its code would do. The one that has begun with the study acts first where both could."""
    with closing(PostgresLedger.open(database)) as one, closing(PostgresLedger.open(database)) as other:
        begun(one, 0)
        right, wrong = Driver(one, {"small": THEN}), Driver(other, CHANGES[change])
        while not isinstance(due := right.advance(ID, NOW), Ended):
            assert isinstance(due, Waiting)
            wrong.advance(ID, NOW)
            answer(other, due.round)
        assert one.entries(ID) == undisturbed()
        assert isinstance(wrong.advance(ID, NOW), Ended)
        assert wrong.paused(ID) is None
        assert wrong.result(ID) == right.result(ID) == learned()


FAILS = ("not installed", "other examples", "raises in the middle", "raises at once", "fewer rounds")


@pytest.mark.parametrize("change", FAILS)
def test_a_replica_whose_code_fails_ends_nothing_even_if_it_is_always_first(database: str, change: str) -> None:
    with closing(PostgresLedger.open(database)) as one, closing(PostgresLedger.open(database)) as other:
        begun(one, 0)
        right, wrong = Driver(one, {"small": THEN}), Driver(other, CHANGES[change])
        due = wrong.advance(ID, NOW)
        while not isinstance(due, Ended):
            due = right.advance(ID, NOW)
            if isinstance(due, Waiting):
                answer(other, due.round)
            last = wrong.advance(ID, NOW)
            assert isinstance(last, Ended) == isinstance(due, Ended)

        assert one.entries(ID) == undisturbed()


def test_a_strategy_that_does_not_do_the_same_twice_loses_nothing() -> None:
    """The process that asked goes on. Another one does not, because its run asks something else; cancelling is left."""
    calls = iter(range(99))

    def other_each_time(_: Parameters) -> Asking:
        which = next(calls)
        [first] = yield [Ask(bit(which % 4), 0.2)]
        [second] = yield [Ask(bit((which + 1) % 4), 0.2)]
        return Hypothesis(f"run {which}", {"shares": [first, second]})

    ledger, driver = opened(strategy_of(other_each_time))
    again = Driver(ledger, {"small": strategy_of(other_each_time)})
    again.advance(ID, NOW)
    assert "asks something else in round 1 than was published" in str(again.paused(ID))

    assert to_its_end(driver).reason == "run 0"
    for each in (driver, again, Driver(ledger, {})):
        found = each.result(ID)
        assert found is not None
        assert found.text == "run 0"


# --------------------------------------------------------------------------------------------------- finished studies


def another_hypothesis(parameters: Parameters) -> Asking:
    found = yield from three_rounds(parameters)
    return Hypothesis("something else", found.value)


LATER = {**CHANGES, "another hypothesis": {"small": strategy_of(another_hypothesis, rounds=3)}}


@pytest.mark.parametrize("change", LATER)
def test_what_a_study_has_learned_stays(keeper: Keeper, change: str) -> None:
    begun(keeper.ledger, 0)
    to_its_end(Driver(keeper.ledger, {"small": THEN}))

    assert Driver(keeper.reopen(), LATER[change]).result(ID) == learned()


@pytest.mark.parametrize("change", LATER)
def test_a_result_of_version_0_1_is_computed_by_the_strategy_that_learned_it_and_by_no_other(change: str) -> None:
    """Its last entry has no hypothesis: this is the control, too, of what a change did to every result."""
    ledger = as_of_version_0_1(MemoryLedger())
    assert Driver(ledger, {"small": THEN}).result(ID) == learned()

    with pytest.raises(ReplayError, match="install the version that the study began with"):
        Driver(ledger, LATER[change]).result(ID)


def test_a_result_of_version_0_1_is_computed_once() -> None:
    starts: list[int] = []

    def counted(parameters: Parameters) -> Asking:
        starts.append(1)
        return three_rounds(parameters)

    driver = Driver(as_of_version_0_1(MemoryLedger()), {"small": strategy_of(counted, rounds=3)})

    assert driver.result(ID) == driver.result(ID) == learned()
    assert len(starts) == 1


def as_of_version_0_1(ledger: Ledger) -> Ledger:
    """The whole study, ended as version 0.1 has: its last entry has neither cause nor hypothesis."""
    *whole, end = undisturbed()
    ledger.enrol(USERS, 4 * MICRO)
    for entry in whole:
        after = ledger.append(ID, entry)
        if entry.notice.kind == "round":
            answer(ledger, after.rounds[-1][0])
    assert isinstance(end.notice, StudyEnded)
    ledger.append(ID, ledger.bulletin(ID).next(StudyEnded(state="finished", reason=end.notice.reason)))
    return ledger


# ---------------------------------------------------------------------------------------------------------- over REST


def serving(directory: Path, strategies: Strategies, monkeypatch: pytest.MonkeyPatch) -> Service:
    """A server that finds these strategies when it starts."""
    monkeypatch.setattr(app, "registry", lambda: Registry(strategies, {}))
    return Service(directory, cap=4 * MICRO)


def test_a_paused_study_is_shown_and_takes_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a document that has the members that it had, and one more."""
    with serving(tmp_path / "data", {"small": THEN}, monkeypatch) as api:
        tokens = api.enrol(12)
        made = api.study("small", {"epsilon": "1", "users": "all"})
        id_, round_ = made["id"], made["rounds"][0]["id"]
        assert made["paused"] is None
        assert 200 in (api.report(round_, token).status_code for token in tokens)
        api.post(f"/v1/rounds/{round_}/close", token=api.operator)
    with serving(tmp_path / "data", {}, monkeypatch) as api:
        shown = api.get(f"/v1/studies/{id_}").json()
        assert (shown["state"], shown["length"]) == ("running", 5)
        assert shown["paused"].startswith("the strategy 'small' is not installed here")
        assert api.get("/v1/studies").json() == [shown]
        second = shown["rounds"][1]["id"]
        assert 200 in (api.report(second, token).status_code for token in tokens)
        assert api.get(f"/v1/studies/{id_}/result").json()["hypothesis"] is None
        answered = api.post(f"/v1/rounds/{second}/close", token=api.operator)
        assert answered.json()["state"] == "answered"
        assert api.get(f"/v1/studies/{id_}").json()["paused"] == shown["paused"]
    with serving(tmp_path / "data", {"small": THEN}, monkeypatch) as api:
        shown = api.get(f"/v1/studies/{id_}").json()
        assert shown["paused"] is None
        assert [each["state"] for each in shown["rounds"]] == ["answered", "answered", "open"]
    with serving(tmp_path / "data", {}, monkeypatch) as api:
        assert api.post(f"/v1/studies/{id_}/cancel", token=api.operator).json()["paused"] is None
        is_problem(api.post(f"/v1/studies/{id_}/cancel", token=api.operator), "study-over")


def test_a_result_is_the_bulletins_whatever_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(tmp_path / "data", {"mean": registry()["mean"]}, monkeypatch) as api:
        [token] = api.enrol(1)
        made = api.study("mean", {"epsilon": "1", "users": "all"})
        assert api.report(made["rounds"][0]["id"], token).status_code == 200
        result = api.get(f"/v1/studies/{made['id']}/result").json()
        assert set(result["hypothesis"]) == {"mean", "tolerance", "low", "high", "level", "reports"}
        end = api.get(f"/v1/studies/{made['id']}/bulletin?after=3").json()["entries"][0]["notice"]
        assert json.loads(end["hypothesis"]["data"]) == result["hypothesis"]
        assert (end["hypothesis"]["text"], end["reason"]) == (result["text"], result["reason"])
    with serving(tmp_path / "data", {}, monkeypatch) as api:
        assert api.get(f"/v1/studies/{made['id']}/result").json() == result


def test_a_result_of_version_0_1_that_cannot_be_computed_says_its_reason_and_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An answer, and no error: it says what the bulletin says."""
    with closing(SqliteLedger.open(tmp_path / "data")) as ledger:
        as_of_version_0_1(ledger)
    reason = learned().text
    with serving(tmp_path / "data", {"small": THEN}, monkeypatch) as api:
        result = api.get(f"/v1/studies/{ID}/result").json()
        assert (result["reason"], result["hypothesis"]) == (reason, learned().value)
    for strategies in ({}, CHANGES["other queries"]):
        with serving(tmp_path / "data", strategies, monkeypatch) as api:
            result = api.get(f"/v1/studies/{ID}/result").json()
            assert (result["state"], result["hypothesis"], result["text"]) == ("finished", None, None)
            assert result["reason"].startswith(f"{reason} (the strategy ")
            assert result["reason"].endswith("install the version that the study began with)")
