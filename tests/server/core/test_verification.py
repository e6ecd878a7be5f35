"""An export is verified by what follows from it: each change is found, and said where, also where digests are redone.

Every change is made twice: to the files as they are, and by somebody who redoes all digests, the chain, the names of
study and rounds, and the manifest. Nobody but the strategy and the plan can find the second kind.
"""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from askance_client.simulation.population import synthetic
from askance_lab.run_study import run_study
from askance_protocol import canonical
from askance_protocol.rounds import BinarySpec, Cause, Entry, RoundPublished, StudyEnded, read_entry
from askance_server.core import planning
from askance_server.core.export import BULLETIN, FILES, MANIFEST, RESULT, TALLIES, Pinned, export_files, verify_files
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.strategy import Asking, Hypothesis, Parameters
from askance_server.core.study import Strategies, Waiting, step, study_of
from askance_server.core.verification import NotInstalledError, VerificationError, same, verify_bulletin
from askance_server.strategies.registry import registry
from tests.server.learners import strategy_of

Files = dict[str, bytes]
Lines = list[Any]

STUDIES: dict[str, tuple[str, dict[str, Any], int]] = {
    "two rounds": ("masked-parity", {"d": 4, "users": "all"}, 20_000),
    "as planned": ("mean", {"tolerance": "0.1"}, 4_000),
    "cells": ("histogram", {"cells": 6, "users": "all"}, 3_000),
    "many parts": ("masked-parity-noninteractive", {"d": 4, "users": "all"}, 20_000),
    "many rounds": ("decision-tree", {"d": 4, "users": "all"}, 20_000),
    "conjunction": ("conjunction", {"d": 4, "users": "all"}, 20_000),
}


@cache
def entries(study: str) -> tuple[Entry, ...]:
    name, parameters, users = STUDIES[study]
    strategies = registry()
    spec = study_of(strategies, strategy=name, parameters=parameters, title="A study", nonce="00" * 16, simulated=True)
    own = {key: value for key, value in parameters.items() if key not in {"users", "tolerance"}}
    people = synthetic(strategies[name].examples or name, own, seed=1)
    return tuple(run_study(spec, strategies[name], people, users, 1).entries)


def exported(study: str = "two rounds") -> Files:
    return export_files(entries(study), registry())


@pytest.mark.parametrize("study", STUDIES)
def test_a_true_export_is_verified_and_is_the_same_each_time(study: str) -> None:
    """The control of all changes below."""
    files = exported(study)
    found = verify_files(files, registry())

    assert tuple(files) == FILES
    assert tuple(found.entries) == entries(study)
    assert found.ended is not None
    assert found.ended.cause is Cause.LEARNED
    assert exported(study) == files
    assert verify_files({BULLETIN: files[BULLETIN]}, registry()).bulletin == found.bulletin
    head = hashlib.sha256(files[BULLETIN].splitlines()[-1]).hexdigest()
    assert json.loads(files[MANIFEST])["head"] == found.bulletin.head == head


@pytest.mark.parametrize("study", STUDIES)
def test_each_beginning_of_a_bulletin_is_verified_too(study: str) -> None:
    for length in range(1, len(entries(study)) + 1):
        files = export_files(entries(study)[:length], registry())
        assert verify_files(files, registry()).bulletin.length == length


@pytest.mark.parametrize("users", ["all", "needed"])
def test_a_study_of_a_version_that_asked_for_cells_by_one_bit_is_verified(
    monkeypatch: pytest.MonkeyPatch, users: str
) -> None:
    """Version 0.1 planned each ask so: its bulletins stay true."""

    def published(strategies: Strategies) -> list[Entry]:
        asked = {"cells": 4, "tolerance": "0.2", "users": users}
        spec = study_of(strategies, strategy="histogram", parameters=asked, title="A", nonce="00" * 16, simulated=True)
        return run_study(spec, strategies["histogram"], synthetic("histogram", {"cells": 4}, seed=1), 3_000, 1).entries

    with monkeypatch.context() as before:
        before.setattr(planning, "fewest_for", lambda _query, _example, epsilon, *_: BinarySpec(micro_epsilon=epsilon))
        old = published(registry())
    now = published(registry())
    [[old_part], [now_part]] = [
        [part for entry in entries if isinstance(entry.notice, RoundPublished) for part in entry.notice.round.parts]
        for entries in (old, now)
    ]

    assert (old_part.channel.kind, now_part.channel.kind) == ("binary", "hash")
    for entries in (old, now):
        assert verify_bulletin(entries, registry()).ended is not None
    # The control: what neither version would have asked by is none of the plan's.
    monkeypatch.setattr(planning, "as_before", lambda asks: asks)
    with pytest.raises(VerificationError, match="is not the one that the plan has"):
        verify_bulletin(old, registry())


# ------------------------------------------------------------------------------------------------ changes of an entry


def put(number: int, *place: str | int, value: object) -> Callable[[Lines], None]:
    """Put a value at a place of an entry."""

    def edit(lines: Lines) -> None:
        holder = lines[number]["notice"]
        for step_ in place[:-1]:
            holder = holder[step_]
        assert holder[place[-1]] != value
        holder[place[-1]] = value

    return edit


def moved(number: int, more: int, less: int) -> Callable[[Lines], None]:
    """Change the counts of the two outcomes of an entry's first part."""

    def edit(lines: Lines) -> None:
        row = lines[number]["notice"]["tallies"][0][0]
        row[0], row[1] = row[0] + more, row[1] - less

    return edit


def learned(value: dict[str, object]) -> Callable[[Lines], None]:
    def edit(lines: Lines) -> None:
        data = json.loads(lines[-1]["notice"]["hypothesis"]["data"])
        lines[-1]["notice"]["hypothesis"]["data"] = json.dumps({**data, **value}, sort_keys=True, separators=(",", ":"))

    return edit


def cancelled(lines: Lines) -> None:
    lines[-1]["notice"] = {"kind": "ended", "state": "cancelled", "reason": "cancelled", "cause": "cancelled"}


def failed(lines: Lines) -> None:
    lines[-1]["notice"] = {"kind": "ended", "state": "failed", "reason": "too few", "cause": "too-few-users"}


def cheaper(lines: Lines) -> None:
    lines[0]["notice"]["study"]["parameters"]["epsilon"] = "0.5"


def swapped(lines: Lines) -> None:
    lines[2], lines[3] = lines[3], lines[2]


ENTRIES: dict[str, tuple[Callable[[Lines], Any], str, str]] = {
    # Change; where it is found as it is; where it is found though all digests were redone.
    "a report moved from one outcome to the other": (moved(3, 1, 1), "entry 4 ", TALLIES),
    "many reports moved": (moved(6, 100, 100), "entry 7 ", "(entry 7 |tallies)"),
    "a report added": (moved(3, 1, 0), "entry 3 ", "entry 3 .*add up"),
    "a report taken away": (moved(6, 0, 1), "entry 6 ", "entry 6 .*add up"),
    "the number of reports": (put(2, "received", value=9_999_999), "entry 2 ", "entry 2 .*received"),
    "a round that closed before it was complete": (put(2, "received", value=3), "entry 2 ", "entry 2 .*received"),
    "tallies of another shape": (put(3, "tallies", value=[[[1, 2, 3]]]), "entry 3 ", "entry 3 .*tallies"),
    "tallies of no part": (put(3, "tallies", value=[]), "entry 3 ", "entry 3 .*tallies"),
    "the hypothesis": (learned({"r": "1111"}), "entry 7 ", "entry 7 .*hypothesis"),
    "its text": (put(-1, "hypothesis", "text", value="c"), "entry 7 ", "entry 7 .*hypothesis"),
    "the reason": (put(-1, "reason", value="it was so"), "entry 7 ", "entry 7 .*reason"),
    "the end: cancelled": (cancelled, MANIFEST + "|" + RESULT, RESULT),
    "the end: too few users": (failed, "entry 7 ", "entry 7 .*"),
    "the last entry left out": (lambda lines: lines.pop(), RESULT, RESULT),
    "a round left out": (lambda lines: lines.__delitem__(slice(4, 7)), "entry 4", "entry 4 .*more before it ends"),
    "an entry left out": (lambda lines: lines.pop(2), "entry 2", "entry 2 "),
    "an entry doubled": (lambda lines: lines.insert(4, copy.deepcopy(lines[3])), "entry 4 ", "entry 4 "),
    "entries in another order": (swapped, "entry 2 ", "entry 2 "),
    "the study left out": (lambda lines: lines.pop(0), "entry 0 ", "entry 0 "),
    "the title": (put(0, "study", "title", value="Another"), "entry 1 ", TALLIES),
    "the cap": (put(0, "study", "cap", value=5_000_000), "entry 1 ", TALLIES),
    "a parameter": (put(0, "study", "parameters", "d", value=8), "entry 0 ", "entry 0 .*example"),
    "the privacy": (cheaper, "entry ", "entry 1 .*parts"),
    "the strategy": (put(0, "study", "strategy", value="parity"), "entry ", "entry [01] "),
    "the schema": (put(0, "study", "example", "fields", 0, "width", value=9), "entry 0 ", "entry 0 .*example"),
    "what is interactive": (put(0, "study", "interactive", value=False), "entry 0 ", "entry 0 .*interactive"),
    "whether users are made up": (put(0, "study", "simulated", value=False), "entry 1 ", TALLIES),
    "a price": (put(1, "round", "parts", 0, "charge", value=1_000_001), "entry 1 ", "entry 1 "),
    "a lower price": (put(1, "round", "parts", 0, "charge", value=999_000), "entry 1 ", "entry 1 .*charge"),
    "a share": (put(1, "round", "parts", 0, "share", value=77), "entry 1 ", "entry 1 .*share"),
    "a channel": (
        put(1, "round", "parts", 0, "channel", "micro_epsilon", value=900_000),
        "entry 1",
        "entry 1 .*channel",
    ),
    "a target": (put(1, "round", "target", value=99_999_999), "entry 1 ", "entry 1 .*target"),
    "whom a round begins with": (put(1, "round", "cohort", "first_slot", value=1), "entry 1 ", "entry 1 .*cohort"),
    "a cohort that meets another": (put(4, "round", "cohort", "first_slot", value=0), "entry 4 ", "entry 4 .*cohort"),
    "a deadline": (put(1, "round", "deadline", value=7), "entry 2 ", TALLIES),
    "the number of a round": (put(4, "round", "number", value=3), "entry 4 ", "entry 4 .*number"),
    "a member that nobody knows": (
        lambda lines: lines[0].update(more=1),
        "entry 0",
        "entry 0",
    ),
}


def digest_of(value: Any) -> str:
    return hashlib.sha256(canonical.dumps(value)).hexdigest()


def redone(lines: Lines) -> None:
    """Redo every digest: the names of study and rounds where they are used, and the chain."""
    names: dict[str, str] = {}
    previous = "0" * 64
    originals = [json.loads(entry.to_bytes()) for entry in entries("two rounds")]
    old_study = digest_of(originals[0]["notice"]["study"])
    old_rounds = {
        each["notice"]["round"]["number"]: digest_of(each["notice"]["round"])
        for each in originals
        if each["notice"]["kind"] == "round"
    }
    for number, line in enumerate(lines):
        notice = line["notice"]
        if notice["kind"] == "study":
            names[old_study] = digest_of(notice["study"])
        elif notice["kind"] == "round":
            old = old_rounds.get(notice["round"]["number"], "")
            notice["round"]["study"] = names.get(notice["round"]["study"], notice["round"]["study"])
            names[old] = digest_of(notice["round"])
        elif "round" in notice:
            notice["round"] = names.get(notice["round"], notice["round"])
        line["sequence"], line["previous"] = number, previous
        previous = digest_of(line)


def written(lines: Lines) -> bytes:
    return b"".join(canonical.dumps(line) + b"\n" for line in lines)


def sealed(files: Files) -> Files:
    """Redo the manifest."""
    manifest = json.loads(files[MANIFEST])
    lines = files[BULLETIN].splitlines()
    manifest["sha256"] = {name: hashlib.sha256(files[name]).hexdigest() for name in (BULLETIN, TALLIES, RESULT)}
    manifest["head"], manifest["length"] = hashlib.sha256(lines[-1]).hexdigest(), len(lines)
    manifest["study"] = digest_of(json.loads(lines[0])["notice"].get("study", ""))
    return {**files, MANIFEST: json.dumps(manifest, indent=1).encode() + b"\n"}


def test_what_is_redone_without_a_change_is_what_it_was() -> None:
    """The control of the tool: it adds no fault of its own."""
    files = exported()
    lines = [json.loads(line) for line in files[BULLETIN].splitlines()]
    redone(lines)

    assert written(lines) == files[BULLETIN]
    verify_files(sealed(files), registry())


@pytest.mark.parametrize("change", ENTRIES)
def test_a_change_of_an_entry_is_found_and_said_where(change: str) -> None:
    edit, as_it_is, though_redone = ENTRIES[change]
    files = exported()
    lines = [json.loads(line) for line in files[BULLETIN].splitlines()]
    edit(lines)
    with pytest.raises(VerificationError, match=as_it_is):
        verify_files({**files, BULLETIN: written(lines)}, registry())
    redone(lines)
    with pytest.raises(VerificationError, match=though_redone):
        verify_files(sealed({**files, BULLETIN: written(lines)}), registry())


@pytest.mark.parametrize("study", STUDIES)
def test_any_digit_of_a_bulletin_is_found(study: str) -> None:
    """Changes that nobody thought of: of each entry some digits, at places that are spread over it."""
    files = exported(study)
    for number, line in enumerate(lines := files[BULLETIN].splitlines()):
        places = [place for place, byte in enumerate(line) if chr(byte).isdigit()]
        for place in places[:: max(1, len(places) // 6)]:
            other = line[:place] + (b"7" if line[place : place + 1] != b"7" else b"3") + line[place + 1 :]
            changed = b"".join(each + b"\n" for each in [*lines[:number], other, *lines[number + 1 :]])
            with pytest.raises(VerificationError):
                verify_files({**files, BULLETIN: changed}, registry())


# ------------------------------------------------------------------------------------------------- changes of a file


def replaced(name: str, old: bytes, new: bytes) -> Callable[[Files], Files]:
    def edit(files: Files) -> Files:
        assert old in files[name]
        return {**files, name: files[name].replace(old, new, 1)}

    return edit


def number_changed(name: str, *place: str | int) -> Callable[[Files], Files]:
    def edit(files: Files) -> Files:
        document = json.loads(files[name])
        holder = document
        for step_ in place[:-1]:
            holder = holder[step_]
        holder[place[-1]] = (
            holder[place[-1]] + type(holder[place[-1]])(1) / 1000
            if isinstance(holder[place[-1]], float)
            else holder[place[-1]] + 1
        )
        return {**files, name: json.dumps(document, indent=1).encode() + b"\n"}

    return edit


def cut(name: str, at: int) -> Callable[[Files], Files]:
    return lambda files: {**files, name: files[name][:at]}


OF_FILES: dict[str, tuple[Callable[[Files], Files], str]] = {
    "an estimate": (number_changed(RESULT, "estimates", 0, "estimate"), r"result.json: estimates\[0\].estimate"),
    "the end of an interval": (number_changed(RESULT, "estimates", 1, "high"), r"result.json: estimates\[1\].high"),
    "a level": (number_changed(RESULT, "estimates", 0, "level"), r"estimates\[0\].level"),
    "a number of reports": (number_changed(RESULT, "estimates", 0, "reports"), r"estimates\[0\].reports"),
    "a tally": (number_changed(TALLIES, "rounds", 1, "tallies", 0, 0, 0), r"tallies.json: rounds\[1\].tallies"),
    "a number of reports in the tallies": (number_changed(TALLIES, "rounds", 0, "received"), r"rounds\[0\].received"),
    "the text": (replaced(RESULT, b'"text": "c_', b'"text": "x_'), "result.json: text"),
    "the cause": (replaced(RESULT, b'"learned"', b'"cancelled"'), "result.json: cause"),
    "another form": (replaced(RESULT, b"askance.result", b"askance.other"), "result.json: form"),
    "a member more": (replaced(RESULT, b'"title"', b'"more": 1, "title"'), "result.json: more"),
    "a member less": (replaced(RESULT, b' "title": "A study",\n', b""), "result.json: title: is missing"),
    "a result that was cut": (cut(RESULT, 300), "result.json: .*cut"),
    "tallies that were cut": (cut(TALLIES, 100), "tallies.json: .*cut"),
    "no tallies": (cut(TALLIES, 0), "tallies.json"),
    "a bulletin that was cut in a line": (cut(BULLETIN, -7), "entry 7.*cut"),
    "no bulletin": (cut(BULLETIN, 0), "bulletin.jsonl: has no entry"),
    "a line of a bulletin that is no JSON": (replaced(BULLETIN, b"{", b""), "entry 0"),
    "an entry that is written otherwise": (replaced(BULLETIN, b'{"form"', b'{ "form"'), "entry 0.*canonical"),
    "an empty line": (replaced(BULLETIN, b"\n", b"\n\n"), "entry 1"),
    "a file that nobody knows": (lambda files: {**files, "notes.txt": b""}, "notes.txt: is no file"),
    "a file that is missing": (
        lambda files: {name: data for name, data in files.items() if name != TALLIES},
        "tallies.json: is missing",
    ),
}  # fmt: skip


@pytest.mark.parametrize("change", OF_FILES)
def test_a_change_of_a_file_is_found_though_the_manifest_is_redone(change: str) -> None:
    edit, where = OF_FILES[change]
    changed = edit(exported())
    with pytest.raises(VerificationError, match=where):
        verify_files(changed, registry())
    # What has no first entry any more can be sealed by nobody.
    if set(changed) == set(FILES) and changed[BULLETIN].startswith(b'{"form"'):
        again = sealed(changed)
        with pytest.raises(VerificationError, match=where):
            verify_files(again, registry())


@pytest.mark.parametrize("name", ["study", "head"])
def test_a_manifest_of_another_study_or_history_is_found(name: str) -> None:
    files = exported()
    manifest = {**json.loads(files[MANIFEST]), name: "ab" * 32}
    with pytest.raises(VerificationError, match=f"manifest.json: {name}"):
        verify_files({**files, MANIFEST: json.dumps(manifest).encode()}, registry())
    manifest = {**json.loads(files[MANIFEST]), "length": 3, "sha256": {}}
    with pytest.raises(VerificationError, match=r"manifest.json: length"):
        verify_files({**files, MANIFEST: json.dumps(manifest).encode()}, registry())


# ------------------------------------------------------------------------------------ what needs to be known elsewhere


@pytest.mark.parametrize(
    "change", ["the title", "the cap", "a deadline", "a report moved from one outcome to the other"]
)
def test_another_history_that_is_true_of_itself_is_told_by_its_name_or_head(change: str) -> None:
    """Somebody who makes all files anew has made another history. Nothing in it is wrong; it is not the one we know."""
    true = exported()
    known = Pinned(json.loads(true[MANIFEST])["study"], json.loads(true[MANIFEST])["head"])
    lines = [json.loads(line) for line in true[BULLETIN].splitlines()]
    ENTRIES[change][0](lines)
    redone(lines)
    false = export_files([read_entry(canonical.dumps(line)) for line in lines], registry())

    verify_files(false, registry())
    with pytest.raises(VerificationError, match=r"another history|and not of"):
        verify_files(false, registry(), known)
    with pytest.raises(VerificationError, match="another history"):
        verify_files(false, registry(), Pinned(head=known.head))
    # The control: the true one is the one that is known, also by the head of an earlier entry.
    verify_files(true, registry(), known)
    verify_files(true, registry(), Pinned(head=entries("two rounds")[3].digest()))


# ----------------------------------------------------------------------------------------------- other ways of an end


def ended_with(strategies: Strategies, name: str, users: int, *, cancel: bool = False) -> StudyInMemory:
    spec = study_of(strategies, strategy=name, parameters={}, title="t", nonce="00" * 16, simulated=True)
    view = StudyInMemory(spec, strategies[name], users)
    view.publish()
    while not isinstance(due := step(view), Waiting):
        view.append(due)  # type: ignore[arg-type] - a study in memory is never paused
        if isinstance(due, StudyEnded):
            return view
    if cancel:
        view.append(StudyEnded(state="cancelled", reason="cancelled by the operator", cause=Cause.CANCELLED))
    return view


def raises(_: Parameters) -> Asking:
    raise ValueError("no such file")
    yield []


def test_a_study_that_failed_is_verified_as_one_and_not_as_another() -> None:
    strategies = {"small": strategy_of(raises)}
    view = ended_with(strategies, "small", 10)
    found = verify_bulletin(view.entries, strategies)

    assert found.end.cause is Cause.STRATEGY
    with pytest.raises(VerificationError, match=r"entry 1 .*reason"):
        verify_bulletin(view.entries, {"small": strategy_of(lambda _: quiet())})


def quiet() -> Asking:
    return Hypothesis("nothing", {})
    yield []


def test_a_study_that_was_cancelled_or_had_too_few_users_is_verified() -> None:
    strategies = registry()
    assert verify_bulletin(ended_with(strategies, "mean", 5).entries, strategies).end.cause is Cause.TOO_FEW_USERS
    stopped = ended_with(strategies, "mean", 100_000, cancel=True)
    assert verify_bulletin(stopped.entries, strategies).end.cause is Cause.CANCELLED


def test_a_strategy_that_is_not_installed_is_no_fault_of_the_study() -> None:
    with pytest.raises(NotInstalledError, match="'masked-parity' is not installed"):
        verify_files(exported(), {"mean": registry()["mean"]})


def test_numbers_of_two_machines_may_differ_in_their_last_digits_and_no_others() -> None:
    assert same({"a": [0.1 + 0.2, 1]}, {"a": [0.3, 1]})
    for one, other in ((0.3, 0.3001), (1, 1.0), (True, 1), ([1], [1, 2]), ({"a": 1}, {"b": 1}), ("a", "b"), (None, 0)):
        assert not same(one, other)
