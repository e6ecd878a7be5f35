"""Made-up cases are the same whatever else is imported."""

from __future__ import annotations

import subprocess
import sys

DRAWN = """
{line}
from hypothesis import given, settings
from hypothesis import strategies as st
{more}
seen = []

@settings(max_examples=300, derandomize=True, database=None)
@given(st.integers())
def collect(number):
    seen.append(number)

collect()
print(hash(tuple(seen)))
"""


def drawn(line: str, more: str) -> str:
    """A digest of the cases that a process draws. The hash of integers is the same in each process."""
    script = DRAWN.format(line=line, more=more)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout


def test_cases_do_not_depend_on_what_is_imported() -> None:
    alone, beside = (drawn("import conftest", more) for more in ("", "import askance_server.app"))

    assert alone == beside


def test_control_hypothesis_by_itself_draws_other_cases_then() -> None:
    alone, beside = (drawn("", more) for more in ("", "import askance_server.app"))

    assert alone != beside
