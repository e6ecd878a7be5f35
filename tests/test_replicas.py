"""What docs/server.md says of several servers is what the benchmark printed."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]


def test_what_three_servers_do_is_what_the_benchmark_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    replicas: Any = import_module("replicas")
    printed = json.loads((ROOT / "docs" / "server" / "replicas.json").read_text("utf-8"))
    told = (ROOT / "docs" / "server.md").read_text("utf-8")

    assert "\n".join(replicas.markdown(printed)) in told
    assert replicas.sentence(printed) in told
    assert printed["missed"] == printed["found"] == []
    assert printed["kills"] == printed["figures"]["kills_under_load"]["median"] == replicas.REPLICAS
    assert printed["reports"] == replicas.PAYERS + replicas.FLEET
