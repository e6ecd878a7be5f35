"""The command itself: it loads what it needs, finds its commands by their files, and its help can be typed."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer
from pyarrow import csv, parquet
from typer.testing import CliRunner

from askance_lab import cli
from askance_lab.cli import CommandModules, main
from askance_lab.commands.shared.options import examples
from tests.lab.commands.calls import askance, at_home

COMMANDS = Path(cli.__file__).with_name("commands")
CPU = """
import os, sys
def seconds(*words):
    silent = [(os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0)]
    pid = os.posix_spawn(sys.executable, [sys.executable, *words], os.environ, file_actions=silent)
    _, status, used = os.wait4(pid, 0)
    assert status == 0
    return used.ru_utime + used.ru_stime
least = lambda *words: min(seconds(*words) for _ in range(3))
print(least("-c", "import typer"), *(least("-m", "askance_lab", *each.split()) for each in sys.argv[1:]))
"""
COUNT = """
import json, sys
from askance_lab.cli import main
sys.argv = ["askance", *sys.argv[1:]]
try:
    main()
finally:
    print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
ALONE = """
import json, sys, typer
from importlib.metadata import version
version("typer")
print(json.dumps(sorted(sys.modules)))
"""
NAMES = list(CommandModules())


def loaded(*arguments: str) -> list[str]:
    """The modules that a call of the command loads."""
    run = subprocess.run([sys.executable, "-c", COUNT, *arguments], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    modules: list[str] = json.loads(run.stderr.splitlines()[-1])
    return modules


@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_load_little_more_than_typer_and_no_command(option: str) -> None:
    """How many modules the libraries have, Python's own among them, is theirs to say, and another in each version."""
    modules = loaded(option)
    alone = [sys.executable, "-c", ALONE]
    others: list[str] = json.loads(subprocess.run(alone, capture_output=True, text=True, check=True).stdout)

    assert len(set(modules) - set(others)) < 10
    assert not {"numpy", "cryptography", "pydantic", "httpx", "rich", "askance_protocol"} & set(modules)
    assert not [name for name in modules if name.startswith("askance_lab.commands")]


def test_help_and_version_take_little_more_processor_time_than_typer_alone() -> None:
    """And a command that loads all of numpy and the protocol takes much more: the control."""
    asks = ["--help", "-h", "--version", "run --help"]
    run = subprocess.run([sys.executable, "-c", CPU, *asks], capture_output=True, text=True, check=True)
    typer_alone, *calls, command = map(float, run.stdout.split())

    assert max(calls) < 2.5 * typer_alone
    assert command > 2.5 * typer_alone


def test_a_command_loads_its_own_module_and_no_other_command() -> None:
    """The control of the count above: here numpy and the command are found."""
    modules = loaded("channel", "--help")

    assert "numpy" in modules
    found = {name.split(".")[2] for name in modules if name.startswith("askance_lab.commands.")}
    assert found == {"channel", "shared"}


def test_the_group_is_what_lies_in_the_directory() -> None:
    assert set(CommandModules()) == {
        path.stem.replace("_", "-") for path in COMMANDS.glob("*.py") if path.stem != "__init__"
    }
    assert len(CommandModules()) > 15
    listed = askance("--help").stdout
    for name in CommandModules():
        assert re.search(rf"^  {name} ", listed, re.MULTILINE)


@pytest.mark.parametrize("name", CommandModules())
def test_a_module_says_in_its_first_line_what_its_command_is_for(name: str) -> None:
    assert re.fullmatch(r".{15,}\.", CommandModules().summary(name))


def test_a_command_is_added_by_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file is all that it takes; one whose first line is something else has no summary."""
    (tmp_path / "good_day.py").write_text('"""`askance good-day`: greet the user."""\nraise RuntimeError("imported")\n')
    (tmp_path / "other.py").write_text('"""Something else."""\n')
    (tmp_path / "_private.py").write_text("")
    monkeypatch.setattr(cli, "_DIRECTORY", tmp_path)
    modules = CommandModules()

    assert list(modules) == ["good-day", "other"]
    assert (modules.summary("good-day"), modules.summary("other")) == ("greet the user.", "")
    assert "no-such-thing" not in modules


def test_no_command_imports_late() -> None:
    """Imports are plain and at the top: no command asks the linter for an exception."""
    files = list(COMMANDS.rglob("*.py"))
    late = [path.name for path in files if "PLC0415" in path.read_text("utf-8")]

    assert late == []
    assert len(files) > 20


# ------------------------------------------------------------------------------------------------------------- its help


def leaves(name: str) -> list[tuple[list[str], Any]]:
    """A command, or the commands of a group, each with the words that call it."""
    command = CommandModules()[name]
    inner: dict[str, Any] = getattr(command, "commands", {})
    return [([name, word], each) for word, each in inner.items()] or [([name], command)]


def commands_of(command: Any) -> list[str]:
    """The examples of a command's help, each in one line, as a shell reads those that are broken."""
    lines = [line.strip() for line in (command.epilog or "").replace("\\\n", "").splitlines()]
    return [re.sub(r" {2,}", " ", line) for line in lines if line.startswith("askance ")]


def accepted(words: list[str]) -> None:
    """Parse the words after `askance` as the command would, and run nothing."""
    [command] = [each for path, each in leaves(words[0]) if words[: len(path)] == path]
    depth = 2 if len(leaves(words[0])) > 1 else 1
    command.make_context("askance", words[depth:])


@pytest.mark.parametrize("name", NAMES)
def test_the_help_of_a_command_has_a_sentence_and_three_examples_or_four_that_it_accepts(name: str) -> None:
    for words, command in leaves(name):
        shown = commands_of(command)
        assert re.match(r"[A-Z].{20,}\.", command.help or "", re.DOTALL)
        assert len(shown) in {3, 4}
        for line in shown:
            assert line.split()[1 : 1 + len(words)] == words
            accepted(shlex.split(line)[1:])


ROWS = "age,minutes,plan,ill\n" + "".join(
    f"{20 + row % 50},{row % 120},{('free', 'pro')[row % 2]},{('no', 'yes')[row % 3 == 0]}\n" for row in range(300)
)


def run_example(line: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """How an example ends that needs no server, and what it says of an error."""
    code, _, told = at_home(capsys, *shlex.split(line)[1:])
    return code, told


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["audit", "channel", "converse", "curator", "plan", "run", "schema", "survey", "theory"]
)
def test_the_examples_that_need_no_server_do_what_they_say(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for file, *label in (("people", "--label", "ill"), ("app",)):
        Path(f"{file}.csv").write_text(ROWS)
        assert (
            run_example(shlex.join(["askance", "schema", f"{file}.csv", "--out", f"{file}.json", *label]), capsys)[0]
            == 0
        )
    parquet.write_table(csv.read_csv("people.csv"), "people.parquet")
    shown = [line for _, command in leaves(name) for line in commands_of(command)]
    ends = {line: run_example(line, capsys) for line in shown}

    # A randomizer in floating point violates what it claims, which is what that example shows.
    wrong = {line: end for line, end in ends.items() if end[0] != (6 if "--float" in line or "--claim" in line else 0)}
    assert not wrong
    assert len(ends) >= 3


def test_an_example_that_is_refused_is_found(capsys: pytest.CaptureFixture[str]) -> None:
    """The planted fault of the test above: its options exist, and its values do not."""
    line = "askance converse --kind kry --k 6 --epsilon 1"
    accepted(shlex.split(line)[1:])
    assert run_example(line, capsys)[0] == 2


def test_an_example_with_an_option_that_does_not_exist_is_found() -> None:
    """The planted fault of the test above."""
    with pytest.raises(Exception, match="No such option"):
        accepted(["plan", "mean", "--dimension", "4"])


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_help_and_completion_is_a_command_of_its_own(name: str) -> None:
    for _, command in leaves(name):
        for parameter in command.params:
            text = str(getattr(parameter, "help", None) or "")
            assert len(text) >= 15, parameter.name
            assert text[0].isupper() or text[0] == "ε"
            assert parameter.name not in {"install_completion", "show_completion"}


def test_examples_keep_their_lines() -> None:
    assert examples("askance a", "askance b") == "\b\nExamples:\n  askance a\n  askance b"


def test_a_long_example_has_the_breaks_of_a_shell() -> None:
    line = "askance survey --ask \"share(plan = 'pro')\" --data a.csv --schema a.json --oracle http"
    first, *others = examples(line).splitlines()[2:]

    assert (first, others) == (
        "  askance survey --ask \"share(plan = 'pro')\" --data a.csv \\",
        ["      --schema a.json --oracle http"],
    )
    program = "printf '%s\\n' " + "\n".join((first, *others))
    said = subprocess.run(["bash", "-c", program], capture_output=True, text=True, check=True)
    assert said.stdout.splitlines() == shlex.split(line)


@pytest.mark.parametrize("name", NAMES)
def test_h_is_help_of_every_command_and_group(name: str) -> None:
    group = cli.get_command(cli.app)
    for words in [[], [name], *(path for path, _ in leaves(name) if len(path) > 1)]:
        both = [CliRunner().invoke(cli.app, [*words, option]) for option in ("-h", "--help")]
        assert both[0].exit_code == 0, words
        assert both[0].output == both[1].output
        assert "Usage: " in both[0].output
    assert group.context_settings["help_option_names"] == ["-h", "--help"]


def test_the_version_and_a_mistyped_command() -> None:
    assert askance("--version").stdout == f"askance {version('askance')}\n"
    mistyped = askance("separatoin")
    assert (mistyped.returncode, mistyped.stdout) == (2, "")
    assert "separation" in mistyped.stderr


def test_an_interruption_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(**_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", interrupted)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130


def test_an_interruption_inside_a_command_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    group = typer.Typer(rich_markup_mode=None)

    @group.command()
    def stop() -> None:  # pyright: ignore[reportUnusedFunction] - typer calls it
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "app", group)
    monkeypatch.setattr(sys, "argv", ["askance"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 130
