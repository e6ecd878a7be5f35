"""`examples/take_part.py`: it says how it is called, and checks the address before it makes a wallet."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.harness.marks import SECONDS
from tests.harness.ports import nobody
from tests.harness.tree import ROOT
from tests.lab.commands.two_faced import serving_page

USAGE = "usage: python take_part.py URL ENROLMENT-TOKEN [STUDY …]"


def take_part(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(ROOT / "examples" / "take_part.py"), *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS, check=False)


def test_it_says_how_it_is_called(tmp_path: Path) -> None:
    asked, wrong = take_part(tmp_path, "--help"), take_part(tmp_path, "http://127.0.0.1:9")

    assert (asked.returncode, asked.stdout.splitlines()[0], asked.stderr) == (0, USAGE, "")
    assert (wrong.returncode, wrong.stdout, wrong.stderr.splitlines()[0]) == (2, "", USAGE)


@pytest.mark.parametrize("what", ["no URL", "nothing listens", "no Askance server", "another version"])
def test_an_address_that_leads_nowhere_is_one_line_with_the_exit_code_of_the_commands(
    tmp_path: Path, what: str
) -> None:
    if what == "no URL":
        run = take_part(tmp_path, "localhost:8080", "token")
        code, said = 2, "is not an http or https URL"
    elif what == "nothing listens":
        with nobody() as url:
            run = take_part(tmp_path, url, "token")
        code, said = 3, "gave no answer in 6 attempts"
    else:
        page = b'{"status": "alive", "version": "9", "protocol": 9}' if what == "another version" else b"<html></html>"
        with serving_page(page) as url:
            run = take_part(tmp_path, url, "token")
        code = 3 if what == "no Askance server" else 4
        said = "answers, but is no Askance server" if code == 3 else "speaks version 9 of the protocol, this side 1"

    assert (run.returncode, run.stdout) == (code, "")
    [line] = run.stderr.splitlines()
    assert line.startswith("take_part: ")
    assert said in line
    assert list(tmp_path.iterdir()) == []
