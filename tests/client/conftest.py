"""What all tests of the client have in common."""

from __future__ import annotations

import pytest

from askance_client.pace import AT_ONCE
from tests.client.ways import WAYS, Way


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Users of tests send at once; `test_pace` looks at those who do not."""
    monkeypatch.setattr("askance_client.user.PACE", AT_ONCE)


@pytest.fixture(params=WAYS)
def each_way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to a server, one after the other."""
    monkeypatch.setattr(Way, "kind", WAYS[request.param])
    return request.param
