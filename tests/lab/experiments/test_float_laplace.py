"""The float Laplace leaks, the attack that shows it is exact, and a channel on a grid gives it nothing to find."""

from __future__ import annotations

from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy.stats import binomtest

from askance_lab.experiments import float_laplace
from askance_lab.experiments.float_laplace import (
    GRID,
    MARGIN,
    ULPS,
    impossible_fraction,
    leaky_laplace,
    possible,
    possible_reports,
)
from askance_protocol.errors import ProtocolError

LEVEL = 1e-6  # of every statistical test, one-sided

# (value, neighbour, b) of the papers' R(u) = g(u) + Lap(2b/ε) with |g| ≤ b = 1 and ε = 1, and the same for [0, 1],
# whose width 1 makes the scale 1.
PAIRS = [(-1.0, 1.0, 2.0), (1.0, -1.0, 2.0), (0.0, 1.0, 1.0), (1.0, 0.0, 1.0)]

CASES = [(0.0, 1.0), (1.0, 2.0), (-1.0, 2.0), (0.1, 1 / 3), (-0.7, 17.3), (1000.0, 1.0), (3e-5, 2.0**-20), (5e70, 1e70)]


def edges_of_the_grid() -> np.ndarray:
    """The k where a range is most easily cut short: both ends, and around every power of two."""
    powers = 2 ** np.arange(54, dtype=np.int64)
    near = np.concatenate([powers + step for step in range(-3, 4)] + [np.arange(1, 300), GRID - np.arange(300)])
    return np.unique(near[(near >= 1) & (near <= GRID)])


@pytest.mark.parametrize(("value", "neighbour", "scale"), PAIRS)
def test_most_single_reports_rule_the_neighbouring_input_out(value: float, neighbour: float, scale: float) -> None:
    """More than half of the reports under one input cannot come from the other: no ε holds."""
    samples = 4000
    fraction = impossible_fraction(value, neighbour, scale, samples, np.random.default_rng(2012))

    assert binomtest(round(fraction * samples), samples, 0.5, alternative="greater").pvalue < LEVEL


@pytest.mark.parametrize(("value", "scale"), CASES)
def test_every_true_report_is_possible_under_its_own_input(value: float, scale: float) -> None:
    """Completeness on random coins: the attack never rules out the truth."""
    reports = leaky_laplace(np.full(5000, value), scale, np.random.default_rng(1))

    assert possible_reports(reports, value, scale).all()


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(("value", "scale"), CASES)
def test_every_report_from_the_edges_of_the_grid_is_possible(value: float, scale: float, sign: int) -> None:
    """Completeness on the coins that random draws never reach: tiny noise, huge noise, powers of two."""
    reports = float_laplace._reports(value, sign, edges_of_the_grid(), scale)

    assert possible_reports(reports, value, scale).all()


@pytest.mark.parametrize(("value", "neighbour", "scale"), PAIRS)
def test_a_margin_64_times_wider_changes_no_verdict(
    value: float, neighbour: float, scale: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The margin of the proof is wide enough: looking much farther finds no further witness."""
    reports = leaky_laplace(np.full(1000, value), scale, np.random.default_rng(2))
    verdicts = possible_reports(reports, neighbour, scale)
    monkeypatch.setattr(float_laplace, "MARGIN", 64 * MARGIN)

    assert possible_reports(reports, neighbour, scale).tolist() == verdicts.tolist()


@pytest.mark.parametrize("neighbour", [1.0, 0.5, -0.3])
def test_on_a_grid_small_enough_to_enumerate_the_attack_equals_brute_force(
    neighbour: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With U on a grid of 2¹⁶ points the whole support is listed, and membership in it is what `possible` says."""
    monkeypatch.setattr(float_laplace, "GRID", 2**16)
    every = np.arange(1, 2**16 + 1)
    support = np.concatenate([float_laplace._reports(neighbour, sign, every, 2.0) for sign in (1, -1)])
    drawn = leaky_laplace(np.full(2000, -1.0), 2.0, np.random.default_rng(3))
    reports = np.concatenate([drawn, support[::50], np.nextafter(support[::50], np.inf)])

    assert possible_reports(reports, neighbour, 2.0).tolist() == np.isin(reports, support).tolist()


@pytest.mark.parametrize("function", ["log", "exp"])
def test_numpy_is_as_accurate_as_the_proof_assumes(function: str) -> None:
    """Log on the grid and exp on the noise's range err by at most ULPS units, against 60 decimal digits."""
    generator = np.random.default_rng(4)
    uniforms = np.concatenate([edges_of_the_grid(), generator.integers(1, GRID, 1000)]) / GRID
    arguments = uniforms if function == "log" else np.log(uniforms)
    values = getattr(np, function)(arguments)
    with localcontext(prec=60):
        exact = [Decimal(x).ln() if function == "log" else Decimal(x).exp() for x in arguments.tolist()]
        errors = [abs(Decimal(y) - true) for y, true in zip(values.tolist(), exact, strict=True)]
        units = [Decimal(unit) for unit in np.spacing(np.abs(values)).tolist()]

    assert all(error <= ULPS * unit for error, unit in zip(errors, units, strict=True))


def test_numpys_log_does_not_depend_on_the_neighbours_in_the_array() -> None:
    """Vector lanes and leftovers agree, so evaluating a coin again reproduces its report."""
    uniforms = np.random.default_rng(5).integers(1, GRID, 1001) / GRID
    together = np.log(uniforms)

    assert together[7:].tolist() == np.log(uniforms[7:].copy()).tolist()
    assert together.tolist() == [float(np.log(np.asarray([u]))[0]) for u in uniforms.tolist()]


def test_on_a_discretised_channel_the_attack_finds_nothing() -> None:
    """Control: Lap(2) rounded to multiples of 2⁻¹⁰ and clamped to ±16: every report is possible under every input.

    The same search finds, for each of the 2¹⁵ + 1 reports and each input, coins that give it.
    """
    step, limit, scale = 2.0**-10, 16.0, 2.0
    reports = np.arange(-limit, limit + step, step)
    for value in (-1.0, 0.0, 1.0):
        found = np.zeros(reports.shape, dtype=np.bool_)
        for sign in (1, -1):

            def discretised(uniforms: np.ndarray, value: float = value, sign: int = sign) -> np.ndarray:
                noise = step * np.rint(float_laplace._noise(uniforms, scale) / step)
                return np.clip(value + sign * noise, -limit, limit)

            first, last = float_laplace._range(sign * (reports - value), np.full(reports.shape, step / 2), scale)
            # A step holds up to 2⁴³ coins; the middle few are enough to find one.
            middle = (first + last) // 2
            found |= float_laplace._search(discretised, reports, middle, np.minimum(middle + 4, last))

        assert found.all()


def test_the_sampler_is_laplace() -> None:
    """Half of Lap(s) lies within s·ln 2 and half above 0: the leak is in the last bits, not in the shape."""
    samples = 100_000
    noise = leaky_laplace(np.zeros(samples), 2.0, np.random.default_rng(6))

    for event in (np.abs(noise) < 2 * np.log(2), noise > 0):
        assert binomtest(int(event.sum()), samples, 0.5).pvalue > LEVEL


def test_one_report_and_many_are_judged_alike() -> None:
    """`possible` is `possible_reports` on one report."""
    reports = leaky_laplace(np.full(50, -1.0), 2.0, np.random.default_rng(7))

    assert [possible(report, 1.0, 2.0) for report in reports.tolist()] == possible_reports(reports, 1.0, 2.0).tolist()


def test_no_reports_and_reports_out_of_reach_are_fine() -> None:
    """An empty batch has no verdicts; what no noise can reach is impossible, without overflow."""
    assert possible_reports(np.zeros(0), 0.0, 1.0).shape == (0,)
    assert not possible_reports(np.asarray([40.0, -40.0, 1.7e308, -1.7e308]), 0.0, 1.0).any()


@pytest.mark.parametrize("scale", [0.0, -1.0, float("nan"), float("inf"), 1e-300, 1e300])
def test_a_bad_scale_is_refused(scale: float) -> None:
    """Scales that are not positive, or for which a product could leave the normal doubles."""
    with pytest.raises(ProtocolError, match="scale"):
        leaky_laplace(np.zeros(1), scale, np.random.default_rng(0))
    with pytest.raises(ProtocolError, match="scale"):
        possible(0.0, 0.0, scale)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1025.0])
def test_a_bad_value_is_refused(value: float) -> None:
    """Values that are not finite, or beyond what the width of the search is proved for."""
    with pytest.raises(ProtocolError, match="values"):
        leaky_laplace(np.asarray([value]), 1.0, np.random.default_rng(0))
    with pytest.raises(ProtocolError, match="values"):
        possible(0.0, value, 1.0)


def test_a_report_that_is_no_number_and_an_empty_experiment_are_refused() -> None:
    """The remaining pre-conditions."""
    with pytest.raises(ProtocolError, match="report"):
        possible(float("nan"), 0.0, 1.0)
    with pytest.raises(ProtocolError, match="samples"):
        impossible_fraction(0.0, 1.0, 1.0, 0, np.random.default_rng(0))
