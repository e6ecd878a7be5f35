"""`askance client`: one person takes part within her budget, and her example stays in its file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from askance_client import Answered, Reason, Refusal
from askance_lab.commands.client import exit_of
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.errors import UsageError
from tests.harness.servers import ServerProcess
from tests.lab.commands.calls import COMMAND, askance, invoke, token_options


def test_one_person_takes_part_with_a_row_of_her_file_and_then_has_nothing_left(
    server: ServerProcess, tmp_path: Path
) -> None:
    people = tmp_path / "people.csv"
    people.write_text("value,name\n0.5,Anna\n-0.25,Berta\n")
    mine = ["client", "--server", server.url, "--data", people, "--row", 2, "--wallet", tmp_path / "berta.wallet"]
    enrolment = token_options(server)[2:]

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


def test_a_study_is_answered_by_a_person_who_waited_for_it(server: ServerProcess, tmp_path: Path) -> None:
    people = tmp_path / "people.csv"
    people.write_text("value\n0.5\n")
    command = [*COMMAND, "client", "--server", server.url, "--data", str(people), "--wallet", str(tmp_path / "w")]
    command += ["--cap", "1", "--json", *map(str, token_options(server)[2:])]
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


def test_a_new_wallet_wants_its_cap_in_the_words_of_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "me.csv").write_text("value\n0.5\n")
    with pytest.raises(UsageError, match="say what it may ever spend: --cap 1"):
        invoke("client", "--data", tmp_path / "me.csv", "--wallet", tmp_path / "none.wallet")


def test_a_person_with_an_example_of_her_own_needs_no_scipy() -> None:
    """The base install has none. The control: what plans a study does import it."""
    blocked = "import sys; sys.modules['scipy'] = None; import "
    runs = [
        subprocess.run([sys.executable, "-c", blocked + module], capture_output=True, check=False).returncode
        for module in ("askance_lab.commands.client", "askance_lab.commands.fleet", "askance_lab.commands.plan")
    ]

    assert runs == [0, 0, 1]
