"""A client is killed at any time, and never does a second report of a user to a round reach the wire.

A real server, a proxy that notes what is sent and hangs up now and then, and real users with their wallets on disk.
Twins that randomize again when they send again, or store what they have sent when it is acknowledged, are found by the
same harness, and by the kills alone. `ASKANCE_TORTURE=1` kills five times as often.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from askance_client import ReportState
from askance_client.wallet import StoredReport
from tests.client.killing import CAP, CHARGE, MODES, STUDIES, Campaign, Evidence, Where, Writing, judge
from tests.harness.memory import on_disk  # noqa: F401 - the fixture tmp_path

TORTURE = os.environ.get("ASKANCE_TORTURE") == "1"
KILLS = 200
CAMPAIGNS = 5 if TORTURE else 1


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(CAMPAIGNS))
def test_a_killed_client_sends_one_body_to_a_round_and_agrees_with_the_server(tmp_path: Path, seed: int) -> None:
    campaign = Campaign(tmp_path)
    evidence = campaign.run(KILLS, seed)

    print(f"{KILLS} kills: {evidence}")
    assert judge(evidence) == []
    assert "Traceback" not in campaign.log.read_text()
    # The campaign was one: kills at every point, and reports that had to be sent again.
    assert evidence.kills.total() == KILLS
    assert evidence.inside * 2 >= KILLS
    assert set(evidence.kills) == set(MODES)
    assert set(evidence.where) == {where.name for where in Where if where is not Where.OUTSIDE}
    assert set(evidence.writing) == {writing.name for writing in Writing}
    assert set(evidence.cut) == {"before", "after"}
    assert evidence.last.keys() == {"answered", "beyond-cap"}
    assert evidence.last["answered"] == len(evidence.wire)
    assert evidence.repeated * 4 >= KILLS


# A body that is drawn again is the same one half of the time, and of three kills two make somebody send again. What is
# stored late is missing after as many. So a fault is missed less than once in a million runs.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "kills", "fault"),
    [
        ("DrawsAnew", 40, "have sent two bodies to one round"),
        ("StoresLate", 16, "a charge that a wallet does not know"),
    ],
)
def test_the_harness_finds_a_client_that_randomizes_twice(tmp_path: Path, kind: str, kills: int, fault: str) -> None:
    evidence = Campaign(tmp_path, kind, cuts=0).run(kills, seed=0)
    faults = judge(evidence)

    print(f"{kills} kills: {evidence}; {faults}")
    assert any(fault in each for each in faults), faults


# --------------------------------------------------------------------------------------------------------- the judge

ONE, OTHER = b'{"outcome":1}', b'{"outcome":0}'
HERE = (7, "0" * 64)


def sound() -> Evidence:
    """One user at her cap, and all agree."""
    rounds = [f"{number}" * 64 for number in range(STUDIES)]
    charges = {(7, round_): CHARGE for round_ in rounds}
    evidence = Evidence(caps={7: CAP}, known=charges.copy(), claimed=charges.copy(), charged=charges.copy())
    evidence.kept = {key: StoredReport(key[1], CHARGE, ONE, ReportState.ACKNOWLEDGED) for key in charges}
    evidence.wire.update({key: [ONE, ONE] for key in charges})
    evidence.tallied = {round_: [0, 1] for round_ in rounds}
    return evidence


def holds(**changes: object) -> Callable[[Evidence], object]:
    """A wallet says something else of one report."""
    return lambda it: it.kept.update({HERE: replace(it.kept[HERE], **changes)})


TAMPERED: dict[str, tuple[Callable[[Evidence], object], str]] = {
    "a second body": (lambda it: it.wire[HERE].append(OTHER), "two bodies"),
    "a body that no wallet knows": (lambda it: it.kept.pop(HERE), "no wallet knows"),
    "a wallet with another body": (holds(body=OTHER), "another report than"),
    "a body that was never sent": (lambda it: it.wire.pop(HERE), "another report than"),
    "a charge before it is stored": (lambda it: it.known.pop(HERE), "does not know"),
    "a charge that is forgotten": (lambda it: it.kept.pop(HERE), "forgotten a charge"),
    "a receipt for nothing": (lambda it: it.charged.pop(HERE), "differ"),
    "a charge of another size": (holds(charge=1), "differ"),
    "a report that still waits": (holds(state=ReportState.STORED), "without its receipt"),
    "a smaller cap": (lambda it: it.caps.update({7: CAP - 1}), "beyond her cap"),
    "a larger cap": (lambda it: it.caps.update({7: CAP + 1}), "come to the end"),
    "another tally": (lambda it: it.tallied.update({HERE[1]: [1, 0]}), "tallies"),
    "a fault of the ledger": (lambda it: it.faults.append("a sum is wrong"), "a sum is wrong"),
}


def test_nothing_is_wrong_where_all_agree() -> None:
    assert judge(sound()) == []


@pytest.mark.parametrize("name", TAMPERED)
def test_the_judge_finds_what_is_wrong(name: str) -> None:
    change, fault = TAMPERED[name]
    evidence = sound()
    change(evidence)

    assert any(fault in each for each in judge(evidence))
