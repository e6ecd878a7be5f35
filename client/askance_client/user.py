"""One user: she reads a study, decides, randomizes once, stores, and sends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np

from askance_client.bulletin_reader import BulletinReader
from askance_client.consent import AccountStatement, PublicFacts, decide, is_asked, refuse_late, refuse_study
from askance_client.history import History, Pin
from askance_client.news import StudyNews, late_rounds
from askance_client.pace import PACE, Pace
from askance_client.refusals import Reason, Refusal
from askance_client.transport import Polling, Problem, Receipt, Server, UnreachableError
from askance_client.wallet import Identity, NotEnrolledError, ReportState, StoredReport, Wallet
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Example
from askance_protocol.randomness import OsRandom
from askance_protocol.reports import encode_report
from askance_protocol.rounds import PreparedRound, work_of

_FINAL: Final = frozenset({"conflict", "budget-exceeded", "round-not-open", "not-in-cohort", "invalid-report"})
"""Problems with which a server declines a report for good. After any other the same bytes may be sent again."""

_APART: Final = 5000
"""Microseconds of work, about, from which a question is prepared in a thread."""


@dataclass(frozen=True, slots=True)
class Answered:
    """Her report is with the server."""

    round: str
    charged: int
    """Micro-ε."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """Her report is stored and sent, and the server has not taken it: not yet, or never."""

    round: str
    problem: str
    final: bool


Result: TypeAlias = Answered | Unanswered | Refusal


async def enrol(wallet: Wallet, server: Server, token: str, *, simulated: bool = False) -> Identity | Problem | Refusal:
    """Get a number for a wallet's owner from a server, unless she has one.

    The wallet stores a key before the server is asked. Who is killed before she has stored the answer asks with the
    same key again, and is the same user: nobody is left behind for whom a round of all users would wait.
    `simulated`: she is made up, takes part in simulated studies only, and gateways may speak for her.
    """
    key = "" if wallet.identity is not None else wallet.enrolment_key(server.url)
    if (identity := wallet.identity) is not None:
        return identity
    enrolled = await server.enrol(token, simulated=simulated, key=key)
    if isinstance(enrolled, Problem | Refusal):
        return enrolled
    if len(enrolled.tokens) != 1:
        return Refusal(Reason.UNREADABLE, "one token was asked for")
    identity = Identity(server.url, enrolled.first, enrolled.tokens[0])
    wallet.enrolled(identity)
    return identity


class User:
    """She holds an example and a wallet, and gives away neither.

    `simulated` says that she is one of a simulation: only then does she take part in a study whose users a gateway may
    speak for. `pace`: when a report is sent, counted from the server's last answer; only simulations are in a hurry.
    There is no parameter for her randomness: it comes from the operating system.
    """

    def __init__(self, example: Example, wallet: Wallet, *, simulated: bool = False, pace: Pace | None = None) -> None:
        self._example, self._wallet, self._simulated = example, wallet, simulated
        self._pace = PACE if pace is None else pace

    @property
    def wallet(self) -> Wallet:
        """The user's wallet: her spending and her reports."""
        return self._wallet

    async def enrol(self, server: Server, token: str) -> Identity | Problem | Refusal:
        """Get a number from a server, with a token that allows to enrol; not if she has one."""
        return await enrol(self._wallet, server, token, simulated=self._simulated)

    async def take_part(self, server: Server, study: str | BulletinReader) -> list[Result]:
        """Answer what a study asks now: that of this name, or the one that a reader of this server has read before."""
        return await self.answer(_reader(server, study))

    async def follow(
        self,
        server: Server,
        study: str | BulletinReader,
        *,
        every: float = 1.0,
        tell: Callable[[StudyNews], None] | None = None,
    ) -> list[Result]:
        """Answer until the study has ended, or is long over, or is refused; return each round's last result.

        `every`: seconds between two looks while there is news. While there is none they become 32 times as many. A
        server that gives no answer, or none that can be read, is asked again for about an hour. `tell`: told what she
        is too late for, and what is waited for while nothing is new, whenever that changes.
        """
        reader, results, polling = _reader(server, study), dict[str | None, Result](), Polling(every)
        told = StudyNews()
        while True:
            before = len(reader.history.heads), results
            try:
                looked: dict[str | None, Result] = {result.round: result for result in await self.answer(reader)}
            except UnreachableError:
                # What was stored is sent when the server is back.
                if not polling.goes_on(answered=False):
                    raise
                await asyncio.sleep(polling.pause(news=False))
                continue
            results = {round_: result for round_, result in results.items() if round_ is not None} | looked
            refusal = looked.get(None)
            passing = isinstance(refusal, Refusal) and refusal.passing
            over = not polling.goes_on(answered=not passing) or (refusal is not None and not passing) or reader.over
            new = (len(reader.history.heads), results) != before
            if tell is not None and refusal is None:
                there = StudyNews() if new or over else await reader.news()
                news = replace(self.news(reader, results), paused=there.paused, short=there.short)
                if news and news != told:
                    tell(news)
                told = news
            if over:
                return list(results.values())
            await asyncio.sleep(polling.pause(news=new))

    def news(self, reader: BulletinReader, results: Mapping[str | None, Result]) -> StudyNews:
        """What she has answered of a study, as far as it was read, and what she is too late for."""
        history, identity = reader.history, self._wallet.identity
        if identity is None or not history.heads:
            return StudyNews()
        mine, stored = np.array([identity.user], np.uint64), self._wallet.reports
        late = late_rounds(history, mine, lambda id_: np.array([id_ in results or id_ in stored]))
        came = any(id_ in stored for id_ in history.rounds)
        answered = [each.charged for each in results.values() if isinstance(each, Answered)]
        over = "" if came or not reader.ended else history.bulletin.state.value
        return StudyNews(answered=len(answered), charged=sum(answered), over=over, late=late)

    async def answer(self, reader: BulletinReader, *, refresh: bool = True, via: Server | None = None) -> list[Result]:
        """Send the stored unacknowledged reports, and answer the open rounds.

        Users who share a reader may each have a connection `via` which they send.
        """
        server, account = via or reader.server, self._wallet.account
        identity = _identity(account.owner.identity, server)
        refusal = await reader.refresh() if refresh else reader.refusal
        if refusal is not None:
            return [refusal]
        history = reader.history
        facts = PublicFacts(identity.user, self._example.schema, self._simulated, account.owner.declared_fields)
        refusal = refuse_study(history, await self._pin(history), facts)
        if refusal is not None:
            return [refusal]
        results, reports, open_rounds = list[Result](), account.reports, set(history.open_rounds())
        for id_ in history.rounds:
            report: StoredReport | Refusal | None = reports.get(id_)
            if report is None and id_ in open_rounds and is_asked(history, id_, identity.user):
                late = refuse_late(history.rounds[id_], reader.clock())
                report = late or await self._draw_and_store(history, server, id_, facts, identity)
            if isinstance(report, Refusal):
                results.append(report)
            elif report is not None:
                results.append(await self._send(server, report, identity))
        return results

    async def _pin(self, history: History) -> Pin | None:
        """Store how far she has read, before anything else is asked of the server; what she had read before, if less.

        Not what she has answered, so that she notices a second history between reading and answering. If the power
        fails, it may be forgotten: a synchronized write for each user and entry would cost as much as the reports.
        """
        before = self._wallet.pin(history.id)
        if before == history.pin:
            return before
        await self._wallet.group_commit(lambda: self._wallet.note_history(history.id, history.heads), durable=False)
        return self._wallet.pin(history.id)

    async def _draw_and_store(
        self, history: History, server: Server, id_: str, facts: PublicFacts, identity: Identity
    ) -> StoredReport | Refusal:
        """Ask the server for her account; then decide, draw a report and store it with its charge, and wait.

        That she refuses depends on nothing private, so a refusal does not wait.
        """
        await _prepare(history.rounds[id_], identity.user)
        statement = await server.statement(identity.token)
        if isinstance(statement, Problem):
            return Refusal(Reason.UNREADABLE, f"the server says {statement.status} {statement.name}", id_)
        if isinstance(statement, Refusal):
            return replace(statement, round=id_)
        begin = self._pace.begin()
        report = await self._wallet.group_commit(lambda: self._decide(history, id_, facts, statement))
        if not isinstance(report, Refusal):
            await self._pace.hold(begin)
        return report

    def _decide(
        self, history: History, id_: str, facts: PublicFacts, statement: AccountStatement
    ) -> StoredReport | Refusal:
        """Decide and store in one transaction, so that nothing is spent between the two."""
        before = self._wallet.stored(id_)
        if before is not None:
            return before
        spending = self._wallet.spending.after(statement)
        decision = decide(history, id_, facts, spending, statement)
        if statement.user == facts.user:
            # Also where she refuses: what others have spent in her name stays spent. Not what is said of somebody else.
            heard = {round_: cost for round_, cost in spending.heard.items() if round_ in history.rounds}
            self._wallet.note_elsewhere(spending.elsewhere, heard)
        if isinstance(decision, Refusal):
            return decision
        charge = decision.charge_of(facts.user)
        return self._wallet.draw_and_store(history.id, id_, charge, lambda: self._draw(decision, facts.user))

    def _draw(self, round_: PreparedRound, user: int) -> bytes:
        """Draw her report. This is the one place where her example is looked at."""
        return encode_report(round_.respond(user, self._example, OsRandom()), round_.outcomes)

    async def _send(self, server: Server, report: StoredReport, identity: Identity) -> Result:
        """Send the stored bytes, unless there was an answer for good."""
        if report.state is ReportState.ACKNOWLEDGED:
            return Answered(report.round, report.charge)
        if report.state in {ReportState.DECLINED, ReportState.CONFLICT}:
            return Unanswered(report.round, report.state.value, final=True)
        answer = await server.send(report.round, identity.token, report.body)
        if isinstance(answer, Refusal):
            return Refusal(answer.reason, answer.detail, report.round)
        if isinstance(answer, Problem):
            final = answer.name in _FINAL
            if final:
                # Another draw was taken, so two were seen, and both are charged. A server that lies shuts the wallet.
                other = answer.name == "conflict"
                await self._settle(report, ReportState.CONFLICT if other else ReportState.DECLINED)
            return Unanswered(report.round, answer.name or str(answer.status), final)
        if answer != Receipt(identity.user, report.round, report.charge):
            return Refusal(Reason.WRONG_RECEIPT, "the receipt names another report or another price", report.round)
        await self._settle(report, ReportState.ACKNOWLEDGED)
        return Answered(report.round, report.charge)

    async def _settle(self, report: StoredReport, state: ReportState) -> None:
        # If it is lost, the same bytes are sent again, and get the same answer.
        await self._wallet.group_commit(lambda: self._wallet.settle(report.round, state), durable=False)


def _identity(identity: Identity | None, server: Server) -> Identity:
    """Her identity at this server; her token is shown to no other."""
    if identity is None:
        raise NotEnrolledError("has no number yet", where="user", remedy="enrol first: user.enrol(server, token)")
    if identity.server != server.url:
        what = f"is known to {identity.server}, not to {server.url}"
        raise NotEnrolledError(what, where="user", remedy="if that server has moved, say so: wallet.moved(url)")
    return identity


def _reader(server: Server, study: str | BulletinReader) -> BulletinReader:
    """A reader of the study that was named; one that has shown it to her goes on from what she has seen."""
    return study if isinstance(study, BulletinReader) else BulletinReader(server, study)


async def _prepare(round_: PreparedRound | Refusal, user: int) -> None:
    """Prepare her part of a round in a thread, where that takes long: other users of the process go on meanwhile.

    What is wrong with it is found again, and at once, by who decides.
    """
    if isinstance(round_, PreparedRound) and work_of(round_.spec.parts[round_.question(user).part]) > _APART:
        with suppress(ProtocolError):
            await asyncio.to_thread(round_.part_of, user)


def count(results: Iterable[Result]) -> Counter[str]:
    """Count results by their kind; a refusal by its reason."""
    return Counter(_name(result) for result in results)


def _name(result: Result) -> str:
    match result:
        case Answered():
            return "answered"
        case Unanswered(problem=problem):
            return problem
        case Refusal(reason=reason):
            return reason.value
