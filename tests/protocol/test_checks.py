"""Pre-conditions are refused in words, and a formula becomes people by one careful ceiling."""

import math
from collections.abc import Callable

import pytest

from askance_lab.theory import approximate, central, local, masked_parity, parity
from askance_protocol import checks
from askance_protocol.errors import ProtocolError
from askance_server.core import planners, tails
from tests.protocol.studies import wrong


@pytest.mark.parametrize(
    "call",
    [
        lambda: checks.positive("x", math.nan),
        lambda: checks.positive("x", math.inf),
        lambda: checks.open_unit("x", 1.0),
        lambda: checks.count("x", 0),
        lambda: checks.count("x", wrong(2.5)),
        lambda: checks.count("x", wrong(math.nan)),
        lambda: checks.between("x", math.nan, 0, 1),
        lambda: checks.keep_probability("keep", 0.5),
        lambda: checks.attainable("tolerance", 0.0),
        lambda: local.users_sq_query_repaired(bound=1, tolerance=3, epsilon=1, failure=0.05),
        lambda: local.examples_sq_noise_split(queries=1, tolerance=0.1, noise_rate=0.5, failure=0.1),
        lambda: local.randomizer_tolerance_stated(queries=10, epsilon=400, failure=0.1),
        lambda: tails.laplace_sum_tail_repaired(users=10, deviation=3, scale=1),
        lambda: masked_parity.bent_query_bias(dimension=7),
        lambda: central.sauer_log_labelings(vc=5, domain=4),
        lambda: parity.examples_parity_sharp(dimension=3, inclusion=0.1, error=0.6, failure=0.1),
        lambda: approximate.examples_point_repaired(dimension=8, epsilon=1, delta=1e-6, error=0.1, failure=0.1),
        lambda: planners.users_for_proportion(1.0, 0.05),
        lambda: planners.users_for_proportion(0.1, 0.05, 0.6, 0.4),
        lambda: planners.users_kary(0.2, 0.3, 0.1, 0.05),
        lambda: planners.worst_proportion(10**16, 0.1),
    ],
)
def test_a_bad_parameter_is_refused_in_words(call: Callable[[], object]) -> None:
    """Nothing is computed from a parameter outside its theorem."""
    with pytest.raises(ProtocolError, match=r".+: .+ \(.+\)"):
        call()


def test_a_bound_too_large_for_a_float_is_refused_clearly() -> None:
    """2^5000 users is an answer no study can use, not an OverflowError."""
    with pytest.raises(ProtocolError, match="larger than any number"):
        masked_parity.users_mask_bit_enough(dimension=5000, epsilon=1, failure=0.05)


def test_hypothesis_classes_may_be_larger_than_any_float() -> None:
    """Only ln|H| enters, so |H| = 2^5000 is fine: at ε = 1, α = .1 the term (4.5/α²)ln(4|H|/β) is the larger."""
    expected = math.ceil(450 * (5002 * math.log(2) + math.log(20)))

    assert expected == central.examples_generic_repaired(hypotheses=2**5000, epsilon=1, error=0.1, failure=0.05)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.2, 1), (7.0, 7), (7.1, 8), (7 + 2**-50, 7), (1e12 + 0.5, 10**12 + 1), (1e300, int(1e300))],
)
def test_whole_rounds_up_but_forgives_the_last_places(value: float, expected: int) -> None:
    """A formula that is 7 on paper and 7.000000000000001 in floats is 7 people; 7.1 is 8."""
    assert expected == checks.whole(value)
