"""A block's reports: the same users, in the same words, whether few of them are asked or all."""

from __future__ import annotations

import numpy as np
import pytest

from askance_client.simulation.blocks import blocks_of, reports_of, source_of
from askance_client.simulation.population import draws, over_schema
from askance_protocol.rounds import Cohort, PreparedRound
from askance_protocol.tally import tally_in_turn, tally_round
from tests.protocol.studies import PARTS, SCHEMA, prepared

PEOPLE = over_schema(SCHEMA, 3)
BLOCK = range(4000, 7000)


def round_of(slots: int, *, first_user: int = 0, users: int = 1_000_000) -> PreparedRound:
    cohort = Cohort(
        first_user=first_user, users=users, slots=1000, first_slot=3 if slots < 997 else 0, slot_count=slots
    )
    return prepared(*PARTS.values(), cohort=cohort)


ROUNDS = {
    "all": round_of(1000),
    "most": round_of(980),
    "half": round_of(500),
    "few": round_of(2),
    "the end of the block": round_of(1000, first_user=6900),
    "up to its middle": round_of(1000, first_user=10, users=5000),
    "nobody": round_of(1000, first_user=7000),
}


@pytest.mark.parametrize("first", [0, 1000])
@pytest.mark.parametrize("round_", ROUNDS.values(), ids=ROUNDS)
def test_a_block_reports_what_its_users_who_are_asked_report(round_: PreparedRound, first: int) -> None:
    cohort = round_.spec.cohort
    inside = range(cohort.first_user, cohort.first_user + cohort.users)
    users = np.array([user for user in BLOCK if user in inside and round_.asks(user)], np.int64)
    columns = PEOPLE.columns(range(BLOCK.start - first, BLOCK.stop - first)).take(users - BLOCK.start)
    sample = round_.respond_all(users, columns, source_of(round_, BLOCK, 1))

    reports = reports_of(round_, BLOCK, PEOPLE, first, 1)
    batch = reports.batch()

    assert batch.users.tolist() == users.tolist()
    assert batch.outcomes.tolist() == sample.outcomes.tolist()
    assert batch.simulated
    counted = [tally.to_rows() for tally in tally_in_turn(round_, reports.in_turn)]
    assert counted == [tally.to_rows() for tally in tally_round(round_, batch.users, batch.outcomes)]


def test_blocks_have_words_of_their_own() -> None:
    one, other = (reports_of(ROUNDS["all"], users, PEOPLE, 0, 1).batch() for users in blocks_of(range(200), 100))

    assert one.outcomes.tolist() != other.outcomes.tolist()
    assert not reports_of(ROUNDS["all"], range(50), PEOPLE, 0, None).batch().simulated


@pytest.mark.parametrize("cells", [2, 7, 300, 5000])
def test_a_word_falls_where_it_fell_whichever_way_it_is_looked_up(cells: int) -> None:
    table = draws.cuts(np.random.default_rng(cells).integers(1, 1 << 40, cells).tolist())
    near = np.concatenate([table, table - np.uint64(1), table + np.uint64(1), [np.uint64(0), np.uint64((1 << 64) - 1)]])
    words = np.concatenate([near, np.random.default_rng(1).integers(0, 1 << 64, 2000, np.uint64)])
    one_by_one = np.searchsorted(table, words, side="right").tolist()

    assert draws.choose(words, table).tolist() == one_by_one
    assert (
        draws.choose(words[: len(words) // 2 * 2].reshape(-1, 2), table).ravel().tolist()
        == one_by_one[: len(words) // 2 * 2]
    )
    assert draws.choose(words[:5], table).tolist() == one_by_one[:5]
