"""A study from its opening to its result, over HTTP, with the server killed between its rounds.

Simulated users hold examples of MASKED-PARITY at d = 4. They learn of each round from the server alone, prepare it
themselves and report by gateway batches or each with her own token. Nothing here touches the server's inside.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from askance_protocol import canonical
from askance_protocol.examples import Columns
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.reports import ReportBatch, encode_raw
from askance_protocol.rounds import PreparedRound
from askance_protocol.rounds.bulletin import Bulletin, read_entry
from tests.harness.servers import Json, ServerProcess, prepared, serving
from tests.server.learners import masked

D: Final = 4
USERS: Final = 27_000
SINGLES: Final = 60
"""Users of each round who report for themselves."""
BATCH: Final = 4_000
PARAMETERS: Final = {"d": D, "epsilon": "2", "beta": "0.000000001"}
"""The coins differ from run to run, with the study's nonce: so the study may fail once in a billion runs."""
R, A = "1011", 1


class Population:
    """Users with examples, their tokens, and one source of noise."""

    def __init__(self, server: ServerProcess) -> None:
        self.columns: Columns = masked(D, R, A, USERS)
        self.source = SimulatedRandom(2011)
        self.tokens: list[str] = [token for _ in range(3) for token in server.enrol(USERS // 3)]
        self.sent: dict[str, list[tuple[int, int]]] = {}

    def answer(self, round_: PreparedRound) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """The reports of all who are asked."""
        asked = np.flatnonzero(round_.asked(range(USERS)))
        sample = round_.respond_all(asked.astype(np.uint64), self.columns.take(asked), self.source)
        return asked, sample.outcomes

    def report(self, server: ServerProcess, round_: PreparedRound, gateway: str) -> None:
        """Some by themselves, the others through the gateway, until the round has what it waits for."""
        asked, outcomes = self.answer(round_)
        mine = [(int(user), int(outcome)) for user, outcome in zip(asked, outcomes, strict=True)]
        self.sent[round_.id] = mine[:SINGLES]
        for user, outcome in mine[:SINGLES]:
            receipt = server.report(round_.id, self.tokens[user], outcome)
            assert receipt.json() == {"charged": round_.charge, "round": round_.id, "user": user}
        accepted = SINGLES
        for begin in range(SINGLES, len(mine), BATCH):
            batch = ReportBatch(asked[begin : begin + BATCH].astype(np.uint64), outcomes[begin : begin + BATCH], True)
            headers = {"Content-Type": "application/octet-stream"}
            path = f"/v1/rounds/{round_.id}/batches"
            verdicts = server.post(path, token=gateway, content=encode_raw(batch), headers=headers).json()
            accepted += verdicts["accepted"]
            assert verdicts["accepted"] + verdicts["refused"].get("round-not-open", 0) == len(batch)
        assert accepted >= round_.spec.target

    def retry(self, server: ServerProcess, round_: PreparedRound) -> None:
        """Send the same again, as users do who did not hear the receipt."""
        for user, outcome in self.sent[round_.id]:
            receipt = server.report(round_.id, self.tokens[user], outcome)
            assert receipt.json() == {"charged": round_.charge, "round": round_.id, "user": user}
            assert server.report(round_.id, self.tokens[user], 1 - outcome).status_code == 409


def now(server: ServerProcess, study: Json) -> Json:
    """What the server says of the study."""
    document: Json = server.get(f"/v1/studies/{study['id']}").json()
    return document


@pytest.mark.slow
def test_a_masked_parity_study_over_rest_survives_kill_9_between_its_rounds_and_learns_its_concept(
    tmp_path: Path,
) -> None:
    with serving(tmp_path / "data", "--cap", "2") as server:
        users = Population(server)
        study = server.study("masked-parity", PARAMETERS, simulated=True)
        gateway = study["gateway_token"]
        first = prepared(study)
        users.report(server, first, gateway)
        before = now(server, study)
        second = prepared(before)

        assert second.spec.number == 2
        server.kill()
        server.start()
        assert now(server, study) == before
        users.retry(server, first)
        users.report(server, second, gateway)
        server.kill()
        server.start()

        result = server.get(f"/v1/studies/{study['id']}/result").json()
        bulletin = server.get(f"/v1/studies/{study['id']}/bulletin").json()
        accounts = [server.get("/v1/me", token=users.tokens[user]).json() for user in range(40)]

    assert result["state"] == "finished"
    assert result["hypothesis"] == {"r": R, "a": A}
    entries = [read_entry(entry_bytes(entry)) for entry in bulletin["entries"]]
    assert Bulletin().extend(entries).head == bulletin["head"]
    kinds = [entry.notice.kind for entry in entries]
    assert kinds == ["study", "round", "closed", "answers", "round", "closed", "answers", "ended"]
    # Each was asked in one round at most, and no one paid beyond her cap.
    assert {account["spent_micro_epsilon"] for account in accounts} <= {0, 2_000_000}
    assert not np.any(first.asked(range(USERS)) & second.asked(range(USERS)))


def entry_bytes(entry: Json) -> bytes:
    """An entry as it is digested."""
    return canonical.dumps(entry)
