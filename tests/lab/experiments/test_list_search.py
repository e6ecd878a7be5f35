"""The learner that pours users on the likeliest candidates: level odds, whole users, and no look at the concept."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import fisher_exact

from askance_lab.experiments.list_search import ListSearch, poured
from askance_lab.experiments.sample_size import PromiseTrial, measure
from askance_server.strategies.registry import registry


@pytest.mark.parametrize("users", [1, 7, 100, 12_345])
def test_poured_users_are_whole_and_leave_the_odds_level(users: int) -> None:
    odds, cost = np.random.default_rng(users).normal(0, 3, 50), 0.12
    each = poured(odds, users, cost)
    left = odds - cost * each

    assert each.sum() == users
    assert each.min() >= 0
    # Whoever is asked about ends within a user of the lowest of them, and nobody else is above.
    assert left[each > 0].max() - left[each > 0].min() <= 2 * cost
    assert left[each == 0].max(initial=-np.inf) <= left[each > 0].max() + cost


def test_in_one_round_it_is_the_strategy_parity() -> None:
    """PARITY of 4 bits, 600 users, user by user and by counts: the rates do not differ at 10⁻⁶."""
    people = measure(PromiseTrial(registry()["parity"], {"d": 4, "epsilon": "1"}, {}), 600, range(60)).right
    counts = measure(ListSearch(16, 1), 600, range(600)).right
    harder = measure(ListSearch(16, 1), 200, range(600)).right

    def differs(one: int, of: int) -> bool:
        table = np.array([[people.count, people.total - people.count], [one, of - one]])
        return bool(fisher_exact(table).pvalue < 1e-6)

    assert not differs(counts.count, counts.total)
    # The control: a third of the users is told apart.
    assert differs(harder.count, harder.total)


def test_without_a_concept_in_the_answers_it_finds_one_of_l() -> None:
    """At ε near 0 the reports are fair coins: whatever it outputs is right once in L."""
    found = measure(ListSearch(8, 4, epsilon=1e-6), 1_000, range(800)).right

    assert 60 <= found.count <= 140
