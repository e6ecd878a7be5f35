"""What a page does not believe: the lies that the Python client is told, each refused for the same reason."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from askance_protocol import canonical
from askance_protocol.budget import MICRO
from askance_protocol.rounds import TableSpec
from askance_protocol.schema import Schema
from tests.client.liar import TOKEN, URL, USER, Liar
from tests.client.lies import LIES, TRANSPORT_LIES, Lie
from tests.client.people import CAP
from tests.protocol.studies import LN_3, MASKED_BIT, SCHEMA, TABLE, part, study
from tests.protocol.web.scripts import WEB, planted, run

NOW = 0
SPOKEN = [lie for lie in LIES if lie not in TRANSPORT_LIES]
"""Lies in documents. Those below are refused by who fetches them."""


def answer(liar: Liar, path: str) -> list[Any]:
    said = liar.handle(httpx.Request("GET", URL + path, headers={"Authorization": f"Bearer {TOKEN}"}))
    return [said.status_code, base64.b64encode(said.read()).decode()]


def case(plant: Callable[[Liar], object], **changes: Any) -> dict[str, Any]:
    """All that a page has to judge by: what the server says, and who she is."""
    liar = Liar.of(study(simulated=False))
    plant(liar)
    said = {"bulletin": answer(liar, f"/v1/studies/{liar.id}/bulletin?after=-1"), "me": answer(liar, "/v1/me")}
    her = {"schema": SCHEMA.to_json(), "declared": None, "user": USER, "now": NOW, "cap": CAP, "simulated": False}
    return {"study": liar.id, **said, **her, **changes}


def honest(liar: Liar) -> None:
    liar.ask(part())


def test_an_honest_round_is_answered(tmp_path: Path) -> None:
    """The control of all lies."""
    assert run("judging.mjs", [case(honest)], tmp_path) == [[{"charge": MICRO, "certified": MICRO, "part": 0}]]


def test_every_lie_is_refused_for_the_reason_for_which_python_refuses_it(tmp_path: Path) -> None:
    results = run("judging.mjs", [case(lie.plant) for lie in SPOKEN], tmp_path)
    expected = [[None if lie.reason is None else lie.reason.value] for lie in SPOKEN]

    assert {lie.name: told for lie, told, right in zip(SPOKEN, results, expected, strict=True) if told != right} == {}
    assert len(SPOKEN) > 100


MOVED = TableSpec(weights=((str((3 << 62) + (1 << 44)), str((1 << 62) - (1 << 44))), TABLE.weights[1]))
"""A millionth of the lies has become truth."""


def changed(name: str, old: bytes, new: bytes) -> Lie:
    """One character of the bulletin is another."""

    def said(document: Any) -> bytes:
        text = canonical.dumps(document)
        assert text.count(old) >= 1
        return text.replace(old, new, 1)

    def planted_(liar: Liar) -> None:
        honest(liar)
        liar.ask(part())
        liar.says["bulletin"] = said

    return Lie(name, None, planted_)


SMALL = {
    "the title of the study": (changed("title", b'"A study"', b'"A studz"'), "other-study"),
    "the target of a round": (changed("round", b'"target":10', b'"target":11'), "broken-chain"),
    "the digest of the head": (changed("head", b'"head":"', b'"head":"0'), "unreadable"),
    "a charge, by a millionth": (Lie("", None, lambda liar: liar.ask(part(charge=MICRO - 1))), "unsound-round"),
    "a weight": (Lie("", None, lambda liar: liar.ask(part(MASKED_BIT, MOVED, LN_3))), "unsound-round"),
}


@pytest.mark.parametrize("name", SMALL)
def test_the_smallest_change_is_found(tmp_path: Path, name: str) -> None:
    lie, reason = SMALL[name]

    assert run("judging.mjs", [case(lie.plant)], tmp_path) == [[reason]]


def test_the_unchanged_table_is_answered(tmp_path: Path) -> None:
    """The control of the changed weight."""
    asked = case(lambda liar: liar.ask(part(MASKED_BIT, TABLE, LN_3)))

    assert run("judging.mjs", [asked], tmp_path) == [[{"charge": LN_3, "certified": LN_3, "part": 0}]]


def test_what_she_has_not_declared_a_late_round_and_a_small_cap_are_refused(tmp_path: Path) -> None:
    cases = [
        case(honest, declared=Schema(fields=SCHEMA.fields[:2]).to_json()),
        case(honest, declared=SCHEMA.to_json()),
        case(lambda liar: liar.ask(part(), deadline=1000), now=1301),
        case(lambda liar: liar.ask(part(), deadline=1000), now=1300),
        case(honest, cap=MICRO - 1),
        case(honest, user=5),
        case(lambda liar: liar.ask(part()) and liar.ask(part())),
    ]
    told = run("judging.mjs", cases, tmp_path)

    answered = [{"charge": MICRO, "certified": MICRO, "part": 0}]
    assert told[:4] == [["other-schema"], answered, ["deadline-passed"], answered]
    assert told[4:6] == [["beyond-cap"], ["other-user"]]
    assert told[6] == answered * 2


@pytest.mark.parametrize(
    ("module", "changes", "name"),
    [
        ("rounds.mjs", {"part.charge < channel.certified": "part.charge < 0"}, "a round that charges a millionth less than binary response costs"),
        ("judge.mjs", {"statement.user !== user": "statement.user < 0"}, "an account of another user"),
        ("judge.mjs", {"spending.heard.has(id)": "spending.heard.has(user)"}, "that it has heard her on the open round"),
        ("judge.mjs", {"least < LEAST_CHARGE": "least < 0"}, "a round for one micro-ε"),
        ("judge.mjs", {"study.simulated && !simulated": "study.simulated && simulated"}, "a simulated study for a real user"),
        ("bulletin.mjs", {"entry.previous !== this.head": "entry.previous.length !== this.head.length"}, "the first entry continues something"),
    ],
)  # fmt: skip
def test_control_a_page_that_believes_is_found(tmp_path: Path, module: str, changes: dict[str, str], name: str) -> None:
    [lie] = [lie for lie in SPOKEN if lie.name == name]
    assert WEB.is_dir()
    [told] = run("judging.mjs", [case(lie.plant)], tmp_path, modules=planted(tmp_path, module, changes))

    assert told
    assert lie.reason is not None
    assert told != [lie.reason.value]
