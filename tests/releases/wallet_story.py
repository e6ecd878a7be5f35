"""A person's wallet and a file of several, with some of everything: what happens to them, and what they tell.

Read as any program may that stays with the names of `askance_client`: so this is the same for each version.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client import (
    BeyondCapError,
    Identity,
    Reason,
    ReportState,
    UnreachableError,
    User,
    Wallet,
    WalletFile,
)
from askance_client.pace import AT_ONCE
from askance_protocol.budget import MICRO
from askance_protocol.canonical import digest
from tests.client.liar import URL, Liar, instead_of_an_answer
from tests.client.liar import problem as refusal
from tests.client.people import CAP, HERS, OTHERS, answers, enrolled, reasons, wallet_at
from tests.protocol.studies import SCHEMA, part, study

Json = dict[str, Any]

CREW: Final = (0, 1, 2)
ROUND: Final = "0" * 64


# ----------------------------------------------------------------------------------------------------- what happens


def live(folder: Path) -> Json:
    """Let it happen to a new wallet, `wallet` in this folder, and to one of several, `crew`; what is told of both.

    In study A a report is acknowledged, one is declined, one meets another of hers, and one is sent and not answered.
    In study B a copy of her wallet has answered a round, and has spent more elsewhere.
    """
    a, b = Liar.of(study(title="A", simulated=False, cap=5 * MICRO)), Liar.of(study(title="B", simulated=False))
    with closing(wallet_at(folder)) as wallet:
        user = User(HERS, wallet, pace=AT_ONCE)
        enrolled(user, a)
        wallet.declare(SCHEMA)
        a.ask(part())
        answers(user, a)
        a.ask(part())
        a.says["receipt"] = lambda _: refusal(409, "budget-exceeded")
        answers(user, a)
        a.says.clear()
        a.heard[a.ask(part())] = b"another draw"
        answers(user, a)
        a.ask(part())
        a.says["receipt"] = instead_of_an_answer
        with suppress(UnreachableError):
            answers(user, a)
        b.charges |= a.charges
        b.charges[b.ask(part())] = MICRO
        b.charges[ROUND] = MICRO // 2
        answers(user, b)
    _live_together(folder / "crew", a)
    return {
        "bulletins": [liar.entries for liar in (a, b)],
        "charges": a.charges,
        "heard": {round_: body.decode() for round_, body in a.heard.items()},
        "told": {"wallet": [told(folder / "wallet", 0)], "crew": [told(folder / "crew", owner) for owner in CREW]},
    }


def _live_together(path: Path, liar: Liar) -> None:
    """The last of them has done nothing yet."""
    with closing(WalletFile.open(path)) as file:
        file.add_all([(owner, CAP, Identity(URL, owner, f"user.token.{owner}")) for owner in CREW])
        for owner in CREW[:-1]:
            wallet = Wallet(file, owner)
            wallet.draw_and_store(liar.id, liar.round_id, MICRO, lambda owner=owner: b'{"outcome":%d}' % owner)
        first = Wallet(file, 0)
        first.settle(liar.round_id, ReportState.ACKNOWLEDGED)
        first.note_elsewhere(MICRO, {ROUND: MICRO})
        first.note_history(liar.id, [digest(entry) for entry in liar.entries])


# ----------------------------------------------------------------------------------------------------- what it tells


def told(path: Path, owner: int) -> Json:
    """All that the wallet of an owner tells."""
    with closing(WalletFile.open(path)) as file:
        wallet = Wallet(file, owner)
        identity, spending = wallet.identity, wallet.spending
        assert identity is not None
        return {
            "cap": wallet.cap,
            "identity": [identity.server, identity.user, identity.token],
            "declared": None if wallet.declared is None else wallet.declared.to_json(),
            "spent": spending.spent,
            "elsewhere": spending.elsewhere,
            "heard": dict(spending.heard),
            "again": dict(spending.again),
            "reports": [
                [each.round, each.study, each.charge, each.body.decode(), each.state.value]
                for each in sorted(wallet.reports.values(), key=lambda each: each.round)
            ],
            "heads": {study: sorted(wallet.heads(study).items()) for study in wallet.studies()},
        }


def lacking(told: Json) -> Iterator[str]:
    """What of everything a wallet has none of, by what it tells."""
    [hers] = told["wallet"]
    yield from (name for name in ("declared", "elsewhere", "heard", "again", "heads") if not hers[name])
    states = {report[-1] for report in hers["reports"]}
    yield from (f"a report: {state.value}" for state in ReportState if state.value not in states)
    yield from (f"a report of {who}" for who in CREW[:-1] if not told["crew"][who]["reports"])


# ---------------------------------------------------------------------------------------------------- how it goes on


def go_on(folder: Path, kept: Json) -> None:
    """What was sent is sent again as it was, what is new is answered, and what was spent stays spent."""
    a, b = (Liar(entries[0]["notice"]["study"], entries=list(entries)) for entries in kept["bulletins"])
    a.charges = dict(kept["charges"])
    a.heard = {round_: body.encode() for round_, body in kept["heard"].items()}
    [hers] = kept["told"]["wallet"]
    [again] = [body for _, _, _, body, state in hers["reports"] if state == "kept"]
    with closing(Wallet.open(folder / "wallet")) as wallet:
        user = User(OTHERS, wallet, pace=AT_ONCE)
        answers(user, a)
        assert a.bodies == [again.encode()]
        assert wallet.spending.spent == hers["spent"]
        a.ask(part())
        assert reasons(answers(user, a)) == [Reason.BEYOND_STUDY_CAP]
        b.ask(part())
        answers(user, b)
        assert wallet.spending.spent == hers["spent"] + MICRO
        b.rewrite(1, lambda notice: notice["round"].update(target=11))
        assert reasons(answers(user, b)) == [Reason.TWO_HISTORIES]
        with pytest.raises(BeyondCapError):
            wallet.draw_and_store(b.id, "1" * 64, CAP, lambda: b"beyond")
    with closing(WalletFile.open(folder / "crew")) as file:
        assert file.waiting() == [1]
        Wallet(file, 2).draw_and_store(a.id, ROUND, MICRO, lambda: b"drawn")
        assert file.waiting() == [1, 2]
