"""Mean squared errors of pure-ldp and multi-freq-ldpy on the shares of cells, for `survey.py`.

It runs in an environment of the libraries, which need not have this project. Reads one JSON object from standard input
(ε, number of repetitions, number of users of each question, true shares of each), prints one. The reports of all users
of a repetition are drawn at once, by the exact probabilities that the clients of the libraries have; what they add up
to is then estimated by the libraries' own servers. Before that each client runs for as many users, one by one, and is
compared with what is drawn.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import types
from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Counts = NDArray[np.int64]

FAR: Final = 6.0
"""Standard errors that nothing is off by chance."""


def main() -> None:
    """Answer one request."""
    asked = json.load(sys.stdin)
    epsilon, repetitions, users = float(asked["epsilon"]), int(asked["repetitions"]), int(asked["users"])
    source, answer = np.random.default_rng(2), dict[str, dict[str, list[float]]]()
    for question, shares in asked["shares"].items():
        truth = np.array(shares, np.float64)
        found = dict[str, list[float]]()
        for name, oracle in ORACLES.items():
            if name in MOST_CELLS and len(truth) > MOST_CELLS[name]:
                continue
            probabilities, estimated, report = oracle(epsilon, len(truth))
            check(name, report, probabilities, truth, users, source)
            drawn = np.array(
                [
                    estimated(counted(probabilities, source.multinomial(users, truth), source), users)
                    for _ in range(repetitions)
                ]
            )
            errors = ((whole(drawn) - truth) ** 2).mean(axis=1)
            found[name] = [float(errors.mean()), float(errors.std() / math.sqrt(repetitions))]
        answer[question] = found
    print(json.dumps(answer))


# ----------------------------------------------------------------------------------------------------------- reports


class Independent:
    """Reports of unary encoding: every cell is named by itself, the own one with p, the others with q."""

    def __init__(self, own: float, other: float, cells: int) -> None:
        self.named = np.full((cells, cells), other)
        np.fill_diagonal(self.named, own)


class OneOf:
    """Reports that are one of some sets of cells: how likely each set is from each cell."""

    def __init__(self, likely: Numbers, sets: Sequence[tuple[int, ...]], cells: int) -> None:
        self.likely = likely
        self.members = np.array([[cell in one for cell in range(cells)] for one in sets], np.int64)
        self.named = likely @ self.members


Reports = Independent | OneOf


def counted(reports: Reports, users: Counts, source: np.random.Generator) -> Counts:
    """How often each cell is named by so many users of each cell."""
    if isinstance(reports, Independent):
        return source.binomial(users[:, np.newaxis], reports.named).sum(axis=0)
    return source.multinomial(users, reports.likely).sum(axis=0) @ reports.members


def check(
    name: str,
    report: Callable[[int], Sequence[int]],
    reports: Reports,
    truth: Numbers,
    users: int,
    source: np.random.Generator,
) -> None:
    """Compare the library's own client with what is drawn, cell by cell."""
    cells = source.choice(len(truth), users, p=truth / truth.sum())
    named = np.zeros(len(truth))
    for cell in cells.tolist():
        named[list(report(cell))] += 1
    chances = reports.named[cells]
    far = np.abs(named - chances.sum(axis=0)) / np.sqrt((chances * (1 - chances)).sum(axis=0))
    if far.max() > FAR:
        sys.exit(f"the client of {name} does not report as it is drawn here: {far.max():.1f} standard errors")


def whole(shares: Numbers) -> Numbers:
    """Shares at 0 or above that add up to 1, as multi-freq-ldpy has them."""
    kept = np.clip(shares, 0, None)
    total = kept.sum(axis=-1, keepdims=True)
    return np.where(total > 0, kept / np.where(total > 0, total, 1), 1 / shares.shape[-1])


# --------------------------------------------------------------------------------------------------------- libraries

Oracle = tuple[Reports, Callable[[Counts, int], Numbers], Callable[[int], Sequence[int]]]


def one_of_k(epsilon: float, cells: int) -> OneOf:
    """The own cell e^ε times as likely as any other."""
    likely = np.ones((cells, cells))
    np.fill_diagonal(likely, math.exp(epsilon))
    return OneOf(likely / likely.sum(axis=1, keepdims=True), [(cell,) for cell in range(cells)], cells)


def optimized_unary(epsilon: float, cells: int) -> Independent:
    """Wang et al. 2017: p = 1/2, q = 1/(e^ε + 1)."""
    return Independent(0.5, 1 / (math.exp(epsilon) + 1), cells)


def subsets(epsilon: float, cells: int) -> OneOf:
    """Ye and Barg 2018: the size that multi-freq-ldpy takes; sets with the own cell e^ε times as likely."""
    sets = list(combinations(range(cells), int(max(1, np.rint(cells / (math.exp(epsilon) + 1))))))
    likely = np.array([[math.exp(epsilon) if cell in one else 1.0 for one in sets] for cell in range(cells)])
    return OneOf(likely / likely.sum(axis=1, keepdims=True), sets, cells)


def multi(module: str, client: str, drawn: Callable[[float, int], Reports]) -> Callable[[float, int], Oracle]:
    """multi-freq-ldpy: its client, and its estimator by inversion."""
    there: Any = importlib.import_module(f"multi_freq_ldpy.pure_frequency_oracles.{module}")
    inversion: Any = importlib.import_module("multi_freq_ldpy.estimators.Histogram_estimator").MI

    def oracle(epsilon: float, cells: int) -> Oracle:
        reports = drawn(epsilon, cells)
        own, other = float(reports.named[0, 0]), float(reports.named[0, 1])

        def report(cell: int) -> Sequence[int]:
            said = getattr(there, client)(cell, cells, epsilon)
            if isinstance(reports, Independent):
                return np.flatnonzero(said).tolist()
            return [int(each) for each in np.atleast_1d(said)]

        return reports, lambda counts, users: inversion(counts, users, own, other), report

    return oracle


def pure(client: str, server: str, drawn: Callable[[float, int], Reports], **options: Any) -> Callable[..., Oracle]:
    """pure-ldp: an object for a client and one for a server, whose items are counted from 1."""
    # Its heuristic for RAPPOR alone needs scikit-learn and statsmodels; it is not compared.
    sys.modules.setdefault("pure_ldp.frequency_oracles.rappor", types.ModuleType("rappor"))
    there: Any = importlib.import_module("pure_ldp.frequency_oracles")

    def oracle(epsilon: float, cells: int) -> Oracle:
        reports = drawn(epsilon, cells)
        hers = getattr(there, client)(epsilon=epsilon, d=cells, **options)

        def estimated(counts: Counts, users: int) -> Numbers:
            aggregator = getattr(there, server)(epsilon=epsilon, d=cells, **options)
            aggregator.aggregated_data, aggregator.n = counts.astype(float), users
            return np.array([aggregator.estimate(cell + 1, suppress_warnings=True) for cell in range(cells)]) / users

        def report(cell: int) -> Sequence[int]:
            said = hers.privatise(cell + 1)
            return np.flatnonzero(said).tolist() if isinstance(reports, Independent) else [int(said)]

        return reports, estimated, report

    return oracle


ORACLES: Final = {
    "pure-ldp DE": pure("DEClient", "DEServer", one_of_k),
    "pure-ldp OUE": pure("UEClient", "UEServer", optimized_unary, use_oue=True),
    "multi-freq-ldpy GRR": multi("GRR", "GRR_Client", one_of_k),
    "multi-freq-ldpy OUE": multi("UE", "UE_Client", optimized_unary),
    "multi-freq-ldpy SS": multi("SS", "SS_Client", subsets),
}

MOST_CELLS: Final = {"multi-freq-ldpy SS": 12}
"""Beyond, its sets are too many to be drawn so; the variance of OUE is that of SS but for terms of lower order."""

if __name__ == "__main__":
    main()
