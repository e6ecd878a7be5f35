"""Mean squared errors of a survey beside one cohort for each question, and beside pure-ldp and multi-freq-ldpy.

The three ask the same numbers of users, at ε = 1, about the same columns; each number is the mean over the cells of a
question and over all repetitions, times the number of reports. All estimates are kept at 0 or above and made to add up
to 1, as multi-freq-ldpy does. A cohort for each question is a sixth of the users. Prints one JSON object, with a reason
where the survey is worse; exits 6 where a library asks better. For the libraries:

    pip install pure-ldp multi-freq-ldpy bitstring
    python benchmarks/survey.py [repetitions]
"""

from __future__ import annotations

import importlib
import json
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np

from askance_client.simulation.population import synthetic
from askance_lab.experiments.survey_plan import ExpectedSurvey
from askance_protocol.arrays import Floats
from askance_protocol.queries import BooleanQuery, CellQuery
from askance_protocol.tally import Tally
from askance_server.core.estimators import estimate

ASKS: Final = (
    "mean(minutes, 0, 120)",
    "share(country)",
    "histogram(version)",
    "share(plan = 'pro' and minutes > 30)",
    "share(plan)",
    "share(dark)",
)
USERS: Final = 20_000
EPSILON: Final = 1.0
REPORTS: Final = 2_000
"""Reports of a question in each repetition, for all: a mean squared error falls as one over them."""
OURS: Final = 4_000

Estimator = Callable[[Any, int], Floats]
"""From the cells of users, and how many cells there are, to the shares of all cells."""


def main() -> int:
    """Compare question by question, print, and say where and why the survey is worse."""
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    libraries, missing = found_libraries()
    survey = ExpectedSurvey.of({f"ask{number}": text for number, text in enumerate(ASKS, 1)} | {"users": "all"})
    columns, source = synthetic("telemetry", {}, 1).columns(range(USERS)), np.random.default_rng(1)
    total = sum(part.part.share for part in survey.round.parts)
    table, worse = list[dict[str, Any]](), list[str]()
    for part, likely in zip(survey.round.parts, survey.likely, strict=True):
        query = part.query.query
        if not isinstance(query, BooleanQuery | CellQuery):
            continue
        answers = part.query.answers(columns)
        cells = answers - 1 if isinstance(query, CellQuery) else answers
        count = query.cells if isinstance(query, CellQuery) else 2
        truth = np.bincount(cells, minlength=count) / USERS
        name, reports = query.to_bytes()[:80].decode(), USERS * part.part.share // total
        tallies = (Tally(source.multinomial(REPORTS, likely.ravel()).reshape(likely.shape)) for _ in range(OURS))
        ours = error(((whole(estimate(part, tally).values)) for tally in tallies), truth)
        row: dict[str, Any] = {
            "cells": count,
            "question": name,
            "reports": reports,
            "channel": part.part.channel.kind,
            "survey": ours,
        }
        row |= {"own cohort": ours, "survey, in all": ours[0] / reports, "own cohort, in all": ours[0] * 6 / USERS}
        if reports * 6 < USERS:
            worse.append(
                f"{count} cells: {reports} users, fewer than a sixth: they are dealt so that intervals are alike wide"
            )
        for label, estimator in libraries.items():
            runs = (estimator(source.choice(cells, REPORTS).tolist(), count) for _ in range(repetitions))
            row[label] = error(map(whole, runs), truth)
            if row[label][0] + 4 * row[label][1] < ours[0]:
                worse.append(f"{count} cells: {label}")
        table.append(row)
    lost = [each for each in worse if any(label in each for label in libraries)]
    print(json.dumps({"schema_version": 1, "epsilon": EPSILON, "table": table, "worse": worse, "missing": missing}))
    return 6 if lost else 0


def whole(shares: Floats) -> Floats:
    """Shares at 0 or above that add up to 1."""
    both = np.array([1 - shares[0], shares[0]]) if len(shares) == 1 else shares
    kept = np.clip(both, 0, None)
    return kept / kept.sum() if kept.sum() else np.full(len(kept), 1 / len(kept))


def error(runs: Iterator[Floats], truth: Floats) -> tuple[float, float]:
    """Mean squared error of a cell, times the number of reports; and its standard error."""
    squares = np.array([((run - truth) ** 2).mean() for run in runs]) * REPORTS
    return round(float(squares.mean()), 4), round(float(squares.std() / len(squares) ** 0.5), 4)


def found_libraries() -> tuple[dict[str, Estimator], str]:
    """The estimators of the libraries that are installed, and what to do about the others."""
    estimators = dict[str, Estimator]()
    try:
        for name in ("GRR", "SS"):
            module: Any = importlib.import_module(f"multi_freq_ldpy.pure_frequency_oracles.{name}")
            estimators[f"multi-freq-ldpy {name}"] = multi(module, name)
        # Its heuristic for RAPPOR alone needs scikit-learn and statsmodels; it is not compared.
        sys.modules["pure_ldp.frequency_oracles.rappor"] = types.ModuleType("rappor")
        oracles: Any = importlib.import_module("pure_ldp.frequency_oracles")
        estimators["pure-ldp DE"] = pure(oracles.DEClient, oracles.DEServer)
        estimators["pure-ldp OUE"] = pure(oracles.UEClient, oracles.UEServer, use_oue=True)
    except ImportError as error_:
        return estimators, f"{error_}: pip install pure-ldp multi-freq-ldpy bitstring"
    return estimators, ""


def multi(module: Any, name: str) -> Estimator:
    """multi-freq-ldpy: a function for a client, and one for all reports."""
    client, aggregate = getattr(module, f"{name}_Client"), getattr(module, f"{name}_Aggregator_MI")
    return lambda cells, count: np.array(aggregate([client(cell, count, EPSILON) for cell in cells], count, EPSILON))


def pure(client_of: Any, server_of: Any, **options: Any) -> Estimator:
    """pure-ldp: an object for a client and one for a server, whose items are counted from 1."""

    def estimated(cells: Any, count: int) -> Floats:
        client = client_of(epsilon=EPSILON, d=count, **options)
        server = server_of(epsilon=EPSILON, d=count, **options)
        for cell in cells:
            server.aggregate(client.privatise(cell + 1))
        return np.array([server.estimate(cell + 1, suppress_warnings=True) for cell in range(count)]) / len(cells)

    return estimated


if __name__ == "__main__":
    sys.exit(main())
