"""The queue in front of the ledger: what waits together is committed together, and nobody is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from askance_server.group_commit import GroupCommitter, QueueFullError
from askance_server.ledger import LedgerAwayError, LedgerError, Verdict
from askance_server.metrics import Metrics
from tests.harness.marks import SECONDS


class Recorder:
    """In place of a ledger: remembers groups, and answers by the parity of the user."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.groups: list[tuple[str, list[int]]] = []
        self.error = error

    def charge(self, round_: str, users: Any, outcomes: Any) -> Any:
        if self.error is not None:
            raise self.error
        self.groups.append((round_, users.tolist()))
        return np.where(users % 2 == 0, Verdict.ACCEPTED, Verdict.REPEATED).astype(np.uint8)

    def epochs(self, users: Any) -> Any:
        return np.where(users < 1000, 0, 1)

    def received(self, round_: str) -> int:
        return sum(len(users) for name, users in self.groups if name == round_)


def run(recorder: Recorder, work: Callable[[GroupCommitter], Any], limit: int = 1000) -> tuple[Any, list[Any]]:
    seen: list[Any] = []

    async def main() -> Any:
        committer = GroupCommitter(
            recorder,  # type: ignore[arg-type]
            Metrics(),
            limit=limit,
            committed=lambda round_, received: seen.append((round_, received)),
            broken=seen.append,
        )
        return await work(committer)

    return asyncio.run(main()), seen


def test_what_comes_in_one_turn_of_the_loop_is_one_group() -> None:
    recorder = Recorder()

    async def work(committer: GroupCommitter) -> list[Verdict]:
        return await asyncio.gather(*[committer.submit("a", user, 0) for user in range(50)])

    verdicts, seen = run(recorder, work)
    assert recorder.groups == [("a", list(range(50)))]
    assert verdicts == [Verdict.ACCEPTED, Verdict.REPEATED] * 25
    assert seen == [("a", 50)]


def test_reports_to_several_rounds_are_told_apart() -> None:
    recorder = Recorder()

    async def work(committer: GroupCommitter) -> list[Verdict]:
        return await asyncio.gather(*[committer.submit("ab"[user % 2], user, 0) for user in range(6)])

    verdicts, _ = run(recorder, work)
    assert recorder.groups == [("a", [0, 2, 4]), ("b", [1, 3, 5])]
    assert verdicts == [Verdict.ACCEPTED, Verdict.REPEATED] * 3


def test_a_full_queue_refuses_before_anything_is_done() -> None:
    recorder = Recorder()

    async def work(committer: GroupCommitter) -> int:
        waiting = [committer.submit("a", user, 0) for user in range(3)]
        with pytest.raises(QueueFullError):
            committer.submit("a", 3, 0)
        await asyncio.gather(*waiting)
        return committer.depth

    depth, _ = run(recorder, work, limit=3)
    assert recorder.groups == [("a", [0, 1, 2])]
    assert depth == 0


def test_the_report_of_a_client_that_hung_up_is_committed_all_the_same() -> None:
    recorder = Recorder()

    async def work(committer: GroupCommitter) -> Verdict:
        gone, stays = committer.submit("a", 0, 0), committer.submit("a", 2, 0)
        gone.cancel()
        return await stays

    verdict, _ = run(recorder, work)
    assert verdict is Verdict.ACCEPTED
    assert recorder.groups == [("a", [0, 2])]


def test_a_batch_waits_for_the_reports_before_it() -> None:
    recorder = Recorder()

    async def work(committer: GroupCommitter) -> Any:
        single = committer.submit("a", 7, 0)
        verdicts = committer.submit_batch("a", np.array([8], np.uint64), np.array([0], np.uint32))
        return await single, (await verdicts).tolist()

    result, _ = run(recorder, work)
    assert recorder.groups == [("a", [7]), ("a", [8])]
    assert result == (Verdict.REPEATED, [Verdict.ACCEPTED])


def test_a_ledger_that_breaks_is_told_and_acknowledges_nobody() -> None:
    error = LedgerError("the disk is full")

    async def work(committer: GroupCommitter) -> list[Any]:
        futures = [committer.submit("a", user, 0) for user in range(3)]
        return await asyncio.gather(*futures, return_exceptions=True)

    results, seen = run(Recorder(error), work)
    assert results == [error] * 3
    assert seen == [error]


def test_nobody_waits_for_ever_where_the_ledger_fails_as_it_never_should(caplog: pytest.LogCaptureFixture) -> None:
    error = ZeroDivisionError("a mistake of ours")

    async def work(committer: GroupCommitter) -> list[Any]:
        futures = [committer.submit("ab"[user % 2], user, 0) for user in range(3)]
        return await asyncio.wait_for(asyncio.gather(*futures, return_exceptions=True), SECONDS)

    results, seen = run(Recorder(error), work)
    assert results == [error] * 3
    assert seen == []
    assert "should not be" in caplog.text


RAISED = (MemoryError, KeyboardInterrupt, SystemExit, GeneratorExit, asyncio.CancelledError, StopIteration)
"""What can be raised and is no plain mistake: most of these are no `Exception`, and two no future can carry."""


@pytest.mark.parametrize("kind", RAISED)
def test_whatever_is_raised_nobody_waits_for_ever_and_the_next_are_served(kind: type[BaseException]) -> None:
    recorder = Recorder(kind())

    async def work(committer: GroupCommitter) -> tuple[list[Any], Verdict]:
        singles: list[Any] = [committer.submit("ab"[user % 2], user, 0) for user in range(3)]
        batch = committer.submit_batch("a", np.arange(2, dtype=np.uint64), np.zeros(2, np.uint32))
        async with asyncio.timeout(SECONDS):
            told = await asyncio.gather(*[*singles, batch], return_exceptions=True)
            await committer.drain()
            recorder.error = None
            return told, await committer.submit("a", 0, 0)

    (told, after), _ = run(recorder, work)
    assert [isinstance(each, MemoryError | RuntimeError) for each in told] == [True] * 4
    assert after is Verdict.ACCEPTED


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_the_control_a_thread_that_catches_exceptions_only_lets_them_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    """As it was: SystemExit ends the thread, and with it everybody's hope."""
    commit = GroupCommitter._commit

    def catching_less(self: GroupCommitter, round_: str, group: Any) -> Any:
        done = commit(self, round_, group)
        if isinstance(done.error, RuntimeError) and done.error.__cause__ is not None:
            raise done.error.__cause__
        return done

    monkeypatch.setattr(GroupCommitter, "_commit", catching_less)
    monkeypatch.setattr(GroupCommitter, "_stop", lambda *_: None)  # Else they would be told that the server stops.

    async def work(committer: GroupCommitter) -> set[Any]:
        waits = committer.submit("a", 0, 0)
        done, _ = await asyncio.wait([waits], timeout=0.5)
        return done

    assert run(Recorder(SystemExit()), work) == (set(), [])
    # Of what is caught, they are told.
    assert len(run(Recorder(MemoryError()), work)[0]) == 1


def test_an_answer_that_cannot_be_given_does_not_take_the_others_with_it(caplog: pytest.LogCaptureFixture) -> None:
    class Garbled(Recorder):
        def charge(self, round_: str, users: Any, outcomes: Any) -> Any:
            verdicts = super().charge(round_, users, outcomes)
            return verdicts[:-1] if round_ == "a" else verdicts

    async def work(committer: GroupCommitter) -> list[Any]:
        async with asyncio.timeout(SECONDS):
            futures = [committer.submit("ab"[user % 2], user, 0) for user in range(4)]
            return await asyncio.gather(*futures, committer.drain(), return_exceptions=True)

    told, _ = run(Garbled(), work)
    assert [isinstance(each, ValueError) for each in told] == [False, False, True, False, False]
    assert "while a group was answered" in caplog.text


def test_a_database_that_is_away_stops_nobody() -> None:
    error = LedgerAwayError("the server is restarting")
    recorder = Recorder(error)

    async def work(committer: GroupCommitter) -> list[Any]:
        first = await asyncio.gather(committer.submit("a", 0, 0), return_exceptions=True)
        recorder.error = None
        return [*first, await committer.submit("a", 0, 0)]

    # The aggregator is told, which waits for a database that is away.
    assert run(recorder, work) == ([error, Verdict.ACCEPTED], [error, ("a", 1)])
