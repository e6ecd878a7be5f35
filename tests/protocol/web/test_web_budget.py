"""Budgets in JavaScript: ε is read, summed and told as Python does it, to the last millionth and the last word."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client.consent import PublicFacts, Spending, decide
from askance_client.history import History
from askance_client.refusals import Refusal
from askance_client.transport.documents import read_statement, read_tail
from askance_protocol.budget import LARGEST, MICRO, charge_from_text, limit_from_text, to_text
from askance_protocol.errors import ProtocolError
from tests.client.liar import USER, Liar
from tests.protocol.studies import part, study
from tests.protocol.web.scripts import WEB, planted, run

AMOUNTS: Final = [0, 1, 9, 10, 999_999, MICRO, 1_000_001, 1_100_000, 10 * MICRO, 123_456_789, LARGEST - 1, LARGEST]
TEXTS: Final = [
    *["1", "0.25", "1e-3", "+1", "0.1234567", "0.000001", "0.0000001", "1e9", "1e10", "1000000000.0000001", "00.5", "1E+2"],
    *["", " 1", "1 ", "-1", "0", "1.", ".5", "1e", "1e1000", "1e-999", "0x1", "1,5", "NaN", "inf", "١", "1_0", "9" * 65, "\x1b[2J"],
    *["0." + "9" * 60, "9" * 60 + "e-55", "5e-7", "4.99999e-7", "1e15", "999999999.999999", "1000000000.000001"],
]  # fmt: skip
WALLETS: Final = 400


@cache
def asked() -> Liar:
    """A study of two rounds, of which the second is judged."""
    liar = Liar.of(study(simulated=False))
    liar.ask(part())
    liar.ask(part(), number=2)
    return liar


def wallets(count: int) -> list[Any]:
    """Made-up accounts: a wallet's, and what its server says."""
    source, liar = random.Random(5), asked()
    tail = {"head": liar.head, "length": len(liar.entries), "entries": liar.entries}
    others = [liar.round_id, "f" * 64]

    def amount() -> int:
        return source.choice(
            [0, 1, MICRO - 1, MICRO, MICRO + 1, 2 * MICRO, 3 * MICRO, source.randrange(5 * MICRO), LARGEST]
        )

    def account() -> dict[str, int]:
        return {id_: amount() for id_ in others if source.random() < 0.3}

    made = list[Any]()
    for _ in range(count):
        charges = account()
        said = [{"round": id_, "micro_epsilon": cost} for id_, cost in account().items()]
        statement = {
            "user": USER,
            "cap_micro_epsilon": 0,
            "spent_micro_epsilon": amount(),
            "remaining_micro_epsilon": 0,
            "charges": said,
        }
        again = {id_: cost for id_, cost in charges.items() if source.random() < 0.2}
        made.append({"study": liar.id, "tail": tail, "user": USER, "statement": statement, "cap": max(amount(), 1), "charges": charges, "elsewhere": amount() if source.random() < 0.3 else 0, "heard": account(), "again": again})  # fmt: skip
    return made


def told(wallet: Any) -> Any:
    """What Python says to the last round."""
    history = History(wallet["study"]).extended(read_tail(json.dumps(wallet["tail"]).encode()).entries)
    assert isinstance(history, History)
    before = Spending(*(wallet[name] for name in ("cap", "charges", "elsewhere", "heard", "again")))
    statement = read_statement(json.dumps(wallet["statement"]).encode())
    facts = PublicFacts(wallet["user"], history.study.example, simulated=False)
    id_ = history.open_rounds()[-1]
    decision = decide(history, id_, facts, before.after(statement), statement)
    said = [decision.reason.value, decision.detail] if isinstance(decision, Refusal) else decision.charge_of(USER)
    return {"said": said, "before": str(before.spent)}


def read(reader: Callable[[str], int], text: str) -> int | str:
    try:
        return reader(text)
    except ProtocolError as error:
        return str(error)


@cache
def by_python() -> Any:
    return {
        "texts": [[read(charge_from_text, text), read(limit_from_text, text)] for text in TEXTS],
        "amounts": [to_text(amount) for amount in AMOUNTS],
        "wallets": [told(wallet) for wallet in wallets(WALLETS)],
    }


def by_javascript(folder: Path, modules: Path = WEB) -> Any:
    job = {"texts": TEXTS, "amounts": AMOUNTS, "wallets": wallets(WALLETS)}
    return run("spending.mjs", job, folder, modules=modules, seconds=120)


def test_budgets_are_read_and_told_alike(tmp_path: Path) -> None:
    theirs, mine = by_javascript(tmp_path), by_python()

    assert theirs["amounts"] == mine["amounts"]
    assert theirs["texts"] == mine["texts"]
    assert theirs["wallets"] == mine["wallets"]
    said = [each["said"] for each in mine["wallets"]]
    reasons = [each[0] for each in said if isinstance(each, list)]
    assert {reason: reasons.count(reason) > WALLETS / 20 for reason in reasons} == {"beyond-cap": True, "beyond-study-cap": True}  # fmt: skip
    assert sum(isinstance(each, int) for each in said) > WALLETS / 40
    assert any("its server has claimed that" in each[1] for each in said if isinstance(each, list))


FAULTS: Final = {
    "an ε that is cut": ("budget.mjs", {"if (scaled % divisor)": "if (false)"}),
    "a tenth too much of a text": ("budget.mjs", {'.padStart(6, "0")': '.padStart(5, "0")'}),
    "one micro-ε too much": ("judge.mjs", {"if (spent + BigInt(charge) > BigInt(spending.cap)) {": "if (spent + BigInt(charge) > BigInt(spending.cap) + 1n) {"}),
    "a conflict that costs once": ("judge.mjs", {"total(charges.values()) + total(again.values())": "total(charges.values())"}),
    "a study's own cap": ("judge.mjs", {"inStudy + BigInt(charge) > BigInt(cap)": "inStudy > BigInt(cap)"}),
    "a claim that is not told": ("judge.mjs", {'if (own + charge > spending.cap) return "";': 'return "";'}),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_control_a_budget_that_is_wrong_is_found(tmp_path: Path, fault: str) -> None:
    module, changes = FAULTS[fault]

    assert by_javascript(tmp_path, planted(tmp_path, module, changes)) != by_python()
