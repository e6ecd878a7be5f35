"""Whether exactly as many users as a plan says suffice: for every strategy, over fresh seeds.

A study over made-up users enrols exactly the plan's `enrol` and takes as many as it needs. It succeeds if it is not
refused and keeps its strategy's promise; of a strategy that promises nothing, if every answer is within the tolerance
that was asked for, against a large sample of the same users and with room for its error. Then half of them, which must
not do where the plan claims to be tight, that is where a typical study takes more than half; a study that is refused
for too few users counts as not succeeding. The planted control is a plan without the spare, the sum of what the rounds
need: where the rounds are at least two, and all alike in every run, it has to fail.

A case whose studies would take more reports in all than --most is left out, and the numbers say so. What is measured is
kept in a file, if one is given, and not measured again, unless the plan's number is another. Prints one JSON object;
exits 6 where a case misses.

    python benchmarks/enrol.py [--keep FILE] [--only NAME ...] [--seeds K] [--most REPORTS] [--all] [--epsilon E]
                               [--beta B] [--eta H] [--out FILE] [--table]
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from askance_lab.commands.plan import call_of
from askance_lab.data.made_up import made_up, split_parameters
from askance_lab.engines import engine
from askance_lab.evaluation.error import error_of
from askance_lab.evaluation.exact import is_kept
from askance_lab.evaluation.weighted import WeightedExamples
from askance_lab.experiments.checkpoint import Checkpoint
from askance_lab.experiments.planned_users import StudyPlan, plan_study
from askance_lab.experiments.trials import run_points
from askance_lab.oracles.exact import Exact
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.oracle import run
from askance_protocol.errors import AskanceError
from askance_protocol.parameters import Parameters
from askance_server.core import planning
from askance_server.core.planning import TooFewUsersError
from askance_server.core.replay import answer_of
from askance_server.core.run import Run
from askance_server.core.strategy import Answer, Ask, Hypothesis, Strategy
from askance_server.strategies.registry import registry

SIZES: Final = (4, 8, 16)
SIZED: Final = ("d", "cells")
"""The parameter that makes a strategy's task larger, where it has one."""
SAMPLE: Final = 1 << 17
"""Users who stand for the truth of an answer."""
FIRST_SEED: Final = 10_000
"""No plan, test or search uses these."""


@dataclass(frozen=True, slots=True)
class Case:
    """A strategy at some parameters, and its plan."""

    strategy: str
    parameters: Parameters
    plan: StudyPlan

    @property
    def size(self) -> str:
        """How large its task is, in words."""
        return _size(self.parameters)

    @property
    def numbers(self) -> dict[str, int]:
        """The numbers of users that are tried."""
        control = sum(each.planned for each in self.plan.rounds)
        tried = {"enrol": self.plan.enrol, "half": self.plan.enrol // 2}
        return tried | ({"without_spare": control} if self.is_longest else {})

    @property
    def is_longest(self) -> bool:
        """Whether a typical study is as long as any, over rounds enough for a spare to be needed."""
        return len(self.plan.rounds) > 1 and self.plan.typical is not None and self._typical > 0.94 * self.plan.enrol

    @property
    def is_tight(self) -> bool:
        """Whether a typical study takes more than half of what is enrolled."""
        return 2 * self._typical > self.plan.enrol

    @property
    def _typical(self) -> int:
        return 0 if self.plan.typical is None else self.plan.typical.users


def _size(parameters: Mapping[str, Any]) -> str:
    return next((f"{name} = {parameters[name]}" for name in SIZED if name in parameters), "")


@dataclass(frozen=True, slots=True)
class Point:
    """A case with a number of users."""

    case: Case
    users: int
    takes: str

    @property
    def key(self) -> str:
        """Names it among the results."""
        judged = "" if registry()[self.case.strategy].promise else " by answers"
        return (
            f"{self.case.strategy}{judged} {json.dumps(self.case.parameters, sort_keys=True)} {self.takes} {self.users}"
        )


def cases(only: Sequence[str], terms: Parameters) -> Iterator[Case | dict[str, Any]]:
    """Every strategy at each size, its small example's other parameters; or what cannot be planned, and why."""
    for name, strategy in sorted(registry().items()):
        if only and name not in only:
            continue
        for parameters in sized(strategy):
            given = {**parameters, **terms}
            try:
                yield Case(name, given, plan_study(name, given))
            except AskanceError as error:
                yield {"strategy": name, "parameters": given, "why": str(error)}


def sized(strategy: Strategy) -> Iterator[Parameters]:
    """The parameters of a strategy's small example, at each size that it takes."""
    small = {"d": 4} if strategy.small is None else dict(strategy.small)
    name = next((each for each in SIZED if each in small), None)
    yield from ({**small, name: size} for size in SIZES) if name else [small]


def trial(point: Point, seed: int) -> int:
    """Whether one study succeeded."""
    case, seed = point.case, FIRST_SEED + seed
    strategy = registry()[case.strategy]
    given, own = split_parameters(strategy, {**case.parameters, "users": point.takes}, None)
    population = made_up(strategy, given, seed, _noisy(own, given))
    runs = strategy.on(population.schema)
    oracle = LocalReports(study_for(runs, given, seed, population.schema), runs, population, point.users, seed)
    mine = planning.strategy_parameters(given)
    try:
        learned = run(runs, mine, oracle).hypothesis.value
    except TooFewUsersError:
        return 0
    if runs.promise is None:
        return int(answered(oracle, mine))
    kept = is_kept(runs, mine, error_of(runs, learned, population).value)
    # What is promised and cannot be judged is not counted as kept.
    return int(bool(kept))


def answered(oracle: LocalReports, own: Parameters) -> bool:
    """Whether every answer of a study was within its tolerance."""
    assert oracle.view is not None  # noqa: S101 - told the type checker: it has run
    truth = Exact(WeightedExamples(oracle.population.columns(range(SAMPLE))))
    asking = Run(oracle.view.replay.strategy, own)
    said = asking.step(None)
    for round_, tallies in zip(oracle.rounds, oracle.tallies, strict=True):
        assert not isinstance(said, Hypothesis)  # noqa: S101 - told the type checker: there is a round
        given = [answer_of(part, tally.to_rows()) for part, tally in zip(round_.parts, tallies, strict=True)]
        if not all(map(_is_right, said, given, truth.answer(said))):
            return False
        said = asking.step(given)
    return True


def _is_right(ask: Ask, given: Answer, right: Answer) -> bool:
    """Within the tolerance, and four standard errors of the sample that stands for the truth."""
    off = np.atleast_1d(np.asarray(given) - np.asarray(right))
    if ask.sums:
        off = np.array([off[list(cells)].sum() for cells in ask.sums])
    return bool(np.abs(off).max() <= ask.tolerance + 4 / math.sqrt(SAMPLE))


def _noisy(own: Parameters, given: Parameters) -> Parameters:
    return {**own, "eta": given["eta"]} if "eta" in given else own


def row(case: Case, successes: dict[str, int], seeds: int) -> dict[str, Any]:
    """The result of a case, and whether it is as it should be."""
    wanted = 1 - planning.terms_of(case.parameters).beta
    least = wanted - 3 * math.sqrt(wanted * (1 - wanted) / seeds)
    enough = successes["enrol"] / seeds >= least
    half = successes["half"] / seeds < least if case.is_tight else None
    control = successes["without_spare"] < least * seeds if "without_spare" in successes else None
    return {
        "strategy": case.strategy,
        "size": case.size,
        "parameters": dict(case.parameters),
        "rounds": len(case.plan.rounds),
        "promise": registry()[case.strategy].promise is not None,
        "tried": case.plan.tried,
        "users": case.numbers,
        "seeds": seeds,
        "successes": successes,
        "least_rate": round(least, 4),
        "enough": enough,
        "half_fails": half,
        "control_fails": control,
    }


def measured(chosen: argparse.Namespace, terms: Parameters) -> dict[str, Any]:
    """All cases that are not too large."""
    rows, left_out = list[dict[str, Any]](), list[dict[str, Any]]()
    checkpoint, takes = Checkpoint(chosen.keep), "all" if chosen.all else "needed"
    with engine(workers=1) as workers:
        for case in cases(chosen.only, terms):
            if isinstance(case, dict):
                left_out.append(case)
                continue
            reports = case.plan.enrol * chosen.seeds
            if reports > chosen.most:
                why = f"{chosen.seeds} studies of {case.plan.enrol:,} users are {reports:.2g} reports"
                asked = {"strategy": case.strategy, "parameters": dict(case.parameters)}
                left_out.append(asked | {"reports": reports, "why": why})
                continue
            points = {name: Point(case, users, takes) for name, users in case.numbers.items()}
            begin = time.monotonic()
            found = run_points(trial, {each.key: each for each in points.values()}, chosen.seeds, workers, checkpoint)
            successes = {name: sum(found[each.key]) for name, each in points.items()}
            rows.append(row(case, successes, chosen.seeds))
            print(f"{case.strategy} {case.size}: {successes} in {time.monotonic() - begin:.1f} s", file=sys.stderr)
    missed = [
        f"{each['strategy']} {each['size']}"
        for each in rows
        if not each["enough"] or each["half_fails"] is False or each["control_fails"] is False
    ]
    return {
        "schema_version": 1,
        "terms": dict(terms),
        "takes": takes,
        "seeds": chosen.seeds,
        "most": chosen.most,
        "rows": rows,
        "left_out": left_out,
        "missed": missed,
    }


def table(result: Mapping[str, Any]) -> list[str]:
    """The result as docs/plan.md has it: a row for each case, by the call that prints its plan; and what was left out.

    A plan that is not measured has no number here: its call prints it.
    """
    seeds = result["seeds"]
    head = ("planned by", "rounds", "enrol", f"of {seeds}", "half", "without the spare")
    rows = [
        (
            _call(each) + ("" if each["promise"] else " —"),
            str(each["rounds"]),
            f"{each['users']['enrol']:,}",
            str(each["successes"]["enrol"]),
            str(each["successes"]["half"]) + ("" if each["half_fails"] is not None else " (not tight)"),
            str(each["successes"].get("without_spare", "")),
        )
        for each in result["rows"]
    ]
    large = [f"- {_call(each)}" for each in result["left_out"] if "reports" in each]
    refused = [f"- {_call(each)}: {each['why']}" for each in result["left_out"] if "reports" not in each]
    lines = [f"| {' | '.join(row)} |" for row in (head, ("---",) * len(head), *rows)]
    too_many = f"Left out, because {seeds} studies are more than {result['most']:.0e} reports:"
    return [*lines, "", too_many, "", *large, "", "Refused:", "", *refused]


def _call(each: Mapping[str, Any]) -> str:
    return f"`{call_of(each['strategy'], each['parameters'])}`"


def main(given: Sequence[str] | None = None) -> int:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--keep", type=Path, metavar="FILE", help="what was measured is kept here")
    parser.add_argument("--out", type=Path, metavar="FILE", help="where the result is written, besides")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="a strategy; may be given again")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--most", type=float, default=3e8, help="reports of a case's studies, in all")
    parser.add_argument("--all", action="store_true", help="studies take all users, not as many as they need")
    for name in ("epsilon", "beta", "eta"):
        parser.add_argument(f"--{name}", default={"epsilon": "1", "beta": "0.05"}.get(name))
    parser.add_argument("--table", action="store_true", help="print the table of docs/plan.md in place of JSON")
    chosen = parser.parse_args(given)
    if unknown := sorted(set(chosen.only) - set(registry())):
        parser.error(f"no such strategy here: {', '.join(unknown)}")
    terms = {name: value for name in ("epsilon", "beta", "eta") if (value := getattr(chosen, name)) is not None}
    result = measured(chosen, terms)
    if chosen.out is not None:
        chosen.out.write_text(json.dumps(result, indent=1) + "\n", "utf-8")
    print("\n".join(table(result)) if chosen.table else json.dumps(result))
    return 6 if result["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
