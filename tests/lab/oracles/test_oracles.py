"""The oracles: each answers as its theorem says, and a strategy runs against any of them."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
from scipy import stats
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from askance_client import RemoteError, Server
from askance_client.population import Population
from askance_client.simulation.population import over_schema, synthetic
from askance_client.tables import from_file
from askance_lab.curator.draws import below, discrete_laplace
from askance_lab.engines import Engine, engine, engine_names
from askance_lab.evaluation.domain import domain_of
from askance_lab.evaluation.error import error_of
from askance_lab.evaluation.weighted import WeightedExamples, histogram
from askance_lab.experiments.oracle_table import COLUMNS, rows
from askance_lab.oracles.adversarial import HidesMask, LieDirection, WorstCase
from askance_lab.oracles.curator import Curator
from askance_lab.oracles.exact import Exact
from askance_lab.oracles.fresh import Fresh, Randomizer, Steps, _pieces, steps_of
from askance_lab.oracles.http import Http
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.samples import Samples
from askance_lab.oracles.shared.crowds import Drawn, People
from askance_lab.oracles.shared.oracle import Oracle, SQOracle, run
from askance_lab.oracles.shared.portions import by_bound, evenly
from askance_lab.oracles.shared.registry import oracle_named, oracle_names
from askance_lab.oracles.shared.setting import OracleSetting
from askance_lab.remote.local_server import LocalServer, local_server
from askance_lab.remote.study_client import enrol_many
from askance_lab.theory import central, local, masked_parity
from askance_protocol.budget import MICRO
from askance_protocol.errors import MissingExtraError, ProtocolError, UsageError
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, prepare
from askance_protocol.queries.language import Affine, And, Bit, FieldValue, Label, Lookup, Not, Slice, Term, Xor
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import read_study
from askance_protocol.schema import CategoryField, IntegerField, Schema
from askance_server.app import create_app, open_resources
from askance_server.auth import TokenFiles
from askance_server.core.planning import TooFewUsersError, terms_of
from askance_server.core.strategy import Ask, Strategy
from askance_server.driver import Driver
from askance_server.settings import Settings
from askance_server.strategies.registry import registry
from tests.harness.hosted import hosted

RARE = 1e-6
"""How rarely a statistical test may fail though all is right."""
STRATEGIES = registry()
MASKED = [name for name in STRATEGIES if name.startswith("masked-parity")]
NONINTERACTIVE = [name for name in MASKED if not STRATEGIES[name].interactive]


def masked(d: int, r: str, a: int, **more: Any) -> Population:
    return synthetic("masked-parity", {"d": d, "r": r, "a": a, **more}, 1)


def concepts(d: int) -> list[tuple[str, int]]:
    return [("".join(r), a) for r in product("01", repeat=d) for a in (0, 1)]


def learned(strategy: str, d: int, oracle: Oracle) -> dict[str, Any]:
    return dict(run(STRATEGIES[strategy], {"d": d}, oracle).hypothesis.value)


def errors(oracle: SQOracle, asks: Sequence[Ask], truth: SQOracle) -> list[float]:
    """By how many tolerances each answer is off, at worst over its cells."""
    pairs = zip(asks, oracle.answer(asks), truth.answer(asks), strict=True)
    return [float(np.abs(np.subtract(mine, right)).max()) / ask.tolerance for ask, mine, right in pairs]


# ----------------------------------------------------------------------------------------------------- the interface


def test_a_run_sends_answers_until_the_strategy_has_learned_and_counts() -> None:
    exact = Exact(domain_of(masked(4, "0110", 1)))
    seen = run(STRATEGIES["masked-parity"], {"d": 4}, exact)

    assert seen.hypothesis.value == {"r": "0110", "a": 1}
    assert (seen.rounds, seen.queries, seen.users, seen.max_spent_micro_epsilon) == (2, 5, 0, 0)


def test_every_strategy_runs_on_every_oracle_and_learns_from_the_exact_one() -> None:
    """The papers' equivalence as a function argument; what a weak learner or a lying oracle misses is a number."""
    columns = [name for name in COLUMNS if name != "http"]
    table = dict(rows(columns, "1", 200_000, 1))

    assert list(table) == list(STRATEGIES)
    for name, row in table.items():
        assert {entry.outcome for entry in row.values()} <= {"ran", "no labels"}, (name, row)
        if name in {"poll", "survey"}:
            # Whatever it is asked, nobody knows the answer but its users: tests of its own compare it with theirs.
            assert row["exact"].error is row["local"].error is None
            continue
        assert row["exact"].learned, name
        assert row["local"].learned, name
    assert str(table["masked-parity-weak"]["exact"]) == "error 0.25 as promised"
    assert str(table["mean"]["noisy samples"]) == "no labels"


YES_NO: Final = Schema(fields=(CategoryField(name="answer", values=("yes", "no"), gap=True),))
FIVE: Final = Schema(fields=(CategoryField(name="answer", values=("a", "b", "c", "d", "e"), gap=True),))
TEN: Final = Schema(fields=(IntegerField(name="answer", low=1, high=10, gap=True),))
CHOICES: Final = Schema(fields=(*TEN.fields, CategoryField(name="plan", values=("free", "pro"))))
ASKS: Final = {"ask1": "mean(answer, 1, 10)", "ask2": "share(plan = 'pro')", "ask3": "histogram(plan)"}


@pytest.mark.parametrize("name", [name for name in oracle_names() if name != "http"])
@pytest.mark.parametrize(
    ("strategy", "own", "example"),
    [("poll", {}, YES_NO), ("poll", {}, FIVE), ("poll", {}, TEN), ("survey", ASKS, CHOICES)],
    ids=["two choices", "five choices", "a scale", "a survey"],
)
def test_what_is_asked_in_words_is_told_by_every_oracle_within_its_tolerance(
    strategy: str, own: dict[str, Any], example: Schema, name: str
) -> None:
    """Nobody but the users knows an error, so the table has none: here the answers are held against the exact ones."""
    population = over_schema(example, seed=3)
    runs, told = STRATEGIES[strategy].on(example), list[dict[str, float]]()
    for oracle in ("exact", name):
        setting = OracleSetting(runs, {**own, "users": "all", "epsilon": "1"}, population, 200_000, seed=1)
        with oracle_named(oracle).open(setting) as opened:
            answers: Any = opened.learn(runs, own).hypothesis.value["answers"]
            told.append({row["name"]: float(row["estimate"]) for row in answers})
    ends = {"mean(answer)": 9, "mean(answer, 1, 10)": 9}
    off = [abs(told[1][key] - value) / ends.get(key, 1) for key, value in told[0].items()]

    assert told[0].keys() == told[1].keys()
    # An adversary answers at the very end of what it may. Of a share, the whole width is that of its mean, halved.
    assert max(off) <= 0.1 + 1e-9
    if name in {"adversarial", "local"}:
        assert max(off) > 0


# ------------------------------------------------------------------------------------------------------------- exact

KINDS: list[tuple[str, dict[str, Any]]] = [
    ("masked-parity", {"d": 4, "bias": "0.3", "eta": "0.2"}),
    ("parity", {"d": 5}),
    ("conjunction", {"d": 6, "bias": "0.75"}),
    ("decision-list", {"d": 5, "eta": "0.1"}),
    ("point", {"d": 5, "mass": "0.4"}),
    ("threshold", {"domain": 50, "skew": 3}),
    ("mean", {"denominator": 20}),
    ("mean", {"shape": "extremes"}),
    ("histogram", {"cells": 7, "zipf": "1"}),
]


@pytest.mark.parametrize(("kind", "parameters"), KINDS)
def test_a_listed_domain_is_the_distribution_that_users_are_drawn_from(kind: str, parameters: dict[str, Any]) -> None:
    population = synthetic(kind, parameters, 3)
    domain, users = domain_of(population), 100_000
    query = prepare(hashed(population), population.schema)
    expected = histogram(query, domain)
    seen = histogram(query, WeightedExamples(population.columns(range(users))))

    assert domain.weights is not None
    assert domain.weights.sum() == pytest.approx(1, abs=1e-12)
    assert not seen[expected == 0].any()
    kept = expected > 0
    assert kept.sum() == 1 or stats.chisquare(seen[kept], users * expected[kept] / expected.sum()).pvalue > RARE


def hashed(population: Population) -> CellQuery:
    """Examples thrown into 64 cells, by all their fields at once."""
    terms = list[Term]()
    for place, field in enumerate(population.schema.fields):
        if field.kind == "bits":
            number = Slice(field=field.name, first=0, width=field.width)
        else:
            number = Affine(constant=-field.least, terms=(Term(weight=1, of=FieldValue(field=field.name)),))
        size = field.most - field.least + 1
        mixed = Lookup(index=number, table=tuple((k * (2 * place + 1) * 7 + place) % 16 for k in range(size)))
        terms.append(Term(weight=1, of=mixed))
    return CellQuery(cells=64, cell=Affine(terms=tuple(terms)))


def test_what_cannot_be_listed_says_so(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("value\n0.5\n1\n")
    for population in (
        synthetic("masked-parity", {"d": 32}, 1),
        synthetic("separator", {"d": 2}, 1),
        from_file(tmp_path / "t.csv"),
    ):
        with pytest.raises(ProtocolError, match="population"):
            domain_of(population)


def test_exact_over_a_table_is_the_mean_of_its_rows(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,y\n01,1\n11,-1\n10,1\n11,1\n")
    rows = from_file(tmp_path / "t.csv", label="y")
    asks = [Ask(BooleanQuery(test=And(of=(Bit(field="x", index=1), Label(sign=1)))), 0.1)]

    assert Exact(WeightedExamples(rows.columns(range(4)))).answer(asks) == [0.5]


# -------------------------------------------------------------------------------------------------------- adversaries

B0 = Not(of=Bit(field="b", index=0))
ODD = Xor(of=(Bit(field="x", index=0), Bit(field="x", index=2), Label(sign=1)))
QUERIES = [
    BooleanQuery(test=ODD),
    BooleanQuery(test=And(of=(B0, ODD))),
    BooleanQuery(test=Xor(of=(Bit(field="x", index=3), Label(sign=1)))),
    RealQuery(
        numerator=Affine(terms=(Term(weight=2, of=FieldValue(field="y")), Term(weight=1, of=FieldValue(field="i")))),
        denominator=5,
    ),
    CellQuery(cells=3, cell=FieldValue(field="i"), negative=ODD),
]


@pytest.mark.parametrize("query", QUERIES)
@pytest.mark.parametrize("tolerance", [1e-3, 0.19, 0.6])
@pytest.mark.parametrize(("r", "a"), [("1010", 0), ("1010", 1), ("0000", 1), ("0111", 0)])
def test_o_is_that_of_the_proof(query: Any, tolerance: float, r: str, a: int) -> None:
    """KLNRS11, proof of Thm 5.16(2), from C_g, f⁰_g and f¹_g as the text defines them, cell by cell."""
    domain = domain_of(masked(4, r, a))
    oracle = HidesMask(domain)
    [said] = oracle.answer([Ask(query, tolerance)])

    y = np.asarray(domain.columns["y"])
    c = values(query, domain)
    other = values(query, domain.flipped())
    plus, minus = np.where(y == 1, c, other), np.where(y == 1, other, c)
    f, free = (plus - minus) / 2, ((plus + minus) / 2).mean(axis=1)
    b0 = np.asarray(domain.columns["b"][0]) == 0
    middle, shown = (f * y * b0).mean(axis=1), (f * y * ~b0).mean(axis=1)
    expected = np.where(np.abs(middle) < tolerance, free + shown, free + shown + middle)

    assert np.atleast_1d(said) == pytest.approx(expected, abs=1e-12)
    assert oracle.told == [bool((np.abs(middle) >= tolerance).any())]


def values(query: Any, examples: WeightedExamples) -> np.ndarray[Any, Any]:
    """g(u) of every example, a row for each thing that is asked."""
    answers = prepare(query, examples.columns.schema).answers(examples.columns)
    if isinstance(query, CellQuery):
        return np.stack([np.where(np.abs(answers) == cell + 1, np.sign(answers), 0) for cell in range(query.cells)])
    return np.atleast_2d(answers / (query.denominator if isinstance(query, RealQuery) else 1))


@pytest.mark.parametrize("d", [4, 8])
@pytest.mark.parametrize("strategy", MASKED)
def test_o_leaves_every_noninteractive_learner_at_a_quarter_for_one_mask_of_two(strategy: str, d: int) -> None:
    """KLNRS11, Thm 5.16: and the interactive ones exact, on every concept of d = 4 and on some of d = 8."""
    some = concepts(d) if d == 4 else [(f"{7 * k % 256:08b}", a) for k in range(1, 9) for a in (0, 1)]
    wrong = 0
    for r, a in some:
        population = masked(d, r, a)
        value = learned(strategy, d, HidesMask.of_theorem(domain_of(population)))
        error = error_of(STRATEGIES[strategy], value, population).value
        assert error is not None
        wrong += error >= 1 / 4
        assert not STRATEGIES[strategy].interactive or error == 0, (r, a)

    assert wrong >= len(some) / 2 or STRATEGIES[strategy].interactive


def test_control_below_the_tolerance_of_the_theorem_o_has_to_tell() -> None:
    """The strongest noninteractive learner asks within less than 2^(−d/3): O of the text alone does not stop it."""
    for r, a in concepts(4):
        oracle = HidesMask(domain_of(masked(4, r, a)))
        assert learned("masked-parity-noninteractive", 4, oracle) == {"r": r, "a": a}
        assert oracle.told == [True]


def test_o_is_for_masked_parity_only() -> None:
    with pytest.raises(ProtocolError, match="WorstCase"):
        HidesMask.of_theorem(domain_of(synthetic("parity", {"d": 4}, 1)))


@pytest.mark.parametrize("lie", ["up", "down", "alternating"])
def test_a_worst_case_oracle_lies_by_exactly_the_tolerance(lie: LieDirection) -> None:
    domain = domain_of(masked(4, "1100", 0))
    asks = [Ask(query, 0.125) for query in QUERIES]
    said, right = (oracle.answer(asks) for oracle in (WorstCase(Exact(domain), lie), Exact(domain)))
    off = np.concatenate([np.atleast_1d(mine) - truth for mine, truth in zip(said, right, strict=True)])

    signs = {"up": [1] * 7, "down": [-1] * 7, "alternating": [1, -1, 1, -1, 1, -1, 1]}[lie]
    assert off == pytest.approx(0.125 * np.array(signs), abs=1e-15)


@pytest.mark.parametrize("lie", ["up", "down", "alternating"])
def test_a_mp_learns_whatever_lies_are_within_tolerance(lie: LieDirection) -> None:
    for r, a in concepts(4):
        oracle = WorstCase(Exact(domain_of(masked(4, r, a))), lie)
        assert learned("masked-parity", 4, oracle) == {"r": r, "a": a}


# ------------------------------------------------------------------------------------------------------------ samples

PHI = [
    Ask(BooleanQuery(test=And(of=(Not(of=Bit(field="x", index=i)), Label(sign=sign)))), 0.02)
    for i in range(4)
    for sign in (1, -1)
]


@pytest.mark.parametrize("apart", [False, True])
def test_samples_of_the_theorems_size_are_within_tolerance(apart: bool) -> None:
    """BB-notes, Thm 6."""
    population = synthetic("conjunction", {"d": 4}, 1)
    users = local.examples_sq_to_pac(queries=len(PHI), tolerance=0.02, failure=RARE)
    oracle = Samples(People(population, users), by_bound(lambda _: users // len(PHI)), apart=apart)

    assert max(errors(oracle, PHI, Exact(domain_of(population)))) <= 1
    assert oracle.spent.users == users
    assert oracle.spent.micro_epsilon is None


def test_noise_in_the_labels_is_undone_and_the_naive_answer_is_wrong() -> None:
    """BB-notes, Thm 8, η = 0.3."""
    eta, parameters = 0.3, {"d": 4, "relevant": 2}
    clean, noisy = (synthetic("conjunction", {**parameters, "eta": e}, 1) for e in ("0", "0.3"))
    users = local.examples_sq_noise_joint(queries=len(PHI), tolerance=0.02, noise_rate=eta, failure=RARE)
    truth = Exact(domain_of(clean))
    deal = by_bound(lambda _: users // len(PHI))

    assert max(errors(Samples(People(noisy, users), deal, eta=eta), PHI, truth)) <= 1
    naive = errors(Samples(People(noisy, users), deal), PHI, truth)
    assert min(naive) > 1


@pytest.mark.parametrize(("r", "query"), [("1010", QUERIES[1]), ("1110", QUERIES[3]), ("1010", QUERIES[4])])
def test_noise_is_undone_for_reals_and_cells_too(r: str, query: Any) -> None:
    clean, noisy = (masked(4, r, 1, eta=e) for e in ("0", "0.3"))
    asks, truth = [Ask(query, 0.02)], Exact(domain_of(clean))
    corrected, naive = (Samples(Drawn(domain_of(noisy), 1), by_bound(lambda _: 10**6), eta=e) for e in (0.3, 0.0))

    assert max(errors(corrected, asks, truth)) <= 1
    assert max(errors(naive, asks, truth)) > 1


@pytest.mark.parametrize("eta", [-0.1, 0.5, math.nan])
def test_noise_has_to_leave_something(eta: float) -> None:
    with pytest.raises(ProtocolError, match="eta"):
        Samples(People(masked(4, "1100", 1), 10), by_bound(lambda _: 1), eta=eta)


# ------------------------------------------------------------------------------------------------------------ curator


def test_the_curators_noise_is_the_discrete_laplace_distribution() -> None:
    """Canonne, Kamath, Steinke 2020, Alg. 2, for scales that are whole, a fraction, and below one."""
    for scale in (Fraction(2), Fraction(7, 3), Fraction(1, 3)):
        draw = below(SimulatedRandom(5))
        drawn = np.array([discrete_laplace(scale, draw) for _ in range(4000)])
        ends = np.arange(-int(4 * scale) - 1, int(4 * scale) + 2)
        q = math.exp(-1 / scale)
        mass = (1 - q) / (1 + q) * q ** np.abs(ends).astype(float)
        mass[[0, -1]] = q ** (int(4 * scale) + 1) / (1 + q)
        seen = np.bincount(np.clip(drawn, ends[0], ends[-1]) - ends[0], minlength=len(ends))

        assert stats.chisquare(seen, 4000 * mass).pvalue > RARE


def test_a_curators_answers_are_within_tolerance_at_the_repaired_size() -> None:
    """BB-notes, Thm 7 = N21, Thm 1, repaired (trap 9): M = 100 queries of tolerance 0.05."""
    population = synthetic("conjunction", {"d": 4}, 1)
    asks = [Ask(PHI[k % len(PHI)].query, 0.05) for k in range(100)]
    users = central.examples_sulq_repaired(queries=100, tolerance=0.05, epsilon=0.1, failure=RARE)
    oracle = Curator(People(population, users), by_bound(lambda _: users // 100), micro_epsilon=MICRO // 10)

    assert max(errors(oracle, asks, Exact(domain_of(population)))) <= 1
    assert (oracle.spent.users, oracle.spent.micro_epsilon) == (users, MICRO // 10)


@pytest.mark.parametrize(
    ("query", "sensitivity"),
    [
        (PHI[0].query, 1),
        (RealQuery(numerator=FieldValue(field="y"), denominator=4), 8),
        (CellQuery(cells=1, cell=Slice(field="x", first=0, width=4)), 2),
    ],
)
def test_the_curators_noise_is_of_the_chunks_scale_and_not_m_times_it(query: Any, sensitivity: int) -> None:
    """The two-sided geometric's variance 2q/(1 − q)² on the total, whatever the number of queries."""
    population, size = synthetic("conjunction", {"d": 4}, 1), 50
    crowd = People(population, 400 * size)
    said = Curator(crowd, by_bound(lambda _: size)).answer([Ask(query, 0.5)] * 400)
    right = Samples(People(population, 400 * size), by_bound(lambda _: size), apart=True).answer(
        [Ask(query, 0.5)] * 400
    )
    unit = size * (query.denominator if isinstance(query, RealQuery) else 1)
    noise = unit * (np.array(said, float).ravel() - np.array(right, float).ravel())

    assert noise == pytest.approx(np.rint(noise), abs=1e-6)
    q = math.exp(-1 / sensitivity)
    # Fourth moments of a Laplace variable: the variance of 400 draws' mean square is 5/400 of its square.
    assert np.mean(noise**2) == pytest.approx(2 * q / (1 - q) ** 2, rel=5 * math.sqrt(5 / 400))


# ------------------------------------------------------------------------------------------------- local, in portions


def test_a_mp_over_fresh_portions_with_the_papers_laplace_is_right_in_95_of_100_studies() -> None:
    """KLNRS11, Thm 5.7 with the constants that are proved, d = 4, ε = 1, β = 0.05: 905,721 users in each study.

    Users are drawn as counts, which has the same distribution; one by one they would take minutes.
    """
    d, beta = 4, 0.05
    needed = masked_parity.users_masked_parity_repaired(dimension=d, epsilon=1, failure=beta)
    right = 0
    for seed in range(100):
        population = synthetic("masked-parity", {"d": d}, seed)
        crowd = Drawn(domain_of(population), seed, needed.total)
        deal = by_bound(
            lambda ask: local.users_sq_query_repaired(
                bound=1, tolerance=ask.tolerance, epsilon=1, failure=beta / (d + 1)
            )
        )
        oracle = Fresh(crowd, deal, randomizer=Randomizer.PAPER, seed=seed)
        right += learned("masked-parity", d, oracle) == dict(population.truth)
        assert oracle.spent.users == needed.total

    assert right >= 95


def test_control_a_hundredth_of_the_users_is_not_enough() -> None:
    right = 0
    for seed in range(20):
        population = synthetic("masked-parity", {"d": 4}, seed)
        crowd = Drawn(domain_of(population), seed, 9057)
        oracle = Fresh(crowd, evenly(STRATEGIES["masked-parity"]), randomizer=Randomizer.PAPER, seed=seed)
        right += learned("masked-parity", 4, oracle) == dict(population.truth)

    assert right < 19


LOCAL_QUERIES = [
    PHI[0],
    Ask(RealQuery(numerator=FieldValue(field="y"), denominator=3), 0.1),
    Ask(CellQuery(cells=3, cell=Slice(field="x", first=0, width=2)), 0.1),
    Ask(CellQuery(cells=3, cell=Slice(field="x", first=0, width=2), negative=Label(sign=-1)), 0.1),
]


@pytest.mark.parametrize("randomizer", Randomizer)
@pytest.mark.parametrize("drawn", [False, True])
def test_fresh_reports_are_unbiased_one_by_one_and_as_counts(randomizer: Randomizer, drawn: bool) -> None:
    population, size = synthetic("conjunction", {"d": 4, "relevant": 1}, 1), 60_000
    domain = domain_of(population)
    crowd = Drawn(domain, 7) if drawn else People(population, 4 * size)
    oracle = Fresh(crowd, by_bound(lambda _: size), randomizer=randomizer, seed=7)
    off = [
        e * ask.tolerance for e, ask in zip(errors(oracle, LOCAL_QUERIES, Exact(domain)), LOCAL_QUERIES, strict=True)
    ]

    # Nothing has a larger deviation than Lap(2) on a portion's third; 6 of them leave 10⁻⁸ for each of eight means.
    assert max(off) < 6 * math.sqrt(1 + 8) / math.sqrt(size / 3)
    assert oracle.received == [4 * size]


def test_counts_have_the_same_spread_as_reports_one_by_one() -> None:
    """Both ways, 300 portions of 100 users: the variances differ by no more than chance."""
    population = synthetic("conjunction", {"d": 4, "relevant": 1}, 1)
    for randomizer in Randomizer:
        spread = []
        for crowd in (People(population, 30_000), Drawn(domain_of(population), 3)):
            said = Fresh(crowd, by_bound(lambda _: 100), randomizer=randomizer).answer([PHI[0]] * 300)
            spread.append(float(np.var(np.array(said, np.float64))))

        assert 1 / 1.9 < spread[0] / spread[1] < 1.9, randomizer  # F(299, 299) leaves this once in 10⁷


def upper_tails(oracle: Fresh, reports: int) -> list[int]:
    """How many reports about the greatest value, and about the least, lie above the greatest."""
    ends = Steps(np.array([0, 0, 1]), -1, 1), Steps(np.array([1, 0, 0]), -1, 1)
    return [sum(oracle._mean(end) > 1 for _ in range(reports)) for end in ends]


@pytest.mark.parametrize("drawn", [False, True])
@pytest.mark.parametrize("micro_epsilon", [MICRO // 2, MICRO, 2 * MICRO])
def test_a_report_with_the_papers_laplace_tells_the_ends_apart_by_e_to_the_epsilon(
    micro_epsilon: int, drawn: bool
) -> None:
    """Lap(2b/ε) on g: D → [−b, b], KLNRS11, §5.1.1: above b lies half of the reports about b, e^{−ε} of that about −b.

    One direction is privacy, the other that no user is asked for more noise than the theorem counts on.
    """
    population, reports = synthetic("conjunction", {"d": 4}, 1), 6000
    crowd = Drawn(domain_of(population), 5) if drawn else People(population, 1)
    oracle = Fresh(crowd, by_bound(lambda _: 1), micro_epsilon=micro_epsilon, randomizer=Randomizer.PAPER, seed=11)
    high, low = upper_tails(oracle, reports)

    epsilon = micro_epsilon / MICRO
    assert stats.binomtest(high, reports, 1 / 2).pvalue > RARE
    assert stats.binomtest(low, reports, math.exp(-epsilon) / 2).pvalue > RARE
    # The control: half of the noise, so twice the ε, is seen in as many reports.
    assert stats.binomtest(low, reports, math.exp(-2 * epsilon) / 2).pvalue < RARE


def test_steps_have_every_user_once_whatever_is_asked() -> None:
    signed = np.array([1, 2, 4, 8, 16, 32, 64])  # cells 3, 2, 1 with −, none, 1, 2, 3 with +
    unsigned = CellQuery(cells=3, cell=Slice(field="x", first=0, width=2))
    for query in (unsigned, unsigned.model_copy(update={"negative": Label(sign=-1)})):
        for cell, (minus, plus) in enumerate([(4, 16), (2, 32), (1, 64)]):
            steps = steps_of(query, signed if query.negative else signed * (np.arange(7) >= 3), cell)
            everybody = int(signed.sum()) if query.negative else 120

            assert steps.counts.sum() == everybody
            assert steps.values @ steps.counts == (plus - minus if query.negative else plus)


def test_each_person_takes_a_word_of_the_simulations_stream_and_those_drawn_as_counts_none() -> None:
    population, users = synthetic("conjunction", {"d": 4}, 1), 1000
    crowds = People(population, users), Drawn(domain_of(population), 5, users)
    words = []
    for crowd in crowds:
        oracle = Fresh(crowd, by_bound(lambda _: users), seed=11)
        assert (oracle.spent.users, oracle.spent.micro_epsilon) == (0, 0)
        oracle.answer([PHI[0]])
        assert (oracle.spent.users, oracle.spent.micro_epsilon) == (users, MICRO)
        stream = SimulatedRandom(11, stream=2)
        stream.draw(users)
        words.append(oracle._stream.word() == stream.word())

    assert words == [True, False]


@pytest.mark.parametrize("users", [0, 1, (1 << 20) - 1, 1 << 20, (1 << 20) + 1])
def test_a_crowd_in_pieces_is_the_crowd(users: int) -> None:
    assert sum(_pieces(users)) == users


def test_nobody_is_asked_twice() -> None:
    population = masked(4, "1100", 1)
    oracle = Fresh(People(population, 100), by_bound(lambda _: 40))
    oracle.answer([Ask(QUERIES[0], 0.1)] * 2)
    with pytest.raises(TooFewUsersError, match="20 are left"):
        oracle.answer([Ask(QUERIES[0], 0.1)])

    assert oracle.spent.users == 80
    assert oracle.spent.micro_epsilon == MICRO


def test_a_laplace_table_has_an_end() -> None:
    oracle = Fresh(People(synthetic("mean", {}, 1), 100), by_bound(lambda _: 100), randomizer=Randomizer.LAPLACE)
    with pytest.raises(ProtocolError, match="2000 steps"):
        run(STRATEGIES["mean"], {}, oracle)


# ------------------------------------------------------------------------------------------ local, as the server does


def pooled(strategy: str, parameters: dict[str, Any], population: Population, users: int, **more: Any) -> LocalReports:
    runs: Strategy = STRATEGIES[strategy]
    return LocalReports(study_for(runs, {"users": "all", **parameters}, 1), runs, population, users, 1, **more)


def shards(each: Engine) -> list[Any]:
    """The tallies of a run over three blocks of users."""
    oracle = pooled("masked-parity", {"d": 4}, masked(4, "1001", 1), 250_000, engine=each)
    assert learned("masked-parity", 4, oracle) == {"r": "1001", "a": 1}
    assert oracle.spent.users == sum(oracle.received) == 250_000
    return [[tally.to_rows() for tally in round_] for round_ in oracle.tallies]


def backwards(function: Any, tasks: Any) -> Any:
    return [function(task) for task in reversed(tasks)]


def test_a_pooled_run_is_the_same_for_the_same_seed_whatever_the_engine() -> None:
    """Blocks have streams of their own: no engine, no number of workers and no order changes a single report."""
    with engine("dask") as dask:
        assert shards(engine()) == shards(dask) == shards(backwards)


@pytest.mark.slow
@pytest.mark.parametrize("name", engine_names())
def test_several_workers_give_the_numbers_of_one(name: str) -> None:
    with engine(name, 2) as workers:
        assert shards(workers) == shards(engine())


def test_in_process_and_over_http_the_same_users_send_the_same_reports(tmp_path: Path) -> None:
    """With the server's nonce and clock: every tally is equal, so every answer is."""
    strategy, users = STRATEGIES["masked-parity"], 5000
    parameters = {"users": "all", "d": 4, "epsilon": "1"}
    population = masked(4, "0110", 0)
    with local_server(tmp_path / "server", "1") as found:
        http = Http(found, strategy.name, parameters, population, users, 9, tmp_path)
        with http:
            over_http = run(strategy, {"d": 4}, http)
            end = http.end()
            study = http.rounds[0].study
    clock = iter([each.spec.deadline - terms_of(study.parameters).deadline_seconds for each in http.rounds])
    same = LocalReports(read_study(study.to_bytes()), strategy, population, users, 9, now=lambda: next(clock))
    in_process = run(strategy, {"d": 4}, same)

    assert [each.id for each in same.rounds] == [each.id for each in http.rounds]
    assert in_process == over_http
    assert end.received == tuple(same.received)
    assert end.hypothesis == in_process.hypothesis.value
    assert over_http.users == users
    assert over_http.max_spent_micro_epsilon == MICRO


@pytest.mark.slow
def test_over_http_a_round_does_not_wait_for_users_of_earlier_studies(tmp_path: Path) -> None:
    strategy, population = STRATEGIES["mean"], synthetic("mean", {}, 1)
    with local_server(tmp_path / "server", "1") as found:
        asyncio.run(enrolled(found.url, found.enrolment, 50))
        with Http(found, "mean", {"users": "all", "epsilon": "1"}, population, 3000, 1, tmp_path) as http:
            seen = run(strategy, {}, http)
            end = http.end()

    assert (seen.users, end.received) == (3000, (3000,))
    assert "fewer reports than planned" in end.reason


def test_over_http_a_study_that_the_server_has_paused_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One user more than this run has will never report, so that nothing new comes."""
    strategy, population = STRATEGIES["mean"], synthetic("mean", {}, 1)
    directory = tmp_path / "data"
    settings = Settings(database=str(directory))
    with hosted(create_app(settings, opened=open_resources(settings)), HttpToolsProtocol) as port:
        files = TokenFiles.of(directory)
        operator, enrolment = (file.read_text("ascii").strip() for file in (files.operator, files.enrolment))
        found = LocalServer(f"http://127.0.0.1:{port}", directory, operator, enrolment)
        asyncio.run(enrolled(found.url, found.enrolment, 1))
        monkeypatch.setattr(Driver, "paused", lambda *_: "the strategy\x1b[2J was changed")
        with (
            Http(found, "mean", {"users": "all", "epsilon": "1"}, population, 20, 1, tmp_path) as http,
            pytest.raises(RemoteError, match="has paused the study: the strategy") as told,
        ):
            run(strategy, {}, http)
        assert "\x1b" not in str(told.value)
        monkeypatch.undo()
        # The control: the same study, of which the server says nothing.
        with Http(found, "mean", {"users": "all", "epsilon": "1"}, population, 20, 1, tmp_path) as http:
            assert run(strategy, {}, http).users == 20


async def enrolled(url: str, token: str, count: int) -> None:
    async with Server(url) as server:
        await enrol_many(server, token, count)


def test_a_part_without_any_report_is_too_few_users() -> None:
    with pytest.raises(TooFewUsersError, match="15 of its 16 parts had none"):
        learned("masked-parity", 16, pooled("masked-parity", {"d": 16}, masked(16, "01" * 8, 0), 1))


def test_a_population_of_other_examples_is_refused() -> None:
    with pytest.raises(ProtocolError, match="another schema"):
        pooled("masked-parity", {"d": 4}, masked(8, "01" * 4, 0), 10)


def test_dask_that_is_missing_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "distributed", None)
    with pytest.raises(MissingExtraError, match=r"askance\[dask\]"):
        list(engine("dask")(abs, [1]))


# ------------------------------------------------------------------------------------------------------------- crowds


def test_more_users_than_a_file_has_rows_are_refused(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("value\n0.5\n1\n")
    with pytest.raises(ProtocolError, match="from 1 to 2"):
        People(from_file(tmp_path / "t.csv"), 3)


def test_oracles_are_found_by_their_files_and_say_who_is_local() -> None:
    kinds = {name: oracle_named(name) for name in oracle_names()}

    assert all(kind.name == name for name, kind in kinds.items())
    assert {name for name, kind in kinds.items() if kind.local} == {"local", "http", "fresh", "fresh-laplace"}
    assert {name for name, kind in kinds.items() if not kind.asks_users} == {"exact", "adversarial"}
    with pytest.raises(UsageError, match="use one of adversarial, curator"):
        oracle_named("nobody")
