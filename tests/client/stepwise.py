"""Work with a wallet in a child that is killed before any of its steps: a line of its modules, a statement of SQL."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any, Final

from askance_client.wallet import file as file_module
from askance_client.wallet import layout

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"

PURE: Final = frozenset(
    {"_statements", "_plain", "_version_of", "_tables_of_version_2", "_digest", "<dictcomp>", "<genexpr>"}
)
"""Functions that read nothing and write nothing, with many lines to be killed at."""


MODULES: Final = (layout, file_module)
KILLS: Final = 10_000 if TORTURE else 30


def killed(work: Callable[[], object], before: int, steps: Path, modules: Sequence[ModuleType] = MODULES) -> bool:
    """Do this in a child that is killed before the line or statement with this number; whether it was.

    The lines are those of these modules, the statements those that SQLite is given. A child that comes to the
    end writes down how many there were.
    """
    files = [each.__file__ for each in modules]
    pid = os.fork()
    if pid:
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        assert code in {0, -signal.SIGKILL}, "the work failed"
        return code != 0
    done = 0

    def step(*_: object) -> None:
        nonlocal done
        if done == before:
            os.kill(os.getpid(), signal.SIGKILL)
        done += 1

    def traced(frame: FrameType, _: str, __: object) -> Any:
        if frame.f_code.co_filename not in files or frame.f_code.co_name in PURE:
            return None
        step()
        return lambda *_: step()

    connect = sqlite3.connect

    def connected(*given: Any, **named: Any) -> sqlite3.Connection:
        db = connect(*given, **named)
        db.set_trace_callback(step)
        return db

    sqlite3.connect = connected
    sys.settrace(traced)
    try:
        work()
    except BaseException:
        os._exit(1)
    sys.settrace(None)
    steps.write_text(str(done))
    os._exit(0)


def kill_everywhere(
    folder: Path,
    work: Callable[[Path], object],
    check: Callable[[Path], list[str]],
    *,
    kills: int = KILLS,
    modules: Sequence[ModuleType] = MODULES,
) -> Counter[str]:
    """Kill the work before each of its steps, or some of them, in a folder of its own; what the check says then."""
    layout._tables_of_version_2()  # Once here, and not in each child.
    found = Counter[str]()
    (folder / "alive").mkdir()
    assert not killed(lambda: work(folder / "alive"), -1, folder / "steps", modules)
    steps = int((folder / "steps").read_text())
    places = sorted({steps * at // kills for at in range(kills)})
    ended = 0
    for before in places:
        place = folder / str(before)
        place.mkdir()
        # Where a server answers, steps differ by a few: in how many pieces an answer comes is not the client's to say.
        ended += not killed(lambda place=place: work(place), before, folder / "steps", modules)
        found.update(check(place) or ["whole"])
        shutil.rmtree(place)
    assert ended <= len(places) // 20
    return found
