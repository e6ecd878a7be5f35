"""A tally is what it says: each report counted once, in its part, at its row and outcome."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from askance_protocol import tally
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import PreparedRound
from askance_protocol.tally import Tally, tally_round
from tests.protocol.studies import PARTS, prepared

USERS = 500
ROUNDS = {
    "one part": prepared(PARTS["cell, Hadamard"]),
    "parts of other shapes": prepared(PARTS["cell, kary"], PARTS["cell, Hadamard"], PARTS["real, laplace"]),
}
each_round = pytest.mark.parametrize("round_", ROUNDS.values(), ids=ROUNDS)


def outcomes_of(round_: PreparedRound) -> np.ndarray:
    """Any outcomes that there are: a tally does not ask how they came about."""
    dealt, _ = round_.questions(range(USERS))
    return np.random.default_rng(1).integers(0, np.array(round_.limits)[dealt])


@each_round
@pytest.mark.parametrize("chunk", [1, 7, USERS, USERS + 1])
def test_each_report_is_counted_once_in_its_place(
    round_: PreparedRound, chunk: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tally, "_CHUNK", chunk)
    outcomes = outcomes_of(round_)
    dealt, rows = round_.questions(range(USERS))
    places = zip(dealt.tolist(), rows.tolist(), outcomes.tolist(), strict=True)

    found = tally_round(round_, range(USERS), outcomes)

    assert [each.counts.shape for each in found] == list(zip(round_.rows, round_.limits, strict=True))
    assert Counter(places) == {
        (part, *map(int, place)): each.counts[tuple(place)]
        for part, each in enumerate(found)
        for place in np.argwhere(each.counts)
    }
    assert sum(each.received for each in found) == USERS


@each_round
def test_tallies_of_pieces_add_up_and_pass_through_an_entry(round_: PreparedRound) -> None:
    outcomes = outcomes_of(round_)
    first = tally_round(round_, range(200), outcomes[:200])
    rest = tally_round(round_, range(200, USERS), outcomes[200:])

    for one, other, whole in zip(first, rest, tally_round(round_, range(USERS), outcomes), strict=True):
        assert (one + other).to_rows() == whole.to_rows() == Tally.of(whole.to_rows()).to_rows()


@each_round
@pytest.mark.parametrize("beyond", [-1, 0])
def test_an_outcome_that_there_is_not_is_never_counted_in_anothers_place(round_: PreparedRound, beyond: int) -> None:
    dealt, _ = round_.questions(range(USERS))
    for part, limit in enumerate(round_.limits):
        outcomes = outcomes_of(round_)
        outcomes[np.flatnonzero(dealt == part)[-1]] = beyond if beyond < 0 else limit
        with pytest.raises(ProtocolError, match="is not an outcome of its part"):
            tally_round(round_, range(USERS), outcomes)


def test_each_user_has_one_outcome() -> None:
    with pytest.raises(ProtocolError, match="has 2 entries, users has 3"):
        tally_round(ROUNDS["one part"], range(3), np.zeros(2, np.int64))
