"""The power is cut at any time, pages that were not synced are gone or torn, and nothing that was acknowledged is lost.

`ASKANCE_TORTURE=1` cuts it 340 times.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from askance_server.ledger.sqlite import SqliteLedger
from tests.harness.figures import Figures
from tests.server.ledger.crashing import AcknowledgesEarly
from tests.server.ledger.powercut import CountsFirst, Lives, Recorder, SyncsLater, cut_service

TORTURE = os.environ.get("ASKANCE_TORTURE") == "1"
LIVES, STEPS, CUTS = (5, 50, 12) if TORTURE else (2, 40, 10)
SEEDS = range(4 if TORTURE else 1)
SERVICE_USERS, SERVICE_CUTS = (400, 100) if TORTURE else (80, 10)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def recorder() -> Iterator[Recorder]:
    """One program for all lives: it takes seconds to load."""
    with Recorder.open() as opened:
        yield opened


@pytest.mark.parametrize("seed", SEEDS)
def test_what_was_acknowledged_survives_cuts_of_the_power(
    recorder: Recorder, tmp_path: Path, seed: int, figures: Figures
) -> None:
    lives = Lives(recorder, tmp_path, random.Random(seed)).run(LIVES, STEPS, CUTS)

    figures(
        "power cut, ledger",
        cuts=lives.cuts,
        inside_an_open_write=lives.inside,
        acknowledged=lives.acknowledged,
        wrong=len(lives.wrong),
    )
    assert lives.wrong == []
    assert lives.cuts == LIVES * CUTS
    assert lives.inside * 2 >= lives.cuts


@pytest.mark.parametrize(
    ("twin", "fault"),
    [
        (SyncsLater, "acknowledged and lost"),
        (AcknowledgesEarly, "acknowledged and lost"),
        (CountsFirst, "does not open"),
    ],
)
def test_a_ledger_that_acknowledges_before_it_syncs_is_found(
    recorder: Recorder, tmp_path: Path, twin: type[SqliteLedger], fault: str
) -> None:
    wrong = Lives(recorder, tmp_path, random.Random(1), twin).run(1, 25, 20).wrong
    assert any(fault in each for each in wrong), wrong


def test_a_disk_that_says_it_has_synced_what_it_has_not_is_found(recorder: Recorder, tmp_path: Path) -> None:
    wrong = Lives(recorder, tmp_path, random.Random(1), lies=True).run(1, 25, 20).wrong
    assert len(wrong) >= 10, wrong


def test_what_a_server_answered_survives_cuts_of_the_power(
    recorder: Recorder, tmp_path: Path, figures: Figures
) -> None:
    found = cut_service(recorder, tmp_path, "service", "as it is", SERVICE_USERS, SERVICE_CUTS, seed=1)

    figures(
        "power cut, service",
        cuts=found.cuts,
        a_report_under_way=found.inside,
        acknowledged=found.acknowledged,
        wrong=len(found.wrong),
    )
    assert found.wrong == []
    assert found.acknowledged > 0


@pytest.mark.parametrize(
    ("twin", "fault"),
    [("AcknowledgesEarly", "acknowledged and are not tallied"), ("ForgetsNames", "the key is gone")],
)
def test_a_server_that_answers_before_it_syncs_is_found(
    recorder: Recorder, tmp_path: Path, twin: str, fault: str
) -> None:
    found = cut_service(recorder, tmp_path, "service", twin, 40, 20, seed=1)
    assert any(fault in each for each in found.wrong), found.wrong


def test_the_key_survives_cuts_where_the_ledger_is_elsewhere(recorder: Recorder, tmp_path: Path) -> None:
    assert cut_service(recorder, tmp_path, "key", "as it is", 0, 30, seed=1).wrong == []
    # The control: a key that is synced, in a directory that is not.
    assert cut_service(recorder, tmp_path, "key", "ForgetsNames", 0, 30, seed=1).wrong != []


def test_the_key_survives_cuts_where_somebody_else_has_made_its_directory(recorder: Recorder, tmp_path: Path) -> None:
    assert cut_service(recorder, tmp_path, "made", "as it is", 0, 30, seed=1).wrong == []
    # The control: the name of the key is synced, and not that of its directory.
    assert cut_service(recorder, tmp_path, "made", "ForgetsDirectories", 0, 30, seed=1).wrong != []
