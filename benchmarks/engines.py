"""What more workers gain: MASKED-PARITY at d = 64 over 3·10⁷ users, by each engine, with its workers already started.

- `two_workers`: two local workers beside one, which is this process.
- `dask_two_workers`: the time of a Dask cluster of two local processes beside that of two local workers.
- `machine`: two bare processes beside one, which run numpy on their own: the most that two workers can gain here.

Goals: 1.7 times as fast with two; Dask within 15 % of them. Also printed: users a second, by the clock and of processor
time; the seconds of processor time of the process that plans and hands out tasks, which more workers do not share; and
the bytes that are sent (docs/scaling.md counts a cluster with it).
"""

from __future__ import annotations

import multiprocessing
import pickle
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any, Final

import measuring
import numpy as np

from askance_lab.data.made_up import made_up
from askance_lab.engines import Engine, engine
from askance_lab.oracles.local import study_for
from askance_lab.run_study import Collection, run_study, tasks_of
from askance_server.strategies.registry import registry

USERS: Final = 30_000_000
STRATEGY: Final = registry()["masked-parity"]
POPULATION: Final = made_up(STRATEGY, {"d": 64}, 1)
STUDY: Final = study_for(STRATEGY, {"d": 64, "users": "all"}, 1)
ROUNDS: Final = 2
TIMES: Final = 8
"""So many times the users, in tasks that are larger: what grows with users is told from what grows with tasks."""
BARE: Final = 40
PLANTED_USERS: Final = 3_000_000
"""Enough to show that a goal would be missed."""
TALLIES: Final[dict[int, Any]] = {}


def bare(seed: int) -> int:
    """A piece of work that knows nothing of this project."""
    return int((np.random.default_rng(seed).random(4_000_000) < 0.3).sum())


def sent() -> dict[str, int]:
    """Bytes that go to a worker once, with each task and back."""
    spec = next(iter(run_study(STUDY, STRATEGY, POPULATION, 100_000, 1).rounds.values())).spec
    collection = Collection(STUDY, spec, POPULATION, 1)
    task = tasks_of(100_000)[0]
    sizes = {"once_a_worker": collection, "a_task": task, "a_result": collection(task)}
    return {name: len(pickle.dumps(each)) for name, each in sizes.items()}


class Studies:
    """Studies by one engine, all with the same tallies; and the processor time that this process has spent on each."""

    def __init__(self, users: int) -> None:
        self.users = users
        self.seconds: list[float] = []

    def run(self, workers: Engine) -> None:
        """One study."""
        begin = time.process_time()
        entries = run_study(STUDY, STRATEGY, POPULATION, self.users, 1, workers).entries
        self.seconds.append(time.process_time() - begin)
        if TALLIES.setdefault(self.users, entries) != entries:
            raise SystemExit("other tallies than one worker's")


@dataclass(frozen=True, slots=True)
class HandingOut:
    """What the process that plans, hands out and adds up spends on a study: for each user, and for each task."""

    a_user: float
    a_task: float

    @classmethod
    def of(cls, few: float, many: float, users: int) -> HandingOut:
        """From its processor seconds with so many users and with `TIMES` as many, of which each task has more."""
        tasks, more = ROUNDS * len(tasks_of(users)), ROUNDS * len(tasks_of(TIMES * users))
        a_user = max(0.0, many / more - few / tasks) / (TIMES * users / more - users / tasks)
        return cls(a_user, max(0.0, few - a_user * users) / tasks)

    def seconds(self, users: int) -> float:
        """Its share of a study, which more workers do not share."""
        return self.a_user * users + self.a_task * ROUNDS * len(tasks_of(users))


def cluster(a_second: float, handing: HandingOut) -> dict[str, dict[str, float]]:
    """By arithmetic: seconds for 4.6·10⁹ users (KLNRS11, Thm 5.7, at d = 64) by workers of a cluster."""
    needed = 4_629_675_445
    seconds = {each: needed / each / a_second + handing.seconds(needed) for each in (1, 10, 100)}
    return {str(each): {"seconds": took, "users_a_second": needed / took} for each, took in seconds.items()}


def main() -> int:
    """Measure, print, judge."""
    given = measuring.arguments(__doc__, ["two", "dask"], turns=3)
    context = multiprocessing.get_context("spawn")
    users = USERS if given.planted is None else PLANTED_USERS
    by_one, by_two, by_dask = (Studies(users) for _ in range(3))
    two_more, dask_more = Studies(TIMES * users), Studies(TIMES * users)
    with (
        engine("local", 2) as two,
        engine("dask", 2) as dask,
        ProcessPoolExecutor(1, context) as single,
        ProcessPoolExecutor(2, context) as pair,
    ):
        timed = measuring.in_turns(
            {
                "one": lambda: by_one.run(engine()),
                "two": lambda: by_two.run(two),
                "dask": lambda: by_dask.run(dask),
                "two_more": lambda: two_more.run(two),
                "dask_more": lambda: dask_more.run(dask),
                "bare_one": lambda: list(single.map(bare, range(BARE))),
                "bare_two": lambda: list(pair.map(bare, range(BARE))),
            },
            given,
        )
    figures = {
        "two_workers": timed.ratio("one", "two", at_least=1.7),
        "dask_two_workers": timed.ratio("dask", "two", at_most=1.15),
        f"dask_two_workers_{TIMES}_times_the_users": timed.ratio("dask_more", "two_more"),
        "machine": timed.ratio("bare_one", "bare_two"),
        "users_a_second_one": timed.rate("one", users),
        "users_a_second_two": timed.rate("two", users),
        "users_a_second_dask": timed.rate("dask", users),
        "users_a_processor_second": measuring.Figure(tuple(users / each for each in by_one.seconds[-given.turns :])),
        "handing_out_local": measuring.Figure(tuple(by_two.seconds[-given.turns :])),
        "handing_out_dask": measuring.Figure(tuple(by_dask.seconds[-given.turns :])),
        f"handing_out_dask_{TIMES}_times_the_users": measuring.Figure(tuple(dask_more.seconds[-given.turns :])),
    }
    few, many = figures["handing_out_dask"], figures[f"handing_out_dask_{TIMES}_times_the_users"]
    handing = HandingOut.of(few.median, many.median, users)
    by_arithmetic = cluster(figures["users_a_processor_second"].median, handing)
    return measuring.tell(
        figures, users=users, tasks=len(tasks_of(users)), bytes=sent(), handing=asdict(handing), cluster=by_arithmetic
    )


if __name__ == "__main__":
    sys.exit(main())
