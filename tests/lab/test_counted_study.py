"""Tallies that are drawn have the joint law of those of users who are made one by one."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import pytest
from scipy.stats import chi2

from askance_client.simulation.blocks import reports_of
from askance_client.simulation.population import synthetic
from askance_lab.counted_study import count_study, slot_sizes, tallies_of
from askance_lab.evaluation.classes import law_of
from askance_lab.oracles.local import LocalReports, learned_by, study_for
from askance_lab.oracles.shared.oracle import run
from askance_lab.run_study import run_study
from askance_protocol.arrays import Integers
from askance_protocol.channels import BinarySpec, GeometricSpec, HashSpec, KarySpec
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import UsageError
from askance_protocol.queries import CellQuery, RealQuery
from askance_protocol.queries.language import Bit, FieldValue
from askance_protocol.rounds import Cause, Cohort, Part, PreparedRound, RoundClosed, RoundSpec, StudySpec, prepare_round
from askance_protocol.tally import tally_round
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.planning import SLOTS
from askance_server.core.replay import ReplayError
from askance_server.strategies import masked_parity
from askance_server.strategies.masked_parity_pooled import searched
from askance_server.strategies.registry import registry
from tests.server.learners import study

FALSE_ALARM: Final = 1e-6 / 20
"""For each of some twenty comparisons."""
USERS: Final = 3000
TIMES: Final = 50
MICRO: Final = 1_000_000
R: Final = "01101001"
CELL: Final = FieldValue(field="cell")
VALUE: Final = RealQuery(numerator=FieldValue(field="value"), denominator=10)
PLAN: Final = FieldValue(field="plan", gap=3)
SIGNED: Final = CellQuery(cells=3, cell=PLAN, negative=Bit(field="dark", index=0))


def part(query: Any, spec: Any = BinarySpec, share: int = 1, micro_epsilon: int = 2 * MICRO, **more: Any) -> Part:
    return Part(query=query, channel=spec(micro_epsilon=micro_epsilon, **more), charge=micro_epsilon, share=share)


MASKED: Final = (
    part(masked_parity.first(5), share=7),
    part(masked_parity.second(R), share=3),
    part(masked_parity.second("1" + R[1:])),
    part(searched(8, int(R[::-1], 2)), share=5),
)
"""The bits of r, the right parity, another, and cells under 64 public rows; shares that the coin deals unevenly."""
HISTOGRAM: Final = (
    part(CellQuery(cells=12, cell=CELL), KarySpec, 2),
    part(CellQuery(cells=12, cell=CELL), HashSpec, 3, bits=2),
    part(CellQuery(cells=9, cell=CELL)),
)
"""Without rows, with rows from one on, and with cells that some are in none of."""
CASES: Final[dict[str, tuple[str, dict[str, Any], tuple[Part, ...]]]] = {
    "masked parity": ("masked-parity", {"d": 8, "r": R, "a": 1}, MASKED),
    "noisy labels": ("masked-parity", {"d": 8, "r": R, "a": 1, "eta": "0.2", "bias": "0.75"}, MASKED[1:]),
    "histogram": ("histogram", {"cells": 12, "zipf": "1"}, HISTOGRAM),
    "mean": ("mean", {"denominator": 10, "mean": "0.2"}, (part(VALUE), part(VALUE, GeometricSpec))),
    "telemetry": ("telemetry", {}, (part(SIGNED, HashSpec, bits=2),)),
}


def round_of(kind: str, parameters: dict[str, Any], parts: tuple[Part, ...], number: int) -> PreparedRound:
    """A round of everybody, with coins of its own."""
    spec = StudySpec(
        title="A study",
        nonce=f"{number:032x}",
        example=synthetic(kind, parameters, 0).schema,
        strategy="any",
        interactive=False,
        simulated=True,
        cap=2 * MICRO,
    )
    cohort = Cohort(users=USERS)
    return prepare_round(
        spec, RoundSpec(study=spec.digest(), number=1, parts=parts, cohort=cohort, target=USERS, deadline=0)
    )


@cache
def one_by_one(case: str) -> Integers:
    """All counts of a round, of some populations, coins and noises."""
    kind, parameters, parts = CASES[case]
    found = list[Integers]()
    for number in range(TIMES):
        round_, population = round_of(kind, parameters, parts, number), synthetic(kind, parameters, number)
        reports = reports_of(round_, range(USERS), population, 0, number).batch()
        tallies = tally_round(round_, reports.users, reports.outcomes)
        found.append(np.concatenate([each.counts.ravel() for each in tallies]))
    return np.array(found)


def by_counts(kind: str, parameters: dict[str, Any], parts: tuple[Part, ...]) -> Integers:
    """The same, drawn."""
    round_, population = round_of(kind, parameters, parts, 0), synthetic(kind, parameters, 0)
    source, found = np.random.default_rng(3), list[Integers]()
    # The law of a question is the same each time.
    with patch("askance_lab.counted_study.law_of", cache(law_of)):
        for _ in range(TIMES):
            tallies = tallies_of(round_, USERS, population, source)
            found.append(np.concatenate([each.counts.ravel() for each in tallies]))
    return np.array(found)


def strange(one: Integers, other: Integers) -> float:
    """How likely two samples of counts are as different: in what they add up to, or in how much they vary."""
    sums = np.array([one.sum(0), other.sum(0)])
    sums = sums[:, sums.sum(0) > 0]
    # Two rows of independent reports: as many degrees of freedom as there are places, but one.
    totals = float(((sums[0] - sums[1]) ** 2 / sums.sum(0)).sum())
    # How far the counts of a round are from their mean; of a multinomial nearly as often as of Pearson's statistic.
    both = np.concatenate([one, other])
    expected = both.mean(0)
    distances = [((each - expected)[:, expected > 0] ** 2 / expected[expected > 0]).sum(1) for each in (one, other)]
    spread = (distances[0].mean() - distances[1].mean()) / np.sqrt(sum(each.var() for each in distances) / len(one))
    return min(float(chi2.sf(totals, sums.shape[1] - 1)), float(chi2.sf(spread**2, 1)))


@pytest.mark.parametrize("case", CASES)
def test_both_ways_agree_in_distribution(case: str) -> None:
    """Sizes of parts, public rows and outcomes, together, and how much they vary from round to round."""
    assert strange(one_by_one(case), by_counts(*CASES[case])) > FALSE_ALARM


@pytest.mark.parametrize(
    ("planted", "parts"),
    [
        ({"a": 0}, MASKED),
        ({"r": "1" + R[1:]}, MASKED),
        ({"eta": "0.15"}, MASKED),
        ({}, (*MASKED[:1], part(masked_parity.second(R), share=4), *MASKED[2:])),
        ({}, tuple(each.model_copy(update={"channel": BinarySpec(micro_epsilon=1_700_000)}) for each in MASKED)),
    ],
)
def test_a_wrong_law_is_found(planted: dict[str, Any], parts: tuple[Part, ...]) -> None:
    """The controls: the mask bit, a bit of r, noise on labels, a share and an ε that are not those of the users."""
    kind, parameters, _ = CASES["masked parity"]

    assert strange(one_by_one("masked parity"), by_counts(kind, {**parameters, **planted}, parts)) < 1e-6


def test_too_even_and_too_uneven_counts_are_found() -> None:
    """The control of the spread: the right means, but every third round's users are the same, or are split evenly."""
    users = one_by_one("mean")
    counts = by_counts(*CASES["mean"])
    middle = counts.mean(0)

    for factor in (0.7, 1.4):
        assert strange(users, np.rint(middle + factor * (counts - middle)).astype(np.int64)) < 1e-6


@pytest.mark.parametrize("users", [0, 1, 300_000, 1 << 21, 10**12])
def test_slots_are_as_even_as_coins_put_users_into_them(users: int) -> None:
    slots = slot_sizes(users, np.random.default_rng(1))

    assert slots.sum() == users
    expected = users / SLOTS
    if expected > 4:
        assert 1e-6 < chi2.sf(((slots - expected) ** 2 / expected).sum(), SLOTS - 1) < 1 - 1e-6


@pytest.mark.parametrize("name", ["masked-parity", "masked-parity-pooled", "masked-parity-until-sure"])
def test_many_rounds_of_a_million_million_users(name: str) -> None:
    """At d = 64; a group that is asked is in no other, and nobody is asked twice."""
    strategy, population = registry()[name], synthetic("masked-parity", {"d": 64}, 1)

    view = count_study(study(strategy, d=64, users="all"), strategy, population, 10**12, 1)

    assert view.end.cause is Cause.LEARNED
    assert learned_by(view).value == population.truth
    received = [sum(tally.received for tally in tallies) for tallies in view.counted.values()]
    assert received == [round_.spec.target for round_ in view.rounds.values()]
    assert 0 < sum(received) <= 10**12
    cohorts = [round_.spec.cohort for round_ in view.rounds.values()]
    assert all(one.first_slot + one.slot_count == next_.first_slot for one, next_ in pairwise(cohorts))


def test_the_plan_and_what_is_published_are_those_of_users_one_by_one() -> None:
    """But for how many there are in a run of slots."""
    strategy, population = registry()["masked-parity"], synthetic("masked-parity", {"d": 4}, 1)
    spec = study(strategy, d=4, users="all")
    views: list[StudyInMemory] = [
        run_study(spec, strategy, population, 40_000, 1),
        count_study(spec, strategy, population, 40_000, 1),
    ]

    one, other = ([round_.spec.parts for round_ in view.rounds.values()] for view in views)
    assert one == other
    assert [entry.notice.kind for entry in views[0].entries] == [entry.notice.kind for entry in views[1].entries]
    sizes = np.array([[view.received(id_) for id_ in view.rounds] for view in views])
    assert np.abs(np.diff(sizes, axis=0)).max() < 6 * 40_000**0.5


def test_a_round_closes_with_the_last_report_that_it_needs() -> None:
    strategy, population = registry()["mean"], synthetic("mean", {}, 1)
    for users in ("needed", 7000):
        view = count_study(study(strategy, users=users), strategy, population, 10**6, 1)
        [round_] = view.rounds.values()
        assert view.received(round_.id) == round_.spec.target < 10**5


def test_a_seed_gives_the_same_tallies_again_and_none_others() -> None:
    strategy, population = registry()["mean"], synthetic("mean", {}, 1)
    spec = study(strategy, users="all")
    one, again, *others = (
        count_study(spec, strategy, population, 10**9, seed).entries[3] for seed in (1, 1, 2, None, None)
    )

    assert one == again
    assert len({str(each) for each in (one, *others)}) == 4


@pytest.mark.parametrize("users", [1000, 250_001])
@pytest.mark.parametrize("ran", [count_study, run_study])
def test_who_has_answered_is_not_asked_again_where_more_reports_were_wanted(
    ran: Callable[..., StudyInMemory], users: int
) -> None:
    """As on a server, whose round closes at its deadline."""
    mean = registry()["mean"]
    view = ran(study(mean, users=10**6), mean, synthetic("mean", {}, 1), users, 1)
    [closed] = [entry.notice for entry in view.entries if isinstance(entry.notice, RoundClosed)]

    assert (closed.reason, closed.received) == ("deadline", users)
    assert view.end.cause is Cause.LEARNED


def test_what_cannot_be_counted_is_refused() -> None:
    mean, people = registry()["mean"], synthetic("mean", {}, 1)
    with pytest.raises(UsageError, match="more than there are numbers for"):
        count_study(study(mean, users="all"), mean, people, MAX_USER + 1, 1)
    with pytest.raises(ReplayError):
        count_study(study(mean, users="all"), registry()["histogram"], people, 1000, 1)
    kmeans, clouds = registry()["kmeans"], synthetic("clusters", {}, 1)
    with pytest.raises(UsageError, match="knows no law"):
        run(kmeans, {}, LocalReports(study_for(kmeans, {}, 1), kmeans, clouds, 10**6, 1, counts=True))
    cells = registry()["histogram"]
    wide = synthetic("histogram", {"cells": 65_536}, 1)
    with pytest.raises(UsageError, match="65,536 answers under 65,535 public rows"):
        count_study(study(cells, cells=65_536, users="all"), cells, wide, 10**6, 1)
