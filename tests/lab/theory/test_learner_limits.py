"""Limits of PARITY and of conjunctions: against all channels that ask once, enumerated where they are few."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from askance_lab.theory.learner_limits import (
    conjunction_information,
    users_conjunction_at_once_limit,
    users_parity_at_once_limit,
)
from askance_lab.theory.masked_parity import shrinkage
from askance_protocol.errors import ProtocolError
from askance_server.core.planners import users_for_leading_row


def cube(d: int) -> np.ndarray:
    return np.array([[x >> i & 1 for i in range(d)] for x in range(2**d)])


@pytest.mark.parametrize(("d", "s"), [(8, 3), (8, 4), (6, 2), (5, 1), (2, 1), (3, 1)])
def test_no_question_tells_more_of_a_conjunction_than_its_limit(d: int, s: int) -> None:
    """The largest eigenvalue of how labels vary with the concept, without the Johnson scheme."""
    x = cube(d)
    labels = np.array([2.0 * x[:, list(chosen)].all(axis=1) - 1 for chosen in combinations(range(d), s)])
    labels -= labels.mean(axis=0)
    variance = np.linalg.eigvalsh(labels @ labels.T / 2**d / len(labels)).max()
    limit = conjunction_information(dimension=d, relevant=s, epsilon=1)

    assert limit == pytest.approx(variance / (2 * shrinkage(epsilon=1) ** 2))


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 2.0])
def test_no_channel_of_few_inputs_tells_more_of_a_parity_than_binary_response(epsilon: float) -> None:
    """Every extreme channel of one output and its complement over x of 2 bits and a label: 2^8 sets."""
    d, k = 2, np.expm1(epsilon)
    signs = np.array([[(-1) ** int(x & r).bit_count() for x in range(4)] for r in range(4)])
    best = 0.0
    for chosen in range(1, 2**8 - 1):
        inside = np.array([chosen >> bit & 1 for bit in range(8)]).reshape(4, 2)
        total = 0.0
        for some in (inside, 1 - inside):
            # Both outputs together give each user the same weight: q(1 + k) + q = 1.
            each = np.array([(some[:, 0] * (y == 1) + some[:, 1] * (y == -1)).mean() for y in signs])
            mean = (1 + k * each.mean()) / (2 + k)
            total += float((((1 + k * each) / (2 + k) - mean) ** 2).mean() / mean)
        best = max(best, total)

    assert best <= 1 / (2**d * shrinkage(epsilon=epsilon) ** 2) * (1 + 1e-9)


def test_the_limit_of_parity_is_below_what_rows_need() -> None:
    """And not far below: a row leads with the users of the plan, which are less than half as many again."""
    for d in (2, 4, 8, 10):
        limit = users_parity_at_once_limit(dimension=d, epsilon=1, failure=0.05)
        needed = users_for_leading_row(1 / shrinkage(epsilon=1), 2**d, 1, 0.05)
        assert limit < needed < 2 * limit

    assert users_parity_at_once_limit(dimension=8, epsilon=1, failure=0.05) == 22_217


def test_limits_of_conjunctions() -> None:
    found = {
        d: users_conjunction_at_once_limit(dimension=d, relevant=3, error=0.1, epsilon=1, failure=0.05) for d in (8, 64)
    }

    assert found == {8: 465, 64: 23_930}
    assert users_conjunction_at_once_limit(dimension=8, relevant=3, error=0.9, epsilon=1, failure=0.05) == 0


def test_what_is_no_number_of_bits_is_refused() -> None:
    with pytest.raises(ProtocolError, match="relevant"):
        conjunction_information(dimension=4, relevant=3, epsilon=1)
    with pytest.raises(ProtocolError, match="failure"):
        users_parity_at_once_limit(dimension=4, epsilon=1, failure=0.7)
