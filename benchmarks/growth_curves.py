"""What `growth.py` measures in this process: simulated users, the ledger, plans, bulletins, one person's client.

A curve is a generator, made into a context: what it opens it closes. It yields the work at a size, which may be done
any number of times.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
from measuring import LEAST, Work

from askance_client.history import History
from askance_client.simulation.population import synthetic
from askance_client.wallet import ReportState, Wallet
from askance_lab.counted_study import count_study
from askance_lab.oracles.local import study_for
from askance_lab.run_study import run_study
from askance_protocol.examples import Example
from askance_protocol.queries import BooleanQuery
from askance_protocol.queries.language import Bit
from askance_protocol.randomness import OsRandom
from askance_protocol.rounds import Entry, PreparedRound, StudySpec, read_entry
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters, Strategy
from askance_server.core.study import Ended, Waiting
from askance_server.driver import Driver
from askance_server.ledger import Ledger, MemoryLedger, open_ledger
from askance_server.strategies.registry import registry

ALL: Final[Parameters] = {"users": "all"}
NOW: Final = 1_800_000_000
CAP: Final = 10**12
"""Micro-ε: enough for a study each time."""
MEMORY: Final = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - folders of our own in it
"""Where ledgers lie: what a disk takes for each commit is as much for each, and comes in gusts."""
LINEAR: Final = 1.2
"""For what grows with its size. Two tenths are for caches: objects that no longer fit into them take longer, though no
more is done for each: where each of 4,096 takes 1.4 times as long as each of 256, that alone is an exponent of .12."""
FLAT: Final = 0.2
"""For what has nothing to do with it."""
GROUP: Final = 100_000
"""Reports that are charged together."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Something whose time grows with the number of something."""

    name: str
    of: str
    """What there is more of."""
    sizes: tuple[int, ...]
    what: str
    """What takes the time."""
    at_most: float
    """The largest exponent, of the upper half of the sizes."""
    limit: str
    """What limits it, or why it cannot grow more slowly."""
    work: Callable[[], AbstractContextManager[Callable[[int], Work]]]
    budget: float = 15.0
    """Seconds for all of it, about."""
    clock: Callable[[], float] | None = None
    """Seconds that count, where these are not those on the wall."""
    least: float = LEAST
    most_turns: int = 99
    """For what takes long though it computes little."""


# ---------------------------------------------------------------------------------------------------------------- users


def simulated(strategy: str, kind: str, parameters: Parameters, users: int) -> Work:
    """A whole study in the local model, user by user."""
    chosen = registry()[strategy]
    study = study_for(chosen, {**ALL, **parameters}, 1)
    population = synthetic(kind, parameters, 2)

    def piece() -> None:
        done(run_study(study, chosen, population, users, 3))

    return piece


def done(view: StudyInMemory) -> None:
    """A study that ended early would have been measured for less than it is."""
    if str(view.end.cause) != "learned":
        raise AssertionError(f"a study ended with {view.end.reason!r}")


@contextmanager
def users_one_by_one() -> Generator[Callable[[int], Work]]:
    """MASKED-PARITY at d = 64."""
    yield lambda users: simulated("masked-parity", "masked-parity", {"d": 64}, users)


@contextmanager
def users_tallied() -> Generator[Callable[[int], Work]]:
    """The same, by the joint law of its reports: what `askance run --counts` does."""
    chosen, parameters = registry()["masked-parity"], {"d": 64}
    study, population = study_for(chosen, {**ALL, **parameters}, 1), synthetic("masked-parity", parameters, 2)
    yield lambda users: lambda: done(count_study(study, chosen, population, users, 3))


@contextmanager
def users_in_the_ledger() -> Generator[Callable[[int], Work]]:
    """A study over all of a ledger's users: planned, published, charged group by group, closed, answered."""
    with temporary_ledgers() as ledgers:

        def work(users: int) -> Work:
            ledger = next(ledgers)
            ledger.enrol(users, CAP)
            return lambda: driven(Driver(ledger, registry()), "mean", {})

        yield work


@contextmanager
def users_at_the_start() -> Generator[Callable[[int], Work]]:
    """A ledger that is opened with the reports of a study that is open."""
    with tempfile.TemporaryDirectory(prefix="askance-growth-", dir=MEMORY) as folder:

        def work(users: int) -> Work:
            where = f"{folder}/{users}"
            ledger = open_ledger(where)
            ledger.enrol(users, CAP)
            driver = Driver(ledger, registry())
            published(driver, "mean", {"users": "all"})
            waiting = driver.advance(next(iter(ledger.unfinished())), NOW)
            charged(ledger, waiting, leave=1)
            ledger.close()
            return lambda: open_ledger(where).close()

        yield work


@contextmanager
def temporary_ledgers() -> Generator[Iterator[Ledger]]:
    """Embedded ledgers, each in a folder of its own."""
    opened = list[Ledger]()
    with tempfile.TemporaryDirectory(prefix="askance-growth-", dir=MEMORY) as folder:

        def one_more() -> Iterator[Ledger]:
            for number in count():
                opened.append(open_ledger(str(Path(folder) / str(number))))
                yield opened[-1]

        try:
            yield one_more()
        finally:
            for ledger in opened:
                ledger.close()


_nonces = count(1)


def published(driver: Driver, strategy: str, parameters: Parameters) -> str:
    """A new study; its id."""
    chosen = driver.strategies[strategy]
    study = study_for(chosen, {**ALL, **parameters}, next(_nonces))
    return driver.open(study, NOW)


def charged(ledger: Ledger, waiting: object, *, leave: int = 0) -> None:
    """Everybody who is asked reports to the open round, but for so many."""
    assert isinstance(waiting, Waiting), waiting  # noqa: S101 - what is measured is the whole work
    round_ = ledger.round(waiting.round)
    asked = np.flatnonzero(round_.asked(range(ledger.enrolled()))).astype(np.uint64)
    asked = asked[: len(asked) - leave]
    for first in range(0, len(asked), GROUP):
        users = asked[first : first + GROUP]
        ledger.charge(waiting.round, users, (users & np.uint64(1)).astype(np.uint32))


def driven(driver: Driver, strategy: str, parameters: Parameters) -> None:
    """A study over a ledger, from its publication to its end."""
    id_ = published(driver, strategy, parameters)
    while isinstance(stand := driver.advance(id_, NOW), Waiting):
        charged(driver.ledger, stand)
    assert isinstance(stand, Ended), stand  # noqa: S101
    assert stand.state == "finished", stand  # noqa: S101


# ----------------------------------------------------------------------------------------------------------- dimensions


@contextmanager
def wide_examples() -> Generator[Callable[[int], Work]]:
    """A conjunction of d bits: examples drawn, answered, tallied, learned."""
    yield lambda d: simulated("conjunction", "conjunction", {"d": d}, 60_000)


@contextmanager
def wide_plans() -> Generator[Callable[[int], Work]]:
    """The plan of a conjunction over d bits, checked and published."""
    ledger = MemoryLedger()
    ledger.enrol(10_000, CAP)
    driver = Driver(ledger, registry())
    yield lambda d: lambda: published(driver, "conjunction", {"d": d})


@contextmanager
def wide_questions() -> Generator[Callable[[int], Work]]:
    """What a person's device does with a round of d questions: read and check all, answer one."""
    ledger = MemoryLedger()
    ledger.enrol(10_000, CAP)
    driver, example = Driver(ledger, registry()), synthetic("conjunction", {"d": 4096}, 2).columns(range(1)).example(0)

    def work(d: int) -> Work:
        id_ = published(driver, "conjunction", {"d": d})
        bodies = [entry.body for entry in ledger.stored_entries(id_, -1, 1 << 30)]
        schema = History(id_).extended([read_entry(bodies[0])])
        assert isinstance(schema, History)  # noqa: S101
        mine = Example.of(schema.study.example, {"x": str(example.record()["x"])[:d], "y": 1})

        def piece() -> None:
            history = History(id_).extended(read_entry(body) for body in bodies)
            assert isinstance(history, History)  # noqa: S101
            [round_] = history.rounds.values()
            assert isinstance(round_, PreparedRound)  # noqa: S101
            round_.respond(17, mine, OsRandom())

        return piece

    yield work


# --------------------------------------------------------------------------------------------------------------- rounds


def long_strategy(rounds: int) -> Strategy:
    """Asks for the first bit of an example, again and again."""

    def run(parameters: Parameters) -> Asking:
        del parameters
        for _ in range(rounds):
            yield (Ask(BooleanQuery(test=Bit(field="x", index=0)), 0.5),)
        return Hypothesis("bored", {})

    conjunction = registry()["conjunction"]
    return Strategy("long", "asks for long", True, rounds, schema=lambda _: conjunction.schema({"d": 4}), run=run)


@contextmanager
def rounds_of_a_run() -> Generator[Callable[[int], Work]]:
    """A run of so many rounds over 10⁵ simulated users, each of whom answers once."""
    population = synthetic("conjunction", {"d": 4}, 2)

    def work(rounds: int) -> Work:
        strategy = long_strategy(rounds)
        study = study_for(strategy, ALL, 1)
        return lambda: done(run_study(study, strategy, population, 100_000, 3))

    yield work


@contextmanager
def rounds_in_the_ledger() -> Generator[Callable[[int], Work]]:
    """A study of so many rounds over a ledger: each planned, published, charged, closed and answered."""
    with temporary_ledgers() as ledgers:
        ledger = next(ledgers)
        ledger.enrol(20_000, CAP)

        def work(rounds: int) -> Work:
            strategy = long_strategy(rounds)
            return lambda: driven(Driver(ledger, {"long": strategy}), "long", {})

        yield work


def long_bulletin(rounds: int) -> tuple[StudySpec, list[Entry]]:
    """The entries of a study that has ended."""
    strategy = long_strategy(rounds)
    study = study_for(strategy, ALL, 1)
    view = run_study(study, strategy, synthetic("conjunction", {"d": 4}, 2), 5_000, 3)
    done(view)
    return study, view.entries


@contextmanager
def rounds_followed() -> Generator[Callable[[int], Work]]:
    """A person's device follows a study: it reads each entry when it comes."""

    def work(rounds: int) -> Work:
        study, entries = long_bulletin(rounds)

        def piece() -> None:
            history: Any = History(study.digest())
            for entry in entries:
                history = history.extended([entry])
            assert len(history.rounds) == rounds  # noqa: S101

        return piece

    yield work


@contextmanager
def rounds_answered() -> Generator[Callable[[int], Work]]:
    """What a person's wallet does when she answers so many rounds: what is left, a report drawn and stored, settled."""
    with tempfile.TemporaryDirectory(prefix="askance-growth-", dir=MEMORY) as folder:
        numbers = count()

        def work(rounds: int) -> Work:
            def piece() -> None:
                wallet = Wallet.open(Path(folder) / str(next(numbers)), cap=CAP)
                for number in range(rounds):
                    id_ = f"{number:064x}"
                    if wallet.stored(id_) is None and wallet.spending.spent < CAP:
                        wallet.draw_and_store("0" * 64, id_, 10_000, lambda: b'{"outcome":1}')
                    wallet.settle(id_, ReportState.ACKNOWLEDGED)
                wallet.close()

            return piece

        yield work


@contextmanager
def rounds_replayed() -> Generator[Callable[[int], Work]]:
    """A server that has just started hears a whole study again."""

    def work(rounds: int) -> Work:
        strategy, (study, entries) = long_strategy(rounds), long_bulletin(rounds)

        def piece() -> None:
            view = StudyInMemory(study, strategy, 5_000)
            for entry in entries:
                view.append(entry.notice)
            view.replay  # noqa: B018 - it is caught up by being asked for

        return piece

    yield work


# -------------------------------------------------------------------------------------------------------------- studies


@contextmanager
def studies_created() -> Generator[Callable[[int], Work]]:
    """So many studies are published over a ledger, one after the other."""
    with temporary_ledgers() as ledgers:

        def work(studies: int) -> Work:
            def piece() -> None:
                ledger = next(ledgers)
                ledger.enrol(1_000, CAP)
                driver = Driver(ledger, registry())
                for _ in range(studies):
                    published(driver, "mean", {})

            return piece

        yield work


@contextmanager
def studies_at_the_start() -> Generator[Callable[[int], Work]]:
    """A ledger is opened, and each of its open studies is taken up."""
    with tempfile.TemporaryDirectory(prefix="askance-growth-", dir=MEMORY) as folder:

        def work(studies: int) -> Work:
            where = f"{folder}/{studies}"
            ledger = with_studies(where, studies)
            ledger.close()

            def piece() -> None:
                again = open_ledger(where)
                driver = Driver(again, registry())
                for study in again.unfinished():
                    driver.advance(study, NOW)
                again.close()

            return piece

        yield work


def with_studies(where: str, studies: int) -> Ledger:
    """A ledger with so many open studies."""
    ledger = open_ledger(where)
    ledger.enrol(1_000, CAP)
    driver = Driver(ledger, registry())
    for _ in range(studies):
        published(driver, "mean", {})
    return ledger


@contextmanager
def studies_and_an_account() -> Generator[Callable[[int], Work]]:
    """What one user has spent, of whom only one of all studies has heard."""
    with tempfile.TemporaryDirectory(prefix="askance-growth-", dir=MEMORY) as folder:
        opened = list[Ledger]()

        def work(studies: int) -> Work:
            ledger = with_studies(f"{folder}/{studies}", studies)
            opened.append(ledger)
            first = next(iter(ledger.unfinished()))
            ledger.charge(ledger.bulletin(first).rounds[0][0], np.array([7], np.uint64), np.array([1], np.uint32))
            return lambda: ledger.standing(7)

        try:
            yield work
        finally:
            for ledger in opened:
                ledger.close()


def decades(low: int, high: int) -> tuple[int, ...]:
    """Powers of ten, and three times each."""
    powers = [low * 10**k for k in range(20) if low * 10**k <= high]
    return tuple(sorted(each for each in {*powers, *(3 * power for power in powers)} if each <= high))


WIDTHS: Final = tuple(1 << k for k in range(3, 13))

CURVES: Final = (
    Curve(
        "users-one-by-one",
        "users",
        decades(10_000, 100_000_000),
        "a run of MASKED-PARITY at d = 64, each user drawn, asked and randomized",
        LINEAR,
        "one core: each user is drawn",
        users_one_by_one,
        budget=60.0,
        most_turns=3,
    ),
    Curve(
        "users-tallied",
        "users",
        tuple(10**k for k in range(4, 13)),
        "the same run with its tallies drawn from their joint law",
        FLAT,
        "questions and slots, whatever the number of users",
        users_tallied,
        # What does not grow is never as long as it would be if it did.
        budget=120.0,
    ),
    Curve(
        "users-in-the-ledger",
        "users",
        decades(10_000, 10_000_000),
        "a study over the embedded ledger: planned, charged in groups of 10⁵, closed, answered",
        LINEAR,
        "each report is checked, charged and written",
        users_in_the_ledger,
    ),
    Curve(
        "users-at-the-start",
        "users",
        decades(10_000, 10_000_000),
        "opening a ledger with one report of each user",
        LINEAR,
        "the log is read and added up",
        users_at_the_start,
    ),
    Curve(
        "wide-examples",
        "d",
        WIDTHS,
        "a run of a conjunction over d bits with 60,000 users",
        LINEAR,
        "each user has d bits, all of them drawn",
        wide_examples,
    ),
    Curve(
        "wide-plans",
        "d",
        WIDTHS,
        "planning and publishing a conjunction over d bits",
        LINEAR,
        "d questions are planned, checked and written",
        wide_plans,
    ),
    Curve(
        "wide-questions",
        "d",
        WIDTHS,
        "a person's device reads a round of d questions and answers its own",
        LINEAR,
        "all of a round is read, for its digest",
        wide_questions,
    ),
    Curve(
        "rounds-of-a-run",
        "rounds",
        decades(1, 1000),
        "a run over 10⁵ users who are shared among so many rounds",
        LINEAR,
        "each round looks at the coins of all users",
        rounds_of_a_run,
        budget=20.0,
    ),
    Curve(
        "rounds-in-the-ledger",
        "rounds",
        decades(1, 1000),
        "a study of so many rounds over the embedded ledger with 20,000 users",
        LINEAR,
        "each round is planned over all users, and its entries are written",
        rounds_in_the_ledger,
        budget=20.0,
        most_turns=3,
    ),
    Curve(
        "rounds-followed",
        "rounds",
        decades(1, 1000),
        "a person's device follows a study, entry by entry",
        LINEAR,
        "each entry is checked",
        rounds_followed,
    ),
    Curve(
        "rounds-answered",
        "rounds",
        decades(1, 1000),
        "a person's wallet: so many reports drawn, stored and settled, one after the other",
        LINEAR,
        "each is written",
        rounds_answered,
    ),
    Curve(
        "rounds-replayed",
        "rounds",
        decades(1, 1000),
        "a server that has just started hears a whole study",
        LINEAR,
        "each entry is read, each round prepared",
        rounds_replayed,
    ),
    Curve(
        "studies-created",
        "studies",
        decades(1, 1000),
        "creating so many studies over the embedded ledger, one after the other",
        LINEAR,
        "each is planned and written",
        studies_created,
        budget=20.0,
        most_turns=3,
    ),
    Curve(
        "studies-at-the-start",
        "studies",
        decades(1, 1000),
        "opening a ledger and taking up each of its open studies",
        LINEAR,
        "each is read and its strategy run to where it stands",
        studies_at_the_start,
    ),
    Curve(
        "studies-and-an-account",
        "studies",
        decades(1, 1000),
        "a user's account, of whom one study of all has a report",
        LINEAR,
        "the book of each round is asked until she has spent no more: an index by user takes more than 8 bytes a user",
        studies_and_an_account,
    ),
)
