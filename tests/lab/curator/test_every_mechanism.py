"""What every mechanism of the registry really spends, by running its own code down every branch of its draws.

The `run` that `askance curator` calls, on all neighbours of small databases, against the price that the same record
declares. So a wrong sensitivity, ε that is handed on twice, a round that reads what another has read are found wherever
they are written, and a mechanism without a case here fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from itertools import combinations_with_replacement, product
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from askance_lab.curator import (
    choosing,
    compression,
    exponential,
    generic,
    generic_interval,
    geometric,
    insist,
    interval,
    parity,
    point_sanitizer,
    registry,
    retry,
    sanitizer_learner,
    train_test,
)
from askance_lab.curator.databases import BitSample, LabelledSample
from askance_lab.curator.distributions import hockey_stick, loss
from askance_lab.curator.generic_conjunction import Conjunctions
from askance_lab.curator.generic_parity import Parities
from askance_lab.curator.generic_point import point_runs
from askance_lab.curator.mechanism import exactly, sure
from askance_lab.theory.parity import TrainTest
from askance_lab.theory.targets import Targets
from tests.lab.curator.branching import as_one_draw, distribution, planted

Rows = tuple[Any, ...]
TINY = 1e-9
"""What the branches that are left out, and rounding, may come to."""


def numbers(d: int) -> Callable[[Rows], LabelledSample]:
    return lambda rows: LabelledSample.of(d, [x for x, _ in rows], [y for _, y in rows])


def bits(d: int) -> Callable[[Rows], BitSample]:
    return lambda rows: BitSample.from_rows(d, [([x >> i & 1 for i in range(d)], y) for x, y in rows])


def labelled(points: Sequence[int]) -> list[tuple[int, int]]:
    return list(product(points, (0, 1)))


USUAL = Targets(Fraction(1))


@dataclass(frozen=True, kw_only=True)
class Case:
    """Databases on which a mechanism is run, and how it is made small enough for that."""

    of: Callable[[Rows], Any]
    databases: Sequence[Rows]
    targets: Targets = USUAL
    ordered: bool = False
    """Whether the order of the entries counts: which part an example is in."""
    small: tuple[tuple[Any, str, Any], ...] = ()
    reach: int = 60
    sharp: Fraction = Fraction(5, 4)
    """So many times the ε that is declared is found."""


def all_of(domain: Sequence[Any], size: int) -> list[Rows]:
    return list(combinations_with_replacement(sorted(domain), size))


_attempt = as_one_draw(lambda rows, p, silence, draw: parity.attempt(bits(1)(rows), p, draw, silence=silence))


def one_try(sample: BitSample, p: Fraction, draw: Any, *, silence: Fraction = parity.HALF) -> int | None:
    """A try of PARITY as one draw."""
    rows = tuple(zip(sample.words[:, 0].tolist(), sample.labels.tolist(), strict=True))
    return _attempt(rows, p, silence, draw=draw)


def lines(points: int, size: int) -> list[Rows]:
    """From one point to another, an entry at a time, among a few at others."""
    some = [(point, 1) for point in range(2, points)]
    return [
        tuple(sorted([*some, *[(0, 1)] * k, *[(1, 1)] * (size - len(some) - k)])) for k in range(size - len(some) + 1)
    ]


ELSEWHERE = {"interval-sanitizer"}
"""Too many branches: `test_interval_sanitizer` enumerates its parts, and reads the ledger of a run at their doors."""
COMPRESSED = (
    compression.CompressionRound(1, 1, 1, 0, 0),
    compression.CompressionRound(2, 2, 1, 1, 0),
    compression.CompressionRound(3, 16, 1, 1, 0),
)


def two_rounds(*, epsilon: Fraction, **_: Any) -> point_sanitizer.SanitizerRounds:
    """Two rounds that 12 entries are enough for."""
    return point_sanitizer.SanitizerRounds(2, 4 * epsilon, Fraction(1, 5), Fraction(9, 10), Fraction(9, 10))


LOOSE = Targets(Fraction(4), Fraction(1, 5), 0.9, 0.9)

CASES: dict[str, Case] = {
    "laplace": Case(of=numbers(1), databases=all_of(labelled([0]), 2)),
    "geometric": Case(of=numbers(1), databases=all_of(labelled([0]), 2)),
    "exponential": Case(of=numbers(2), databases=all_of([(1, 1), (2, 1)], 6)),
    "a-dist": Case(of=numbers(2), databases=all_of([(x, 1) for x in (0, 1, 2)], 4), targets=replace(LOOSE, alpha=0.1)),
    "choosing": Case(
        of=numbers(2), databases=lines(3, 36), targets=replace(LOOSE, delta=Fraction(1, 1000)), sharp=Fraction(5, 2)
    ),
    "generic-parity": Case(of=bits(2), databases=all_of(labelled([1, 2]), 6)),
    "generic-masked-parity": Case(of=bits(2), databases=all_of(labelled([1, 2]), 6)),
    "generic-conjunction": Case(of=bits(2), databases=all_of(labelled([0, 1, 3]), 3)),
    "generic-point": Case(of=numbers(2), databases=all_of(labelled([0, 1, 3]), 3)),
    "generic-interval": Case(of=numbers(2), databases=all_of(labelled([0, 1, 3]), 3)),
    "sauer": Case(of=numbers(2), databases=all_of(labelled([0, 1, 3]), 3)),
    "compression": Case(
        of=numbers(1),
        databases=list(product([(0, 0), (0, 1)], repeat=5)),
        ordered=True,
        small=((compression, "rounds", lambda **_: iter(COMPRESSED)),),
        reach=4,
    ),
    "parity": Case(of=bits(1), databases=all_of(labelled([0, 1]), 3)),
    "parity-retry": Case(of=bits(1), databases=all_of(labelled([0, 1]), 2), small=((retry, "attempt", one_try),)),
    "parity-insist": Case(
        of=bits(1), databases=all_of(labelled([0, 1]), 2), small=((insist, "attempt", one_try),), sharp=Fraction(3, 2)
    ),
    "parity-train-test": Case(
        of=bits(1),
        databases=list(product(labelled([0, 1]), repeat=3)),
        ordered=True,
        small=((train_test, "_parts", lambda *_: TrainTest(2, 1, 1)),),
        sharp=Fraction(2),
    ),
    "label-private": Case(
        of=numbers(2),
        databases=list(product(*([(x, 0), (x, 1)] for x in (0, 0, 1, 3)))),
        ordered=True,
    ),
    "sanitizer-learner": Case(
        of=numbers(1),
        databases=all_of(labelled([0, 1]), 2),
        small=((sanitizer_learner, "_SMALL", 2),),
        sharp=Fraction(2),
    ),
    "interval": Case(
        of=numbers(2),
        databases=all_of(labelled([0, 2]), 3),
        targets=Targets(Fraction(8), Fraction(1, 5), 0.3, 0.9),
        sharp=Fraction(6),
    ),
    "point-sanitizer": Case(
        of=numbers(2),
        databases=lines(3, 12)[3:7],
        small=(
            (point_sanitizer, "rounds_for", two_rounds),
            (choosing, "choose", as_one_draw(choosing.choose, reach=15)),
            (geometric, "release", as_one_draw(geometric.release, reach=15)),
        ),
        sharp=Fraction(4),
    ),
    "point": Case(of=numbers(2), databases=all_of(labelled([0, 1]), 4), targets=replace(LOOSE, alpha=0.1)),
}


@contextmanager
def made_small(case: Case, copy: ModuleType | None) -> Iterator[None]:
    with ExitStack() as stack:
        for module, name, value in case.small:
            stack.enter_context(mock.patch.object(module, name, value))
            if copy is not None and copy.__file__ == module.__file__:
                stack.enter_context(mock.patch.object(copy, name, value))
        yield


def worst(case: Case, run: Callable[[Any, Any], Any], delta: float) -> float:
    """Least ε at which no output of two neighbours among the databases differs by more, but for the δ."""

    def key(rows: Rows) -> Rows:
        return rows if case.ordered else tuple(sorted(rows))

    def found(rows: Rows, draw: Any) -> Any:
        answer = run(case.of(rows), draw)
        return tuple(answer.items()) if isinstance(answer, dict) else answer

    known = {rows: distribution(partial(found, rows), reach=case.reach) for rows in case.databases}
    entries = {entry for rows in known for entry in rows}

    def neighbours() -> Iterator[tuple[Rows, Rows]]:
        for rows in known:
            for place, entry in product(range(len(rows)), entries):
                other = key((*rows[:place], entry, *rows[place + 1 :]))
                if other != rows and other in known:
                    yield rows, other

    return max(spent(known[one], known[other], delta) for one, other in neighbours())


def spent(one: dict[Any, float], other: dict[Any, float], delta: float) -> float:
    """Least ε such that `one` is (ε,δ)-close to `other`, by bisection; without δ, where both are seen at all."""
    if not delta:
        return loss({output: chance for output, chance in one.items() if chance > TINY}, other)
    low, high = 0.0, 64.0
    while high - low > 1e-6:
        middle = (low + high) / 2
        low, high = (low, middle) if hockey_stick(one, other, middle) <= delta else (middle, high)
    return high


def audited(name: str, times: Fraction = Fraction(1), module: ModuleType | None = None) -> tuple[float, float]:
    """The ε that is declared, and what is really spent: by a copy of the module, or at so many times the ε."""
    case, mechanism = CASES[name], registry.mechanism(name)
    run = mechanism.run if module is None else module.MECHANISM.run
    given = replace(case.targets, epsilon=times * case.targets.epsilon)
    with made_small(case, module):
        price = mechanism.paid(case.targets, case.of(case.databases[0]).d)
        found = worst(case, lambda sample, draw: run(sample, given, draw), float(price.delta))
    return float(price.epsilon), found


@pytest.mark.parametrize("name", CASES)
def test_its_own_code_spends_what_its_record_declares(name: str) -> None:
    declared, found = audited(name)
    _, more = audited(name, CASES[name].sharp)

    assert found <= declared + TINY
    # The control: a quarter more of ε is found (two and a half times, where what is proved is far from what is spent).
    assert more > declared + 0.01


def test_every_mechanism_has_a_case() -> None:
    assert set(registry.mechanisms()) == {*CASES, *ELSEWHERE}


def test_no_two_mechanisms_have_the_same_place_in_the_listing() -> None:
    places = [each.place for each in registry.mechanisms().values()]

    assert places == sorted(set(places))


SHARED = (compression, "        begin = end\n", "        pass\n")


@pytest.mark.parametrize(
    ("name", "module", "was", "now"),
    [
        ("compression", *SHARED),
        ("compression", compression, "generic.learn(_class(concise, each), database[begin:middle]",
         "generic.learn(_class(concise, each), database[begin:end]"),
        ("compression", compression, "discrete_laplace(1 / epsilon", "discrete_laplace(1 / (2 * epsilon)"),
        ("parity-train-test", train_test, "range(0, begin, parts.train)", "[0] * parts.candidates"),
        ("parity-retry", retry, "p = inclusion(epsilon, runs", "p = inclusion(epsilon, 1"),
        ("parity-insist", insist, "from askance_lab.curator.retry import inclusion",
         "from askance_lab.curator import parity as one\ninclusion = lambda epsilon, _: one.inclusion(epsilon)"),
        ("point-sanitizer", point_sanitizer, "epsilon=each.epsilon, draw=draw, within",
         "epsilon=5 * each.epsilon, draw=draw, within"),
        ("exponential", exponential, "(2 * checks.count", "(checks.count"),
        ("geometric", geometric, "1 / rate(epsilon, sensitivity)", "1 / (2 * rate(epsilon, sensitivity))"),
        ("sanitizer-learner", sanitizer_learner, "scores(database), epsilon=epsilon, sensitivity=self.size, draw",
         "scores(database), epsilon=epsilon, draw"),
    ],
)  # fmt: skip
def test_control_a_fault_in_its_code_is_found(name: str, module: ModuleType, was: str, now: str) -> None:
    """Examples that are read twice, noise for half the sensitivity, ε that is not divided."""
    with planted(module, was, now) as copy:
        declared, found = audited(name, module=copy)

    assert found > declared + 0.01


def test_rounds_of_compression_that_share_examples_cost_more_than_one_and_disjoint_ones_exactly_that() -> None:
    """Two rounds and their tests at the full ε = 1 each: nothing adds up only because no example is in two of them."""
    with planted(*SHARED) as copy:
        assert audited("compression", module=copy)[1] > 1.6
    assert audited("compression")[1] == pytest.approx(1, abs=1e-9)


# ------------------------------------------------------------------- where what is proved is far from what is spent

STATED: dict[str, Callable[[Any, Targets], Any]] = {
    "choosing": lambda sample, targets: choosing.choosing_distribution(
        Counter(sample.points), len(sample), epsilon=targets.epsilon, error=targets.error
    ),
    "interval": lambda sample, targets: interval.interval_distribution(
        sample, interval.plan(sample.d, len(sample), **exactly(targets))
    ),
    "sauer": lambda sample, targets: generic_interval.interval_distribution(sample, epsilon=targets.epsilon),
    "parity-retry": lambda sample, targets: retry.retry_distribution(
        sample, epsilon=targets.epsilon, runs=retry._runs(sample.d, targets).runs
    ),
    "parity-insist": lambda sample, targets: insist.insist_distribution(sample, epsilon=targets.epsilon),
    "parity-train-test": lambda sample, targets: train_test.train_test_distribution(
        sample, epsilon=targets.epsilon, parts=TrainTest(2, 1, 1), selection="exponential"
    ),
}


def apart(name: str, run: Callable[[Any, Any, Any], Any]) -> float:
    """Largest difference between a probability of what runs, and of what its module states."""
    case, worst = CASES[name], 0.0
    for rows in case.databases[:: max(1, len(case.databases) // 4)]:
        sample = case.of(rows)
        stated = STATED[name](sample, case.targets)
        with made_small(case, None):
            real = distribution(lambda draw, sample=sample: run(sample, case.targets, draw), reach=case.reach)
        worst = max(worst, *(abs(stated.get(each, 0.0) - real.get(each, 0.0)) for each in {*stated, *real}))
    return worst


@pytest.mark.parametrize("name", STATED)
def test_its_own_code_has_the_distribution_that_its_module_states_and_the_other_tests_audit(name: str) -> None:
    run = registry.mechanism(name).run

    assert apart(name, run) < 1e-7
    # The control: at a tenth more of ε.
    more = Fraction(11, 10)
    assert (
        apart(name, lambda sample, targets, draw: run(sample, replace(targets, epsilon=more * targets.epsilon), draw))
        > 1e-4
    )


# ----------------------------------------------------------------------------------------- as many users as it asks for

ONE_POINT = {"points": (0,), "labels": (True,)}
HYPOTHESES: dict[str, Callable[[int], int]] = {
    "generic-parity": lambda d: len(Parities(d)),
    "generic-masked-parity": lambda d: len(Parities(d + 1)),
    "generic-conjunction": lambda d: len(Conjunctions(d)),
    "generic-point": lambda d: point_runs(LabelledSample(d, **ONE_POINT))[-1].end,
    "generic-interval": lambda d: generic_interval.interval_runs(LabelledSample(d, **ONE_POINT))[-1].end,
}
ABOUT = {"epsilon": 1.0, "error": 0.1}


@pytest.mark.parametrize("d", [2, 9])
@pytest.mark.parametrize("name", HYPOTHESES)
def test_the_generic_learner_asks_for_the_fewest_users_that_its_bound_is_enough_for(name: str, d: int) -> None:
    """Of as many hypotheses as the class has: for a perfect one among them, and for any labels."""
    hypotheses, asked = HYPOTHESES[name](d), registry.mechanism(name)
    perfect, any_labels = asked.needed(d, USUAL), sure(asked, d, USUAL)

    def failure(bound: Callable[..., float], examples: int | None) -> float:
        return bound(examples=examples, hypotheses=hypotheses, **ABOUT)

    assert any_labels is not None
    assert failure(generic.failure_realizable_sharp, perfect) <= USUAL.beta
    assert failure(generic.failure_realizable_sharp, perfect - 1) > USUAL.beta
    assert failure(generic.failure_sharp, any_labels) <= USUAL.beta < failure(generic.failure_sharp, any_labels - 1)


@pytest.mark.parametrize("name", sorted(registry.mechanisms()))
def test_half_the_error_or_a_hundredth_of_epsilon_takes_more_users(name: str) -> None:
    chosen = registry.mechanism(name)
    targets = Targets(alpha=chosen.alpha)
    users = chosen.needed(chosen.d, targets)

    assert users >= 1
    assert chosen.needed(chosen.d, replace(targets, alpha=targets.alpha / 2)) > users or name == "sanitizer-learner"
    assert chosen.needed(chosen.d, replace(targets, epsilon=targets.epsilon / 100)) > users


def test_the_sanitizers_learner_asks_for_what_generalizing_takes_where_the_sanitizer_takes_less() -> None:
    """So much ε that the sanitizer is no limit: an error above 3α shows on as many examples."""
    chosen, targets = registry.mechanism("sanitizer-learner"), Targets(Fraction(1000), alpha=0.2)

    assert chosen.needed(3, targets) == sanitizer_learner.examples_to_generalize(concepts=9, error=0.2, failure=0.1)
    assert chosen.needed(3, replace(targets, epsilon=Fraction(1))) > chosen.needed(3, targets)
