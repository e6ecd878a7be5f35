"""The disk becomes full under a server, and nothing that it acknowledged is lost; it says so, and ends in one line.

The ledger alone, at every place of every operation, is in `test_faults`. `ASKANCE_TORTURE=1` fills it a hundred times.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from askance_server.ledger.sqlite import FILE
from tests.harness.figures import Figures
from tests.harness.servers import Service, is_problem
from tests.server.ledger.crashing import CAP, AcknowledgesEarly, judge
from tests.server.ledger.faults import SwallowsItsErrors, limited
from tests.server.ledger.filling import WAYS, fill

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"
FILLINGS: Final = 100 if TORTURE else len(WAYS)

ANSWERS: Final = {"accepted", "conflict", "budget-exceeded", "round-not-open", "not-ready"}
"""There is no other: a full disk is never the fault of the request, nor an error that nobody has foreseen."""


@pytest.mark.slow
def test_what_a_server_acknowledged_survives_a_disk_that_becomes_full(tmp_path: Path, figures: Figures) -> None:
    found = fill(tmp_path, "SqliteLedger", FILLINGS, seed=1)
    wrong = judge(str(tmp_path / "data"), found.evidence)

    figures(
        "disk full, server",
        fillings=len(found.ends),
        starts_refused=sum(not end.served for end in found.ends),
        acknowledged=len(found.evidence.acknowledged),
        told_to_ask_again=found.evidence.answers["not-ready"],
        wrong=len(wrong),
    )
    assert wrong == []
    ends = [(end, list(end.wrong())) for end in found.ends]
    assert [each for each in ends if each[1]] == []
    # Both ways were met: what the operating system refuses, and what SQLite does.
    causes = " ".join(line for end in found.ends for line in end.lines)
    assert "disk I/O error" in causes
    assert "database or disk is full" in causes
    assert set(found.evidence.answers) <= ANSWERS
    assert found.evidence.answers["not-ready"]
    assert found.watched["/healthz yes"]
    assert TORTURE or sum(not end.served for end in found.ends) == 1
    assert set(found.watched) <= {"/healthz yes", "/readyz yes", "/readyz not-ready"}


@pytest.mark.slow
@pytest.mark.parametrize("twin", [AcknowledgesEarly, SwallowsItsErrors])
def test_a_server_that_acknowledges_what_is_not_on_its_disk_is_found(tmp_path: Path, twin: type) -> None:
    found = fill(tmp_path, twin.__name__, 1, seed=1)
    wrong = judge(str(tmp_path / "data"), found.evidence)

    assert any("acknowledged and are not tallied" in each for each in wrong), wrong


def test_a_server_whose_disk_is_full_acknowledges_nothing_until_it_is_started_again(tmp_path: Path) -> None:
    directory = tmp_path / "data"
    with Service(directory, raising=False, cap=CAP) as api:
        tokens, round_ = api.enrol(3), api.study()["rounds"][0]["id"]
        assert api.report(round_, tokens[0]).status_code == 200
        assert api.get("/readyz").status_code == 200
        log = directory / f"{FILE}-wal"
        with limited(log.stat().st_size):
            is_problem(api.report(round_, tokens[1]), "not-ready")
            assert api.get("/healthz").status_code == 200
            # Not for the second for which the last commit had said enough.
            is_problem(api.get("/readyz"), "not-ready")
        assert api.stops
        # Its memory may not say what is kept: with space again it has to read the disk first.
        for answer in (api.report(round_, tokens[0]), api.report(round_, tokens[2]), api.get("/readyz")):
            is_problem(answer, "not-ready")
        is_problem(api.post("/v1/enrolments", token=api.enrolment, json={"users": 1}), "not-ready")
        is_problem(api.get("/v1/me", token=tokens[0]), "not-ready")
        assert api.get("/healthz").status_code == 200
    with Service(directory, cap=CAP) as api:
        assert api.get("/readyz").status_code == 200
        for token, before in zip(tokens, (1, 0, 0), strict=True):
            assert len(api.get("/v1/me", token=token).json()["charges"]) == before
            assert api.report(round_, token).status_code == 200
            assert len(api.get("/v1/me", token=token).json()["charges"]) == 1
