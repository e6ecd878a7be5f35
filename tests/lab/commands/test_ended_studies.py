"""Who takes part learns how her study ends, and that it is paused: by polling, in one line, and by an exit code."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from askance_client import user
from askance_client.simulation import fleet
from askance_client.transport import Polling
from askance_lab.cli import app
from askance_lab.commands import client
from askance_lab.commands import fleet as fleet_command
from askance_lab.commands.shared.exit_codes import Exit
from askance_protocol.rounds import Cause, StudyEnded
from tests.client.liar import Liar
from tests.lab.commands.two_faced import ASKS_VALUE, VALUE, keeps, serving_liar

COMMANDS = pytest.mark.parametrize("command", ["client", "fleet"])
ENDS = [
    (StudyEnded(state="failed", reason="3 users\x1b[2J", cause=Cause.TOO_FEW_USERS), Exit.TOO_FEW_USERS, "failed"),
    (StudyEnded(state="failed", reason="it raised", cause=Cause.STRATEGY), Exit.CHECK_FAILED, "failed"),
    (StudyEnded(state="failed", reason="of version 0.1"), Exit.CHECK_FAILED, "failed"),
    (StudyEnded(state="cancelled", reason="enough", cause=Cause.CANCELLED), Exit.CHECK_FAILED, "been cancelled"),
    (StudyEnded(state="finished", reason="it learned"), Exit.OK, ""),
]


def told(command: str, url: str, folder: Path) -> Result:
    """What comes of taking part in the one study of a server, with one example."""
    (folder / "me.csv").write_text("value\n0.5\n")
    (folder / "enrolment.token").write_text("enrolment.token")
    (folder / "fields.json").write_bytes(VALUE.to_bytes())
    files = ["--data", folder / "me.csv", "--schema", folder / "fields.json"]
    files += ["--enrolment-token", folder / "enrolment.token", "--cap", 1]
    own = {"client": ["--wallet", folder / "wallet", "--yes"], "fleet": ["--users", 1, "--wallets", folder / "wallets"]}
    arguments = [command, "--server", url, *files, *own[command]]
    return CliRunner().invoke(app, list(map(str, arguments)))


def ended(liar: Liar, end: StudyEnded) -> None:
    """Publish the end. One that has a cause is an entry of version 2."""
    liar.publish(end.to_json())
    liar.entries[-1]["version"] = 1 if end.cause is None else 2


def is_told(run: Result, liar: Liar, end: StudyEnded, code: Exit, words: str) -> bool:
    """Whether the end was told in one line, which steers nothing, with its exit code."""
    reason = end.reason.replace("\x1b", "\\x1b")
    line = f"askance: study {liar.id[:8]} has {words}: {reason}"
    return run.exit_code == code and run.stderr.splitlines().count(line) == (1 if words else 0)


@COMMANDS
@pytest.mark.parametrize(("end", "code", "words"), ENDS)
def test_how_a_study_has_ended_is_told_in_one_line_and_by_the_exit_code(
    command: str, end: StudyEnded, code: Exit, words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    liar = keeps(VALUE, ASKS_VALUE)
    ended(liar, end)
    with serving_liar(liar) as url:
        assert is_told(told(command, url, tmp_path), liar, end, code, words)

        # The control: commands as they were, which end as if all had gone well.
        async def nothing(*_: object) -> Exit:
            return Exit.OK

        monkeypatch.setattr(client, "told_ending", nothing)
        monkeypatch.setattr(fleet_command, "told_ending_of", nothing)
        assert is_told(told(command, url, tmp_path), liar, end, code, words) == (code is Exit.OK)


@COMMANDS
@pytest.mark.parametrize("pauses", [True, False], ids=["paused", "control"])
def test_a_pause_is_told_once_while_one_waits(
    command: str, pauses: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """She has answered, and nothing new comes. The control is a server that says nothing of a pause."""
    monkeypatch.setattr(user, "Polling", lambda _: Polling(0.02))
    monkeypatch.setattr(fleet, "_POLL", 0.02)
    monkeypatch.setattr(fleet, "_TELL_EVERY", 0.0)
    liar, asked = keeps(VALUE, ASKS_VALUE), list[None]()

    def paused() -> str | None:
        asked.append(None)
        if len(asked) == 3 + 2 * (command == "fleet"):
            ended(liar, ENDS[-1][0])
        return "the strategy\x1b[2J was changed" if pauses else None

    with serving_liar(liar, paused=paused) as url:
        run = told(command, url, tmp_path)

    line = r"askance: the server has paused the study, and may go on later: the strategy\x1b[2J was changed"
    assert run.stderr.splitlines().count(line) == (1 if pauses else 0)
    assert run.exit_code == Exit.OK
    assert len(liar.bodies) == 1
