"""The framework tells no collector anything: who reported when, or what an error said."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from opentelemetry import metrics, trace

from tests.harness.servers import Service


class Collector:
    """A provider of tracers and meters: whoever asks it for one wants to tell something."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def _told(self, name: str, *_: Any, **__: Any) -> Any:
        self.asked.append(name)
        raise RuntimeError("something is told")

    get_tracer = get_meter = _told


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Collector:
    """One that is set up for the whole process, as libraries beside this one may do."""
    set_up = Collector()
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: set_up)
    monkeypatch.setattr(metrics, "get_meter_provider", lambda: set_up)
    monkeypatch.setenv("FASTAPI_OTEL_AUTO_CONFIGURE", "true")
    return set_up


def test_nothing_is_told_to_a_collector(tmp_path: Path, collector: Collector) -> None:
    with Service(tmp_path / "data") as api:
        [token] = api.enrol(1)
        round_ = api.study()["rounds"][0]["id"]
        assert api.report(round_, token, 1).status_code == 200
        assert api.report(round_, token, "x").status_code == 422
        assert api.get("/v1/studies").status_code == 200

    assert collector.asked == []


def test_a_framework_that_tells_is_found(collector: Collector) -> None:
    """The control: the framework as it is by itself."""

    async def ask() -> None:
        transport = httpx.ASGITransport(FastAPI())
        async with httpx.AsyncClient(transport=transport, base_url="http://askance.test") as client:
            await client.get("/")

    with pytest.raises(RuntimeError, match="something is told"):
        asyncio.run(ask())
    assert collector.asked
