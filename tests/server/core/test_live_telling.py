"""How far a live round is told: the same in whatever groups its reports come, and what was told can be told again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pytest

from askance_protocol.rounds import Part
from askance_protocol.tally import Tally
from askance_server.core.live import Arrivals, Telling
from tests.protocol.studies import HEIGHT, WHICH, part, prepared, study

STEP: Final = 10
LIVE: Final = study(live=STEP)


def arrivals(reports: int) -> Arrivals:
    dice = np.random.default_rng(reports)
    return Arrivals(dice.permutation(reports).astype(np.uint64), dice.integers(0, 2, reports).astype(np.uint32))


def counts(tallies: Sequence[Tally]) -> list[list[list[int]]]:
    return [tally.counts.tolist() for tally in tallies]


@pytest.mark.parametrize("shape", [(part(),), (part(), part(HEIGHT, share=2)), (part(WHICH),)])
def test_groups_make_no_difference_and_what_waits_is_what_is_not_told(shape: tuple[Part, ...]) -> None:
    round_, all_ = prepared(*shape, of=LIVE), arrivals(500)
    at_once = Telling.of(round_, STEP).heard(all_)
    in_groups, begin = Telling.of(round_, STEP), 0
    for size in [1, 2, 7, 90, 3, 97, 100, 10, 190]:
        in_groups = in_groups.heard(all_[begin : (begin := begin + size)])
        assert in_groups.told + len(in_groups.waiting) == in_groups.received == begin

    assert begin == len(all_)
    assert in_groups.told
    assert counts(in_groups.tallies) == counts(at_once.tallies)
    assert in_groups.waiting.users.tolist() == at_once.waiting.users.tolist()
    assert len(in_groups.without_waiting().waiting) == 0
    assert in_groups.without_waiting().told == in_groups.told


def test_what_was_told_of_one_row_is_told_again_as_it_was_told() -> None:
    round_, all_ = prepared(part(), of=LIVE), arrivals(12_000)
    telling, before = Telling.of(round_, STEP), dict[int, list[list[list[int]]]]()
    for begin in range(0, len(all_), 500):
        telling = telling.heard(all_[begin : begin + 500])
        before[telling.told] = counts(telling.tallies)

    assert telling.looks_back
    kept = [reports for reports in before if reports <= 10_000]
    assert kept[-1] > 9_000
    assert all(counts(telling.after(reports)) == before[reports] for reports in kept)
    # Of more nobody is told what was told before.
    assert len(telling.first) == 10_000


def test_of_several_rows_nothing_earlier_is_kept() -> None:
    """The first reports of a round with several are not those that were told first."""
    for shape in ((part(), part(HEIGHT)), (part(WHICH),)):
        telling = Telling.of(prepared(*shape, of=LIVE), STEP).heard(arrivals(500))
        assert telling.told
        assert not telling.looks_back
        assert len(telling.first) == 0
