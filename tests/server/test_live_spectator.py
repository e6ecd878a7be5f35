"""A spectator reads every step that is told of a room, and wants one person's answer: what the steps add is which step.

She knows the order in which reports came, and what everybody else would say. Two of her: one knows the others' reports
as well, and takes the last one from the final tally, which is public; the steps change none of her guesses, and her
advantage is that of the report's own ε. The other does not: to her a report is hidden among those of its step.

First exactly, over all reports that there may be, with what is told as a black box; then in 2,000 rooms of the server's
own counts. Controls: steps of one report, and a last step that is told when it is whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import pairwise, product
from typing import Any, Final

import numpy as np
import pytest

from askance_protocol.budget import MICRO
from askance_protocol.channels import BinaryResponse
from askance_protocol.rounds import PreparedRound, RoundState
from askance_protocol.tally import Tally, tally_round
from askance_server.live import LiveTallies
from tests.harness.figures import Figures
from tests.protocol.studies import HEIGHT, part, prepared, study
from tests.server.ledger.ledgers import first_reports, publish
from tests.server.ledger.memory_ledger import MemoryKeeper
from tests.server.test_live import Way, as_it_is, every_report, every_whole_step

KEEPS: Final = int(BinaryResponse(MICRO).table()[1][1]) / 2**64
"""With what probability a report says what its user says."""
OF_A_REPORT: Final = 2 * KEEPS - 1
"""Advantage of whoever reads one report: how much oftener than not a guess of its user's answer is right."""


def says(outcome: int, answer: int) -> float:
    """The probability of a report, where this is the answer."""
    return KEEPS if outcome == answer else 1 - KEEPS


@cache
def sums(noes: int, yeses: int) -> Any:
    """The distribution of the number of ones among reports of so many answers 0, and so many 1."""
    if not noes + yeses:
        return np.ones(1)
    last = int(not noes)
    before = sums(noes - 1, yeses) if noes else sums(noes, yeses - 1)
    return np.convolve(before, [says(0, last), says(1, last)])


def lean(others: Sequence[int]) -> Any:
    """For each number of ones among one report and those of these answers: how much likelier it is if hers is 1."""
    yeses = sum(others)
    noes = len(others) - yeses
    return sums(noes, yeses + 1) - sums(noes + 1, yeses)


def advantage_over(others: Sequence[int]) -> float:
    """Of whoever reads the sum of one report and of those of these answers."""
    return float(np.abs(lean(others)).sum()) / 2


def step_of(place: int, reports: int, step: int) -> range:
    """The reports that are told together with that at this place: whole steps from the first, and what is left."""
    whole = max(reports // step - 1, 0)
    return (
        range(place - place % step, place - place % step + step)
        if place < whole * step
        else range(whole * step, reports)
    )


# --------------------------------------------------------------------------------------------- exactly, from outside


def transcript(round_: PreparedRound, users: Any, outcomes: Any, step: int, telling: Way) -> bytes:
    """All that a spectator reads: before and after each report, and at the end."""
    moments = range(len(users) + 1)
    told: list[Sequence[Tally]] = [telling(round_, users[:came], outcomes[:came], step) for came in moments]
    return b"".join(tally.counts.tobytes() for each in [*told, tally_round(round_, users, outcomes)] for tally in each)


def advantages(round_: PreparedRound, answers: Sequence[int], step: int, telling: Way) -> list[float]:
    """Of each person: the spectator's advantage, over all reports that there may be."""
    users = np.random.default_rng(1).permutation(len(answers)).astype(np.uint64)
    chances = defaultdict[bytes, Any](lambda: np.zeros((len(answers), 2)))
    for reports in product((0, 1), repeat=len(answers)):
        each = np.array([says(report, answer) for report, answer in zip(reports, answers, strict=True)])
        hers = np.array([[says(report, 0), says(report, 1)] for report in reports])
        read = transcript(round_, users, np.array(reports, np.uint32), step, telling)
        chances[read] += each.prod() / each[:, None] * hers
    distances = np.array([np.abs(each[:, 1] - each[:, 0]) for each in chances.values()])
    return (distances.sum(axis=0) / 2).tolist()


ANSWERS: Final = (1, 0, 0, 1, 1, 0, 1, 0, 0, 0, 1)
FEW: Final = 3


@pytest.mark.parametrize("reports", [2, 3, 5, 6, 7, 8, 9, 10, 11])
def test_a_report_is_hidden_among_those_of_its_step_exactly(reports: int) -> None:
    """Whenever the round is closed, whoever it is."""
    round_, answers = prepared(part(), of=study(live=FEW)), ANSWERS[:reports]
    steps = [step_of(place, reports, FEW) for place in range(reports)]
    hidden = [advantage_over([answers[at] for at in step if at != place]) for place, step in enumerate(steps)]

    assert advantages(round_, answers, FEW, as_it_is) == pytest.approx(hidden, abs=1e-12)
    if reports >= FEW:
        # The fewer there are among whom she is hidden, the more is read: no fewer than a step.
        assert max(hidden) <= max(advantage_over(others) for others in product((0, 1), repeat=FEW - 1)) < OF_A_REPORT


def test_so_it_is_where_there_are_two_questions() -> None:
    """Each person is hidden among those who were asked the same."""
    round_ = prepared(part(), part(HEIGHT), of=study(live=2))
    found = advantages(round_, ANSWERS[:9], 2, as_it_is)

    assert max(found) <= advantage_over([0]) + 1e-12
    assert max(found) > advantage_over([0, 1, 0, 1])


@pytest.mark.parametrize(
    ("telling", "step", "reports"), [(as_it_is, 1, 7), (every_whole_step, FEW, 7), (every_report, FEW, 7)]
)
def test_control_another_way_of_telling_gives_somebody_s_report_away(telling: Way, step: int, reports: int) -> None:
    found = advantages(prepared(part(), of=study(live=FEW)), ANSWERS[:reports], step, telling)
    assert max(found) == pytest.approx(OF_A_REPORT, abs=1e-12)


# ----------------------------------------------------------------------------------------------------- in 2,000 rooms

ROOMS: Final = 2_000
STEP: Final = 10
RARE: Final = 5
"""Standard errors by which a share of right guesses is off in none of these rooms, whose seeds are fixed."""

Told = tuple[int, int]
"""Number of reports that are told of, and of ones among them."""


class ToldWhenWhole(LiveTallies):
    """A control: the last step is told when it is whole, and what came since when the round is closed."""

    def of(self, round_id: str) -> Sequence[Tally]:
        """The first k·⌊n/k⌋ reports."""
        round_ = self.ledger.round(round_id)
        step = round_.study.live
        if step is None or self.ledger.state(round_id) is not RoundState.OPEN:
            return ()
        count = step * (self.ledger.received(round_id) // step)
        return tally_round(round_, *first_reports(self.ledger, round_id, count))


class ToldAtOnce(ToldWhenWhole):
    """A control: steps of one report."""

    def of(self, round_id: str) -> Sequence[Tally]:
        """All that there are."""
        if self.ledger.state(round_id) is not RoundState.OPEN:
            return ()
        return tally_round(self.ledger.round(round_id), *first_reports(self.ledger, round_id, 1 << 40))


def room(number: int, teller: type[LiveTallies]) -> tuple[list[Told], list[int], list[int]]:
    """One room: what its spectator reads, all answers and all reports, in their order.

    It is closed when somebody wants to know what the last one has sent: right after a step, or at any moment.
    """
    dice = np.random.default_rng(number)
    came = int(dice.integers(2, 4)) * STEP + (1 if number % 2 else int(dice.integers(STEP)))
    answers = dice.integers(0, 2, came)
    reports = np.where(dice.random(came) < KEEPS, answers, 1 - answers)
    spec = study(live=STEP)
    round_ = prepared(part(), of=spec)
    ledger = MemoryKeeper().ledger
    publish(ledger, spec, round_.spec)
    ledger.enrol(came, MICRO)
    live, seen = teller(ledger), {(0, 0)}
    for user, report in zip(dice.permutation(came).tolist(), reports.tolist(), strict=True):
        ledger.charge(round_.id, np.array([user], np.uint64), np.array([report], np.uint32))
        seen |= {_told(tally) for tally in live.of(round_.id)}
    ledger.close_round(round_.id, "operator")
    return sorted(seen | {_told(tally) for tally in ledger.tallies(round_.id)}), answers.tolist(), reports.tolist()


def _told(tally: Tally) -> Told:
    return tally.received, int(tally.counts[0, 1])


def around(read: Sequence[Told], place: int) -> tuple[range, int]:
    """The reports that were told together with that at this place, and their sum."""
    [found] = [(range(a, b), to - since) for (a, since), (b, to) in pairwise(read) if a <= place < b]
    return found


def guess(read: Sequence[Told], place: int, answers: Sequence[int]) -> int:
    """The likelier answer of one person, where all others' are known."""
    together, ones = around(read, place)
    return int(lean([answers[at] for at in together if at != place])[ones] > 0)


def guess_knowing(read: Sequence[Told], place: int, reports: Sequence[int]) -> int:
    """The same where all others' reports are known."""
    together, ones = around(read, place)
    return ones - sum(reports[at] for at in together if at != place)


def attack(teller: type[LiveTallies], rooms: int) -> dict[str, tuple[int, int]]:
    """How many guesses of each spectator are right, and how many there are; of everybody, or of who came last."""
    found = defaultdict[str, list[bool]](list)
    for number in range(rooms):
        read, answers, reports = room(number, teller)
        ends = [read[0], read[-1]]
        for place, answer in enumerate(answers):
            by_steps, by_end = guess_knowing(read, place, reports), guess_knowing(ends, place, reports)
            found["by steps"].append(guess(read, place, answers) == answer)
            found["knowing all others, by the end"].append(by_end == answer)
            found["knowing all others, and by steps otherwise"].append(by_steps != by_end)
        if number % 2:
            found["the last one, by steps"].append(found["by steps"][-1])
    return {name: (sum(each), len(each)) for name, each in found.items()}


def advantage(right: int, guesses: int) -> float:
    return 2 * right / guesses - 1


def learns_more(right: int, guesses: int) -> bool:
    """Whether guesses are right more often than from the sum of a step, whoever is in it."""
    most = max(advantage_over([0] * noes + [1] * (STEP - 1 - noes)) for noes in range(STEP))
    return advantage(right, guesses) > most + RARE / guesses**0.5


@pytest.mark.slow
def test_spectators_of_two_thousand_rooms_learn_of_a_person_what_her_step_says(figures: Figures) -> None:
    found = attack(LiveTallies, ROOMS)
    right, guesses = found["knowing all others, by the end"]
    figures(
        "spectators of live rounds",
        rooms=ROOMS,
        guesses=guesses,
        right_by_steps=found["by steps"][0],
        right_by_all_other_reports=right,
        of_these_changed_by_steps=found["knowing all others, and by steps otherwise"][0],
    )

    assert not learns_more(*found["by steps"])
    assert not learns_more(*found["the last one, by steps"])
    # Who knows all others' reports knows hers at the end, and with it what its ε says; by the steps nothing else.
    assert advantage(right, guesses) == pytest.approx(OF_A_REPORT, abs=RARE / guesses**0.5)
    assert found["knowing all others, and by steps otherwise"] == (0, guesses)


@pytest.mark.slow
def test_control_spectators_of_another_way_of_telling_learn_more() -> None:
    at_once, when_whole = attack(ToldAtOnce, 200), attack(ToldWhenWhole, 600)

    assert learns_more(*at_once["by steps"])
    assert not learns_more(*when_whole["by steps"])
    assert learns_more(*when_whole["the last one, by steps"])
