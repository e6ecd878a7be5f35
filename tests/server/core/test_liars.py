"""Users who send the worst outcome instead of a randomized one: the shift is within the bound that operators are shown.

A share φ of the users lie: each sends the outcome that moves one estimate the furthest, in one direction. The estimate
is then off by at most φ(C + 1), C the channel's scale, and 4 standard errors of chance: for every channel and query,
and for every population, of which the one at the other end is the worst. `ASKANCE_TORTURE=1` looks at
fifty times as many attacks.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from askance_protocol import hadamard
from askance_protocol.budget import MICRO
from askance_protocol.hashing import Buckets
from askance_protocol.queries import CellQuery
from askance_protocol.rounds import BinarySpec, GeometricSpec, KarySpec, LaplaceSpec, PreparedPart
from askance_protocol.tally import Tally
from askance_server.core.estimators import estimate, targets
from askance_server.core.liars import SHARES, scale, shifts, weight_of_a_lie
from tests.harness.figures import Figures
from tests.harness.servers import Service
from tests.harness.servers import prepared as prepared_as_shown
from tests.protocol.studies import HEIGHT, MASKED_BIT, MASKED_CELL, PARTS, WHICH, WHICH_SIGNED, part, prepared
from tests.server.core.test_estimators import populations, report_probabilities, rows_of, truth

Floats = NDArray[np.float64]

TRIALS: Final = 100 if os.environ.get("ASKANCE_TORTURE") == "1" else 2
USERS: Final = 4_000_000
ALL: Final = {name: prepared(one).parts[0] for name, one in PARTS.items()} | {
    f"{name}, ε = {epsilon / MICRO:g}": prepared(part(query, spec(micro_epsilon=epsilon), epsilon)).parts[0]
    for epsilon in (MICRO // 4, 2 * MICRO)
    for name, query, spec in (
        ("boolean, binary", MASKED_BIT, BinarySpec),
        ("real, geometric", HEIGHT, GeometricSpec),
        ("real, laplace", HEIGHT, LaplaceSpec),
        ("cell, Hadamard", MASKED_CELL, BinarySpec),
        ("cell, kary", WHICH, KarySpec),
        ("cell, kary, signed", WHICH_SIGNED, KarySpec),
    )
}
each_part = pytest.mark.parametrize("one", ALL.values(), ids=ALL.keys())


@dataclass(frozen=True, slots=True)
class Attack:
    """One estimate that liars push, up or down, in one population."""

    population: str
    target: int
    up: bool


def attacks(one: PreparedPart) -> Iterator[Attack]:
    """The first and the last estimate of a part, both ways, in each population."""
    last = len(truth(one, next(iter(populations(one).values())))) - 1
    for name in populations(one):
        for target in sorted({0, last}):
            for up in (True, False):
                yield Attack(name, target, up)


def worst_lies(one: PreparedPart, attack: Attack, liars: int, rng: np.random.Generator) -> Floats:
    """How many liars send each outcome, row by row: the one whose score is the largest, or the smallest."""
    sign = 1 if attack.up else -1
    counts = np.zeros((one.rows, one.channel.outcomes))
    query = one.query.query
    if isinstance(query, CellQuery) and isinstance(one.pooling, Buckets):
        # Of her row's buckets she names the cell's own; or its opposite, without signs any other one.
        dealt, mine = rows_of(one), 1 + attack.target
        opposite = -mine if query.negative is not None else None
        for row, many in zip(dealt, rng.multinomial(liars, np.full(len(dealt), 1 / len(dealt))), strict=True):
            named = int(one.encode(mine, row))
            down = named ^ 1 if opposite is None else int(one.encode(opposite, row))
            counts[row, named if attack.up else down] = many
    elif isinstance(query, CellQuery) and one.pooled:
        # The row is dealt to her; the bit that agrees with the cell in this row is the one that pushes it up.
        cells = np.zeros(one.rows, np.int64)
        cells[attack.target] = 1
        agreeing = hadamard.transform(cells) > 0
        dealt = rng.multinomial(liars, np.full(one.rows, 1 / one.rows))
        counts[np.arange(one.rows), (agreeing == attack.up).astype(int)] = dealt
    else:
        scores = one.channel.scores(targets(query, one.channel.inputs)[attack.target])
        counts[0, int((sign * scores).argmax())] = liars
    return counts


def excess(one: PreparedPart, attack: Attack, liars: int, claimed: float, rng: np.random.Generator) -> float:
    """By how many standard errors the estimate is beyond what is shown, φ(C + 1) at most; `claimed` is φ."""
    population = populations(one)[attack.population]
    honest = report_probabilities(one, population)
    counts = rng.multinomial(USERS - liars, honest.ravel() / honest.sum()).reshape(honest.shape)
    found = estimate(one, Tally((counts + worst_lies(one, attack, liars, rng)).astype(np.int64)))
    off = abs(found.values[attack.target] - truth(one, population)[attack.target])
    return (off - claimed * weight_of_a_lie(one)) / found.standard_errors[attack.target]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of all attacks on a part."""

    trials: int
    beyond: int
    """How often the estimate was further off than the bound and 4 standard errors."""
    furthest: float
    """Standard errors beyond the bound, at most."""

    @property
    def holds(self) -> bool:
        """Whether no more are beyond than chance explains: each with Pr[|N(0, 1)| > 4], at 10⁻⁶."""
        return bool(stats.binom.sf(self.beyond - 1, self.trials, 2 * stats.norm.sf(4)) >= 1e-6)


def attacked(one: PreparedPart, trials: int, lying: float, claimed: float) -> Outcome:
    """Attack each estimate of a part, in each population, so many times."""
    rng = np.random.default_rng(2011)
    liars = round(USERS * lying)
    found = [excess(one, attack, liars, claimed, rng) for attack in attacks(one) for _ in range(trials)]
    return Outcome(len(found), sum(each > 4 for each in found), max(found))


@each_part
@pytest.mark.parametrize("share", SHARES)
def test_the_worst_lies_shift_no_estimate_beyond_the_bound(one: PreparedPart, share: float, figures: Figures) -> None:
    found = attacked(one, TRIALS, share, share)

    figures(f"worst lies, f = {share:.0%}", attacks=found.trials, beyond_4_standard_errors=found.beyond)
    print(f"C = {scale(one):.3f}: at the furthest {found.furthest:+.2f} SE beyond f x {weight_of_a_lie(one):.3f}")
    assert found.holds


@each_part
@pytest.mark.parametrize("share", SHARES)
def test_control_twice_as_many_liars_are_found(one: PreparedPart, share: float) -> None:
    assert not attacked(one, 2, 2 * share, share).holds


def test_the_bound_that_is_shown_is_exact_and_within_that_of_the_issue() -> None:
    """The worst lie against the worst population has this expectation; and it is at most C + 1."""
    for one in ALL.values():
        weight, table = weight_of_a_lie(one), _table(one)
        if not one.pooled:
            wanted = targets(one.query.query, one.channel.inputs)
            worst = max(
                abs(float(score[outcome]) - float(table[given] @ score))
                for score in map(one.channel.scores, wanted)
                for outcome in range(one.channel.outcomes)
                for given in (0, one.channel.inputs - 1, *range(min(one.channel.inputs, 16)))
            )
            assert weight == pytest.approx(worst, rel=1e-9)
        assert weight <= scale(one) + 1 + 1e-9
        assert [each.share for each in shifts(one)] == list(SHARES)
        assert [each.shift for each in shifts(one)] == [share * weight for share in SHARES]


def _table(one: PreparedPart) -> Floats:
    return np.array([[float(weight) for weight in row] for row in one.channel.table()]) / 2.0**64


def test_control_without_the_clamp_one_liar_is_enough() -> None:
    """The Laplace randomizer of the papers has no largest report: R(u) = g(u) + Lap(2/ε), KLNRS11, §5.1.1."""
    rng, one = np.random.default_rng(1), ALL["real, laplace"]

    def beyond(lie: float, liars: int) -> bool:
        honest = rng.laplace(0, 2, USERS - liars)
        mean = (honest.sum() + liars * lie) / USERS
        return abs(mean) > liars / USERS * (scale(one) + 1) + 4 * honest.std() / USERS**0.5

    # Where the channel clamps, a hundredth of liars stays within the bound; where nothing does, one is beyond it.
    assert not beyond(scale(one), USERS // 100)
    assert beyond(1e6, 1)


def test_an_operator_sees_what_liars_could_do_beside_each_estimate(tmp_path: Path) -> None:
    """A simulated study whose users are all at −1: a twentieth of them lie, and the tally says how far that reaches."""
    users, share = 16_000, 0.05
    with Service(tmp_path / "data", cap="2") as api:
        api.post("/v1/enrolments", token=api.enrolment, json={"users": users})
        study = api.study(parameters={"users": "all", "epsilon": "1", "tolerance": "0.2"}, simulated=True)
        [round_] = study["rounds"]
        [one] = prepared_as_shown(study).parts
        rng = np.random.default_rng(5)
        outcomes = (rng.random(users) < _table(one)[0, 1]).astype(int)
        outcomes[: round(users * share)] = 1
        # The round closes by itself with the last report that it waits for.
        api.batch(round_["id"], study["gateway_token"], range(users), outcomes.tolist())
        api.post(f"/v1/rounds/{round_['id']}/close", token=api.operator)
        [estimated] = api.get(f"/v1/rounds/{round_['id']}/tally").json()["estimates"]

    assert [each["share"] for each in estimated["liars"]] == [0.01, 0.05]
    told = estimated["liars"][1]["shift"]
    error = scale(one) / users**0.5
    off = abs(estimated["values"][0] - -1)
    assert off <= told + 4 * error
    # The control: it is the liars, and not a wide margin, that were looked at.
    assert off > estimated["liars"][0]["shift"] + 4 * error
