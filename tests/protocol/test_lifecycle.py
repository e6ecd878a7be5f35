"""What may follow what: two tables, and a chain that cannot be rewritten."""

from __future__ import annotations

import json

import pytest

from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import (
    Bulletin,
    Cause,
    Entry,
    LearnedHypothesis,
    RoundAnswered,
    RoundClosed,
    RoundEvent,
    RoundPublished,
    RoundState,
    StudyEnded,
    StudyEvent,
    StudyPublished,
    StudyState,
    read_entry,
    round_after,
    study_after,
)
from askance_protocol.rounds.bulletin import GENESIS, Notice
from askance_protocol.rounds.lifecycle import ROUND, STUDY
from tests.protocol.studies import part, round_of, study


@pytest.mark.parametrize("state", StudyState)
@pytest.mark.parametrize("event", StudyEvent)
def test_a_study_moves_by_its_table_and_no_other_way(state: StudyState, event: StudyEvent) -> None:
    if (state, event) in STUDY:
        assert study_after(state, event) is STUDY[state, event]
    else:
        with pytest.raises(ProtocolError, match=event.value):
            study_after(state, event)


@pytest.mark.parametrize("state", RoundState)
@pytest.mark.parametrize("event", RoundEvent)
def test_a_round_moves_by_its_table_and_no_other_way(state: RoundState, event: RoundEvent) -> None:
    if (state, event) in ROUND:
        assert round_after(state, event) is ROUND[state, event]
    else:
        with pytest.raises(ProtocolError, match=event.value):
            round_after(state, event)


def test_a_refusal_names_all_that_is_possible_and_an_end_says_that_it_is_one() -> None:
    for state in StudyState:
        for event in (event for event in StudyEvent if (state, event) not in STUDY):
            with pytest.raises(ProtocolError) as refused:
                study_after(state, event)
            possible = {each.value for each in StudyEvent if (state, each) in STUDY}
            assert set(refused.value.remedy.removeprefix("possible: ").split(", ")) == (possible or {"this is an end"})


def test_a_sealed_study_publishes_nothing_more() -> None:
    assert not {(StudyState.SEALED, StudyEvent.PUBLISH), (StudyState.SEALED, StudyEvent.PUBLISH_ALL)} & STUDY.keys()


def test_an_end_is_an_end_and_every_state_reaches_one() -> None:
    for ends, table in (
        ({StudyState.FINISHED, StudyState.FAILED, StudyState.CANCELLED}, STUDY),
        ({RoundState.ANSWERED, RoundState.ABANDONED}, ROUND),
    ):
        assert not ends & {state for state, _ in table}
        reaching = set(ends)
        for _ in range(len(table)):
            reaching |= {state for (state, _), after in table.items() if after in reaching}
        assert reaching == {state for state, _ in table} | ends


FIRST, SECOND = round_of(part()), round_of(part(), number=2)
CLOSED = RoundClosed(round=FIRST.digest(), reason="target", received=5)
ANSWERED = RoundAnswered(round=FIRST.digest(), tallies=(((2, 3),),))
ENDED = StudyEnded(state="finished", reason="")
STORY: list[Notice] = [
    StudyPublished(study=study()),
    RoundPublished(round=FIRST),
    CLOSED,
    ANSWERED,
    RoundPublished(round=SECOND),
    ENDED,
]


def told(story: list[Notice]) -> Bulletin:
    bulletin = Bulletin()
    for notice in story:
        bulletin = bulletin.append(bulletin.next(notice))
    return bulletin


def entries(story: list[Notice]) -> list[Entry]:
    bulletin, all_entries = Bulletin(), []
    for notice in story:
        all_entries.append(bulletin.next(notice))
        bulletin = bulletin.append(all_entries[-1])
    return all_entries


def test_a_whole_story_is_told_in_order() -> None:
    bulletin = told(STORY)
    assert bulletin.length == 6
    assert bulletin.state is StudyState.FINISHED
    assert bulletin.rounds == ((FIRST.digest(), RoundState.ANSWERED), (SECOND.digest(), RoundState.ABANDONED))
    assert told(STORY[:-1]).rounds[1] == (SECOND.digest(), RoundState.OPEN)
    assert bulletin == Bulletin().extend(entries(STORY))


def test_entries_read_back_as_themselves() -> None:
    for entry in entries(STORY):
        assert read_entry(entry.to_bytes()) == entry


@pytest.mark.parametrize("at", range(6))
def test_a_change_anywhere_in_the_past_changes_the_head(at: int) -> None:
    story = list(STORY)
    changed: list[Notice] = [
        StudyPublished(study=study(title="Another title")),
        RoundPublished(round=round_of(part(), target=7)),
        RoundClosed(round=FIRST.digest(), reason="operator", received=5),
        RoundAnswered(round=FIRST.digest(), tallies=(((3, 2),),)),
        RoundPublished(round=round_of(part(), number=2, target=7)),
        StudyEnded(state="failed", reason=""),
    ]
    # A change of the study or of a round changes what later notices refer to: compare up to the change.
    story[at] = changed[at]
    assert told(story[: at + 1]).head != told(STORY[: at + 1]).head


def test_a_forked_history_is_refused() -> None:
    pinned = told(STORY[:3])
    fork = told([*STORY[:2], RoundClosed(round=FIRST.digest(), reason="deadline", received=5)])
    with pytest.raises(ProtocolError, match="does not continue the pinned history"):
        pinned.append(fork.next(ANSWERED))


@pytest.mark.parametrize(
    ("story", "wrong"),
    [
        ([], RoundPublished(round=FIRST)),
        ([], ENDED),
        (STORY[:1], STORY[0]),
        (STORY[:1], RoundPublished(round=SECOND)),
        (STORY[:1], RoundPublished(round=round_of(part(), of=study(nonce="0" * 32)))),
        (STORY[:1], CLOSED),
        (STORY[:2], RoundPublished(round=FIRST)),
        (STORY[:2], ANSWERED),
        (STORY[:3], CLOSED),
        (STORY[:4], ANSWERED),
        (STORY, RoundPublished(round=round_of(part(), number=3))),
        (STORY, ENDED),
    ],
)
def test_what_may_not_follow_is_refused_and_changes_nothing(story: list[Notice], wrong: Notice) -> None:
    bulletin = told(story)
    before = (bulletin.head, bulletin.length, bulletin.state, bulletin.rounds)
    with pytest.raises(ProtocolError):
        bulletin.append(bulletin.next(wrong))
    assert (bulletin.head, bulletin.length, bulletin.state, bulletin.rounds) == before


def test_a_noninteractive_study_publishes_once() -> None:
    sealed = study(interactive=False)
    bulletin = told([StudyPublished(study=sealed), RoundPublished(round=round_of(part(), of=sealed))])
    assert bulletin.state is StudyState.SEALED
    with pytest.raises(ProtocolError, match="not possible when sealed"):
        bulletin.append(bulletin.next(RoundPublished(round=round_of(part(), of=sealed, number=2))))


def test_a_gap_and_a_repeat_are_refused() -> None:
    bulletin, story = told(STORY[:2]), entries(STORY)
    for wrong in (story[3], story[1]):
        with pytest.raises(ProtocolError, match=r"^sequence: "):
            bulletin.append(wrong)
    assert bulletin.extend(story[2:]) == told(STORY)


@pytest.mark.parametrize(
    ("member", "value"),
    [
        ("form", "askance.round"),
        ("version", 3),
        ("sequence", -1),
        ("sequence", True),
        ("previous", GENESIS[1:]),
        ("more", 1),
    ],
)
def test_an_entry_of_another_form_is_refused(member: str, value: object) -> None:
    document = json.loads(entries(STORY)[0].to_bytes()) | {member: value}
    with pytest.raises(ProtocolError, match=f"^{member}"):
        read_entry(json.dumps(document))


HYPOTHESIS = LearnedHypothesis.of("a hypothesis", {"mean": 0.25})
LEARNED = StudyEnded(state="finished", reason="", cause=Cause.LEARNED, hypothesis=HYPOTHESIS)


def test_only_an_end_with_its_cause_is_too_new_for_version_1() -> None:
    """A reader of version 0.1 is told so by the version, not by a member that it does not know."""
    assert [entry.version for entry in entries([*STORY[:-1], LEARNED])] == [1, 1, 1, 1, 1, 2]
    assert [entry.version for entry in entries(STORY)] == [1] * 6
    assert read_entry(entries([*STORY[:-1], LEARNED])[-1].to_bytes()).notice == LEARNED


def test_the_last_entry_of_version_0_1_reads_as_it_was_written() -> None:
    """Its bytes, and so the head that users have pinned, are those of version 0.1."""
    written = (
        b'{"form":"askance.entry","notice":{"kind":"ended","reason":"r","state":"failed"},'
        b'"previous":"' + GENESIS.encode() + b'","sequence":3,"version":1}'
    )

    assert read_entry(written).to_bytes() == written


@pytest.mark.parametrize(("notice", "version"), [(LEARNED, 1), (ENDED, 2), (CLOSED, 2)])
def test_the_version_of_an_entry_is_that_of_its_notice(notice: Notice, version: int) -> None:
    document = json.loads(Bulletin().next(notice).to_bytes()) | {"version": version}

    with pytest.raises(ProtocolError, match="the version is 2 where the notice has a cause, and 1 elsewhere"):
        read_entry(json.dumps(document))
