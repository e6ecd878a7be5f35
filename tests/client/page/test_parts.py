"""The page's wallet and its participant without a page: in Node, over a store in memory and a server in the script.

Wherever something goes through reports, rounds or heads, each of them is once the one that matters.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client import ReportState
from askance_protocol import canonical
from askance_protocol.budget import MICRO
from askance_protocol.examples import Example
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery, prepare
from askance_protocol.queries.language import Bit, FieldValue, Is, Label
from askance_protocol.rounds import KarySpec, Part, StudySpec
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField
from tests.client.liar import Liar
from tests.client.page.questions import one_of, room, scale, yes_or_no
from tests.client.people import HERS, wallet_at
from tests.harness.tree import ROOT
from tests.protocol.studies import part, study
from tests.protocol.web.scripts import WEB, run

PAGE: Final = ROOT / "client" / "askance_client" / "page"
STATES: Final = [state.value for state in ReportState]
ROUNDS: Final = 4


def bulletin(*charges: int) -> tuple[str, list[str], str]:
    """A study, its rounds, and its bulletin; a round that charges less than `MICRO` is unsound."""
    liar = Liar.of(study(simulated=False, cap=100 * MICRO))
    rounds = [liar.ask(part(charge=charge)) for charge in charges]
    document = {"head": liar.head, "length": len(liar.entries), "entries": liar.entries}
    return liar.id, rounds, canonical.dumps(document).decode()


STUDY, IDS, SOUND = bulletin(*[MICRO] * ROUNDS)
BULLETINS: Final = {
    "sound": SOUND,
    "none": bulletin(*[MICRO - 1] * ROUNDS)[2],
    "the last alone": bulletin(*[MICRO - 1] * (ROUNDS - 1), MICRO)[2],
    "a middle one alone": bulletin(MICRO - 1, MICRO, MICRO - 1, MICRO - 1)[2],
}


def asked(question: tuple[StudySpec, Part]) -> dict[str, str]:
    """A question as a room asks it, on its bulletin."""
    liar = Liar.of(question[0])
    liar.ask(question[1])
    document = {"head": liar.head, "length": len(liar.entries), "entries": liar.entries}
    return {"study": liar.id, "bulletin": canonical.dumps(document).decode()}


FIELD_SIGN: Final = room(LabelField(name="answer"), "Yes?")
FIELD_BIT: Final = room(BitsField(name="answer", width=1), "Set?")
FIELD_NAMED: Final = room(CategoryField(name="answer", values=("a", "b", "c")), "Which?")
SIGNED: Final = CellQuery(cells=3, cell=FieldValue(field="answer"), negative=Is(field="answer", category="b"))
FIELD_WIDE: Final = room(IntegerField(name="answer", low=0, high=99), "How many?")
QUESTIONS: Final[dict[str, tuple[StudySpec, Part]]] = {
    "yes or no": yes_or_no(),
    "one of five": one_of(["a", "b", "c", "d", "e"]),
    "one of two": one_of(["never", "ever"]),
    "a scale": scale(),
    "a sign": (FIELD_SIGN, part(BooleanQuery(test=Label(sign=1)))),
    "signed": (FIELD_NAMED, part(SIGNED, KarySpec(micro_epsilon=MICRO))),
    "a bit": (FIELD_BIT, part(BooleanQuery(test=Bit(field="answer", index=0)))),
    "a hundred numbers": (FIELD_WIDE, part(RealQuery(numerator=FieldValue(field="answer"), denominator=99))),
}


def played(folder: Path, *scenes: str, modules: Path = ROOT) -> Any:
    """What each scene comes to; all of them where none is named."""
    job = {"study": STUDY, "rounds": IDS, "bulletins": BULLETINS, "values": HERS.record()}
    job |= {"questions": {name: asked(question) for name, question in QUESTIONS.items()}}
    return run("../../client/page/parts.mjs", job | ({"scenes": scenes} if scenes else {}), folder, modules=modules)


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """All scenes, played once."""
    return played(tmp_path_factory.mktemp("scenes"))


# ------------------------------------------------------------------------------------------------------- the wallet


def settled(path: Path, before: str, now: str) -> list[str]:
    """The same in Python: the second of three reports is settled, and one that is not there."""
    ids = [str(number) * 64 for number in (1, 2, 3)]
    path.mkdir()
    wallet = wallet_at(path)
    for id_ in ids:
        wallet.draw_and_store(STUDY, id_, MICRO, lambda: b"drawn")
    wallet.settle(ids[1], ReportState(before))
    wallet.settle(ids[1], ReportState(now))
    wallet.settle("4" * 64, ReportState(now))
    states = [wallet.reports[id_].state.value for id_ in ids]
    wallet.close()
    return states


def test_neither_an_acknowledgement_nor_a_conflict_is_taken_back(seen: Any, tmp_path: Path) -> None:
    final = {"acknowledged", "conflict"}
    expected = {f"{one}, {two}": ["kept", one if one in final else two, "kept"] for one in STATES for two in STATES}

    assert seen["settled"] == expected
    # In Python as in the browser.
    assert {
        f"{one}, {two}": settled(tmp_path / f"{one}-{two}", one, two) for one in STATES for two in STATES
    } == expected


def test_a_conflict_costs_twice_for_good_and_the_next_round_is_refused(seen: Any) -> None:
    assert seen["conflict"] == {
        "seen": [MICRO, {"state": "conflict"}, 2 * MICRO],
        "after": 2 * MICRO,
        "states": ["conflict"],
        "next": ["refused", "beyond-cap"],
    }


def test_whichever_report_is_in_conflict_is_counted_twice(seen: Any) -> None:
    assert seen["counted"] == [1111 + 10**place for place in range(4)]


def test_whichever_head_is_another_nothing_of_that_history_is_noted(seen: Any) -> None:
    heads = [f"head {place}" for place in range(4)]

    assert seen["pinned"] == {**dict.fromkeys(["0", "1", "2", "3", "shorter"], heads), "none": [*heads, "head 4"]}


def test_what_others_spent_stays_spent_round_by_round(seen: Any) -> None:
    """The highest figure of each of her rounds; nothing of another's account, or of a round that there is not."""

    def costs(factor: int) -> dict[str, int]:
        return {round_: factor * (place + 1) for place, round_ in enumerate(IDS)}

    refused, other = ["refused", "heard-already"], ["refused", "other-user"]
    assert seen["heard"]["looks"] == [refused, refused, other, refused]
    assert seen["heard"]["seen"] == [[costs(20), 9000], [costs(20), 9000], [costs(20), 9000], [costs(40), 9000]]


def test_a_number_and_a_cap_stay_and_a_copy_lets_nobody_answer_in_her_name(seen: Any) -> None:
    assert seen["kept"] == {
        "fresh": [True, True, None],
        "unused": [True, False, False],
        "refused": ["this browser is number 7, and no other", "a cap is for a lifetime", True],
        "owner": [7, "two", 5, 1],
        "again": [7, 5, True],
        "copy": [["cap", "elsewhere", "user"], ["\x01"]],
        "anew": [None, True, False],
    }


# --------------------------------------------------------------------------------------------------- the participant


def test_whichever_report_was_not_sent_is_shown_first(seen: Any) -> None:
    assert seen["unsent"] == [["report", id_] for id_ in IDS] + [["report", IDS[-1]]]


def test_whichever_round_is_sound_is_asked(seen: Any) -> None:
    assert seen["sound"] == {
        "sound": ["question", IDS[0]],
        "all but the last are answered": ["question", IDS[-1]],
        "none": ["refused", "unsound-round"],
        "the last alone": ["question", IDS[-1]],
        "a middle one alone": ["question", IDS[1]],
    }


def test_two_tabs_draw_one_report(seen: Any) -> None:
    assert seen["drawn"] == {"drawn": [False, True], "same": True, "reports": 1, "report": [MICRO, "kept", True]}


def test_what_the_server_says_settles_the_report_that_was_sent_and_no_other(seen: Any) -> None:
    declined = ["declined", "declined", "kept", "kept", 3 * MICRO]
    wrong = ["wrong-receipt", "kept", "kept", "kept", 3 * MICRO]

    assert seen["sent"] == {
        "receipt": ["acknowledged", "acknowledged", "kept", "kept", 3 * MICRO],
        **dict.fromkeys(["another user", "another round", "another price"], wrong),
        "conflict": ["conflict", "conflict", "kept", "kept", 4 * MICRO],
        **dict.fromkeys(["budget-exceeded", "round-not-open", "not-in-cohort", "invalid-report"], declined),
        "too-busy": ["kept", "kept", "kept", "kept", 3 * MICRO],
    }


def test_a_bulletin_in_pieces_is_read_to_its_end_and_no_further_than_its_bound(seen: Any) -> None:
    assert seen["pieces"] == [1 + ROUNDS, "unreadable", "broken-chain", "broken-chain"]


def test_one_who_has_no_number_gets_one_with_her_own_key_or_hears_why_not(seen: Any) -> None:
    asked = {name: seen["joined"][f"{name}, asked"] for name in ("number", "over", "wrong", "forbidden", "else")}
    said = {name: seen["joined"][name] for name in (*asked, "none")}

    assert asked == {name: [1, "the code", True, 4 if name == "number" else None] for name in asked}
    assert said.pop("number") == ["question", IDS[0]]
    assert {name: (kind, (text or "")[:13]) for name, (kind, text) in said.items()} == {
        "over": ("join", "This code has"),
        "wrong": ("join", "This code is "),
        "forbidden": ("join", "This code is "),
        "else": ("join", "The server do"),
        "none": ("join", ""),
    }


def test_what_is_no_answer_is_refused_and_a_lie_ends_it_for_good(seen: Any) -> None:
    passing, final = ["refused", "unreadable", "question"], ["refused", "two-histories", "refused"]

    assert seen["unsaid"] == {
        "a problem": passing,
        "an unknown problem": passing,
        "an account that cannot be read": passing,
        "no bulletin": ["refused", "unreadable", "refused"],
        "a bulletin that cannot be read": passing,
        "an empty bulletin": passing,
        "a bulletin of its first entry alone": final,
    }


def test_a_question_is_known_after_it_was_answered_and_half_a_number_sends_nothing(seen: Any) -> None:
    assert seen["answered"] == {
        "next": "report",
        "about": [True, MICRO],
        "lost": ["kept", True, "kept", False],
        "none": None,
    }


def test_a_store_that_is_gone_or_denied_is_said_to_be(seen: Any) -> None:
    gone, denied = seen["stores"]

    assert "was forgotten, or taken over by a newer version" in gone
    assert denied == "this browser stores nothing: denied"


# ------------------------------------------------------------------------------------------------ what a question means


def test_each_answer_is_shown_with_the_chances_that_its_channel_gives_it(seen: Any) -> None:
    labels = {
        "yes or no": ["yes", "no", "nothing"],
        "one of five": ["a", "b", "c", "d", "e"],
        "one of two": ["never", "ever"],
        "a scale": [*map(str, range(1, 11)), "nothing"],
        "a sign": ["yes (+1)", "no (−1)"],
        "signed": ["a", "b", "c"],
        "a bit": ["yes", "no"],
        "a hundred numbers": ["the most", "the least"],
    }
    values: dict[str, Callable[[str], Any]] = {
        "a scale": lambda label: None if label == "nothing" else int(label),
        "a sign": lambda label: 1 if label.startswith("yes") else -1,
        "a bit": lambda label: "1" if label == "yes" else "0",
        "a hundred numbers": lambda label: 99 if label == "the most" else 0,
    }
    for name, (spec, asked_) in QUESTIONS.items():
        told, channel = seen["meant"][name], asked_.channel.build(asked_.query, spec.example)
        prepared = prepare(asked_.query, spec.example)
        rows = channel.table()
        assert [label for label, _, _ in told["answers"]] == labels[name]
        assert [label for label, is_gap, _ in told["answers"] if is_gap] == [
            each for each in labels[name] if each == "nothing"
        ]
        for label, is_gap, shares in told["answers"]:
            value = values[name](label) if name in values else None if is_gap else label
            example = Example.of(spec.example, {"answer": value})
            row = rows[int(asked_.query.input_of(prepared.answer(example)))]
            if name == "a hundred numbers":
                row = rows[-1 if label == "the most" else 0]
            assert shares == pytest.approx([weight / 2**64 for weight in row], abs=1e-15)
        most = max(Fraction(max(column), min(column)) for column in zip(*rows, strict=True))
        assert told["odds"] == pytest.approx(float(most), rel=1e-8)
        assert told["odds"] >= most
        assert (told["isBit"], told["isWhole"]) == (channel.outcomes == 2, name != "a hundred numbers")
        assert told["fields"] == ["answer"]


def test_an_outcome_is_said_by_the_answers_that_give_it_most_often(seen: Any) -> None:
    assert {name: told["outcomes"] for name, told in seen["meant"].items()} == {
        "yes or no": ["no", "yes"],
        "one of five": ["a", "b", "c", "d", "e"],
        "one of two": ["never", "ever"],
        # A bit that is likelier the larger a number is says no single answer.
        "a scale": ["0", "1"],
        "a sign": ["no (−1)", "yes (+1)"],
        # A cell with a sign that no answer has is said by its number.
        "signed": ["a", "1", "2", "b", "c", "5"],
        "a bit": ["no", "yes"],
        "a hundred numbers": ["the least", "the most"],
    }


# ------------------------------------------------------------------------------------------------------ the controls

FAULTS: Final = {
    "a conflict is taken back": ("wallet.mjs", ' && report.state !== "conflict"', "", "settled conflict"),
    "a conflict costs once": ("participant.mjs", 'state === "conflict")', "false)", "conflict counted sent"),
    "a conflict is a refusal like others": (
        "participant.mjs",
        'answer.name === "conflict" ? "conflict" : "declined"',
        '"declined"',
        "conflict sent",
    ),
    "two heads are compared": ("wallet.mjs", "before.every(", "before.slice(0, 2).every(", "pinned"),
    "all heads but the last are compared": ("wallet.mjs", "before.every(", "before.slice(0, -1).every(", "pinned"),
    "two rounds are heard of": (
        "participant.mjs",
        "of spending.heard)",
        "of [...spending.heard].slice(0, 2))",
        "heard",
    ),
    "two rounds are looked at": (
        "participant.mjs",
        "for (const id of open)",
        "for (const id of open.slice(0, 2))",
        "sound",
    ),
    "a receipt of any price is good": (
        "participant.mjs",
        "microEpsilon: report.charge",
        "microEpsilon: answer.charged",
        "sent",
    ),
}


def planted(folder: Path, module: str, old: str, new: str) -> Path:
    """A copy of the page's modules with a fault in one of them."""
    copied = folder / "planted"
    shutil.copytree(PAGE, copied / PAGE.relative_to(ROOT), ignore=shutil.ignore_patterns("*.py", "__pycache__"))
    shutil.copytree(WEB, copied / WEB.relative_to(ROOT))
    path = copied / PAGE.relative_to(ROOT) / module
    text = path.read_text("utf-8")
    assert text.count(old) == 1, f"{module} has no such text, or several: {old}"
    path.write_text(text.replace(old, new), "utf-8")
    return copied


@pytest.mark.parametrize("fault", FAULTS)
def test_control_a_fault_changes_what_the_scene_comes_to(seen: Any, tmp_path: Path, fault: str) -> None:
    module, old, new, scenes = FAULTS[fault]
    for scene in scenes.split():
        found = played(tmp_path, scene, modules=planted(tmp_path / scene, module, old, new))

        assert found[scene] != seen[scene], scene
