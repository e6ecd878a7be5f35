"""Planning: from the queries that a strategy asks, each with its tolerance, to a round that answers them.

Theory of operation
-------------------
*Portions.* Every ask becomes one part of the round, answered by users of its own: "Each query is simulated with a fresh
portion" (KLNRS11, proof of Thm 5.7). A test or a number is answered through binary response, cells through the channel
that needs the fewest reports (`channel_needs`), or the one that the strategy names. The users of one round are dealt to
its parts by the public coin; rounds take runs of slots that no earlier round of the study took, so they are disjoint
too, and each user pays at most once in a study. A part's share of the users is in proportion to the reports that it
needs, unless the strategy says another one. A cell query is one part whatever the number of its cells: every report
says something of all of them.

*Failure.* The study may fail with probability β. By the union bound each of the R rounds that the strategy declares
may fail with β/R, and in a round of t > 1 parts each answer, and the dealing, with β/(R(t + 1)). A round of one part
deals nothing, so its answer has β/R.

*Target.* `reports_needed` says how many reports n_p part p needs. The coin deals N_p ~ Binomial(N, q_p) of N reports
to it, q_p its share. KLNRS11, Thm A.1: Pr[N_p ≤ (1 − φ)m] ≤ exp(−φ²m/2), m = q_p·N. With (1 − φ)m = n_p this is at
most δ where (m − n_p)² ≥ 2mL, L = ln(1/δ), which is m ≥ n_p + L + √(2·n_p·L + L²). The union bound gives each of t
parts a t-th of the dealing's failure as its δ, and the round closes at N = max_p m_p/q_p reports: then no part has
fewer than it needs. (More than it needs may, within one tooth of the exact tail's saw, be slightly worse, by a factor
that tends to 1 with the tolerance: `bounds.planners`. And whether a user reports must not depend on her part.)

*A row that leads.* An ask with a `row_lead` does not need its cells, but to know which of the rows has the largest
mean, and `planners.users_for_leading_row` says how many reports that takes.

*Cohort.* The least run of free slots in which enough users can still pay for the target, and 5 % more for users who
never answer, where there are as many.

*Who comes.* A room is asked before anybody has enrolled: with a number for `users` a round closes at so many reports,
and its cohort is everybody, whoever enrols while it is open; rounds share out the free slots by their portions.

Nothing here looks at a clock, a ledger or a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import lru_cache
from typing import Final, Literal, TypeAlias

import numpy as np

from askance_protocol import parameters as read
from askance_protocol.arrays import Integers, Truths
from askance_protocol.budget import limit_from_text, to_text
from askance_protocol.channels import ChannelSpec, KarySpec
from askance_protocol.coins import MAX_CHOICES, MAX_USER, Coin, choices
from askance_protocol.errors import Code, ProtocolError
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.rounds import (
    BinarySpec,
    Cohort,
    Part,
    PreparedPart,
    RoundSpec,
    StudySpec,
    prepare_round,
)
from askance_protocol.rounds.spec import MAX_DOCUMENT, MAX_PARTS
from askance_protocol.text import are, counted
from askance_server.core.cell_channels import ALL_WEIGHTS, MAX_COUNTS, MAX_WEIGHTS, ReportsAt, channel_for
from askance_server.core.channel_needs import fewest_for
from askance_server.core.sample_size import reports_for_row, reports_needed
from askance_server.core.strategy import Ask, Parameters, SetsOfCells

SLOTS: Final = 1 << 16
"""Into how many slots the users are cut. A study that runs over an upgrade counts on it: do not change it."""

MOST_EACH: Final = 6
"""Yes/no questions that one user answers: 64 joint answers."""
MOST_SIMULATED: Final = 1_000_000_000
"""Reports that a simulation makes up: beyond, its tolerances are below what double precision resolves."""

_Question: TypeAlias = tuple[str, str, int, float, SetsOfCells, float]
_CHUNK: Final = 1 << 17
_NAMES: Final = (
    "epsilon",
    "beta",
    "users",
    "deadline_seconds",
    "eta",
    "eta_most",
    "simulated_reports",
    "questions_each",
)

Affording = Callable[[range, int], Truths]
Slots = Integers
"""How many users can pay, slot by slot."""


class TooFewUsersError(ProtocolError):
    """A round needs more reports than there are users left who can pay for one."""

    code = Code.TOO_FEW_USERS

    def __init__(self, what: str, *, where: str = "", remedy: str = "", needed: int = 0, available: int = 0) -> None:
        super().__init__(what, where=where, remedy=remedy)
        self.needed = needed
        self.available = available


# -------------------------------------------------------------------------------------------------------- parameters


@dataclass(frozen=True, slots=True)
class PlanTerms:
    """Targets and limits of a study's planning, as its parameters give them."""

    epsilon: int
    """Micro-ε that one report costs at most."""
    beta: float
    """The study fails, though all users answer truthfully, with at most this probability."""
    users: Literal["needed", "all"] | int
    """As many as the bound asks for; or all, split evenly over the rounds; or the first so many, whoever comes."""
    deadline_seconds: int
    eta: Fraction = Fraction(0)
    """Probability with which a label is wrong: what is asked about labels undoes it (`core.label_noise`)."""
    eta_most: Fraction = Fraction(0)
    """The same where it is not known: no more than this (`core.bounded_noise`)."""
    questions_each: int | Literal["best"] = 1
    """Yes/no questions of a round that each user answers, in one report (`core.questions_each`)."""
    simulated_reports: int = 0
    """Reports of the strategy's local protocol that are made up by statistical queries (`core.converse`); 0: none."""

    @property
    def reasks(self) -> bool:
        """Whether others than the strategy's own questions are asked, whoever answers."""
        return bool(self.simulated_reports or self.eta_most)


def terms_of(parameters: Parameters) -> PlanTerms:
    """Read the planner's parameters."""
    users = parameters.get("users", "needed")
    if isinstance(users, int):  # So is a truth, which is then refused.
        users = read.whole(parameters, "users", 1, MAX_USER)
    elif users not in ("needed", "all"):
        raise read.refused("users", "is none of its values", 'give "needed" or "all", or the number of reports')
    beta = float(read.decimal(parameters, "beta", below=1, default="0.05"))
    seconds = read.whole(parameters, "deadline_seconds", 1, 10**9, default=3600)
    wanted = users if isinstance(users, int) else "all" if users == "all" else "needed"
    eta = read.decimal(parameters, "eta", "0", least="0", most="0.49")
    most = read.decimal(parameters, "eta_most", "0", least="0", most="0.49")
    if eta and most:
        raise read.refused("eta_most", "is for labels of which eta is not known", "leave out one of the two")
    made_up = read.whole(parameters, "simulated_reports", 0, MOST_SIMULATED, default=0)
    each = "best" if parameters.get("questions_each") == "best" else _questions_each(parameters)
    return PlanTerms(_epsilon(parameters), beta, wanted, seconds, eta, most, each, made_up)


def _questions_each(parameters: Parameters) -> int:
    try:
        return read.whole(parameters, "questions_each", 1, MOST_EACH, default=1)
    except ProtocolError as error:
        raise read.refused("questions_each", error.what, f'{error.remedy}, or "best"') from None


def _epsilon(parameters: Parameters) -> int:
    text = parameters.get("epsilon", "1")
    if not isinstance(text, str):
        raise read.refused("epsilon", "is not text", 'write ε as text, such as "0.5"')
    try:
        return limit_from_text(text)
    except ProtocolError as error:
        raise read.refused("epsilon", error.what, error.remedy) from None


def reports_in(parameters: Parameters) -> ReportsAt:
    """What one report of a study can tell."""
    return ReportsAt(terms_of(parameters).epsilon)


def strategy_parameters(parameters: Parameters) -> dict[str, int | bool | str]:
    """The study's parameters without those of the planner."""
    return {name: value for name, value in parameters.items() if name not in _NAMES}


# ------------------------------------------------------------------------------------------------------------ demand


@dataclass(frozen=True, slots=True)
class Demand:
    """Parts that a round has to ask, and the number of reports that each needs."""

    parts: tuple[Part, ...]
    needs: tuple[int, ...]
    """Reports that each part needs."""
    target: int
    """Reports of the round until each part has what it needs."""

    @property
    def charge(self) -> int:
        """Charge of one report, in micro-ε."""
        return max(part.charge for part in self.parts)


def demand(study: StudySpec, asks: Sequence[Ask], rounds: int) -> Demand:
    """Compile the asks of one of `rounds` rounds. Refuses what cannot be asked, saying which ask."""
    if not 1 <= len(asks) <= MAX_PARTS:
        raise ProtocolError(f"has {len(asks)} asks", where="round", remedy=f"ask 1 to {MAX_PARTS}")
    terms = terms_of(study.parameters)
    several, failure = len(asks) > 1, _failure(terms, asks, rounds)
    prepared = prepared_parts(study, asks, rounds)
    needs = _needs(prepared, asks, failure)
    shares = [ask.share for ask in asks] if asks[0].share else shares_of(needs)
    parts = tuple(
        Part(query=ask.query, channel=each.part.channel, charge=terms.epsilon, share=share)
        for ask, each, share in zip(asks, prepared, shares, strict=True)
    )
    return Demand(parts, tuple(needs), reports_until(needs, shares, failure) if several else needs[0])


def _failure(terms: PlanTerms, asks: Sequence[Ask], rounds: int) -> float:
    """How likely each answer of a round may fail: see the theory of operation."""
    return terms.beta / rounds / (len(asks) + 1 if len(asks) > 1 else 1)


def _channels(study: StudySpec, asks: Sequence[Ask], epsilon: int, failure: float) -> list[ChannelSpec]:
    """The channel of each ask: the more of them ask for cells, the smaller the tables that they may have."""
    wanted = sum(ask.channel in ("best", "fewest") and isinstance(ask.query, CellQuery) for ask in asks)
    most, counts = min(MAX_WEIGHTS, ALL_WEIGHTS // max(1, wanted)), MAX_COUNTS // max(1, wanted)
    found = list[ChannelSpec]()
    for ask in asks:
        match ask.channel:
            case "fewest":
                found.append(fewest_for(ask.query, study.example, epsilon, ask.tolerance, failure, most, counts))
            case "best":
                found.append(channel_for(ask.query, study.example, epsilon, most, counts))
            case "kary":
                found.append(KarySpec(micro_epsilon=epsilon))
            case "binary":
                found.append(BinarySpec(micro_epsilon=epsilon))
    return found


def as_before(asks: Sequence[Ask]) -> Sequence[Ask]:
    """The same asks as they were planned in version 0.1: by one bit, unless the strategy named a channel."""
    return [replace(ask, channel="binary") if ask.channel == "fewest" else ask for ask in asks]


def prepared_parts(study: StudySpec, asks: Sequence[Ask], rounds: int = 1) -> Sequence[PreparedPart]:
    """Prepare the parts of one of `rounds` rounds as both sides will check them, in a round that is never published."""
    terms = terms_of(study.parameters)
    epsilon = terms.epsilon
    parts = tuple(
        Part(query=ask.query, channel=channel, charge=epsilon)
        for ask, channel in zip(asks, _channels(study, asks, epsilon, _failure(terms, asks, rounds)), strict=True)
    )
    draft = RoundSpec(study=study.digest(), number=1, parts=parts, cohort=Cohort(users=1), target=1, deadline=0)
    prepared = prepare_round(study, draft).parts
    # The room that is left is for shares, cohort and the entry around the round.
    counts = sum(part.rows * part.channel.outcomes for part in prepared if part.pooled)
    if len(draft.to_bytes()) > MAX_DOCUMENT // 2 or counts > MAX_COUNTS:
        raise ProtocolError("is too large to be published", where="round", remedy="ask fewer or smaller queries")
    return prepared


def _needs(parts: Sequence[PreparedPart], asks: Sequence[Ask], failure: float) -> list[int]:
    """Reports for each part. Equal questions have equal needs, so each is computed once."""
    known: dict[_Question, int] = {}
    for number, (part, ask) in enumerate(zip(parts, asks, strict=True)):
        question = _question(part, ask)
        if question not in known:
            try:
                known[question] = _needed(part, ask, failure)
            except (ProtocolError, ArithmeticError) as error:
                raise ProtocolError(
                    f"cannot be met: {error}", where=f"asks[{number}].tolerance", remedy="ask for one within (0, 1)"
                ) from None
    return [known[_question(part, ask)] for part, ask in zip(parts, asks, strict=True)]


def _needed(part: PreparedPart, ask: Ask, failure: float) -> int:
    if ask.row_lead:
        return reports_for_row(part, ask.row_lead, failure)
    return reports_needed(part, ask.tolerance, failure, ask.sums)


def _question(part: PreparedPart, ask: Ask) -> _Question:
    """Everything that the number of reports depends on, at one ε and one probability of failure."""
    channel, tolerance = part.part.channel.kind, ask.tolerance
    match part.query.query:
        case BooleanQuery():
            return channel, "boolean", 0, tolerance, (), 0
        case RealQuery(denominator=denominator):
            return channel, "real", denominator, tolerance, (), 0
        case CellQuery(cells=cells):
            return channel, f"cell {part.channel.outcomes}", cells, tolerance, ask.sums, ask.row_lead


def shares_of(needs: Sequence[int]) -> list[int]:
    """Shares in proportion to the reports needed, exact if the coin can deal them exactly."""
    common = math.gcd(*needs)
    exact = [need // common for need in needs]
    if sum(exact) <= MAX_CHOICES:
        return exact
    # Rounding down and adding one keeps every share above 0 and their sum within what the coin deals.
    return [1 + need * (MAX_CHOICES - len(needs)) // sum(needs) for need in needs]


def reports_until(needs: Sequence[int], shares: Sequence[int], failure: float) -> int:
    """Number of reports after which the coin has dealt every part what it needs, with probability 1 − `failure`."""
    return max(
        # The coin's 32 bits deal a share to within 2⁻³².
        math.ceil(_mean_for(need, failure / len(needs)) / (share / sum(shares) - 2**-32))
        for need, share in zip(needs, shares, strict=True)
    )


def _mean_for(need: int, failure: float) -> float:
    """Mean of a binomial count that is below `need` with probability `failure` at most.

    KLNRS11, Thm A.1, solved for the mean: see the theory of operation.
    """
    log_failure = math.log(1 / failure)
    return need + log_failure + math.sqrt(2 * need * log_failure + log_failure**2)


# ------------------------------------------------------------------------------------------------------------ cohort


def payers(study: StudySpec, enrolled: int, charge: int, affording: Affording) -> Slots:
    """Number of users of each slot who can still pay `charge`."""
    coin = Coin(study.digest())
    counts = _everybody(coin, enrolled).copy()
    for users in _chunks(range(enrolled)):
        poor = np.flatnonzero(~affording(users, charge))
        if len(poor):
            counts -= np.bincount(choices(coin.toss(poor + users.start), SLOTS), minlength=SLOTS)
    return counts


@lru_cache(maxsize=4)
def _everybody(coin: Coin, enrolled: int) -> Slots:
    """Number of users of each slot: the same in each round of a study, unless more enrol."""
    return _slots_among(coin, range(enrolled))


def slots_of(study: StudySpec, users: range) -> Slots:
    """Number of these users in each slot of a study."""
    return _slots_among(Coin(study.digest()), users)


def _slots_among(coin: Coin, users: range) -> Slots:
    counts = np.zeros(SLOTS, np.int64)
    for some in _chunks(users):
        counts += np.bincount(choices(coin.toss(some), SLOTS), minlength=SLOTS)
    return counts


def _chunks(users: range) -> Iterator[range]:
    return (range(begin, min(begin + _CHUNK, users.stop)) for begin in range(users.start, users.stop, _CHUNK))


@dataclass(frozen=True, slots=True)
class RoundPosition:
    """Position of a round in its study."""

    number: int
    portion: Fraction
    """Of the users who are left, how many it takes where the study takes all."""
    first_slot: int
    """The first slot that no earlier round took."""


def plan_round(
    study: StudySpec, asked: Demand, place: RoundPosition, enrolled: int, payers: Slots, now: int
) -> RoundSpec:
    """Plan the round; TooFewUsersError if too few users are left."""
    terms = terms_of(study.parameters)
    if isinstance(terms.users, int):
        return _round_of_comers(study, asked, place, terms.users, now + terms.deadline_seconds)
    within = np.cumsum(payers[place.first_slot :])
    left = int(within[-1]) if len(within) else 0
    needed = asked.target if terms.users == "needed" else 1
    if left < needed:
        raise _too_few(place.number, needed, left, asked.charge, terms.users)
    wanted = _wanted(terms.users, asked.target, left, place)
    slot_count = int(np.searchsorted(within, wanted)) + 1
    return RoundSpec(
        study=study.digest(),
        number=place.number,
        parts=asked.parts,
        cohort=Cohort(users=enrolled, slots=SLOTS, first_slot=place.first_slot, slot_count=slot_count),
        target=asked.target if terms.users == "needed" else int(within[slot_count - 1]),
        deadline=now + terms.deadline_seconds,
    )


def _round_of_comers(study: StudySpec, asked: Demand, place: RoundPosition, reports: int, deadline: int) -> RoundSpec:
    """The round that closes at so many reports, of everybody who comes to be enrolled."""
    free = SLOTS - place.first_slot
    return RoundSpec(
        study=study.digest(),
        number=place.number,
        parts=asked.parts,
        cohort=Cohort(
            users=MAX_USER, slots=SLOTS, first_slot=place.first_slot, slot_count=max(1, int(free * place.portion))
        ),
        target=reports,
        deadline=deadline,
    )


def _too_few(number: int, needed: int, left: int, charge: int, users: Literal["needed", "all"]) -> TooFewUsersError:
    less = "allow a larger epsilon or tolerance, or start the study with users=all"
    return TooFewUsersError(
        f"needs {counted(needed, 'user')} who can still pay ε = {to_text(charge)}, and {are(left)} left",
        where=f"round {number}",
        # Where all are asked, only nobody is too few.
        remedy="enrol more, " + (less if users == "needed" else "or ask at a smaller epsilon"),
        needed=needed,
        available=left,
    )


def _wanted(users: Literal["needed", "all"], target: int, left: int, place: RoundPosition) -> int:
    """Number of the remaining users whom the cohort should have."""
    if users == "needed":
        return min(with_spare(target), left)
    return max(1, int(left * place.portion))


def with_spare(target: int) -> int:
    """The target, and one in twenty more: for users who never answer."""
    return target + -(-target // 20)
