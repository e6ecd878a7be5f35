"""The paper's learner over the wire: a study by plain HTTP calls, its server killed between the rounds."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import numpy as np

from askance_protocol.examples import Columns
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.reports import ReportBatch, encode_raw
from askance_protocol.rounds import prepare_round, read_round, read_study
from askance_protocol.schema import Schema

D, A, R = 4, 1, (1, 0, 1, 1)
USERS = 30_000


@contextmanager
def serving(directory: Path) -> Iterator[tuple[httpx.Client, subprocess.Popen[str]]]:
    """A server of its own process, on a port that the system chooses."""
    command = [sys.executable, "-c", "from askance_lab.cli import main; main()", "serve", "--port", "0", "--json"]
    with subprocess.Popen([*command, "--database", str(directory)], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url = json.loads(process.stdout.readline())["url"]
            with httpx.Client(base_url=url, timeout=30, trust_env=False) as client:
                yield client, process
        finally:
            process.kill()


def population(schema: Schema) -> Columns:
    """KLNRS11 §5.3: uniform examples labelled by c_{r,a}."""
    rng = np.random.default_rng(1)
    x, i = rng.integers(0, 2, (USERS, D)), rng.integers(0, D, USERS)
    b = rng.integers(0, 2, USERS)
    bits = np.where(b == 1, np.array(R)[i], (x @ np.array(R) + A) % 2)
    return Columns.of(schema, {"x": x, "i": i, "b": b[:, None], "y": 1 - 2 * bits})


def token(directory: Path, name: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {(directory / f'{name}.token').read_text().strip()}"}


def answer_open_round(client: httpx.Client, study: str, gateway: dict[str, str], seed: int) -> None:
    """All users of the open round report, in batches, until it closes."""
    shown = client.get(f"/v1/studies/{study}").json()
    shown_round = next(one for one in shown["rounds"] if one["state"] == "open")
    study_spec = read_study(json.dumps(shown["study"]))
    round_ = prepare_round(study_spec, read_round(json.dumps(shown_round["round"])))
    assert round_.id == shown_round["id"], "the id is the digest of what is published"
    asked = np.flatnonzero(round_.asked(range(USERS)))[: round_.spec.target]
    outcomes = round_.respond_all(asked, population(study_spec.example).take(asked), SimulatedRandom(seed)).outcomes
    for begin in range(0, len(asked), 5000):
        part = slice(begin, begin + 5000)
        batch = ReportBatch(asked[part].astype(np.uint64), outcomes[part].astype(np.uint32), simulated=True)
        headers = gateway | {"Content-Type": "application/octet-stream"}
        verdicts = client.post(f"/v1/rounds/{round_.id}/batches", content=encode_raw(batch), headers=headers).json()
        assert verdicts["refused"] == {}
        assert verdicts["accepted"] == len(batch)


def test_masked_parity_is_learned_although_the_server_is_killed_between_its_rounds(tmp_path: Path) -> None:
    with serving(tmp_path) as (client, process):
        enrolled = client.post("/v1/enrolments", json={"users": USERS}, headers=token(tmp_path, "enrolment"))
        assert enrolled.status_code == 201
        new = {"title": "masked parity", "strategy": "masked-parity", "parameters": {"d": D}, "simulated": True}
        created = client.post("/v1/studies", json=new, headers=token(tmp_path, "operator"))
        assert created.status_code == 201, created.text
        study, gateway = created.json()["id"], {"Authorization": f"Bearer {created.json()['gateway_token']}"}
        answer_open_round(client, study, gateway, seed=1)
        process.kill()

    with serving(tmp_path) as (client, _):
        answer_open_round(client, study, gateway, seed=2)
        result = client.get(f"/v1/studies/{study}/result").json()
        shown = client.get(f"/v1/studies/{study}").json()
        bulletin = client.get(f"/v1/studies/{study}/bulletin").json()

    assert result["hypothesis"] == {"r": "".join(map(str, R)), "a": A}
    assert [one["state"] for one in shown["rounds"]] == ["answered", "answered"]
    assert [entry["notice"]["kind"] for entry in bulletin["entries"]] == [
        "study", "round", "closed", "answers", "round", "closed", "answers", "ended",
    ]  # fmt: skip
