"""The shell in which the commands of a page are typed is one shell."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.reader import ReaderShell, begun_late


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[ReaderShell]:
    with ReaderShell(tmp_path, os.environ) as opened:
        yield opened


def runs(number: int) -> bool:
    """Whether a process is there, and has not ended."""
    try:
        return bool(Path(f"/proc/{number}/cmdline").read_bytes())
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_a_command_begins_where_the_one_before_has_left_the_shell(shell: ReaderShell) -> None:
    assert shell.run("mkdir -p build/room && cd build/room; word=said") == ""
    assert shell.run("basename $PWD; echo $word") == "room\nsaid\n"


def test_a_page_that_goes_where_its_reader_already_is_is_found(shell: ReaderShell) -> None:
    """The control: in a shell of its own each of these would have found its folder."""
    shell.run("mkdir -p build/room; cd build/room")

    assert "No such file" in shell.run("cd build/room; true")


def test_what_is_printed_stands_in_the_order_of_a_screen(shell: ReaderShell) -> None:
    assert shell.run("echo one >&2; echo two; echo three >&2") == "one\ntwo\nthree\n"


def test_a_command_that_reads_finds_nothing_to_read(shell: ReaderShell) -> None:
    assert shell.run("cat; echo read") == "read\n"
    assert shell.run("echo again") == "again\n"


def test_what_goes_on_in_the_background_is_not_waited_for_and_ends_with_the_page(shell: ReaderShell) -> None:
    begin = time.monotonic()
    number = int(shell.run("sleep 60 & echo $!"))

    assert time.monotonic() - begin < 30
    while not runs(number):  # Between fork and exec it has no command line yet.
        assert time.monotonic() - begin < 30
    shell.close()
    while runs(number):  # A signal takes its time; the limit is that of every test.
        assert time.monotonic() - begin < 30
        time.sleep(0.01)


@pytest.mark.parametrize("command", ["echo made >file &", "cd .; echo made >file 2>log &"])
def test_what_takes_for_granted_what_goes_on_in_the_background_is_found(tmp_path: Path, command: str) -> None:
    """The control, and what a page says instead."""
    with ReaderShell(tmp_path, os.environ, late=3) as shell:
        shell.run(command)
        assert "No such file" in shell.run("cat file")

        assert shell.run("until grep -qs made file; do sleep 0.01; done; cat file") == "made\n"


def test_what_goes_on_in_the_background_has_the_number_that_the_shell_says(shell: ReaderShell) -> None:
    shell.run("sleep 60 &")

    name = "$(tr '\\0' ' ' </proc/$!/cmdline)"
    assert shell.run(f'until [ "{name}" = "sleep 60 " ]; do sleep 0.01; done; echo so') == "so\n"


def test_what_has_made_a_group_of_its_own_ends_with_the_page_too(shell: ReaderShell) -> None:
    number = int(shell.run("set -m; (exec sleep 60) & set +m; echo $!").split()[-1])
    begin = time.monotonic()

    assert os.getpgid(number) == number
    shell.close()
    while runs(number):
        assert time.monotonic() - begin < 30
        time.sleep(0.01)


@pytest.mark.parametrize("command", ["true && echo said", "echo 'a & b'", "(sleep 9 &)", "echo said 2>&1"])
def test_what_is_not_left_in_the_background_is_typed_as_it_stands(command: str) -> None:
    assert begun_late(command) == command


def test_a_command_that_does_not_end_is_said(shell: ReaderShell) -> None:
    with pytest.raises(TimeoutError, match="sleep 60: no prompt after"):
        shell.run("sleep 60", seconds=0.2)


def test_a_command_that_ends_the_shell_is_said(shell: ReaderShell) -> None:
    with pytest.raises(EOFError, match="it has ended the shell"):
        shell.run("exit 3")
