"""What tests of upgrades share: what a ledger of version 0.1 told of itself, and how its studies go on to their end.

`fixtures/make_ledger_of_0_1.py` made both files of each ledger with version 0.1 (commit ac6be6c).
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from unittest.mock import patch

from askance_protocol.rounds import read_entry
from askance_server import aggregator
from askance_server.auth import Keys, UserToken
from askance_server.ledger import Ledger
from tests.harness.servers import Service, prepared

FIXTURES: Final = Path(__file__).with_name("fixtures")
KEY: Final = bytes(range(32))
RENEWED: Final = 3
"""The user whose first tokens are void."""
NOW: Final = 1_800_000_000.0
"""A second at which somebody is dealt each question."""


def token(user: int, epoch: int | None = None) -> str:
    """A token of version 0.1, valid unless it is said otherwise."""
    return Keys(KEY).mint(UserToken(user, (user == RENEWED) if epoch is None else epoch))


@dataclass(frozen=True, slots=True)
class Told:
    """What version 0.1 told of users, studies and rounds."""

    told: dict[str, Any]

    @classmethod
    def of(cls, name: str) -> Told:
        """From one of the fixtures."""
        return cls(json.loads((FIXTURES / name).read_text("utf-8")))

    def assert_same_totals(self, ledger: Ledger) -> None:
        """The same is told by this version."""
        accounts = [ledger.standing(user).account for user in range(ledger.enrolled())]
        assert [[account.cap, account.spent] for account in accounts] == self.told["accounts"]
        assert [ledger.epoch(user) for user in (0, RENEWED)] == [0, 1]
        assert ledger.studies() == [study["id"] for study in self.told["studies"]]
        for study, bulletin in zip(self.told["studies"], self.told["bulletins"], strict=True):
            entries = [read_entry(json.dumps(entry)) for entry in bulletin["entries"]]
            assert ledger.entries(study["id"]) == entries
            assert ledger.bulletin(study["id"]).head == bulletin["head"]
            for round_ in study["rounds"]:
                assert (ledger.state(round_["id"]).value, ledger.received(round_["id"])) == (
                    round_["state"],
                    round_["received"],
                )
        for tally in self.told["tallies"]:
            if tally["tallies"]:
                found = [each.to_rows() for each in ledger.tallies(tally["round"])]
                assert json.loads(json.dumps(found)) == tally["tallies"]
        assert ledger.verify() == []

    def go_on(self, service: Service) -> None:
        """The study that had finished says what it said, and the one that was running ends."""
        finished, running = self.told["studies"]
        result = service.get(f"/v1/studies/{finished['id']}/result").json()
        assert result["hypothesis"] == self.told["result"]["hypothesis"]
        # A token of before, one that was void before, and one of a user who has reported already.
        assert service.get("/v1/me", token=token(RENEWED)).status_code == 200
        assert service.get("/v1/me", token=token(RENEWED, epoch=0)).status_code == 401
        # There are three rounds left; which of them is open is looked up each time. A round's public coin goes by its
        # deadline: of so few users, at one time in twenty, nobody is dealt one of its questions.
        with patch.object(aggregator, "time", SimpleNamespace(time=lambda: NOW)):
            for _ in range(50):
                if (study := service.get(f"/v1/studies/{running['id']}").json())["state"] == "finished":
                    break
                _answer(service, study)
        result = service.get(f"/v1/studies/{running['id']}/result").json()
        assert result["hypothesis"] is not None, result
        assert result["hypothesis"]["centres"]
        assert service.get("/readyz").status_code == 200


def _answer(service: Service, study: dict[str, Any]) -> None:
    """Let everybody answer the last round who is asked; whoever has answered under 0.1 sends the same again."""
    round_ = prepared(study)
    for user in range(40):
        if round_.asks(user):
            told = service.report(round_.id, token(user), user % 2)
            assert told.status_code == 200, told.text


def killed(work: Callable[[], None]) -> bool:
    """Do this in a child, which may be killed by it; whether it was."""
    pid = os.fork()
    if not pid:
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status)
