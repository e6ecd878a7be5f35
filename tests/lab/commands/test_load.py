"""`askance load`: every report is acknowledged and tallied, or the command fails."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from askance_lab.commands import load as load_command
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.commands.shared.participation import percentiles
from askance_protocol.errors import UsageError
from tests.harness.servers import ServerProcess
from tests.lab.commands.calls import askance, invoke, json_of, token_options


@pytest.mark.parametrize("more", [["--processes", "2"], ["--rate", "400"], ["--batch", "70"]])
def test_a_load_is_acknowledged_and_tallied_whole(server: ServerProcess, more: list[str]) -> None:
    loaded = json_of("load", "--server", server.url, "--users", 200, *token_options(server), *more)

    assert loaded["schema_version"] == 1
    assert (loaded["acknowledged"], loaded["tallied"], loaded["verdicts"]["accepted"]) == (200, 200, 200)
    assert loaded["speed_of"] in {"load", "server", "both", "rate"}
    assert loaded["load_busy"] > 0
    assert 0 < loaded["p50_milliseconds"] <= loaded["p99_milliseconds"] <= loaded["p100_milliseconds"]


def test_a_load_is_reported_as_a_page_and_as_a_table(server: ServerProcess, tmp_path: Path) -> None:
    page, table = tmp_path / "load.html", tmp_path / "load.csv"
    for report in (page, table):
        json_of(
            "load", "--server", server.url, "--users", 50, "--batch", 50, *token_options(server), "--report", report
        )

    assert "<th>acknowledged<td>50" in page.read_text()
    assert "http" not in page.read_text().replace(server.url, "")
    assert dict(csv.reader(table.read_text().splitlines()))["verdicts.accepted"] == "50"
    assert askance("load", "--users", 1, "--report", tmp_path / "load.txt").returncode == Exit.USAGE


def test_a_tally_that_is_not_what_was_acknowledged_fails_the_load(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def short(*_: object) -> int:
        return 49

    monkeypatch.setattr(load_command, "_tally", short)
    with pytest.raises(typer.Exit) as ended:
        load_command.load(
            users=50,
            server=server.url,
            batch=50,
            operator=server.directory / "operator.token",
            enrolment=server.directory / "enrolment.token",
            as_json=True,
        )

    assert ended.value.exit_code == Exit.CHECK_FAILED


def test_percentiles_are_in_milliseconds() -> None:
    assert percentiles([0.001, 0.002, 0.003])["p50_milliseconds"] == 2
    assert percentiles([]) == {}


@pytest.mark.parametrize("more", [["--processes", 2], ["--rate", 10]])
def test_a_gateway_takes_no_options_of_single_reports(more: list[object], tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--processes, --rate"):
        invoke("load", "--users", 10, "--batch", 5, *more)


@pytest.mark.parametrize(
    ("speed", "rate", "busy", "batches", "whose"),
    [
        (100, 0, 0.95, True, "load"),
        (100, 0, 0.95, False, "load"),
        (100, 0, 0.1, True, "server"),
        (100, 0, 0.1, False, "both"),
        (100, 0, 0.5, True, "both"),
        (100, 105, 0.1, False, "rate"),
        (100, 400, 0.95, False, "load"),
    ],
)
def test_it_says_whose_speed_it_has_measured(speed: float, rate: float, busy: float, batches: bool, whose: str) -> None:
    assert load_command.speed_of(speed, rate, busy, batches=batches) == whose


@pytest.mark.parametrize(
    ("computed", "whose"), [(1e9, "of this command, not of the server"), (0.0, "of the server, as")]
)
def test_a_load_that_computes_has_measured_itself(
    server: ServerProcess, monkeypatch: pytest.MonkeyPatch, computed: float, whose: str
) -> None:
    """All the time, or never: by the processor's time that it took, which `_computed` says before and after."""
    times = iter([0.0, computed])
    monkeypatch.setattr(load_command, "_computed", lambda: next(times))
    said = invoke("load", "--server", server.url, "--users", 50, "--batch", 50, *token_options(server))

    assert f"s: the speed {whose}" in said
    assert next(times, None) is None


def test_the_time_of_the_processor_is_that_of_the_children_too() -> None:
    before = load_command._computed()
    subprocess.run([sys.executable, "-c", "sum(range(10**6))"], check=True)

    assert load_command._computed() > before
