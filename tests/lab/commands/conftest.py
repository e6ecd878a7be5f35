"""What several tests of commands need."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.servers import ServerProcess, serving


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    """A server that runs while the test does."""
    with serving(tmp_path / "data") as process:
        yield process
