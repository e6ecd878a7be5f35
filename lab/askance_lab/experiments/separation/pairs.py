"""A learner of MASKED-PARITY at once whose users answer for pairs of words, on tallies drawn from its exact law.

It attains the most χ² about the mask bit, summed over all r, that a channel can have
(`theory.limits.channel_gain_over_parities`, ε <= 1.34). Each pair of a word and its complement has as many users. An
output is a class and a sign. Its set of users holds, of those with b = 0, whose label has that sign under the parity of
the class's word; of those with b = 1, in class A, whose bit contradicts the pair's first word, in class B, whose bit
agrees with it. So for a user with b = 0 one output of either class is likelier, for a user with b = 1 both of one
class: probabilities are (1 + k·1[z ∈ S])/(4 + 2k), which is ε-local.

What is learned is the likeliest of all 2^{d+1} concepts, so this is for small d, and no strategy.
"""

from __future__ import annotations

import math

import numpy as np

from askance_lab.evaluation.proportion import Proportion
from askance_protocol import checks
from askance_protocol.arrays import Floats, Integers


def laws(d: int, epsilon: float) -> Floats:
    """Probability of each output (A+, A−, B+, B−), by pair, r and a."""
    words = np.arange(1 << checks.count("d", d))
    bits = words[:, None] >> np.arange(d) & 1
    agree = np.mean(bits[: 1 << (d - 1), None] == bits, axis=-1)
    named = np.stack([agree == 1, agree == 0], axis=-1).astype(float)
    shown = np.stack([1 - agree, agree], axis=-1)
    signs = np.array([1.0, -1.0])
    # By pair, r, a, class, sign: half of the users have b = 1, and of the others half have each sign, or by a all one.
    turned = named[:, :, None, :, None] * signs[:, None, None] * signs
    held = shown[:, :, None, :, None] / 2 + (1 + turned) / 4
    k = math.expm1(checks.positive("epsilon", epsilon))
    return ((1 + k * held) / (4 + 2 * k)).reshape(*agree.shape, 2, 4)


def success(*, d: int, users_of_a_pair: int, epsilon: float, studies: int, seed: int) -> Proportion:
    """Studies in which the likeliest concept is the true one, each with a concept and users of its own."""
    law, rng = laws(d, epsilon), np.random.default_rng(seed)
    logs, right = np.log(law).reshape(len(law), -1, 4), 0
    for _ in range(studies):
        r, a = int(rng.integers(1 << d)), int(rng.integers(2))
        tallies: Integers = rng.multinomial(users_of_a_pair, law[:, r, a])
        right += int(np.einsum("pho,po->h", logs, tallies).argmax()) == 2 * r + a
    return Proportion(right, studies)
