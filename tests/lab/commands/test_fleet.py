"""`askance fleet`: which users it runs; a server that is not there. Its studies are in tests/e2e."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import httpx
import pytest

from askance_client import RemoteError, Server
from askance_client.simulation import fleet as simulated_fleet
from askance_client.simulation.fleet import FleetShard, run_shard
from askance_client.simulation.population.over_schema import over_schema
from askance_client.transport import Polling
from askance_lab.commands.fleet import share_of
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.remote.study_client import OpenedStudy, create
from askance_protocol.budget import MICRO
from askance_protocol.errors import UsageError
from tests.client.liar import Liar
from tests.harness import warm
from tests.harness.ports import nobody
from tests.lab.commands.calls import at_home, invoke
from tests.lab.commands.two_faced import ASKS_SECRET, ASKS_VALUE, SECRET, VALUE, keeps, serving_liar, serving_page
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
        run = warm.run([command, "--server", url, "--users", "1", *map(str, more)], HURRIED)

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


# ------------------------------------------------------------------------------------------- before anybody is enrolled

TABLES = {
    "a missing column": ("other\n0.5\n", "has no column 'value'"),
    "a gap where the study knows none": ("value,other\n,1\n", "row 1 (line 2), column 'value'"),
    "a value of another kind": ("value\nmuch\n", "row 1 (line 2), column 'value'"),
    "too few rows": ("value\n0.5\n", "row 3 is to take part, and it has 1"),
    "the control": ("value\n0.5\n", ""),
    "a value beyond the range, which counts as its end": ("value\n7\n", ""),
}


def enrolments(liar: Liar) -> int:
    return sum(request.url.path.endswith("/enrolments") for request in liar.requests)


@pytest.mark.parametrize("named", [True, False], ids=["by its name", "as the one that runs"])
@pytest.mark.parametrize("table", TABLES)
def test_a_table_that_does_not_fit_is_refused_before_anybody_is_enrolled(
    tmp_path: Path, rows: list[object], capsys: pytest.CaptureFixture[str], named: bool, table: str
) -> None:
    cells, said = TABLES[table]
    (tmp_path / "people.csv").write_text(cells)
    liar = keeps(VALUE, ASKS_VALUE, interactive=False)
    with serving_liar(liar) as url:
        more = ["--study", liar.id[:8]] if named else []
        more += ["--first", 2] if table == "too few rows" else []
        code, _, told = at_home(capsys, *rows, "--server", url, *more)

    assert code == (Exit.USAGE if said else Exit.OK)
    assert said in told
    assert enrolments(liar) == len(liar.bodies) == (0 if said else 1)
    assert (tmp_path / "wallets").exists() is not said
    if said:
        [line] = told.splitlines()
        assert line.startswith("askance: ")
        assert "much" not in line
        assert not re.search(r"\b7\b", line.replace(str(tmp_path), "the folder"))


@pytest.mark.parametrize("table", ["a missing column", "too few rows", "the control"])
def test_what_is_known_of_a_table_is_checked_also_where_no_study_runs_yet(
    tmp_path: Path, rows: list[object], capsys: pytest.CaptureFixture[str], table: str
) -> None:
    """Before it waits for one: its users have to be there when it is opened."""
    cells, said = TABLES[table]
    (tmp_path / "people.csv").write_text(cells)
    liar = keeps(VALUE, ASKS_VALUE)
    with serving_liar(liar, listed=[]) as url:
        more = ["--first", 2] if table == "too few rows" else []
        more += ["--wait", 0, "--schema", tmp_path / "fields.json"]
        code, _, told = at_home(capsys, *rows, "--server", url, *more)

    assert code == Exit.USAGE
    assert (said or "no study appeared") in told
    assert enrolments(liar) == (0 if said else 1)


UNFIT: dict[str, tuple[Callable[[], Liar], Callable[[Liar], str], str]] = {
    "no such study": (lambda: keeps(VALUE, ASKS_VALUE), lambda _: "ffff", "no study there begins with ffff"),
    "no name": (lambda: keeps(VALUE, ASKS_VALUE), lambda _: "../me", "is no name of a study"),
    "of people": (
        lambda: keeps(VALUE, ASKS_VALUE, strategy="mean", parameters={}),
        lambda liar: liar.id,
        "asks people, and these users are made up",
    ),
    "of a strategy that is not here": (
        lambda: keeps(VALUE, ASKS_VALUE, simulated=True, strategy="of-another-package", parameters={}),
        lambda liar: liar.id[:6],
        "of-another-package",
    ),
    "the control": (
        lambda: keeps(VALUE, ASKS_VALUE, simulated=True, strategy="mean", parameters={}, interactive=False),
        lambda liar: liar.id[:6],
        "",
    ),
}


@pytest.mark.parametrize("name", UNFIT)
def test_a_study_that_cannot_ask_these_users_is_refused_before_they_are_enrolled(
    tmp_path: Path, rows: list[object], capsys: pytest.CaptureFixture[str], name: str
) -> None:
    keeping, study_of, said = UNFIT[name]
    liar, made_up = keeping(), [each for each in rows if each not in {"--data", tmp_path / "people.csv"}]
    with serving_liar(liar) as url:
        code, _, told = at_home(capsys, *made_up, "--server", url, "--study", study_of(liar))

    assert code == (Exit.USAGE if said else Exit.OK)
    assert said in told
    assert enrolments(liar) == (0 if said else 1)
    if said:
        assert len(told.splitlines()) == 1


@pytest.mark.parametrize("state", ["finished", "failed", "cancelled"])
def test_a_study_that_was_named_and_has_ended_is_refused(
    tmp_path: Path, rows: list[object], capsys: pytest.CaptureFixture[str], state: str
) -> None:
    liar = keeps(VALUE, ASKS_VALUE)
    liar.publish({"kind": "ended", "state": state, "reason": ""})
    with serving_liar(liar) as url:
        code, _, told = at_home(capsys, *rows, "--server", url, "--study", liar.id)

    name = liar.id[:8]
    assert code == Exit.USAGE
    assert told == f"askance: study {name}: has ended: it is {state} (askance study result {name})\n"
    assert enrolments(liar) == 0
    assert not (tmp_path / "wallets").exists()


def test_a_study_is_named_or_counted(rows: list[object]) -> None:
    with pytest.raises(UsageError, match="exclude each other"):
        invoke(*rows, "--study", "ffff", "--studies", 2)


def test_what_is_no_askance_server_is_told_before_a_wallet_is_made(
    tmp_path: Path, rows: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    with serving_page(b"<html>Sign in</html>") as url:
        code, _, told = at_home(capsys, *rows, "--server", url)
    with serving_page(b'{"status": "alive", "version": "9", "protocol": 9}') as url:
        other, _, version = at_home(capsys, *rows, "--server", url)

    assert code == Exit.UNREACHABLE
    assert told.endswith(": answers, but is no Askance server (check the URL)\n")
    assert other == Exit.VERSION_MISMATCH
    assert "speaks version 9 of the protocol, this side 1" in version
    assert not (tmp_path / "wallets").exists()


# ------------------------------------------------------------------------------------------------ while nobody is asked


@pytest.mark.parametrize("backs_off", [True, False], ids=["as it is", "control"])
def test_a_fleet_that_nobody_asks_looks_less_and_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backs_off: bool
) -> None:
    """The looks of twelve seconds, by a clock that its pauses alone move. The control is the fleet of version 0.1."""
    liar, slept = keeps(VALUE, ASKS_VALUE), [0.0]

    async def sleep(seconds: float) -> None:
        slept[0] += seconds
        if slept[0] > 12 and liar.entries[-1]["notice"]["kind"] != "ended":
            liar.publish({"kind": "ended", "state": "finished", "reason": ""})
        await asyncio.sleep(0)

    monkeypatch.setattr(simulated_fleet, "asyncio", SimpleNamespace(**{**vars(asyncio), "sleep": sleep}))
    if not backs_off:
        monkeypatch.setattr(Polling, "pause", lambda *_, **__: 0.1)
    with serving_liar(liar) as url:
        shard = FleetShard(url, range(1), tmp_path / "wallets", MICRO, "enrolment.token", connections=1)
        asyncio.run(run_shard(shard, liar.id, over_schema(VALUE, 1)))
    looks = sum(request.url.path.endswith("/bulletin") for request in liar.requests)

    assert len(liar.bodies) == 1
    assert (looks <= 20) is backs_off
    assert backs_off or looks > 100
