"""Errors end by their codes: one table, total, and one line for a person."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from askance_client import Problem, Reason, Refusal, UnreachableError, VersionMismatchError
from askance_lab.commands.shared import extras
from askance_lab.commands.shared.exit_codes import EXIT_OF, Exit, as_typed, exit_of_cause, report
from askance_lab.commands.shared.extras import EXTRAS, missing_extra, require
from askance_lab.remote.study_client import (
    RemoteError,
    StrategyFailsThereError,
    TooFewUsersThereError,
    cause_of,
    raise_refused,
    unwrap,
)
from askance_protocol.errors import AskanceError, Code, DataError, MissingExtraError, ProtocolError, UsageError
from askance_protocol.rounds import Cause, RoundClosed, StudyEnded, bulletin


def test_every_code_has_an_exit_code_and_no_error_ends_well() -> None:
    assert set(EXIT_OF) == set(Code)
    assert Exit.OK not in EXIT_OF.values()


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("x"), 2),
        (DataError("x"), 2),
        (ProtocolError("x"), 2),
        (MissingExtraError.of("matplotlib", "lab"), 2),
        (UnreachableError("x"), 3),
        (VersionMismatchError("x"), 4),
        (RemoteError("x"), 2),
        (FileNotFoundError(2, "No such file", "there.csv"), 2),
        (OSError(28, "No space left on device"), 2),
        (RuntimeError("x"), 1),
    ],
)
def test_an_error_ends_by_its_code(error: Exception, code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(error) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("askance: ")
    assert printed.err.count("\n") == 1


def test_a_disk_that_is_full_is_no_fault_of_this_program() -> None:
    program = "from askance_lab.cli import main; main()"
    command = [sys.executable, "-c", program, "channel", "describe", "--kind", "binary", "--epsilon", "1"]
    with Path("/dev/full").open("w") as disk:
        run = subprocess.run(command, stdout=disk, stderr=subprocess.PIPE, text=True, check=False)

    assert (run.returncode, run.stderr.count("\n")) == (Exit.USAGE, 1)
    assert "No space left on device (free some space" in run.stderr


def test_an_error_that_cannot_be_said_ends_by_its_code_all_the_same() -> None:
    error = "from askance_protocol.errors import AskanceError, Code; error = AskanceError('x'); error.code = Code.{}"
    program = f"{error}; from askance_lab.commands.shared.exit_codes import report; import sys; sys.exit(report(error))"
    with Path("/dev/full").open("w") as disk:
        command = [sys.executable, "-c", program.format("OVER_BUDGET")]
        assert subprocess.run(command, stderr=disk, check=False).returncode == Exit.BUDGET_REFUSED


def test_the_words_of_an_error_decide_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """Words that version 0.1 acted on, in an error of another code."""
    assert report(UsageError("only 3 users who can still pay, parts had none, no label, at least")) == Exit.USAGE


def test_an_error_that_nobody_expected_shows_its_place_and_not_its_words(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match="private example") as raised:
        limit_of("private example")
    assert report(raised.value) == Exit.INTERNAL
    printed = capsys.readouterr().err

    assert "private example" not in printed
    assert "ValueError" in printed
    assert "please report it" in printed


def limit_of(text: str) -> int:
    return int(text)


def test_what_a_server_that_is_not_there_asks_for_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    report(UnreachableError("http://127.0.0.1:1 does not answer"))
    assert "askance serve" in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------ places and packages


@pytest.mark.parametrize(
    ("where", "shown"),
    [
        ("parameters.d", "--d"),
        ("parameters.epsilon", "--epsilon"),
        ("parameters.cells", "--set cells"),
        ("cap", "--cap"),
        ("data_directory", "--data-directory"),
        ("users", "users"),
        ("--share", "--share"),
        ("server", "server"),
    ],
)
def test_a_place_is_named_as_it_was_typed(where: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["askance", "serve", "--cap=1", "--data-directory", "d"])
    assert as_typed(where) == shown


@pytest.mark.parametrize(
    ("error", "place"),
    [
        (RemoteError("has failed", where="server"), "server"),
        (TooFewUsersThereError("has failed", where="server"), "server"),
        (StrategyFailsThereError("has failed", where="server"), "server"),
        # The control: what was typed for the server is named as it was typed.
        (UsageError("has failed", where="server"), "--server"),
    ],
)
def test_what_a_server_says_is_no_fault_of_the_option_that_names_it(
    error: AskanceError, place: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["askance", "study", "create", "mean", "--server", "http://there"])
    report(error)

    assert capsys.readouterr().err.startswith(f"askance: {place}: has failed")


def test_a_round_that_cannot_begin_is_the_place_and_not_the_server() -> None:
    detail = "round 1: needs 9 users who can still pay ε = 1, and 3 are left (enrol more)"
    with pytest.raises(TooFewUsersThereError) as raised:
        unwrap(Problem(409, "too-few-users", detail))
    assert (raised.value.where, raised.value.remedy) == ("round 1", "enrol more")
    with pytest.raises(StrategyFailsThereError, match=r"^server: mean raised something$"):
        unwrap(Problem(422, "strategy-failed", "mean raised something"))


def test_a_package_of_an_extra_that_is_missing_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    error = missing_extra(ModuleNotFoundError("No module named 'psycopg'", name="psycopg.rows"))
    assert error is not None
    assert (error.where, error.remedy) == ("psycopg", "pip install 'askance[postgres]'")
    framework = missing_extra(ModuleNotFoundError("No module named 'fastapi'", name="fastapi"))
    assert framework is not None
    assert (framework.where, framework.remedy) == ("fastapi", "pip install askance")
    assert missing_extra(ModuleNotFoundError("", name="askance_lab.no_such_module")) is None
    require(*EXTRAS)
    monkeypatch.setattr(extras.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(MissingExtraError, match=r"askance\[postgres\]"):
        require("psycopg")


def test_a_command_whose_extra_is_missing_says_so_in_one_line() -> None:
    """On a device that has no server."""
    program = "import sys; sys.modules['fastapi'] = None; from askance_lab.cli import main; main()"
    run = subprocess.run([sys.executable, "-c", program, "serve"], capture_output=True, text=True, check=False)

    assert run.returncode == Exit.USAGE
    assert "fastapi: is not installed (pip install askance)" in run.stderr
    assert run.stderr.count("\n") == 1


# ---------------------------------------------------------------------------------------------------- how a study ended


def test_a_cause_decides_how_a_command_ends() -> None:
    assert exit_of_cause("learned", finished=True) == Exit.OK
    assert exit_of_cause("too-few-users", finished=False) == Exit.TOO_FEW_USERS
    assert exit_of_cause("too-few-reports", finished=False) == Exit.TOO_FEW_USERS
    assert exit_of_cause("strategy", finished=False) == Exit.CHECK_FAILED
    assert exit_of_cause("cancelled", finished=False) == Exit.CHECK_FAILED
    assert exit_of_cause(None, finished=True) == Exit.OK
    assert exit_of_cause(None, finished=False) == Exit.CHECK_FAILED


def test_every_cause_of_the_protocol_is_known() -> None:
    field = bulletin.StudyEnded.model_fields.get("cause")
    causes = [cause for each in get_args(field.annotation) for cause in get_args(each)] if field else []
    for cause in causes:
        assert exit_of_cause(cause, finished=cause == "learned") in set(Exit)


def test_a_cause_is_read_off_the_last_notice_where_it_has_one() -> None:
    ended = StudyEnded(state="failed", reason="too few", cause=Cause.TOO_FEW_USERS)
    assert cause_of(ended) is Cause.TOO_FEW_USERS
    assert cause_of(StudyEnded(state="failed", reason="as version 0.1 ended a study")) is None
    assert cause_of(RoundClosed(round="0" * 64, reason="target", received=1)) is None


def test_a_servers_answer_is_taken_or_refused_by_its_kind() -> None:
    assert unwrap({"id": 1}) == {"id": 1}
    raise_refused(None)
    with pytest.raises(RemoteError, match="404 no-such-study"):
        unwrap(Problem(404, "no-such-study", ""))
    with pytest.raises(VersionMismatchError):
        raise_refused(Problem(409, "version-mismatch", "speaks 2"))
    with pytest.raises(RemoteError, match="is it an Askance server"):
        raise_refused(Refusal(Reason.UNREADABLE, "no JSON"))
    assert issubclass(RemoteError, AskanceError)
