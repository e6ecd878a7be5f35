"""What axe finds on a page that keeps somebody out."""

from __future__ import annotations

from typing import Any, Final

from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Page

_THERE: Final = "() => 'axe' in globalThis"
_RUN: Final = "() => axe.run({ resultTypes: ['violations'] }).then(({ violations }) => violations)"


def violations(page: Page) -> list[dict[str, Any]]:
    """All that it finds, by its rules. It is brought to a page once: to read it takes longer than to run it."""
    if not page.evaluate(_THERE):
        page.evaluate(AXE_SCRIPT)
    found: list[dict[str, Any]] = page.evaluate(_RUN)
    return found
