"""A page sends at an instant that was fixed before the example was looked at: by a clock of the test's own."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest

from tests.protocol.web.scripts import WEB, planted, run

STEP: Final = 0.1
WORKS: Final = [0.0, 0.00001, 0.001, 0.0123, 0.05, 0.07, 0.0899]
"""Seconds that a draw takes: what an engine and its machine may make of an example."""
VISIBLE: Final[dict[str, Any]] = {"timers": 0, "late": 0.0009}
HIDDEN: Final[dict[str, Any]] = {"timers": 1, "late": 0.0009}
"""Of a tab that nobody sees, timers come once a second."""


def moments(folder: Path, works: list[float], tab: dict[str, Any], modules: Path = WEB) -> list[Any]:
    """How long after the server's last answer each report leaves, in looks at the clock."""
    told = run("pacing.mjs", [{"work": work, **tab} for work in works], folder, modules=modules, seconds=60)
    return [each if isinstance(each, str) else each * told["look"] for each in told["answers"]]


def leaks(left: list[Any]) -> bool:
    """Whether the moments differ by more than a few looks at the clock."""
    return any(isinstance(each, str) for each in left) or max(left) - min(left) > 1e-5


def test_a_report_leaves_at_the_same_instant_however_long_its_draw_took(tmp_path: Path) -> None:
    left = moments(tmp_path, WORKS, VISIBLE)

    assert not leaks(left)
    assert left[0] == pytest.approx(STEP, abs=1e-5)


def test_a_draw_that_takes_longer_leaves_at_the_next_instant(tmp_path: Path) -> None:
    left = moments(tmp_path, [0.11, 0.15, 0.189], VISIBLE)

    assert not leaks(left)
    assert left[0] == pytest.approx(2 * STEP, abs=1e-5)


def test_in_a_hidden_tab_it_leaves_all_the_same(tmp_path: Path) -> None:
    left = moments(tmp_path, WORKS, HIDDEN)

    assert not leaks(left)
    # Each of four timers comes at a whole second, which is just after an instant.
    assert left[0] == pytest.approx(4 + STEP, abs=1e-5)


FAULTS: Final = {
    "counted from the end of the draw": ({"since + seconds * (1 +": "begin() + seconds * (1 +"}, VISIBLE),
    "slept, and not counted down": ({"while (begin() < due);": ""}, VISIBLE),
    "sent at once": ({"await asleep(due - COUNTED - begin());": "return;"}, VISIBLE),
    "slept again for as long as it comes late": ({" && ++late < TRIES": ""}, HIDDEN),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_control_a_pace_that_depends_on_the_draw_or_never_ends_is_found(tmp_path: Path, fault: str) -> None:
    changes, tab = FAULTS[fault]

    assert leaks(moments(tmp_path, WORKS, tab, planted(tmp_path, "pace.mjs", changes)))
