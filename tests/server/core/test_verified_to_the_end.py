"""What is verified is verified to its end: each round, part and row is once the only one that is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pytest

from askance_client.simulation.population import synthetic
from askance_lab.run_study import run_study
from askance_protocol import canonical
from askance_protocol.errors import Code
from askance_protocol.rounds import Cause, Entry, StudyEnded, read_entry
from askance_server.core import planning
from askance_server.core.estimates import study_estimates
from askance_server.core.export import RESULT, export_files, verify_files
from askance_server.core.study import study_of
from askance_server.core.verification import VerificationError, VerifiedStudy, same, verify_bulletin
from askance_server.strategies.registry import registry
from tests.server.core.test_estimates import finished
from tests.server.core.test_verification import ended_with, entries, raises
from tests.server.learners import strategy_of

Lines = list[Any]
Edit = Callable[[Lines], object]


def lines_of(some: Sequence[Entry]) -> Lines:
    return [json.loads(entry.to_bytes()) for entry in some]


def redone(lines: Lines) -> list[Entry]:
    """The same entries with all digests as they should be: rounds by their names, and the chain."""
    names, previous = dict[str, str](), "0" * 64
    for number, line in enumerate(lines):
        notice = line["notice"]
        if notice["kind"] == "round":
            names[line.pop("was")] = canonical.digest(notice["round"])
        elif "round" in notice:
            notice["round"] = names[notice["round"]]
        line["sequence"], line["previous"] = number, previous
        previous = canonical.digest(line)
    return [read_entry(canonical.dumps(line)) for line in lines]


def fault(some: Sequence[Entry], edit: Edit) -> str:
    """Where a change is found by one who redoes all digests; "" if it is not."""
    lines = lines_of(some)
    for line in lines:
        if line["notice"]["kind"] == "round":
            line["was"] = canonical.digest(line["notice"]["round"])
    edit(lines)
    try:
        verify_bulletin(redone(lines), registry())
    except VerificationError as error:
        return f"{error.where}: {error.what}"
    return ""


def test_what_does_not_follow_is_a_check_that_failed() -> None:
    assert VerificationError("is wrong").code is Code.CHECK_FAILED


def nothing(_: Lines) -> None:
    """Change nothing."""


def of_kind(lines: Lines, kind: str) -> list[int]:
    """The numbers of the entries of a kind."""
    return [number for number, line in enumerate(lines) if line["notice"]["kind"] == kind]


@cache
def planned(users: str | int) -> tuple[Entry, ...]:
    """A study of so many users."""
    asked = {"tolerance": "0.1", "users": users}
    spec = study_of(registry(), strategy="mean", parameters=asked, title="A", nonce="00" * 16, simulated=True)
    return tuple(run_study(spec, registry()["mean"], synthetic("mean", {}, seed=1), 4_000, 1).entries)


@pytest.mark.parametrize("users", ["needed", 3_000])
def test_a_round_waits_for_as_many_as_are_planned_and_not_one_more_or_fewer(users: str | int) -> None:
    def target(more: int) -> Edit:
        def edit(lines: Lines) -> None:
            round_ = lines[1]["notice"]["round"]
            round_["target"] += more
            assert round_["target"] <= round_["cohort"]["users"]
            # Whoever lies about the target closes the round by its deadline.
            lines[2]["notice"]["reason"] = "deadline"

        return edit

    assert fault(planned(users), target(0)) == ""
    assert [fault(planned(users), target(more))[:23] for more in (-1, 1)] == ["entry 1 (round): target"] * 2


def test_each_part_of_a_round_is_the_one_that_is_asked() -> None:
    study = entries("conjunction")
    parts = len(lines_of(study)[1]["notice"]["round"]["parts"])
    assert parts > 3
    assert fault(study, nothing) == ""
    for place in range(parts):

        def share(lines: Lines, place: int = place) -> None:
            lines[1]["notice"]["round"]["parts"][place]["share"] += 1

        assert fault(study, share).startswith(f"entry 1 (round): parts[{place}].share")


@pytest.mark.parametrize("study", ["many rounds", "conjunction"])
def test_a_report_moved_in_any_part_of_any_round_is_counted_there_or_leads_elsewhere(study: str) -> None:
    """A report more in a part is one too many; the counts of a round are compared with how it closed."""
    for number in of_kind(lines_of(entries(study)), "answers"):
        parts = len(lines_of(entries(study))[number]["notice"]["tallies"])
        for place in {0, parts // 2, parts - 1}:

            def one_more(lines: Lines, number: int = number, place: int = place) -> None:
                lines[number]["notice"]["tallies"][place][-1][-1] += 1

            assert "add up to" in fault(entries(study), one_more)


def test_answers_of_which_a_part_is_silent_are_found_whichever_it_is() -> None:
    study = entries("conjunction")
    parts = len(lines_of(study)[3]["notice"]["tallies"])
    for place in range(parts):

        def silent(lines: Lines, place: int = place) -> None:
            lines[2]["notice"]["reason"] = "deadline"
            tallies = lines[3]["notice"]["tallies"]
            other = tallies[place - 1]
            for row, rest in zip(tallies[place], other, strict=True):
                for outcome, count in enumerate(row):
                    rest[outcome] += count
                row[:] = [0] * len(row)
            # The study ends here: whatever it learned is another matter.
            del lines[4:]

        assert fault(study, silent) == "entry 3 (answers): tallies: have a part that nobody has answered"


def test_a_result_has_the_estimates_of_every_round() -> None:
    bisected = finished(replace(registry()["quantile"], small={"cells": 64})).entries
    study, files = verify_bulletin(bisected, registry()), export_files(bisected, registry())
    every = [(study.rounds[id_], tallies) for id_, tallies in study.answered.items()]
    each = [study_estimates(study.study, study.replay.strategy, [one]) for one in every]
    told = json.loads(files[RESULT])["estimates"]

    assert len(every) > 3
    assert [row["name"] for row in told] == [row.name for rows in each for row in rows]
    begin = 0
    for rows in each:
        document = json.loads(files[RESULT])
        document["estimates"][begin]["high"] = 7.5
        begin += len(rows)
        with pytest.raises(VerificationError, match=rf"estimates\[{begin - len(rows)}\].high"):
            verify_files(
                {**files, RESULT: json.dumps(document, indent=1, ensure_ascii=False).encode() + b"\n"}, registry()
            )


def test_each_entry_is_told_when_it_is_verified() -> None:
    told = list[tuple[str, int, int]]()
    verify_bulletin(entries("cells"), registry(), lambda *progress: told.append(progress))
    count = len(entries("cells"))

    assert told == [("verifying entries", number, count) for number in range(count + 1)]


@pytest.mark.parametrize("changes", [{"reason": "it was so"}, {"cause": "too-few-users"}])
def test_a_strategy_that_fails_is_said_to_have_failed_and_why(changes: dict[str, str]) -> None:
    strategies = {"small": strategy_of(raises)}
    view = ended_with(strategies, "small", 10)
    *before, last = lines_of(view.entries)
    assert verify_bulletin(view.entries, strategies).end.cause is Cause.STRATEGY
    assert isinstance(view.entries[-1].notice, StudyEnded)
    lines = [*before, {**last, "notice": {**last["notice"], **changes}}]
    false = [read_entry(canonical.dumps(line)) for line in lines]
    with pytest.raises(VerificationError, match="the strategy fails here"):
        verify_bulletin(false, strategies)


def test_who_could_pay_is_known_to_nobody() -> None:
    payers = VerifiedStudy(registry()).payers(1)

    assert len(payers) == planning.SLOTS
    assert not payers.any()


WHOLE: Final = {"a": [1, 2, [3, 4, 5.0], {"b": "c", "d": [6, 7, 8], "e": None}], "f": True, "g": 0.25}


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where its leaves are."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [found for key, each in inner for found in places(each, (*path, key))] or [path]


@pytest.mark.parametrize("place", places(WHOLE), ids=str)
def test_values_are_compared_to_their_last_leaf(place: tuple[Any, ...]) -> None:
    other = json.loads(json.dumps(WHOLE))
    holder = other
    for step in place[:-1]:
        holder = holder[step]
    assert same(WHOLE, other)
    holder[place[-1]] = "another"
    assert not same(WHOLE, other)
    del holder[place[-1]]
    assert not same(WHOLE, other)
    assert not same(other, WHOLE)
