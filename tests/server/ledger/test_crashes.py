"""A server is killed at any time, inside its write transactions above all, and nothing that it acknowledged is lost.

Twins that commit in two steps, or acknowledge before the commit, are found by the same harness.
A database that is killed is outlived by the servers: what it acknowledged to them it has when it is back.
`ASKANCE_TORTURE=1` kills forty times as often, and replicas fifty times.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

import pytest

from askance_server.aggregator import Aggregator
from askance_server.ledger import sqlite
from askance_server.ledger.sqlite import SqliteLedger
from tests.harness.figures import Figures
from tests.harness.memory import on_disk  # noqa: F401 - the fixture tmp_path
from tests.harness.postgres import MortalPostgres
from tests.harness.servers import Service
from tests.server.ledger.crashing import (
    CAP,
    AcknowledgesEarly,
    Campaign,
    DatabaseKiller,
    Evidence,
    OpensAgain,
    SpendsApart,
    SpendsApartInPostgres,
    WritesLater,
    judge,
)

pytest_plugins = ("tests.server.ledger.ledgers",)

TORTURE = os.environ.get("ASKANCE_TORTURE") == "1"
KILLS = 50
CAMPAIGNS = 40 if TORTURE else 1
POSTGRES_KILLS = 50 if TORTURE else 10
POSTGRES_CAMPAIGNS = 10 if TORTURE else 1
DATABASE_KILLS = 50 if TORTURE else 4
CLOCK_KILLS = 100 if TORTURE else 8
ENOUGH = 50
TWIN_KILLS = 20  # About every other one shows the fault, so that it is missed once in many thousands of runs.

ALL: Final = {"accepted", "conflict", "budget-exceeded"}
"""Receipts, retries, contradictions and empty accounts: all of it has to happen."""

pytestmark = pytest.mark.slow


def embedded(folder: Path, kind: str = "SqliteLedger") -> Campaign:
    return Campaign(folder, str(folder / "data"), kind)


def assert_sound(
    campaign: Campaign, evidence: Evidence, kills: int, item: str, figures: Figures, met: set[str] = ALL
) -> None:
    """Nothing is wrong with the ledger, and the campaign was one."""
    print(f"{dict(evidence.kills)}; answers: {dict(evidence.answers)}")
    wrong = judge(campaign.database, evidence)
    figures(
        item,
        kills=kills,
        inside_an_open_write=evidence.inside,
        acknowledged=len(evidence.acknowledged),
        wrong=len(wrong),
    )
    assert wrong == []
    assert "Traceback" not in campaign.log.read_text()
    assert sum(evidence.kills.values()) == kills
    assert evidence.answers["accepted"]
    # Of a few kills, fewer than half may be inside, and not everything has to happen.
    if kills >= ENOUGH:
        assert evidence.inside * 2 >= kills
        assert met <= set(evidence.answers)


@pytest.mark.parametrize("seed", range(CAMPAIGNS))
def test_what_was_acknowledged_survives_kills_inside_writes(tmp_path: Path, seed: int, figures: Figures) -> None:
    campaign = embedded(tmp_path)
    assert_sound(campaign, campaign.run(KILLS, seed), KILLS, "killed, embedded", figures)


@pytest.mark.parametrize("seed", range(POSTGRES_CAMPAIGNS))
def test_what_was_acknowledged_survives_kills_of_replicas(
    tmp_path: Path, database: str, seed: int, figures: Figures
) -> None:
    campaign = Campaign(tmp_path, database, "PostgresLedger", replicas=2)
    evidence = campaign.run(POSTGRES_KILLS, seed)
    assert_sound(campaign, evidence, POSTGRES_KILLS, "killed, PostgreSQL with replicas", figures)


@pytest.mark.parametrize(
    ("twin", "fault"), [(AcknowledgesEarly, "acknowledged and are not tallied"), (SpendsApart, "and her reports cost")]
)
def test_the_harness_finds_a_ledger_that_is_not_atomic(tmp_path: Path, twin: type, fault: str) -> None:
    campaign = embedded(tmp_path, twin.__name__)
    faults = judge(campaign.database, campaign.run(TWIN_KILLS, seed=0))
    assert any(fault in each for each in faults), faults


def test_the_harness_finds_a_postgres_ledger_that_is_not_atomic(tmp_path: Path, database: str) -> None:
    campaign = Campaign(tmp_path, database, SpendsApartInPostgres.__name__, replicas=2)
    faults = judge(campaign.database, campaign.run(TWIN_KILLS, seed=0))
    assert any("and her reports cost" in each for each in faults), faults


def mortal(folder: Path, postgres: MortalPostgres, kind: str = "PostgresLedger") -> Campaign:
    url = postgres.database()
    return Campaign(folder, url, kind, replicas=2, killer=DatabaseKiller, postgres=postgres)


def test_what_was_acknowledged_survives_a_database_that_is_frozen_and_killed(
    tmp_path: Path, mortal_postgres: MortalPostgres, figures: Figures
) -> None:
    campaign = mortal(tmp_path, mortal_postgres)
    evidence = campaign.run(DATABASE_KILLS, seed=0)
    assert_sound(campaign, evidence, DATABASE_KILLS, "database frozen and killed", figures, {"accepted", "not-ready"})


def test_the_harness_finds_a_database_that_acknowledges_what_is_not_on_its_disk(
    tmp_path: Path, mortal_postgres: MortalPostgres
) -> None:
    campaign = mortal(tmp_path, mortal_postgres, WritesLater.__name__)
    faults = judge(campaign.database, campaign.run(3, seed=0))
    assert any("acknowledged and are not tallied" in each for each in faults), faults


HOUR, YEAR = 3_600, 365 * 24 * 3_600
CLOCKS = (0, -HOUR, HOUR, -10 * YEAR, 2 * HOUR, 10 * YEAR)
"""A round has an hour: it is closed by one clock, and another says that it has just begun."""


def test_what_was_acknowledged_survives_kills_and_clocks_that_are_set_back(tmp_path: Path, figures: Figures) -> None:
    campaign = Campaign(tmp_path, str(tmp_path / "data"), "SqliteLedger", clocks=CLOCKS)
    evidence = campaign.run(CLOCK_KILLS, seed=0)
    assert_sound(campaign, evidence, CLOCK_KILLS, "killed, the clock set back", figures, {"accepted", "round-not-open"})


def test_replicas_whose_clocks_differ_close_each_round_once(tmp_path: Path, database: str, figures: Figures) -> None:
    campaign = Campaign(tmp_path, database, "PostgresLedger", replicas=2, clocks=CLOCKS)
    evidence = campaign.run(CLOCK_KILLS // 2, seed=0)
    item = "killed, replicas whose clocks differ"
    assert_sound(campaign, evidence, CLOCK_KILLS // 2, item, figures, {"accepted", "round-not-open"})


def set_back(directory: Path, kind: type[SqliteLedger]) -> list[str]:
    """Close a round by its deadline, set the clock back by two hours, and report to it; what is wrong afterwards."""
    evidence, clock = Evidence(enrolled=3), time.time
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite, "SqliteLedger", kind)
        with Service(directory, cap=CAP) as api:
            tokens, study = api.enrol(3), api.study()
            evidence.studies.append(study["id"])
            round_ = study["rounds"][0]["id"]
            for user, ahead in ((0, 0), (1, 2 * HOUR), (2, 0)):
                patch.setattr(time, "time", lambda ahead=ahead: clock() + ahead)
                aggregator = api.app.state.aggregator
                api._runner.run(advanced(aggregator, study["id"]))  # pyright: ignore[reportPrivateUsage] - as a tick does
                evidence.sends(round_, user, 1)
                if api.report(round_, tokens[user]).status_code == 200:
                    evidence.hears(round_, user, 1, "accepted")
    return judge(str(directory), evidence)


async def advanced(aggregator: Aggregator, study: str) -> None:
    await aggregator.advance(study)


def test_a_clock_that_is_set_back_opens_no_round_again(tmp_path: Path) -> None:
    assert set_back(tmp_path / "as it is", SqliteLedger) == []
    # The control: a ledger that goes by the clock.
    wrong = set_back(tmp_path / "planted", OpensAgain)
    assert any("other reports than when it was closed" in each for each in wrong), wrong
