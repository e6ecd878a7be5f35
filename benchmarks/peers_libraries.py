"""One library, measured in an environment of its own, for `peers.py`.

Reads one JSON object from standard input (library, ε, cells, users, seconds for each measurement), prints one. Each
library is used as its own documentation does: one call of its client for a user, or its call for many if it has one;
its own estimator where it has one. Speeds stand beside `rng.random(n) < p`, which is measured here as well. `times` and
`spoil` plant a miss: each report is made so often, and each estimate is off by so much.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]

BULK: Final = 1_000_000
"""Users of a call for many."""
AT_ONCE: Final = 2_000
"""Users of a loop, between two looks at the clock."""
SURE: Final = 1.96
FEWEST: Final = 12
MOST: Final = 400
"""Repetitions of an estimate."""


@dataclass(frozen=True, slots=True)
class Oracle:
    """One way to ask: a report of one user, perhaps of many, and the shares that reports lead to."""

    name: str
    report: Callable[[int], Any]
    estimated: Callable[[Sequence[Any]], Numbers] | None = None
    """The shares of all answers; None: the library has no estimator."""
    bulk: Callable[[NDArray[np.int64]], Any] | None = None
    """The reports of many users, in one call."""
    said: Callable[[Any], Any] = lambda report: report
    """A report as what JSON can write."""
    packed: float = 0.0
    """Bits of a report, if nothing is wasted."""


@dataclass(frozen=True, slots=True)
class Library:
    """What a library has for one bit, and for many cells."""

    bit: Oracle
    cells: Sequence[Oracle]
    why: str = ""
    """Why it has nothing for cells."""


def main() -> None:
    """Measure one library."""
    warnings.simplefilter("ignore")
    asked = json.load(sys.stdin)
    epsilon, cells, seconds = float(asked["epsilon"]), int(asked["cells"]), float(asked["seconds"])
    library: Library = planted(LIBRARIES[asked["library"]](epsilon, cells), asked)
    truth = 1 / np.arange(1, cells + 1)
    truth /= truth.sum()
    base = baseline()
    told: dict[str, Any] = {"baseline": base, "bit": measured(library.bit, 2, seconds, base)}
    told["bit"]["error"] = error_of(library.bit, np.array([0.7, 0.3]), int(asked["bit_users"]), seconds)
    told["cells"] = [
        measured(oracle, cells, seconds, base) | {"error": error_of(oracle, truth, int(asked["users"]), 4 * seconds)}
        for oracle in library.cells
    ]
    print(json.dumps(told | {"why": library.why}))


def planted(library: Library, asked: Mapping[str, Any]) -> Library:
    """The library, slower and less exact than it is, if that is asked."""
    times, spoil = int(asked.get("times", 1)), float(asked.get("spoil", 0))
    if (times, spoil) == (1, 0):
        return library

    def spoilt(oracle: Oracle) -> Oracle:
        def repeated(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
            return lambda answer: [work(answer) for _ in range(times)][-1]

        def estimated(reports: Sequence[Any]) -> Numbers:
            found = np.asarray(oracle.estimated(reports))  # type: ignore[misc]
            return found + spoil * np.resize([1.0, -1.0], len(found))

        bulk = None if oracle.bulk is None else repeated(oracle.bulk)
        return replace(oracle, report=repeated(oracle.report), bulk=bulk, estimated=oracle.estimated and estimated)

    return Library(spoilt(library.bit), [spoilt(oracle) for oracle in library.cells], library.why)


def baseline() -> float:
    """Users a second of what most simulations do: a float that decides."""
    rng = np.random.default_rng(1)
    return fastest(lambda: rng.random(BULK) < 0.7310585786300049, BULK, 1.0)


def fastest(work: Callable[[], object], users: int, seconds: float) -> float:
    """Users a second, in the best of some runs: whatever else the machine does makes it slower only."""
    work()
    best, end = math.inf, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        work()
        best = min(best, time.perf_counter() - begin)
    return users / best


def measured(oracle: Oracle, answers: int, seconds: float, base: float) -> dict[str, Any]:
    """Speeds, as they are and as parts of the baseline, and bytes."""
    source = np.random.default_rng(2)
    few: list[int] = source.integers(0, answers, AT_ONCE).tolist()
    many = source.integers(0, answers, BULK)
    singly = fastest(lambda: [oracle.report(answer) for answer in few], AT_ONCE, seconds)
    bulk = None if oracle.bulk is None else fastest(lambda: oracle.bulk(many), BULK, seconds)  # type: ignore[misc]
    sizes = [len(json.dumps(oracle.said(oracle.report(answer)), separators=(",", ":"))) for answer in few[:200]]
    return {
        "oracle": oracle.name,
        "singly": singly,
        "singly_beside_baseline": singly / base,
        "bulk": bulk,
        "bulk_beside_baseline": None if bulk is None else bulk / base,
        "bytes": float(np.mean(sizes)),
        "bits_packed": oracle.packed,
    }


def error_of(oracle: Oracle, truth: Numbers, users: int, seconds: float) -> dict[str, Any] | None:
    """Root mean squared error of a share, with an interval of 95 %; shares are cut at 0 and made to add up to 1."""
    if oracle.estimated is None:
        return None
    source, squares, raw = np.random.default_rng(3), list[float](), list[float]()
    end = time.perf_counter() + seconds
    while len(squares) < MOST and (len(squares) < FEWEST or time.perf_counter() < end):
        answers = source.choice(len(truth), users, p=truth)
        if oracle.bulk is None:
            reports = [oracle.report(answer) for answer in answers.tolist()]
        else:
            reports = oracle.bulk(answers)
        # The error of the reports, and not of the sample: beside the shares of these very users.
        held = np.bincount(answers, minlength=len(truth)) / users
        found = np.asarray(oracle.estimated(reports), np.float64)
        squares.append(float(((whole(found) - held) ** 2).mean()))
        raw.append(float(((found - held) ** 2).mean()))
    mean, off = float(np.mean(squares)), float(np.std(squares) / math.sqrt(len(squares)))
    return {
        "rmse": math.sqrt(mean),
        "low": math.sqrt(max(mean - SURE * off, 0.0)),
        "high": math.sqrt(mean + SURE * off),
        "rmse_unbounded": math.sqrt(float(np.mean(raw))),
        "repetitions": len(squares),
        "users": users,
    }


def whole(shares: Numbers) -> Numbers:
    """Shares at 0 or above that add up to 1, as multi-freq-ldpy has them."""
    kept = np.clip(shares, 0, None)
    return kept / kept.sum() if kept.sum() > 0 else np.full(len(shares), 1 / len(shares))


# -------------------------------------------------------------------------------------------------------- libraries


def askance(epsilon: float, cells: int) -> Library:
    """This project: the production random source; for cells the question of a survey."""
    channels: Any = importlib.import_module("askance_protocol.channels")
    reports: Any = importlib.import_module("askance_protocol.reports")
    random: Any = importlib.import_module("askance_protocol.randomness").OsRandom()
    channel: Any = channels.BinaryResponse(round(1e6 * epsilon))
    keep = channel.keep / 2.0**64

    def body(outcomes: int) -> Callable[[Any], Any]:
        return lambda outcome: json.loads(reports.encode_report(int(outcome), outcomes))

    def share(outcomes: Any) -> Numbers:
        ones = (float(np.asarray(outcomes, np.float64).mean()) - (1 - keep)) / (2 * keep - 1)
        return np.array([1 - ones, ones])

    bit = Oracle(
        "binary response",
        lambda answer: channel.randomize(answer, random),
        share,
        lambda answers: channel.sample(answers.astype(np.uint8), random).outcomes,
        body(2),
        1,
    )
    return Library(bit, [_survey(epsilon, cells, random, body)])


def _survey(epsilon: float, cells: int, random: Any, body: Callable[[int], Callable[[Any], Any]]) -> Oracle:
    schemas: Any = importlib.import_module("askance_protocol.schema")
    examples: Any = importlib.import_module("askance_protocol.examples")
    tallies: Any = importlib.import_module("askance_protocol.tally")
    estimators: Any = importlib.import_module("askance_server.core.estimators")
    plans: Any = importlib.import_module("askance_lab.experiments.survey_plan")
    names = tuple(f"c{cell}" for cell in range(cells))
    schema = schemas.Schema(fields=(schemas.CategoryField(name="cell", values=names),))
    asked = {"ask1": "share(cell)", "users": "all", "epsilon": str(epsilon)}
    round_ = plans.ExpectedSurvey.of(asked, example=schema).round
    [part] = round_.parts
    everybody = [examples.Example(schema, (cell,)) for cell in range(cells)]

    def bulk(answers: NDArray[np.int64]) -> Any:
        _, rows = round_.questions(range(len(answers)))
        # 0 stands for whoever is in no cell.
        return part.channel.sample(part.encode_all((answers + 1).astype(np.int16), rows), random).outcomes

    def estimated(outcomes: Any) -> Numbers:
        tally = tallies.tally_round(round_, range(len(outcomes)), outcomes)[0]
        return np.asarray(estimators.estimated(part, tally))

    return Oracle(
        part.part.channel.kind,
        lambda answer: round_.respond(7, everybody[answer], random),
        estimated,
        bulk,
        body(part.channel.outcomes),
        math.log2(part.channel.outcomes),
    )


def pure_ldp(epsilon: float, cells: int) -> Library:
    """pure-ldp: an object for a client and one for a server, whose items are counted from 1."""
    there: Any = importlib.import_module("pure_ldp.frequency_oracles")

    def oracle(name: str, client: Any, server: Callable[[], Any], count: int, packed: float) -> Oracle:
        def estimated(reports: Sequence[Any]) -> Numbers:
            aggregator = server()
            aggregator.aggregate_all(reports)
            items = range(1, count + 1)
            return np.asarray(aggregator.estimate_all(items, suppress_warnings=True)) / len(reports)

        return Oracle(name, lambda answer: client.privatise(answer + 1), estimated, said=_plain, packed=packed)

    unary = there.UEClient(epsilon=epsilon, d=cells, use_oue=True)
    hadamard = there.HadamardResponseServer(epsilon, cells)
    hers = there.HadamardResponseClient(epsilon, cells, hadamard.get_hash_funcs())
    two = there.DEClient(epsilon=epsilon, d=2)
    return Library(
        oracle("direct encoding", two, lambda: there.DEServer(epsilon=epsilon, d=2), 2, 1),
        [
            oracle("OUE", unary, lambda: there.UEServer(epsilon=epsilon, d=cells, use_oue=True), cells, cells),
            oracle(
                "Hadamard response",
                hers,
                lambda: _renewed(hadamard),
                cells,
                math.log2(2 ** math.ceil(math.log2(cells + 1))),
            ),
        ],
    )


def _renewed(server: Any) -> Any:
    server.reset()
    return server


def multi_freq_ldpy(epsilon: float, cells: int) -> Library:
    """multi-freq-ldpy: functions for clients and aggregators, compiled by numba."""
    grr: Any = importlib.import_module("multi_freq_ldpy.pure_frequency_oracles.GRR")
    unary: Any = importlib.import_module("multi_freq_ldpy.pure_frequency_oracles.UE")
    subset: Any = importlib.import_module("multi_freq_ldpy.pure_frequency_oracles.SS")
    size = max(1, round(cells / (math.exp(epsilon) + 1)))
    return Library(
        Oracle(
            "GRR",
            lambda answer: grr.GRR_Client(answer, 2, epsilon),
            lambda reports: grr.GRR_Aggregator_MI(reports, 2, epsilon),
            said=_plain,
            packed=1,
        ),
        [
            Oracle(
                "OUE",
                lambda answer: unary.UE_Client(answer, cells, epsilon),
                lambda reports: unary.UE_Aggregator_MI(reports, epsilon),
                said=_plain,
                packed=cells,
            ),
            Oracle(
                "subset selection",
                lambda answer: subset.SS_Client(answer, cells, epsilon),
                lambda reports: subset.SS_Aggregator_MI(reports, cells, epsilon),
                said=_plain,
                packed=math.log2(math.comb(cells, size)),
            ),
        ],
    )


def opendp(epsilon: float, cells: int) -> Library:
    """OpenDP: measurements over ctypes; many bits at once as a bit vector, and RAPPOR with its own estimator."""
    dp: Any = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    keep = math.exp(epsilon) / (math.exp(epsilon) + 1)
    response = dp.m.make_randomized_response_bool(keep)
    many = _bit_vector(dp, BULK, 2 * (1 - keep))
    # One user's vector has one bit that is set, so two vectors differ in two.
    flips = 2 / (math.exp(epsilon / 2) + 1)
    vector = _bit_vector(dp, 1, flips)
    one_hot = [np.packbits(np.arange(cells) == cell, bitorder="little").tobytes() for cell in range(cells)]
    order = _order_of(dp, one_hot)

    def estimated(reports: Sequence[bytes]) -> Numbers:
        return np.asarray(dp.m.debias_randomized_response_bitvec(reports, flips))[order] / len(reports)

    return Library(
        Oracle(
            "randomized response",
            lambda answer: response(bool(answer)),
            None,
            lambda answers: many(np.packbits(answers.astype(np.uint8)).tobytes()),
            packed=1,
        ),
        [Oracle("RAPPOR's bits", lambda answer: vector(one_hot[answer]), estimated, said=list, packed=cells)],
    )


def _bit_vector(dp: Any, weight: int, flips: float) -> Any:
    return dp.m.make_randomized_response_bitvec(dp.bitvector_domain(max_weight=weight), dp.discrete_distance(), f=flips)


def _order_of(dp: Any, one_hot: Sequence[bytes]) -> NDArray[np.intp]:
    """At which place of what it estimates each cell stands: its bits may be counted from either end of a byte."""
    almost = _bit_vector(dp, 1, 1e-9)
    return np.array(
        [np.argmax(dp.m.debias_randomized_response_bitvec([almost(each)], 1e-9)) for each in one_hot], np.intp
    )


def diffprivlib(epsilon: float, cells: int) -> Library:  # noqa: ARG001 - it has nothing for cells
    """diffprivlib: mechanisms of a curator, of which one is a bit's own."""
    mechanisms: Any = importlib.import_module("diffprivlib.mechanisms")
    binary = mechanisms.Binary(epsilon=epsilon, value0="0", value1="1")
    return Library(
        Oracle("Binary", lambda answer: binary.randomise("1" if answer else "0"), packed=1),
        [],
        "its histogram is a trusted curator's, who sees all values",
    )


def _plain(report: Any) -> Any:
    """Numpy's numbers as Python's; a vector of 0.0 and 1.0 as whole numbers."""
    if isinstance(report, np.ndarray):
        return report.astype(int).tolist()
    return int(report)


LIBRARIES: Final = {
    "askance": askance,
    "pure-ldp": pure_ldp,
    "multi-freq-ldpy": multi_freq_ldpy,
    "opendp": opendp,
    "diffprivlib": diffprivlib,
}

if __name__ == "__main__":
    main()
