"""One user: she reads a study, decides, randomizes once, stores, and sends."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from askance_client.consent import AccountStatement, PublicFacts, asked, judge, refuse_study
from askance_client.history import History
from askance_client.refusals import Reason, Refusal
from askance_client.transport import Problem, Receipt, Server, Tail, UnreachableError
from askance_client.wallet import Identity, State, StoredReport, Wallet
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Example
from askance_protocol.randomness import OsRandom
from askance_protocol.reports import encode_report
from askance_protocol.rounds import PreparedRound, StudyState

_ENDS: Final = frozenset({StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED})
_FINAL: Final = frozenset({"conflict", "budget-exceeded", "round-not-open", "not-in-cohort", "invalid-report"})
"""What a server says of a report that it will never take. After anything else the same bytes may be sent again."""


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


@dataclass(slots=True)
class BulletinReader:
    """A study that is read again and again. Users of one process may share it: what it has checked is public."""

    server: Server
    study: str
    history: History = field(init=False)
    refusal: Refusal | None = None
    """Why nothing is read any more: after a lie there is no truth to go on with."""
    _reading: asyncio.Lock = field(init=False, repr=False, default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.history = History(self.study)

    @property
    def ended(self) -> bool:
        """Whether nothing more will be asked."""
        return self.refusal is not None or self.history.bulletin.state in _ENDS

    async def refresh(self) -> Refusal | None:
        """Read what is new, and check that it continues what was read. One reads at a time: all read one history."""
        async with self._reading:
            if self.refusal is None:
                new = await self.server.entries(self.study, len(self.history.heads) - 1)
                if isinstance(new, Problem):
                    return Refusal(Reason.UNREADABLE, f"the server says {new.status} {new.name}")
                after = new if isinstance(new, Refusal) else self._with(new)
                if isinstance(after, Refusal):
                    self.refusal = after
                else:
                    self.history = after
            if self.refusal is None and not self.history.heads:
                return Refusal(Reason.UNREADABLE, "the bulletin is empty")
            return self.refusal

    def _with(self, new: Tail) -> History | Refusal:
        """A server may lag behind what was read; where it has nothing new, its head is still one of those known."""
        after = self.history.extended(new.entries)
        if isinstance(after, Refusal) or not after.heads or after.continues(new.pin):
            return after
        return Refusal(Reason.TWO_HISTORIES, f"there are {after.pin.length} entries, and the head is that of others")


async def enrol(wallet: Wallet, server: Server, token: str) -> Identity | Problem | Refusal:
    """Give a wallet's owner a number, unless she has one."""
    if wallet.identity is not None:
        return wallet.identity
    enrolled = await server.enrol(token)
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
    speak for. There is no parameter for her randomness: it comes from the operating system.
    """

    def __init__(self, example: Example, wallet: Wallet, *, simulated: bool = False) -> None:
        self._example, self._wallet, self._simulated = example, wallet, simulated

    @property
    def wallet(self) -> Wallet:
        """What she has spent, and her reports."""
        return self._wallet

    async def enrol(self, server: Server, token: str) -> Identity | Problem | Refusal:
        """Get a number from a server with a token of somebody who may enrol, unless she has one."""
        return await enrol(self._wallet, server, token)

    async def take_part(self, server: Server, study: str) -> list[Result]:
        """Answer what a study asks now."""
        return await self.answer(BulletinReader(server, study))

    async def follow(self, server: Server, study: str, *, every: float = 1.0) -> list[Result]:
        """Answer until the study has ended; each round's last result."""
        watch, results = BulletinReader(server, study), dict[str | None, Result]()
        while True:
            # Whatever was stored is sent when the server is back.
            with suppress(UnreachableError):
                results |= {result.round: result for result in await self.answer(watch)}
            if watch.ended:
                return list(results.values())
            await asyncio.sleep(every)

    async def answer(self, watch: BulletinReader, *, refresh: bool = True, via: Server | None = None) -> list[Result]:
        """Send what is stored and not acknowledged, and answer the rounds that are open.

        Users who share a watch may each have a connection `via` which they send.
        """
        server = via or watch.server
        identity = self._identity(server)
        refusal = await watch.refresh() if refresh else watch.refusal
        if refusal is not None:
            return [refusal]
        history, stance = watch.history, PublicFacts(identity.user, self._example.schema, self._simulated)
        refusal = refuse_study(history, self._wallet.pin(watch.study), stance)
        if refusal is not None:
            return [refusal]
        results = list[Result]()
        for id_ in history.rounds:
            kept = self._wallet.kept(id_)
            if kept is None and id_ in history.open_rounds() and asked(history, id_, identity.user):
                kept = await self._keep(watch, server, id_, stance, identity)
            if isinstance(kept, Refusal):
                results.append(kept)
            elif kept is not None:
                results.append(await self._send(server, kept, identity))
        return results

    async def _keep(
        self, watch: BulletinReader, server: Server, id_: str, stance: PublicFacts, identity: Identity
    ) -> StoredReport | Refusal:
        """Decide; then draw a report and store it with its charge."""
        claim = await server.claim(identity.token)
        if isinstance(claim, Problem):
            return Refusal(Reason.UNREADABLE, f"the server says {claim.status} {claim.name}", id_)
        if isinstance(claim, Refusal):
            return claim
        history = watch.history
        return await self._wallet.together(lambda: self._decide(history, id_, stance, claim))

    def _decide(
        self, history: History, id_: str, stance: PublicFacts, claim: AccountStatement
    ) -> StoredReport | Refusal:
        """In one transaction, so that nothing is spent between the judgement and the report."""
        kept = self._wallet.kept(id_)
        if kept is not None:
            return kept
        purse = self._wallet.purse.after(claim)
        judged = judge(history, id_, stance, purse, claim)
        if claim.user == stance.user:
            # Also where she refuses: what others have spent in her name stays spent. Not what is said of somebody else.
            self._wallet.see(history.id, history.pin, purse.elsewhere)
            self._wallet.hear({round_: cost for round_, cost in purse.heard.items() if round_ in history.rounds})
        if isinstance(judged, Refusal):
            return judged
        charge = judged.charge_of(stance.user)
        return self._wallet.keep(
            history.id, history.pin, purse.elsewhere, id_, charge, lambda: self._draw(judged, stance.user)
        )

    def _draw(self, round_: PreparedRound, user: int) -> bytes:
        """The one place where her example is looked at."""
        return encode_report(round_.respond(user, self._example, OsRandom()), round_.outcomes)

    async def _send(self, server: Server, kept: StoredReport, identity: Identity) -> Result:
        """The stored bytes, until there is an answer for good."""
        if kept.state is State.ACKNOWLEDGED:
            return Answered(kept.round, kept.charge)
        if kept.state is State.DECLINED:
            return Unanswered(kept.round, "declined", final=True)
        answer = await server.send(kept.round, identity.token, kept.body)
        if isinstance(answer, Refusal):
            return Refusal(answer.reason, answer.detail, kept.round)
        if isinstance(answer, Problem):
            final = answer.name in _FINAL
            if final:
                await self._settle(kept, State.DECLINED)
            return Unanswered(kept.round, answer.name or str(answer.status), final)
        if answer != Receipt(identity.user, kept.round, kept.charge):
            return Refusal(Reason.WRONG_RECEIPT, "the receipt names another report or another price", kept.round)
        await self._settle(kept, State.ACKNOWLEDGED)
        return Answered(kept.round, kept.charge)

    async def _settle(self, kept: StoredReport, state: State) -> None:
        # If it is lost, the same bytes are sent again, and get the same answer.
        await self._wallet.together(lambda: self._wallet.settle(kept.round, state), durable=False)

    def _identity(self, server: Server) -> Identity:
        """Who she is to this server; her token is shown to no other."""
        identity = self._wallet.identity
        if identity is None:
            raise ProtocolError("has no number yet", where="user", remedy="enrol first: user.enrol(server, token)")
        if identity.server != server.url:
            what = f"is known to {identity.server}, not to {server.url}"
            raise ProtocolError(what, where="user", remedy="if that server has moved, say so: wallet.moved(url)")
        return identity


def count(results: Iterable[Result]) -> Counter[str]:
    """How many of each kind; a refusal by its reason."""
    return Counter(_name(result) for result in results)


def _name(result: Result) -> str:
    match result:
        case Answered():
            return "answered"
        case Unanswered(problem=problem):
            return problem
        case Refusal(reason=reason):
            return reason.value
