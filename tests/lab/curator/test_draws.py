"""Exact draws: they have the distribution that they say, by floats, by decimals, at any size."""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import binom, chi2

from askance_lab.curator import draws
from askance_lab.curator.draws import below, bernoulli, bernoulli_exp, chances, discrete_laplace, draw_exponential
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import OsRandom, SimulatedRandom

SMALL = 1e-6


def fits(counts: Counter[int], expected: list[float]) -> bool:
    """Whether chi-square at 1e-6 lets these counts pass; cells of fewer than five are joined."""
    runs = sum(counts.values())
    cells = [(counts[i], runs * chance) for i, chance in enumerate(expected) if runs * chance >= 5]
    rest = (runs - sum(seen for seen, _ in cells), runs - sum(due for _, due in cells))
    if rest[1] >= 5:
        cells.append(rest)
    elif rest[0] > binom.isf(SMALL, runs, max(0.0, rest[1] / runs)):
        return False
    statistic = math.fsum((seen - due) ** 2 / due for seen, due in cells)
    return len(cells) < 2 or bool(chi2.sf(statistic, len(cells) - 1) > SMALL)


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 100])
def test_whole_numbers_are_uniform(count: int) -> None:
    """Below 1, powers of two and numbers that are none."""
    draw = below(SimulatedRandom(count))

    assert fits(Counter(draw(count) for _ in range(5000)), [1 / count] * count)


def test_whole_numbers_may_need_many_words() -> None:
    """Below 3·2^200: in range, and each third as often as the others."""
    draw, count = below(SimulatedRandom(1)), 3 << 200
    drawn = [draw(count) for _ in range(5000)]

    assert 0 <= min(drawn) <= max(drawn) < count
    assert fits(Counter(each >> 200 for each in drawn), [1 / 3] * 3)


def test_the_check_of_counts_finds_a_remainders_bias() -> None:
    """Control: a uniform number below 8, taken modulo 5, does not pass."""
    draw = below(SimulatedRandom(2))

    assert not fits(Counter(draw(8) % 5 for _ in range(5000)), [1 / 5] * 5)


def test_the_operating_system_serves_as_well() -> None:
    """A real source needs no seed."""
    draw = below(OsRandom())

    assert all(0 <= draw(10) < 10 for _ in range(100))


@pytest.mark.parametrize("gamma", [Fraction(0), Fraction(1, 7), Fraction(2, 3), Fraction(1)])
def test_exponential_coins_have_their_chance(gamma: Fraction) -> None:
    """e^{−γ} for γ from 0 to 1, and a plain coin of chance γ."""
    draw, runs = below(SimulatedRandom(3)), 5000
    for coin, chance in ((bernoulli_exp, math.exp(-gamma)), (bernoulli, float(gamma))):
        heads = sum(coin(gamma, draw) for _ in range(runs))
        assert min(binom.cdf(heads, runs, chance), binom.sf(heads - 1, runs, chance)) > SMALL


@pytest.mark.parametrize("scale", [Fraction(1, 5), Fraction(1), Fraction(7, 3), Fraction(20)])
def test_noise_is_discrete_laplace(scale: Fraction) -> None:
    """Chances in proportion to e^{−|k|/scale}, 0 not twice as likely, both signs alike."""
    draw, steep = below(SimulatedRandom(4)), 1 / float(scale)
    reach = math.ceil(40 * scale)
    counts = Counter(discrete_laplace(scale, draw) + reach for _ in range(10_000))
    pmf = [math.tanh(steep / 2) * math.exp(-steep * abs(k - reach)) for k in range(2 * reach + 1)]

    assert fits(counts, pmf)
    doubled = [2 * chance if k == reach else chance for k, chance in enumerate(pmf)]  # without the rejection at 0
    assert not fits(counts, [each / math.fsum(doubled) for each in doubled])


LEVELS = [
    ([0, 1, 2, 5], [1, 1, 1, 1], Fraction(1, 2)),
    ([3, 0, 1], [5, 0, 2], Fraction(1)),
    ([0, 0, 0], [1, 2, 3], Fraction(3)),
    ([0, 1420, 1421], [1, 1 << 1024, 1 << 1024], Fraction(1, 2)),
    ([0, 710, 10**6], [1, 1 << 1024, 1 << 1024], Fraction(1)),
    ([10**6, 10**6 + 1], [1, 1], Fraction(1, 3)),
    ([4], [9], Fraction(1)),
]


@pytest.fixture(params=["floats", "decimals"])
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to find a level: with a slack of 2 no float is ever trusted."""
    if request.param == "decimals":
        monkeypatch.setattr(draws, "_SLACK", 2.0)
    return str(request.param)


def exact(losses: list[int], multiplicities: list[int], rate: Fraction) -> list[float]:
    """The probabilities by 60 digits."""
    with localcontext(prec=60, Emin=-(10**9)):
        weights = [
            many * (-Decimal(rate.numerator * loss) / rate.denominator).exp()
            for loss, many in zip(losses, multiplicities, strict=True)
        ]
        return [float(weight / sum(weights)) for weight in weights]


@pytest.mark.parametrize("case", range(len(LEVELS)))
def test_levels_have_their_distribution(case: int, path: str) -> None:
    """Multiplicities 0 and 2^1024, losses up to 10^6, one level: as often as computed to 60 digits."""
    losses, multiplicities, rate = LEVELS[case]
    draw = below(SimulatedRandom(5, stream=case))
    runs = 5000 if path == "floats" else 500
    counts = Counter(draw_exponential(losses, multiplicities, rate, draw) for _ in range(runs))

    assert fits(counts, exact(losses, multiplicities, rate))
    assert all(multiplicities[found] for found in counts)


def test_the_check_of_levels_finds_half_the_rate() -> None:
    """Control: the same draws are not those of rate ¼, nor of one multiplicity more."""
    losses, multiplicities, rate = LEVELS[0]
    draw = below(SimulatedRandom(6))
    counts = Counter(draw_exponential(losses, multiplicities, rate, draw) for _ in range(5000))

    assert not fits(counts, exact(losses, multiplicities, rate / 2))
    assert not fits(counts, exact(losses, [2, 1, 1, 1], rate))


@pytest.mark.parametrize("case", range(len(LEVELS)))
def test_floats_chances_are_good_to_twelve_digits(case: int) -> None:
    """What is plotted and enumerated agrees with 60 digits."""
    np.testing.assert_allclose(chances(*LEVELS[case]), exact(*LEVELS[case]), rtol=0, atol=1e-12)


def test_floats_and_decimals_find_the_same_level(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the same uniform number: where floats were sure, they were right."""
    losses, multiplicities, rate = [0, 1, 2, 5, 9, 1420], [1, 1, 4, 1, 30, 1 << 1024], Fraction(1, 2)
    by_floats = [draw_exponential(losses, multiplicities, rate, below(SimulatedRandom(seed))) for seed in range(60)]
    monkeypatch.setattr(draws, "_SLACK", 2.0)
    by_decimals = [draw_exponential(losses, multiplicities, rate, below(SimulatedRandom(seed))) for seed in range(60)]

    assert by_floats == by_decimals
    assert len(set(by_floats)) > 2


@pytest.mark.parametrize("above", [False, True])
def test_a_number_next_to_a_border_is_told_from_it(*, above: bool) -> None:
    """The first 60 and the next 128 bits are the border's own: only the bits after them decide, on either side."""
    bits = 60 + 3 * 128
    with localcontext(prec=200):
        border = 1 / (1 + Decimal("-0.5").exp())  # of levels 0 and 1 at rate ½
        scaled = int(border * 2**bits)
    point = scaled + 1 if above else scaled - 1
    pieces = [point >> (bits - 60)] + [point >> (bits - 60 - 128 * k) & (1 << 128) - 1 for k in (1, 2, 3)]
    asked: list[int] = []

    def draw(count: int) -> int:
        asked.append(count)
        return pieces[len(asked) - 1] if len(asked) <= len(pieces) else 0

    assert draw_exponential([0, 1], [1, 1], Fraction(1, 2), draw) == int(above)
    assert asked[:4] == [1 << 60, 1 << 128, 1 << 128, 1 << 128]


@pytest.mark.parametrize(
    ("losses", "multiplicities"), [([], []), ([1], [1, 2]), ([1, 2], [0, 0]), ([0] * ((1 << 20) + 1),) * 2]
)
def test_levels_that_are_none_are_refused(losses: list[int], multiplicities: list[int]) -> None:
    """None, unequal, weightless, and more than floats are good for."""
    with pytest.raises(ProtocolError, match="losses"):
        draw_exponential(losses, multiplicities, Fraction(1), below(SimulatedRandom(0)))


def test_nothing_is_drawn_below_nothing() -> None:
    with pytest.raises(ProtocolError, match="leaves nothing to draw"):
        below(SimulatedRandom(1))(0)
