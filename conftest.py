"""How tests are collected: documents are run too.

The Python of a document is run, and its commands print what the document says they print.
"""

from __future__ import annotations

import doctest
import gc
import os
import re
import signal
import sys
import threading
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Any, Final

import hypothesis
import pytest
from hypothesis.internal.conjecture import providers
from sybil import Document, Example, Region, Sybil
from sybil.integration.pytest import SybilItem
from sybil.parsers.markdown import PythonCodeBlockParser
from sybil.parsers.markdown.lexers import FencedCodeBlockLexer

from tests.harness import warm
from tests.harness.memory import keep_in_memory
from tests.harness.reader import ReaderShell

pytest_plugins = ("tests.harness.browser", "tests.harness.figures", "tests.harness.open_things", "tests.harness.turns")

ROOT = Path(__file__).parent

keep_in_memory()

# The same cases in each run, wherever a test does not say so itself, and none that a busy machine takes for too slow.
hypothesis.settings.register_profile(
    "askance", derandomize=True, deadline=None, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("askance")

# Hypothesis also draws constants that stand in modules of this tree, of those that happen to be imported. Then cases
# depend on which tests a worker has run before. No setting turns that off, so the pool of these constants stays empty.
providers._get_local_constants = lambda: providers._local_constants  # noqa: SLF001

# A shell has what runs in the background ignore Ctrl-C, nohup the end of its terminal. Commands that tests start, and
# interrupt, would inherit that: what is ignored they inherit, what is handled they do not.
_UNHEARD = {signal.SIGINT: signal.default_int_handler, signal.SIGHUP: lambda _number, _frame: None}
for _signal, _handler in _UNHEARD.items():
    if signal.getsignal(_signal) is signal.SIG_IGN and threading.current_thread() is threading.main_thread():
        signal.signal(_signal, _handler)

# Sybil looks for the frame of an example in each error, also in one before the example is run, where there is none.
SybilItem._traceback_filter = lambda _self, excinfo: excinfo.traceback  # noqa: SLF001


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among what is imported and collected: it stays to the end, and children need not copy it."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


SHELL: Final = "the shell of the page"
"""Under which name of a page its shell is kept: one that no Python of the page can have."""
PROGRESS: Final = re.compile(r'^\{"event": "progress", .*\n', re.MULTILINE)
"""What stands for a bar where no terminal is: a reader sees it go by, and it is in no document."""
LENIENT = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def run_console(example: Example) -> str | None:
    """Type each `$ command` of a console block and compare what follows it; `...` stands for anything."""
    command, expected = "", ""
    for line in [*str(example.parsed).splitlines(), "$ "]:
        if not line.startswith("$ "):
            expected += line + "\n"
            continue
        if command and (fault := compare(example.namespace, command, expected)):
            return fault
        command, expected = line[2:], ""
    return None


def compare(page: dict[str, Any], command: str, expected: str) -> str | None:
    """What is wrong with what a command prints, if anything."""
    try:
        printed = PROGRESS.sub("", shell_of(page).run(command))
    except (TimeoutError, EOFError) as error:
        close_shell(page)
        return str(error)
    if doctest.OutputChecker().check_output(expected, printed, LENIENT):
        return None
    return f"$ {command}\nexpected:\n{expected}\nprinted:\n{printed}"


def shell_of(page: dict[str, Any]) -> ReaderShell:
    """The shell of a page's reader, who begins at the root of the repository."""
    if SHELL not in page:
        first = [str(folder) for folder in (warm.stand_in(), Path(sys.executable).parent) if folder is not None]
        path = os.pathsep.join([*first, os.environ.get("PATH", "")])
        page[SHELL] = ReaderShell(ROOT, {**os.environ, "PATH": path, "NO_COLOR": "1", "COLUMNS": "120"})
    return page[SHELL]


def close_shell(page: dict[str, Any]) -> None:
    """End the shell of a page, if it has one."""
    if SHELL in page:
        page.pop(SHELL).close()


def console_blocks(document: Document) -> Iterable[Region]:
    """The console blocks of a document."""
    for region in FencedCodeBlockLexer("console")(document):
        region.parsed = region.lexemes["source"]
        region.evaluator = run_console
        yield region


pytest_collect_file = Sybil(
    parsers=[PythonCodeBlockParser(doctest_optionflags=LENIENT), console_blocks],
    patterns=["README.md", "docs/*.md"],
    teardown=close_shell,
).pytest()
