"""A room whose server is killed at any time: what was told of it stays true, and each of its codes lets in one person.

Twins that count their steps in memory, or mark a code in another transaction than its user, are found by the same
judge. `ASKANCE_TORTURE=1` kills twenty times as often.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.harness.figures import Figures
from tests.harness.memory import on_disk  # noqa: F401 - the fixture tmp_path
from tests.server.ledger.rooms import MarksEarly, MarksLate, Room, TellsAnew, judge_room, kill_room

pytest_plugins = ("tests.server.ledger.ledgers",)
pytestmark = pytest.mark.slow

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"
KILLS: Final = 200 if TORTURE else 10
POSTGRES_KILLS: Final = 100 if TORTURE else 6
ENOUGH: Final = 50
TWIN_KILLS: Final = 5
TWIN_CAMPAIGNS: Final = 20
"""A twin is killed until it is found out: one campaign in two or so shows it."""


def assert_sound(database: str, room: Room, kills: int, item: str, figures: Figures) -> None:
    wrong = judge_room(database, room)
    figures(
        item,
        kills=kills,
        inside_an_open_write=room.evidence.inside,
        looks=len(room.looks),
        rounds=len(room.asked),
        told_before_and_after_a_kill=room.watched_over_kills,
        codes_used=len(room.codes),
        codes_in_doubt=sum(code.in_doubt for code in room.codes.values()),
        wrong=len(wrong),
    )
    assert wrong == []
    assert sum(room.evidence.kills.values()) == kills
    assert any(look.told and look.state == "open" for look in room.looks)
    assert any(code.in_doubt for code in room.codes.values())
    # Of a few kills, none may land between two looks at one round.
    assert room.watched_over_kills or kills < ENOUGH


def test_what_is_told_of_a_room_and_whom_its_codes_let_in_outlives_kills(tmp_path: Path, figures: Figures) -> None:
    database = str(tmp_path / "data")
    room = kill_room(tmp_path, database, "SqliteLedger", KILLS, seed=0)
    assert_sound(database, room, KILLS, "a room, killed", figures)


def test_what_is_told_of_a_room_and_whom_its_codes_let_in_outlives_kills_of_replicas(
    tmp_path: Path, database: str, figures: Figures
) -> None:
    room = kill_room(tmp_path, database, "PostgresLedger", POSTGRES_KILLS, seed=0, replicas=2)
    assert_sound(database, room, POSTGRES_KILLS, "a room, killed, PostgreSQL with replicas", figures)


@pytest.mark.parametrize(
    ("twin", "fault"),
    [
        (TellsAnew, "what was told has grown by less than a step"),
        (MarksLate, "a code has let in two users"),
        (MarksEarly, "a code is used up, and nobody was let in by it"),
    ],
)
def test_control_a_twin_is_found(tmp_path: Path, twin: type, fault: str) -> None:
    for seed in range(TWIN_CAMPAIGNS):
        folder = tmp_path / str(seed)
        folder.mkdir()
        database = str(folder / "data")
        wrong = judge_room(database, kill_room(folder, database, twin.__name__, TWIN_KILLS, seed))
        if fault in wrong:
            return
    pytest.fail("the twin was not found")
