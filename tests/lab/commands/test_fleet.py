"""`askance fleet`: which users it runs; a server that is not there. Its studies are in tests/e2e."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import httpx
import pytest

from askance_client import RemoteError, Server
from askance_lab.commands.fleet import share_of
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.remote.study_client import OpenedStudy, create
from askance_protocol.errors import UsageError
from tests.harness.marks import SECONDS
from tests.harness.ports import nobody
from tests.lab.commands.calls import invoke
from tests.lab.commands.two_faced import ASKS_SECRET, ASKS_VALUE, SECRET, VALUE, keeps, serving_liar
from tests.protocol.studies import study

HURRIED = """
from askance_client.transport import patience
from askance_lab.cli import main

object.__setattr__(patience.PATIENCE, "first", 0.0)
main()
"""
"""The command, with no time between its attempts."""


@pytest.mark.parametrize("command", ["fleet", "load"])
def test_a_server_that_is_not_there_has_an_exit_code_of_its_own(command: str, tmp_path: Path) -> None:
    for role in ("operator", "enrolment"):
        (tmp_path / f"{role}.token").write_text("a.token")
    more: list[str | Path] = ["--enrolment-token", tmp_path / "enrolment.token"]
    more += ["--operator-token", tmp_path / "operator.token"] if command == "load" else ["--wallets", tmp_path / "w"]
    with nobody() as url:
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", HURRIED, command, "--server", url, "--users", "1", *more],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )

    assert run.returncode == Exit.UNREACHABLE
    assert "askance serve" in run.stderr
    assert "Traceback" not in run.stderr


def test_shares_are_equal_and_together_all_users() -> None:
    shares = [share_of(range(5, 15), f"{number}/3") for number in (1, 2, 3)]

    assert [row for share in shares for row in share] == list(range(5, 15))
    assert {len(share) for share in shares} == {3, 4}
    for wrong in ("0/3", "4/3", "1", "1/11", "a/b", "-1/3"):
        with pytest.raises(UsageError, match="--share"):
            share_of(range(5, 15), wrong)


@pytest.fixture
def rows(tmp_path: Path) -> list[object]:
    """The options of a fleet over a file with more columns than may be asked about."""
    (tmp_path / "people.csv").write_text("value,secret\n0.5,1\n")
    (tmp_path / "enrolment.token").write_text("enrolment.token")
    (tmp_path / "fields.json").write_bytes(VALUE.to_bytes())
    files = ["--data", tmp_path / "people.csv", "--wallets", tmp_path / "wallets"]
    return ["fleet", "--users", 1, *files, "--enrolment-token", tmp_path / "enrolment.token", "--json"]


def test_a_fleet_gives_a_study_the_columns_that_its_operator_declares(tmp_path: Path, rows: list[object]) -> None:
    liar = keeps(SECRET, ASKS_SECRET)
    with serving_liar(liar) as url, pytest.raises(UsageError, match="asks about secret, which is not declared"):
        invoke(*rows, "--server", url, "--schema", tmp_path / "fields.json")

    assert liar.bodies == []


@pytest.mark.parametrize("declares", [True, False])
def test_a_fleet_answers_about_declared_columns_and_about_any_if_none_is_declared(
    tmp_path: Path, rows: list[object], declares: bool
) -> None:
    """The control. A fleet's users are its operator's: the study is told on the standard error, and nobody is asked."""
    asked, part = (VALUE, ASKS_VALUE) if declares else (SECRET, ASKS_SECRET)
    liar = keeps(asked, part, interactive=False)
    schema = ["--schema", tmp_path / "fields.json"] if declares else []
    with serving_liar(liar) as url:
        [done] = json.loads(invoke(*rows, "--server", url, *schema))["studies"]

    assert done["results"] == {"answered": 1}
    assert done["study"] == liar.id


def test_a_fleet_answers_the_study_that_was_listed_under_its_name(rows: list[object]) -> None:
    """A server lists one study, and its bulletin is another's."""
    liar, listed = keeps(VALUE, ASKS_VALUE), keeps(VALUE, ASKS_VALUE, title="Listed")
    with serving_liar(liar, listed) as url, pytest.raises(RemoteError, match="was asked for"):
        invoke(*rows, "--server", url)

    assert liar.bodies == []


@pytest.mark.parametrize(
    "change",
    [
        {"title": "Another"},
        {"parameters": {"users": "all", "epsilon": "500"}},
        {"simulated": False},
        {"strategy": "histogram"},
        {},
    ],
)
def test_an_operator_is_not_given_another_study_than_she_asked_for(change: dict[str, object]) -> None:
    """The last is the control."""
    asked: dict[str, object] = {"title": "Load", "strategy": "mean", "parameters": {"users": "all"}, "simulated": True}
    opened = study(**(asked | change), example=VALUE)

    def answer(_: httpx.Request) -> httpx.Response:
        return httpx.Response(201, json={"id": opened.digest(), "study": opened.to_json(), "gateway_token": "t"})

    async def create_one() -> OpenedStudy:
        async with Server("http://askance.test", transport=httpx.MockTransport(answer)) as server:
            return await create(server, "operator.token", "mean", {"users": "all"}, "Load")

    if change:
        with pytest.raises(RemoteError, match="another study"):
            asyncio.run(create_one())
    else:
        assert asyncio.run(create_one()).id == opened.digest()
