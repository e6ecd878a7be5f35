"""10,000 random studies against random caps: nobody is ever charged above her cap, by whoever counts.

A world has users with random caps, at the server and in wallets of their own, and studies of every strategy with random
parameters, several of them open at a time; some rounds are made by hand, with channels and charges that no strategy
asks for. Honest users decide as the client decides and draw into a real wallet. The others send what they like: more
often than they can pay, another outcome than before, uninvited. What the ledger says of each report is predicted from
its documented order, and every sum is taken once more, from what was sent and the published rounds alone.

`ASKANCE_TORTURE=1` runs 10,000 studies; each day sees one in a hundred.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

from askance_client import Identity, ReportState, Wallet, consent
from askance_client.consent import AccountStatement, PublicFacts, decide
from askance_client.history import History
from askance_client.refusals import Refusal
from askance_client.wallet import WalletFile
from askance_protocol.budget import MICRO, to_text
from askance_protocol.examples import Example
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.reports import decode_report, encode_report
from askance_protocol.rounds import (
    BinarySpec,
    Bulletin,
    Cohort,
    GeometricSpec,
    KarySpec,
    LaplaceSpec,
    PreparedRound,
    RoundPublished,
    RoundSpec,
    RoundState,
    StudyPublished,
    StudySpec,
)
from askance_protocol.schema import CategoryField, IntegerField, Schema
from askance_server.core.study import Ended, Waiting, study_of
from askance_server.driver import Driver
from askance_server.ledger.base import Ledger, Verdict
from askance_server.ledger.memory import MemoryLedger
from askance_server.ledger.projections import UserBudgets
from askance_server.ledger.sqlite import SqliteLedger
from askance_server.strategies.registry import registry
from tests.harness.figures import Figures
from tests.protocol.studies import HEIGHT, MASKED_BIT, MASKED_CELL, WHICH, WHICH_SIGNED, part, study
from tests.protocol.trees import user as random_user

STUDIES: Final = 10_000 if os.environ.get("ASKANCE_TORTURE") == "1" else 100
PER_WORLD: Final = 20
AT_A_TIME: Final = 4
STRATEGIES: Final = registry()
URL: Final = "http://127.0.0.1:1"

PARAMETERS: Final[dict[str, Callable[[random.Random], dict[str, Any]]]] = {
    "conjunction": lambda source: {"d": source.randint(1, 9), "alpha": source.choice(["0.1", "0.5"])},
    "conjunction-checked": lambda source: {"d": source.randint(1, 9), "alpha": source.choice(["0.3", "0.5"])},
    "decision-list": lambda source: {"d": source.randint(1, 6), "alpha": "0.4"},
    "decision-list-checked": lambda source: {"d": source.randint(1, 6), "alpha": "0.4"},
    "decision-tree-checked": lambda source: {"d": source.randint(1, 6), "alpha": "0.4"},
    "decision-tree": lambda source: {"d": source.randint(1, 6), "depth": source.randint(1, 4), "tolerance": "0.3"},
    "heavy-hitters": lambda source: {"d": source.choice([2, 9, 40]), "share": "0.4"},
    "heavy-hitters-at-once": lambda source: {"d": source.randint(1, 3), "share": "0.6"},
    "histogram": lambda source: {"cells": source.choice([2, 3, 17, 64]), "tolerance": "0.4"},
    "kmeans": lambda source: {"k": source.randint(2, 4), "d": source.randint(1, 3), "tolerance": "0.3"},
    "masked-parity": lambda source: {"d": source.choice([2, 4, 8])},
    "masked-parity-noninteractive": lambda source: {"d": source.choice([2, 4])},
    "masked-parity-pooled": lambda source: {"d": source.choice([2, 4, 8])},
    "masked-parity-two-rounds": lambda source: {"d": source.choice([2, 4, 8])},
    "masked-parity-until-sure": lambda source: {"d": source.choice([2, 4, 8])},
    "masked-parity-weak": lambda source: {"d": source.choice([2, 4, 8])},
    "mean": lambda source: {"tolerance": source.choice(["0.9", "0.3"]), "denominator": source.choice([1, 10, 1000])},
    "parity": lambda source: {"d": source.randint(1, 8)},
    "perceptron": lambda source: {"d": source.randint(1, 6), "tolerance": "0.3"},
    "poll": lambda _: {},
    "quantile": lambda source: {"cells": source.choice([2, 9, 100]), "tolerance": "0.3", "q": "0.9"},
    "quantile-at-once": lambda source: {"cells": source.choice([2, 9]), "tolerance": "0.3"},
    "survey": lambda source: {f"ask{at}": ask for at, ask in enumerate(source.sample(ASKS, source.randint(1, 4)), 1)},
}
POLLED: Final = tuple(
    Schema(fields=(field,))
    for field in (
        CategoryField(name="answer", values=("yes", "no"), gap=True),
        CategoryField(name="answer", values=("a", "b", "c", "d", "e")),
        IntegerField(name="answer", low=1, high=10, gap=True),
        IntegerField(name="answer", low=-3, high=400),
    )
)
"""What a poll asks about."""
ASKS: Final = ["mean(minutes, 0, 120)", "share(plan = 'pro')", "histogram(version)", "share(country)", "share(dark)"]

QUESTIONS: Final = [
    *((query, BinarySpec) for query in (MASKED_BIT, HEIGHT, MASKED_CELL, WHICH)),
    (HEIGHT, GeometricSpec),
    (HEIGHT, LaplaceSpec),
    (WHICH, KarySpec),
    (WHICH_SIGNED, KarySpec),
]


@dataclass
class Person:
    """One user: what she holds, and what the test has counted of her."""

    number: int
    cap: int
    honest: bool
    wallet: Wallet
    charges: dict[str, int] = field(default_factory=dict[str, int])
    """What each round cost, of reports that the ledger took."""


@dataclass
class Course:
    """A study that runs, or is made by hand, and what its users have read of it."""

    spec: StudySpec
    by_hand: bool
    history: History
    left: int
    """Visits, or rounds, until it is given up."""


class World:
    """Users, a ledger, and studies over them."""

    def __init__(self, number: int, ledger: Ledger, directory: Path) -> None:
        # Worlds are shorter than the list of strategies: each goes on in it where the one before has ended.
        self.first, self.source = number * PER_WORLD, random.Random(number)
        self.noise = SimulatedRandom(number, stream=1)
        self.counts = Counter[str]()
        self.ledger, self.driver = ledger, Driver(ledger, STRATEGIES)
        self.reports = dict[str, dict[int, int]]()
        self.charges = dict[str, list[int]]()
        self.caps = [self._cap() for _ in range(self.source.randint(10, 40))]
        for cap in self.caps:
            ledger.enrol(1, cap)
        # A wallet's cap is its owner's choice: below the server's, or above it.
        own = [cap if self.source.random() < 0.5 else self._cap() for cap in self.caps]
        self.file = WalletFile.open(directory / f"{number}.wallet")
        numbered = list(enumerate(own))
        self.file.add_all([(user, cap, Identity(URL, user, f"token-{user}")) for user, cap in numbered])
        self.people = [Person(user, cap, self.source.random() < 0.6, Wallet(self.file, user)) for user, cap in numbered]

    def _cap(self) -> int:
        pick = self.source
        random_caps = [pick.randint(1, most * MICRO) for most in (5, 20, 60, 60)]
        return pick.choice([1, 10_000, MICRO - 1, MICRO, *random_caps])

    # -------------------------------------------------------------------------------------------------- studies

    def live(self, studies: int) -> None:
        """Run so many studies, several at a time, to their ends; then hold the sums against each other."""
        running, begun = list[Course](), 0
        while begun < studies or running:
            if begun < studies and len(running) < AT_A_TIME:
                running.append(self._begin(begun))
                begun += 1
            course = self.source.choice(running)
            if not self._go_on(course):
                running.remove(course)
        self.check()

    def _begin(self, number: int) -> Course:
        pick, self.counts["studies"] = self.source, self.counts["studies"] + 1
        nonce = f"{pick.getrandbits(128):032x}"
        if pick.random() < 0.3:
            spec = study(nonce=nonce, cap=pick.choice([MICRO, 3 * MICRO, 8 * MICRO]))
            self.ledger.append(spec.digest(), Bulletin().next(StudyPublished(study=spec)))
            self.counts["by hand"] += 1
            return Course(spec, True, History(spec.digest()), pick.randint(1, 6))
        name = list(STRATEGIES)[(self.first + number) % len(STRATEGIES)]
        epsilon = pick.choice([1, 9_999, 10_000, MICRO // 10, MICRO, pick.randint(1, 3 * MICRO)])
        users = pick.choice(["needed", pick.randint(1, 2 * len(self.people)), *["all"] * 8])
        terms = {"epsilon": to_text(epsilon), "users": users}
        spec = study_of(
            STRATEGIES,
            strategy=name,
            parameters={**PARAMETERS[name](pick), **terms},
            title="A random study",
            nonce=nonce,
            simulated=pick.random() < 0.5,
            cap=epsilon * pick.choice([1, 1, 2, 8]),
            example=pick.choice(POLLED) if name == "poll" else None,
            live=pick.choice([None, None, 2, 10]),
        )
        self.driver.publish(spec)
        self.counts[name] += 1
        return Course(spec, False, History(spec.digest()), 30)

    def _go_on(self, course: Course) -> bool:
        """Do what is due in a study and let users answer; False if it is over."""
        course.left -= 1
        due = self._due_by_hand(course) if course.by_hand else self.driver.advance(course.spec.digest(), 0)
        if isinstance(due, Ended) or (course.by_hand and course.left < 0):
            return False
        assert isinstance(due, Waiting), due
        self._read(course)
        id_ = due.round
        if id_ not in self.reports:
            self.reports[id_] = {}
            self.charges[id_] = [each["charge"] for each in json.loads(self.ledger.round(id_).spec.to_bytes())["parts"]]
            self.counts["rounds"] += 1
        for _ in range(self.source.randint(1, 3)):
            self._visit(course, id_)
        if self.ledger.state(id_) is RoundState.OPEN and (course.left <= 0 or self.source.random() < 0.4):
            # Not all come: an operator closes the round, or its deadline does.
            if course.by_hand or self.source.random() < 0.5:
                self.driver.close(id_)
            else:
                self.driver.advance(course.spec.digest(), due.deadline + 1)
            self._visit(course, id_)
        return course.left > -30

    def _due_by_hand(self, course: Course) -> Waiting | Ended:
        """The open round of a study that no strategy runs, or a new one with random parts."""
        pick, id_ = self.source, course.spec.digest()
        bulletin = self.ledger.bulletin(id_)
        for round_, state in bulletin.rounds:
            if state is RoundState.OPEN:
                return Waiting(round_, self.ledger.received(round_), 1, 0)
        parts = [self._part(course.spec.cap) for _ in range(pick.choice([1, 1, 2, 5]))]
        first = pick.choice([0, 0, pick.randrange(len(self.people))])
        slots = pick.choice([1, 1, 4])
        cohort = Cohort(first_user=first, users=1 << 20, slots=slots, slot_count=max(1, slots - 1))
        number = len(bulletin.rounds) + 1
        spec = RoundSpec(study=id_, number=number, parts=tuple(parts), cohort=cohort, target=1 << 20, deadline=1 << 40)
        after = self.ledger.append(id_, bulletin.next(RoundPublished(round=spec)))
        return Waiting(after.rounds[-1][0], 0, 1 << 20, 1 << 40)

    def _part(self, cap: int) -> Any:
        pick = self.source
        query, kind = pick.choice(QUESTIONS)
        # Channels are built once for each ε: a table takes a moment.
        epsilon = pick.choice([10_000, MICRO // 2, MICRO - 1, MICRO])
        spare = pick.choice([0, 0, 1, pick.randint(0, cap - epsilon)]) if cap > epsilon else 0
        return part(query, kind(micro_epsilon=epsilon), epsilon + spare, pick.randint(1, 4))

    def _read(self, course: Course) -> None:
        after = self.ledger.entries(course.spec.digest(), len(course.history.heads) - 1)
        history = course.history.extended(after)
        assert isinstance(history, History), history
        course.history = history

    # -------------------------------------------------------------------------------------------------- reports

    def _visit(self, course: Course, id_: str) -> None:
        """Some users send at once: one group. What the ledger says of each is what its documented order says."""
        pick, round_ = self.source, self.ledger.round(id_)
        sent = list[tuple[int, int]]()
        with self.file.transaction():
            for person in pick.sample(self.people, pick.randint(1, len(self.people))):
                sent += self._honest(course, round_, person) if person.honest else self._rogue(round_, person)
        if pick.random() < 0.2:
            sent.append((len(self.people) + pick.randrange(3), 0))
        if not sent:
            return
        pick.shuffle(sent)
        users, outcomes = (np.array(column) for column in zip(*sent, strict=True))
        is_open = self.ledger.state(id_) is RoundState.OPEN
        expected = [self._verdict(round_, is_open, user, outcome) for user, outcome in sent]
        verdicts = self.ledger.charge(id_, users.astype(np.uint64), outcomes.astype(np.uint32)).tolist()
        assert verdicts == expected, (sent, verdicts, expected)
        with self.file.transaction():
            for (user, _), verdict in zip(sent, verdicts, strict=True):
                self.counts[Verdict(verdict).name] += 1
                self._settle(id_, user, verdict)

    def _honest(self, course: Course, round_: PreparedRound, person: Person) -> list[tuple[int, int]]:
        """She decides from public facts, draws once, and sends what is stored: once more, now and then."""
        stored = person.wallet.stored(round_.id)
        if stored is None:
            if not round_.asks(person.number):
                return []
            standing = self.ledger.standing(person.number)
            told = {charge.round: charge.micro_epsilon for charge in standing.charges}
            statement = AccountStatement(person.number, standing.account.spent, told)
            facts = PublicFacts(person.number, course.spec.example, True)
            decision = decide(course.history, round_.id, facts, person.wallet.spending.after(statement), statement)
            if isinstance(decision, Refusal):
                self.counts[f"refused: {decision.reason.value}"] += 1
                return []
            shape = course.spec.example
            example = Example(shape, random_user(self.source, shape.to_json()["fields"]))
            stored = person.wallet.draw_and_store(
                course.spec.digest(),
                round_.id,
                decision.charge_of(person.number),
                lambda: encode_report(decision.respond(person.number, example, self.noise), decision.outcomes),
            )
            self.counts["drawn"] += 1
        outcome = decode_report(stored.body, round_.outcomes)
        return [(person.number, outcome)] * self.source.choice([1, 1, 1, 2])

    def _rogue(self, round_: PreparedRound, person: Person) -> list[tuple[int, int]]:
        times = self.source.choice([1, 1, 2, 3])
        return [(person.number, self.source.randrange(round_.outcomes + 1)) for _ in range(times)]

    def _verdict(self, round_: PreparedRound, is_open: bool, user: int, outcome: int) -> Verdict:  # noqa: PLR0911 - one return for each verdict
        """What `askance_server.ledger.base` says of a report, in its order."""
        if user >= len(self.people):
            return Verdict.UNKNOWN_USER
        if not round_.asks(user):
            return Verdict.NOT_ASKED
        dealt = round_.question(user).part
        if outcome >= round_.limits[dealt]:
            return Verdict.OUTSIDE
        before = self.reports[round_.id].get(user)
        if before is not None:
            return Verdict.REPEATED if before == outcome else Verdict.CONFLICT
        if not is_open:
            return Verdict.NOT_OPEN
        charge, person = self.charges[round_.id][dealt], self.people[user]
        if sum(person.charges.values()) + charge > self.caps[user]:
            return Verdict.OVER_BUDGET
        person.charges[round_.id] = charge
        self.reports[round_.id][user] = outcome
        return Verdict.ACCEPTED

    def _settle(self, id_: str, user: int, verdict: int) -> None:
        if user < len(self.people) and self.people[user].honest:
            assert verdict in {Verdict.ACCEPTED, Verdict.REPEATED, Verdict.OVER_BUDGET, Verdict.NOT_OPEN}
            taken = verdict in {Verdict.ACCEPTED, Verdict.REPEATED}
            self.people[user].wallet.settle(id_, ReportState.ACKNOWLEDGED if taken else ReportState.DECLINED)

    # ----------------------------------------------------------------------------------------------------- sums

    def check(self) -> None:
        """Every sum, by the test, by the ledger, by its audit and by each wallet."""
        assert self.ledger.verify() == []
        for person, cap in zip(self.people, self.caps, strict=True):
            standing = self.ledger.standing(person.number)
            assert standing.account.spent == sum(person.charges.values()) <= cap == standing.account.cap
            assert {charge.round: charge.micro_epsilon for charge in standing.charges} == person.charges
            if person.honest:
                own = {id_: each.charge for id_, each in person.wallet.reports.items()}
                # What the server took is in her own count, at the price that she was told; and more, if some came late.
                assert person.charges.items() <= own.items()
                assert person.wallet.spending.spent == sum(own.values()) <= person.cap
            self.counts["micro-ε charged"] += sum(person.charges.values())
            self.counts["users at their cap"] += sum(person.charges.values()) == cap
            self.counts["users"] += 1
        for id_, reports in self.reports.items():
            round_ = self.ledger.round(id_)
            assert self.ledger.received(id_) == len(reports)
            tallied = [tally.counts.sum(axis=0).tolist() for tally in self.ledger.tallies(id_)]
            recounted = [[0] * limit for limit in round_.limits]
            for user, outcome in reports.items():
                recounted[round_.question(user).part][outcome] += 1
            assert tallied == recounted


def lived(worlds: range, directory: Path, kind: Callable[[int], Ledger]) -> Counter[str]:
    """Live so many worlds, and count."""
    counts = Counter[str]()
    for number in worlds:
        ledger = kind(number)
        try:
            world = World(number, ledger, directory)
            try:
                world.live(PER_WORLD)
            except Exception as error:
                raise AssertionError(f"world {number}") from error
            finally:
                world.file.close()
        finally:
            ledger.close()
        counts += world.counts
    return counts


def on_disk(directory: Path) -> Callable[[int], Ledger]:
    """A ledger in a file for each tenth world, in memory for the others."""
    return lambda number: SqliteLedger.open(directory / str(number)) if number % 10 == 0 else MemoryLedger()


@pytest.mark.slow
def test_nobody_is_charged_above_her_cap_whatever_is_asked(tmp_path: Path, figures: Figures) -> None:
    counts = lived(range(STUDIES // PER_WORLD), tmp_path, on_disk(tmp_path))

    kinds = {name: counts[name] for name in ("studies", "rounds", "users", "drawn")}
    verdicts = {verdict.name.lower(): counts[verdict.name] for verdict in Verdict}
    charged = {"micro_epsilon_charged": counts["micro-ε charged"], "users_at_their_cap": counts["users at their cap"]}
    figures("random studies against random caps", **kinds, **verdicts, **charged, above_a_cap=0)
    print(dict(counts))
    assert counts["studies"] == STUDIES
    # Everything was met: each strategy, each verdict, caps that were used up, and both caps that a client refuses by.
    assert all(counts[name] for name in [*STRATEGIES, "by hand", "users at their cap"])
    assert all(counts[verdict.name] for verdict in Verdict)
    assert counts["refused: beyond-cap"]
    assert counts["refused: beyond-study-cap"]
    assert counts["refused: below-floor"]


def test_every_strategy_has_random_parameters() -> None:
    assert PARAMETERS.keys() == STRATEGIES.keys()


# ------------------------------------------------------------------------------------------------------- controls


def _caps_one_too_high(monkeypatch: pytest.MonkeyPatch) -> None:
    enrol = UserBudgets.extended
    monkeypatch.setattr(UserBudgets, "extended", lambda self, count, cap: enrol(self, count, cap + 1))


def _first_part_pays_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(PreparedRound, "charge_of", lambda self, _: self.spec.parts[0].charge)


def _a_client_looks_at_no_cap(monkeypatch: pytest.MonkeyPatch) -> None:
    # Her wallet, which looks once more, raises.
    monkeypatch.setattr(consent, "_unaffordable", lambda *_: None)


def _a_wallet_looks_at_no_price(monkeypatch: pytest.MonkeyPatch) -> None:
    draw = Wallet.draw_and_store
    monkeypatch.setattr(Wallet, "draw_and_store", lambda self, *of, draw_=draw: draw_(self, *of[:2], of[2] - 1, of[3]))


@pytest.mark.parametrize(
    "plant", [_caps_one_too_high, _first_part_pays_for_all, _a_client_looks_at_no_cap, _a_wallet_looks_at_no_price]
)
def test_control_one_micro_epsilon_too_many_is_found(
    plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)

    with pytest.raises(AssertionError, match="world"):
        lived(range(20), tmp_path, lambda _: MemoryLedger())
