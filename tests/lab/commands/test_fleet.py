"""`askance fleet`, `client`, `load`, `run` and `demo`, as a person runs them."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from askance_client import Answered, Reason, Refusal
from askance_lab.commands import load as load_command
from askance_lab.commands.fleet import exit_of, percentiles
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.evaluation.hypotheses import error_of
from tests.server.serving import ServerProcess, serving

COMMAND = (sys.executable, "-W", "error", "-c", "from askance_lab.cli import main; main()")


def askance(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *map(str, arguments)], capture_output=True, text=True, timeout=120, check=False)


def said(*arguments: object) -> Any:
    run = askance(*arguments, "--json")
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with serving(tmp_path / "data") as process:
        yield process


def tokens(server: ServerProcess) -> list[object]:
    folder = server.directory
    return ["--operator-token", folder / "operator.token", "--enrolment-token", folder / "enrolment.token"]


# -------------------------------------------------------------------------------------------------------------- load


@pytest.mark.parametrize("more", [["--processes", "2"], ["--rate", "400"], ["--batch", "70"]])
def test_a_load_is_acknowledged_and_tallied_whole(server: ServerProcess, more: list[str]) -> None:
    loaded = said("load", "--server", server.url, "--users", 200, *tokens(server), *more)

    assert loaded["schema_version"] == 1
    assert (loaded["acknowledged"], loaded["tallied"], loaded["verdicts"]["accepted"]) == (200, 200, 200)
    assert 0 < loaded["p50_milliseconds"] <= loaded["p99_milliseconds"] <= loaded["p100_milliseconds"]
    if "--rate" in more:
        assert loaded["seconds"] > 0.45


def test_a_load_is_reported_as_a_page_and_as_a_table(server: ServerProcess, tmp_path: Path) -> None:
    page, table = tmp_path / "load.html", tmp_path / "load.csv"
    for report in (page, table):
        said("load", "--server", server.url, "--users", 50, "--batch", 50, *tokens(server), "--report", report)

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
    with pytest.raises(load_command.typer.Exit) as ended:
        load_command.load(50, server.url, 50, 0, 1, 1, "1", *tokens(server)[1::2], None, True)

    assert ended.value.exit_code == Exit.CHECK_FAILED


# ------------------------------------------------------------------------------------------------------------ client


def test_one_person_takes_part_with_a_row_of_her_file_and_then_has_nothing_left(
    server: ServerProcess, tmp_path: Path
) -> None:
    people = tmp_path / "people.csv"
    people.write_text("value,name\n0.5,Anna\n-0.25,Berta\n")
    mine = ["client", "--server", server.url, "--data", people, "--row", 2, "--wallet", tmp_path / "berta.wallet"]
    enrolment = tokens(server)[2:]

    nothing = askance(*mine, "--cap", "0.9", *enrolment, "--wait", 0)
    assert (nothing.returncode, "no study appeared" in nothing.stderr) == (Exit.USAGE, True)

    server.enrol(1)
    study = server.study()
    refused = askance(*mine, "--study", study["id"], "--once", "--json")
    assert refused.returncode == Exit.BUDGET_REFUSED
    assert [each["reason"] for each in json.loads(refused.stdout)["rounds"]] == ["beyond-cap"]

    assert askance(*mine, "--cap", 2, "--study", study["id"], "--once").returncode == Exit.USAGE
    mine[-1] = tmp_path / "other.wallet"
    late = askance(*mine, "--cap", 1, *enrolment, "--study", study["id"], "--once")
    assert late.returncode == Exit.OK
    assert "nothing was asked of you" in late.stdout  # She enrolled after the round was planned.


def test_a_study_is_answered_by_whoever_waited_for_it(server: ServerProcess, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("value\n0.5\n")
    command = [*COMMAND, "client", "--server", server.url, "--data", str(people), "--wallet", str(tmp_path / "w")]
    command += ["--cap", "1", "--json", *map(str, tokens(server)[2:])]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as waiting:
        while "askance_users 1" not in server.get("/metrics").text:
            assert waiting.poll() is None
        study = server.study()
        told, _ = waiting.communicate(timeout=60)

    assert waiting.returncode == Exit.OK
    [answered] = json.loads(told)["rounds"]
    assert answered["result"] == "answered"
    assert server.get(f"/v1/studies/{study['id']}").json()["state"] == "finished"
    assert "0.5" not in told


def test_exit_codes_tell_her_budget_from_a_lie() -> None:
    assert exit_of([Answered("a" * 64, 1)]) == Exit.OK
    assert exit_of([Refusal(Reason.BEYOND_CAP, "")]) == Exit.BUDGET_REFUSED
    assert exit_of([Answered("a" * 64, 1), Refusal(Reason.TWO_HISTORIES, "")]) == Exit.CHECK_FAILED


@pytest.mark.parametrize("command", ["fleet", "load"])
def test_a_server_that_is_not_there_has_an_exit_code_of_its_own(
    command: str, tmp_path: Path, server: ServerProcess
) -> None:
    url = server.url
    more = tokens(server) if command == "load" else [*tokens(server)[2:], "--wallets", tmp_path / "w"]
    server.stop()
    run = askance(command, "--server", url, "--users", 1, *more)

    assert run.returncode == Exit.UNREACHABLE
    assert "askance serve" in run.stderr
    assert "Traceback" not in run.stderr


# --------------------------------------------------------------------------------------------------------------- run


def test_a_run_prints_what_the_contract_says() -> None:
    ran = said("run", "masked-parity-pooled", "--d", 4, "--users", 20_000, "--seed", 3, "--oracle", "http")

    assert {
        "strategy",
        "d",
        "users",
        "rounds",
        "interactive",
        "hypothesis",
        "target",
        "error",
        "success",
        "seconds",
    } <= set(ran)
    assert ran["hypothesis"] == ran["target"]
    assert (ran["error"], ran["success"], ran["interactive"]) == (0, True, True)
    assert ran["max_spent_micro_epsilon"] == 1_000_000
    assert len(ran["received"]) == ran["rounds"] > 1
    assert sum(ran["received"]) <= 20_000


def test_a_run_of_the_same_seed_draws_from_the_same_population_and_noise_marked_as_simulated() -> None:
    ran = [said("run", "mean", "--users", 3000, "--seed", 4) for _ in range(2)]

    assert ran[0]["target"] == ran[1]["target"]
    assert ran[0]["error"] < 0.2


def test_a_run_that_has_too_few_users_says_so() -> None:
    run = askance("run", "masked-parity", "--d", 16, "--users", 1)

    assert run.returncode == Exit.TOO_FEW_USERS
    assert "round" in run.stdout


def test_a_run_of_what_is_no_strategy_says_what_there_is() -> None:
    run = askance("run", "no-such-thing", "--users", 10)

    assert run.returncode == Exit.USAGE
    assert "masked-parity" in run.stderr


def test_errors_of_masked_parity_are_those_of_the_definition() -> None:
    """KLNRS11, §5.3, by going through all examples of d = 2."""
    truth = {"r": "01", "a": 1}

    def label(concept: dict[str, Any], x: tuple[int, int], i: int, b: int) -> int:
        r = [int(bit) for bit in concept["r"]]
        return (-1) ** r[i] if b else (-1) ** (r[0] * x[0] + r[1] * x[1] + concept["a"])

    domain = [((x0, x1), i, b) for x0 in (0, 1) for x1 in (0, 1) for i in (0, 1) for b in (0, 1)]
    for r in ("00", "01", "10", "11"):
        for a in (0, 1):
            learned = {"r": r, "a": a}
            wrong = sum(label(learned, *example) != label(truth, *example) for example in domain)
            assert error_of("masked-parity", learned, truth) == wrong / len(domain)


def test_percentiles_are_in_milliseconds() -> None:
    assert percentiles([0.001, 0.002, 0.003])["p50_milliseconds"] == 2
    assert percentiles([]) == {}


# -------------------------------------------------------------------------------------------------------------- demo


@pytest.mark.slow
def test_the_demo_ends_by_itself_with_a_table_of_both_learners() -> None:
    shown = said("demo", "--users", 600, "--d", 4, "--clients", 3, "--port", 0)

    assert [row["learner"] for row in shown["learners"]] == ["masked-parity-pooled", "masked-parity-noninteractive"]
    for row, interactive in zip(shown["learners"], (True, False), strict=True):
        assert (row["rounds"] > 1, row["refusals"]) == (interactive, 0)
        assert row["users"] <= 600
        assert row["max_spent_micro_epsilon"] == 1_000_000
        assert row["state"] == "finished"
        assert 0 <= row["error"] <= 0.75
    assert [each["d"] for each in shown["planned"]] == [8, 16, 32, 64]
