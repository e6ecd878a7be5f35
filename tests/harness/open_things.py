"""What a file of tests leaves open is an error of that file, and not of whichever comes after it.

A socket, a file or a process that nobody has closed warns when its memory is given back. For what is part of a cycle
that is some time later, in another test of another file. So here, at the end of each file, all garbage is looked at.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Generator

import pytest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> Generator[None]:
    """After the last test of a file, when its fixtures are gone."""
    yield
    if nextitem is None or nextitem.path != item.path:
        left = left_open()
        assert not left, f"{item.path.name} leaves open: {'; '.join(left)}"


def left_open() -> list[str]:
    """What garbage says that nobody has closed it, or of anything else that goes wrong where nobody can be told."""
    told = list[str]()
    before, sys.unraisablehook = sys.unraisablehook, lambda about: told.append(f"{about.object!r}: {about.exc_value}")
    try:
        gc.collect()
    finally:
        sys.unraisablehook = before
    return told
