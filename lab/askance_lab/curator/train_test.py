"""A* by training and testing: k candidates from separate parts, and the least noisy error on a last part.

KLNRS11, §4, Thm 4.4, Lemmas 4.5 and 4.6. Repaired (trap 7): log_{3/4}(1/β') is negative, the base is 4/3; there are
three events to fail, so β' = β/3; a database of exactly kn' + s examples suffices (the text refuses it); a candidate ⊥
has no error, and is scored as one that is always wrong. The sizes are `bounds.parity.parity_train_test_repaired`.

*Selection.* "laplace" is the text's: Lap(k/sε) on each error, here discrete and on the counts, so of scale k/ε: the k
noisy errors could all be told. "exponential" is footnote 4's: candidate j with probability in proportion to
e^{−ε·mistakes_j/2}, which tells only j, and so does not pay for each candidate.

*What is paid.* The parts are disjoint, so replacing one example changes one of them: either one candidate's training,
which spends ln((1+p)/(1−p)) ≤ ε, or the test, which spends ε = k·(ε/k), and ε with the exponential mechanism. The test
sees the training examples through the candidates only. So A* spends the larger of the two: ε, once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Final, Literal, TypeAlias

import numpy as np

from askance_lab.curator import exponential
from askance_lab.curator.concepts import A_PARITY, PARITY
from askance_lab.curator.databases import BitSample
from askance_lab.curator.distributions import Distribution, mixture
from askance_lab.curator.draws import Below, discrete_laplace
from askance_lab.curator.errors import require_examples
from askance_lab.curator.mechanism import Mechanism, roughly
from askance_lab.curator.parity import attempt, attempt_distribution, inclusion
from askance_lab.curator.privacy import Paid, checked
from askance_lab.theory.parity import TrainTest, parity_train_test_exponential
from askance_lab.theory.targets import Targets
from askance_protocol import checks
from askance_protocol.errors import ProtocolError

Selection: TypeAlias = Literal["laplace", "exponential"]
HypothesisIndex: TypeAlias = int | None

_NEGLIGIBLE: Final = 45
"""Beyond so many scales the discrete Laplace distribution has less than 1e-19 left."""


def learn(
    sample: BitSample,
    *,
    epsilon: Fraction,
    parts: TrainTest,
    draw: Below,
    selection: Selection = "laplace",
    stated: bool = False,
) -> HypothesisIndex:
    """Run A*(z, ε, …) of KLNRS11: r with bit i = r_i, or None if the chosen candidate is ⊥."""
    p = inclusion(epsilon, stated=stated)
    # Steps 2 to 4.
    training, test = divided(sample, parts)
    # Step 5.
    candidates = [attempt(part, p, draw) for part in training]
    counts = mistakes(candidates, test)
    # Step 6.
    return candidates[select(counts, epsilon=epsilon, draw=draw, selection=selection)]


def divided(sample: BitSample, parts: TrainTest) -> tuple[list[BitSample], BitSample]:
    """Divide the sample, A*'s steps 2 to 4: k training parts of n', and the rest as the test part.

    Kn' + s examples are enough (trap 7). More mistakes to count only make the test surer: its noise does not grow.
    """
    for name, value in parts._asdict().items():
        checks.count(name, value)
    require_examples(len(sample), parts.total, "has insufficient samples", where="database")
    begin = parts.candidates * parts.train
    training = [_part(sample, low, low + parts.train) for low in range(0, begin, parts.train)]
    return training, _part(sample, begin, len(sample))


def mistakes(candidates: Sequence[HypothesisIndex], test: BitSample) -> list[int]:
    """Number of test examples that each candidate labels wrongly; for ⊥ all of them (trap 7)."""
    return [len(test) if h is None else _wrong(h, test) for h in candidates]


def select(counts: Sequence[int], *, epsilon: Fraction, draw: Below, selection: Selection) -> int:
    """Choose a candidate: by the least noisy count (of those alike, the first), or by the exponential mechanism."""
    if selection == "exponential":
        # KLNRS11, footnote 4.
        return exponential.choose([-count for count in counts], epsilon=epsilon, draw=draw)
    _known(selection)
    # Step 5: Lap(k/sε) on mistakes/s is k/ε on mistakes, and the least of the ones is the least of the others.
    noisy = [count + discrete_laplace(len(counts) / checked(epsilon).epsilon, draw) for count in counts]
    return noisy.index(min(noisy))


def paid(epsilon: Fraction) -> Paid:
    """Price: ε. The parts are disjoint (see the module), and each costs at most ε."""
    return checked(epsilon)


def _known(selection: str) -> None:
    if selection not in ("laplace", "exponential"):
        raise ProtocolError("is not known", where="selection", remedy="give laplace or exponential")


def _part(sample: BitSample, begin: int, end: int) -> BitSample:
    return BitSample(sample.d, sample.words[begin:end], sample.labels[begin:end])


def _wrong(h: int, test: BitSample) -> int:
    bits = np.frombuffer(h.to_bytes(8 * test.words.shape[1], "little"), "<u8")
    odd = np.bitwise_count(test.words & bits).sum(axis=1) % 2 == 1
    return int(np.count_nonzero(odd != test.labels))


# --- The exact distribution ---------------------------------------------------------------------------------------


def train_test_distribution(
    sample: BitSample,
    *,
    epsilon: Fraction,
    parts: TrainTest,
    selection: Selection = "laplace",
    stated: bool = False,
) -> Distribution[HypothesisIndex]:
    """Exact probability of each r, and of None for ⊥, over all candidates that the parts can give."""
    p = inclusion(epsilon, stated=stated)
    training, test = divided(sample, parts)
    each = [attempt_distribution(part, p).items() for part in training]
    return mixture(_chosen(drawn, test, epsilon, selection) for drawn in itertools.product(*each))


def _chosen(
    drawn: Sequence[tuple[HypothesisIndex, float]], test: BitSample, epsilon: Fraction, selection: Selection
) -> tuple[float, Distribution[HypothesisIndex]]:
    candidates = [h for h, _ in drawn]
    chances = selection_probabilities(mistakes(candidates, test), epsilon=epsilon, selection=selection)
    found = mixture((chance, {h: 1.0}) for h, chance in zip(candidates, chances, strict=True))
    return math.prod(chance for _, chance in drawn), found


def selection_probabilities(counts: Sequence[int], *, epsilon: Fraction, selection: Selection) -> list[float]:
    """Probability that `select` chooses each candidate."""
    if selection == "exponential":
        return exponential.probabilities([-count for count in counts], epsilon=epsilon)
    _known(selection)
    scale = len(counts) / float(checked(epsilon).epsilon)
    reach = math.ceil(_NEGLIGIBLE * scale)
    values = np.arange(min(counts) - reach, max(counts) + reach + 1)
    ratio = math.exp(-1 / scale)
    masses = [(1 - ratio) / (1 + ratio) * ratio ** np.abs(values - count) for count in counts]
    # Pr[noisy ≥ t], summed from the top, where the terms are small.
    at_least = [np.cumsum(mass[::-1])[::-1] for mass in masses]
    return [float(math.fsum(masses[j] * _beaten(at_least, masses, j))) for j in range(len(counts))]


def _beaten(at_least: Sequence[np.ndarray], masses: Sequence[np.ndarray], j: int) -> np.ndarray:
    """Pr[all others are more, or come later and are no less], for each value of the j-th count."""
    others = [at_least[i] - masses[i] if i < j else at_least[i] for i in range(len(masses)) if i != j]
    return np.prod(others, axis=0) if others else np.ones_like(masses[j])


def _parts(d: int, targets: Targets) -> TrainTest:
    return parity_train_test_exponential(dimension=d, **roughly(targets))


def _best_of_several(sample: BitSample, targets: Targets, draw: Below) -> HypothesisIndex:
    parts = _parts(sample.d, targets)
    return learn(sample, epsilon=targets.epsilon, parts=parts, draw=draw, selection="exponential")


MECHANISM: Final = Mechanism(
    name="parity-train-test",
    summary="PARITY, the best of several on a test part",
    by="KLNRS11 Thm 4.4",
    concepts=PARITY,
    answers=A_PARITY,
    run=_best_of_several,
    needed=lambda d, targets: _parts(d, targets).total,
    place=23,
)
