"""Users that conjunctions, lists, trees and parities take at ε = 1: planned without checks and now, and measured.

Prints one JSON object; docs/learners.md reads it. Every study is in process, user by user. "measured" is the fewest
users who enrol, all of whom may be asked, until 95 % of the studies keep their promise; "asked" is how many a study
asks on average that takes as many as it needs. Hostile users are counted by what became of them. What is measured is
kept in a file, if one is given, and not measured again. Exits 6 if a promise was broken in silence.

    python benchmarks/learners.py [seeds] [--workers N] [--keep FILE]
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from tasks import arguments, measured_tasks

from askance_client.simulation.population import synthetic
from askance_lab.commands.plan import call_of
from askance_lab.evaluation.error import error_of
from askance_lab.experiments.planned_users import plan_study
from askance_lab.experiments.sample_size import PromiseTrial, measure, users_needed
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.theory.learner_limits import users_conjunction_at_once_limit, users_parity_at_once_limit
from askance_protocol.parameters import Parameters
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import Label, Parity, Xor
from askance_server.core import planning
from askance_server.core.planning import TooFewUsersError
from askance_server.core.strategy import Ask
from askance_server.strategies.registry import registry

HOSTILE_USERS: Final = 200_000


class Learner(NamedTuple):
    """One row: what is learned, by which strategies."""

    name: str
    before: str
    now: str
    parameters: dict[str, int | str]
    start: int
    """Where the search begins."""
    enough: int = 0
    """Users who enrol where a study takes as many as it needs: more than most of them take."""


_ALPHA: Final = {"alpha": "0.1"}
LEARNERS: Final = (
    Learner("conjunction, d = 8", "conjunction", "conjunction-checked", {"d": 8, **_ALPHA}, 36_000, 400_000),
    Learner("conjunction, d = 64", "conjunction", "conjunction-checked", {"d": 64, **_ALPHA}, 400_000, 1_500_000),
    Learner("decision list, d = 4", "decision-list", "decision-list-checked", {"d": 4, **_ALPHA}, 30_000, 1_200_000),
    Learner("decision tree, d = 4", "decision-tree", "decision-tree-checked", {"d": 4, **_ALPHA}, 30_000, 1_200_000),
    Learner("parity, d = 8", "parity", "parity", {"d": 8}, 26_000),
)
HOSTILE: Final[dict[str, dict[str, int | str]]] = {
    "bits that copy each other": {"copied": "0.9", "bias": "0.7"},
    "hardly any positives": {"bias": "0.2", "copied": "0.1"},
    "a parity, which none of them fits": {"labels": "parity", "relevant": 4, "copied": "0.1"},
    "a list of six changes": {"labels": "list", "relevant": 6, "copied": "0.2", "bias": "0.3"},
}
CHECKED: Final = ("conjunction-checked", "decision-list-checked", "decision-tree-checked")


class Task(NamedTuple):
    """What one worker does."""

    what: str
    """search, asked or hostile."""
    learner: str
    population: str
    seeds: int

    @property
    def key(self) -> str:
        """Names it among the results."""
        return f"{self.what} {self.learner} {self.population} seeds={self.seeds}"


def main() -> int:
    """Measure, and print."""
    chosen = arguments(__doc__, seeds=40)
    tasks = [
        Task(what, each.name, "", chosen.seeds)
        for each in LEARNERS
        for what in ("asked", "search")
        if what == "search" or each.enough
    ]
    tasks += [Task("hostile", name, population, 5) for name in CHECKED for population in HOSTILE]
    found = measured_tasks(row, {task.key: task for task in tasks}, chosen)
    rows = dict(zip(((task.what, task.learner, task.population) for task in tasks), found, strict=True))
    hostile = [{"learner": a, "population": b, **found} for (what, a, b), found in rows.items() if what == "hostile"]
    learners = [
        {
            "learner": each.name,
            "now": each.now,
            "planned_before": planned_before(each),
            "planned": planned(each),
            "asked": rows.get(("asked", each.name, "")),
            # With its strategy and parameters, by which benchmarks/users.py finds it.
            "measured": {"strategy": each.now, **each.parameters, **rows["search", each.name, ""]},
            "limit": limit(each),
        }
        for each in LEARNERS
    ]
    broken = sum(found["broken"] for (what, _, _), found in rows.items() if what == "hostile")
    print(json.dumps({"schema_version": 1, "epsilon": "1", "rate": 0.95, "learners": learners, "hostile": hostile}))
    return 6 if broken else 0


def table(learners: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows of docs/learners.md, each with the call that prints the plan."""
    asked = {each.name: call_of(each.now, each.parameters) for each in LEARNERS}

    def number(value: int | None) -> str:
        return "–" if value is None else f"{value:,}"

    return [
        "| "
        + " | ".join(
            (
                f"`{asked[each['learner']]}`",
                number(each["planned_before"]),
                number(each["planned"]),
                number(each["asked"] and each["asked"]["mean_asked"]),
                number(each["measured"] and each["measured"]["users"]),
                number(each["limit"]),
            )
        )
        + " |"
        for each in learners
    ]


def endings(hostile: Sequence[Mapping[str, Any]]) -> list[str]:
    """The rows of the table of hostile users."""
    members = ("learner", "population", "right", "unchecked", "refused", "broken")
    return ["| " + " | ".join(str(each[name]) for name in members) + " |" for each in hostile]


def row(task: Task) -> dict[str, Any]:
    """What one task finds."""
    if task.what == "hostile":
        return ended(task)
    each, seeds = next(each for each in LEARNERS if each.name == task.learner), range(task.seeds)
    strategy = registry()[each.now]
    if task.what == "asked":
        trial = PromiseTrial(strategy, {**each.parameters, "users": "needed"}, {})
        return measure(trial, each.enough, seeds).to_json()
    return users_needed(PromiseTrial(strategy, each.parameters, {}), seeds, each.start).measured.to_json()


def ended(task: Task) -> dict[str, Any]:
    """How studies over hostile users ended, at ε = 4: right, said to be unchecked, refused, or broken in silence."""
    strategy, own = registry()[task.learner], HOSTILE[task.population]
    parameters: Parameters = {"d": 6, "alpha": "0.1", "epsilon": "4", "users": "needed"}
    counts = {"right": 0, "unchecked": 0, "refused": 0, "broken": 0}
    for seed in range(task.seeds):
        population = synthetic("copied-bits", {"d": 6, **own}, seed)
        reports = LocalReports(study_for(strategy, parameters, seed), strategy, population, HOSTILE_USERS, seed)
        try:
            learned = reports.learn(strategy, planning.strategy_parameters(parameters)).hypothesis.value
        except TooFewUsersError:
            counts["refused"] += 1
            continue
        error = error_of(strategy, learned, population).value
        right = error is not None and error <= 0.1
        counts["unchecked" if not learned["checked"] else "right" if right else "broken"] += 1
    return counts


def planned_before(each: Learner) -> int | None:
    """Users to enrol by the plan of the strategy without checks; of a tree nothing is promised."""
    if each.before == "decision-tree":
        return None
    if each.before == "parity":
        return parity_by_tolerances(int(each.parameters["d"]))
    return plan_study(each.before, {**each.parameters, "epsilon": "1"}).enrol


def parity_by_tolerances(d: int) -> int:
    """Users to enrol for PARITY if each of its 2^d queries is asked apart, within 1/5."""
    strategy = registry()["parity"]
    asks = [
        Ask(BooleanQuery(test=Xor(of=(Label(sign=-1), Parity(field="x", mask=f"{s:x}")))), 0.2) for s in range(2**d)
    ]
    return planning.with_spare(planning.demand(study_for(strategy, {"d": d, "epsilon": "1"}, 1), asks, 1).target)


def planned(each: Learner) -> int:
    """Users to enrol by the plan, whatever population they are."""
    return plan_study(each.now, {**each.parameters, "epsilon": "1"}).enrol


def limit(each: Learner) -> int | None:
    """Users that nobody can do without who asks at once."""
    match each.name.split(",")[0]:
        case "parity":
            return users_parity_at_once_limit(dimension=int(each.parameters["d"]), epsilon=1, failure=0.05)
        case "conjunction":
            return users_conjunction_at_once_limit(
                dimension=int(each.parameters["d"]), relevant=3, error=0.1, epsilon=1, failure=0.05
            )
        case _:
            return None


if __name__ == "__main__":
    sys.exit(main())
