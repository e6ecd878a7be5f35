"""Completion by a shell: the scripts work in a real bash, and no line that is typed is disturbed."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from askance_lab import cli
from askance_lab.cli import CommandModules
from askance_lab.commands.completion import Shell
from tests.harness.marks import SECONDS
from tests.lab.commands.calls import at_home, invoke

SCRIPT = """
eval "$(askance completion bash)"
complete -p askance
ask() {
    COMP_WORDS=("$@"); COMP_CWORD=$(( $# - 1 )); COMPREPLY=()
    _askance_completion askance
    echo "${COMPREPLY[*]}" | tr '\\n' ' '; echo
}
"""


@pytest.fixture
def environment(tmp_path: Path) -> dict[str, str]:
    """An environment in which `askance` is a command, as it is where the package is installed."""
    command = tmp_path / "bin" / "askance"
    command.parent.mkdir()
    command.write_text(f"#!{sys.executable}\nfrom askance_lab.cli import main\nmain()\n")
    command.chmod(0o755)
    return {**os.environ, "PATH": f"{command.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}


def asked(environment: dict[str, str], shell: str, line: str) -> subprocess.CompletedProcess[str]:
    """What the script of zsh or fish asks the command, and its answer."""
    more = {
        "_ASKANCE_COMPLETE": f"complete_{shell}",
        "_TYPER_COMPLETE_ARGS": line,
        "_TYPER_COMPLETE_FISH_ACTION": "get-args",
    }
    return subprocess.run(
        ["askance"], env={**environment, **more}, capture_output=True, text=True, check=False, timeout=SECONDS
    )


def test_bash_completes_commands_options_names_and_columns_and_leaves_files_to_itself(
    environment: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "people.csv").write_text("age,minutes a day,ill\n30,5,0\n")
    bash = shutil.which("bash")
    assert bash is not None
    asks = {
        "askance sep": ["separation"],
        "askance study w": ["watch"],
        "askance run masked-parity-p": ["masked-parity-pooled"],
        "askance converse --kin": ["--kind"],
        "askance converse --kind k": ["kary"],
        # A shell would have to quote the column that has spaces.
        f"askance run mean --data {tmp_path}/people.csv --label ''": ["age", "ill"],
        # Nothing of ours, so that bash completes the file's name, as `-o default` has it.
        f"askance run mean --data {tmp_path}/peo": [],
    }
    ran = subprocess.run(
        [bash, "--norc", "-c", SCRIPT + "\n".join(f"ask {line}" for line in asks)],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )

    assert (ran.returncode, ran.stderr) == (0, "")
    how, *answers = ran.stdout.splitlines()
    assert how == "complete -o default -F _askance_completion askance"
    assert [answer.split() for answer in answers] == list(asks.values())


@pytest.mark.parametrize(
    ("shell", "shown"), [("zsh", '"separation":"measure learners'), ("fish", "separation\tmeasure")]
)
def test_zsh_and_fish_are_told_the_commands_with_their_summaries(
    environment: dict[str, str], shell: str, shown: str
) -> None:
    answer = asked(environment, shell, "askance sep")

    assert (answer.returncode, answer.stderr) == (0, "")
    assert shown in answer.stdout


def test_an_error_says_nothing_in_the_midst_of_a_line(environment: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "people.csv").mkdir()
    answer = asked(environment, "zsh", f"askance run mean --data {tmp_path}/people.csv --label a")

    assert (answer.returncode, answer.stdout, answer.stderr) == (1, "", "")


def test_the_commands_are_completed_without_loading_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def loaded(self: CommandModules, name: str) -> None:
        raise AssertionError(name)

    monkeypatch.setattr(CommandModules, "__getitem__", loaded)
    group = cli.get_command(cli.app)
    assert isinstance(group, cli.LazyGroup)
    found = group.shell_complete(group.make_context("askance", ["plan"]), "")

    assert [each.value for each in found] == list(CommandModules())
    # The control: typer's own way loads them all.
    with pytest.raises(AssertionError):
        super(cli.LazyGroup, group).shell_complete(group.make_context("askance", ["plan"]), "")


@pytest.mark.parametrize("shell", Shell)
def test_the_script_of_each_shell_asks_by_the_variable_that_the_command_reads(shell: Shell) -> None:
    script = invoke("completion", shell)
    assert f"{cli.COMPLETE}=complete_{shell}" in script
    assert "askance" in script


def test_the_script_is_installed_where_the_shell_finds_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    told = invoke("completion", "--install")
    path = tmp_path / ".config/fish/completions/askance.fish"

    assert str(path) in told
    assert path.read_text().strip() == invoke("completion", "fish").strip()


@pytest.mark.parametrize(("shell", "given"), [("", ()), ("/bin/csh", ()), ("/bin/bash", ("csh",))])
def test_a_shell_that_is_not_known_is_refused(
    shell: str, given: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SHELL", shell)
    code, out, told = at_home(capsys, "completion", *given)

    assert (code, out) == (2, "")
    assert "askance completion bash, zsh or fish" in told
