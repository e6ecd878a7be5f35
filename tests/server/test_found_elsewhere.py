"""What a server finds out by itself: studies that others created; what it cannot do is said in one line, once."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from askance_protocol.errors import AskanceError, ProtocolError
from askance_server import aggregator, app
from askance_server.app import create_app
from askance_server.core.study import study_of
from askance_server.ledger import LedgerError
from askance_server.settings import Settings
from askance_server.strategies.registry import registry
from tests.harness.marks import SECONDS
from tests.harness.servers import Service


def created_elsewhere(api: Service) -> str:
    """A study that the ledger has, and of which nobody tells this server."""
    spec = study_of(
        registry(), strategy="mean", parameters={"users": "all"}, title="t", nonce="00" * 16, simulated=False
    )
    return api.app.state.aggregator.driver.publish(spec)


def meanwhile(api: Service, done: Callable[[], bool]) -> None:
    """Let the server run until this is so."""

    async def wait() -> None:
        async with asyncio.timeout(SECONDS):
            while not done():
                await asyncio.sleep(0.01)

    api._runner.run(wait())


def test_a_study_that_another_replica_created_is_advanced_and_closed_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(aggregator, "_TICK", 0.01)
    with Service(tmp_path / "data") as api:
        ledger, tokens = api.app.state.aggregator.ledger, api.enrol(3)
        study = created_elsewhere(api)
        meanwhile(api, lambda: ledger.bulletin(study).length == 2)
        [(round_, _)] = ledger.bulletin(study).rounds
        # Its last report closes it: nobody else would.
        assert [api.report(round_, token).status_code for token in tokens] == [200] * 3
        meanwhile(api, lambda: api.app.state.aggregator.ledger.bulletin(study).length == 5)

        # The control: a server that looks for studies when it starts, and never again.
        looks = 0

        def nothing() -> list[str]:
            nonlocal looks
            looks += 1
            return []

        monkeypatch.setattr(ledger, "unfinished", nothing)
        # A look that had begun before is over.
        meanwhile(api, lambda: looks > 1)
        spec = study_of(
            registry(), strategy="mean", parameters={"users": "all"}, title="t", nonce="11" * 16, simulated=False
        )
        other = api.app.state.aggregator.driver.publish(spec)
        meanwhile(api, lambda: looks > 22)
        assert ledger.bulletin(other).length == 1


def test_what_is_in_the_way_of_looking_for_studies_is_one_line_and_not_one_each_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(aggregator, "_TICK", 0.01)
    with Service(tmp_path / "data") as api:
        looks = 0

        def refuse(error: Exception) -> Callable[[], list[str]]:
            def look() -> list[str]:
                nonlocal looks
                looks += 1
                raise error

            return look

        ledger = api.app.state.aggregator.ledger
        monkeypatch.setattr(ledger, "unfinished", refuse(ProtocolError("is not readable", where="entry 3")))
        meanwhile(api, lambda: looks > 20)
        assert [(each.message, each.exc_info) for each in caplog.records if each.levelno >= logging.ERROR] == [
            ("entry 3: is not readable", None)
        ]

        # The control: what is no error of ours has its traceback.
        monkeypatch.setattr(ledger, "unfinished", refuse(ValueError("a mistake of ours")))
        meanwhile(api, lambda: any(each.exc_info for each in caplog.records))


def started(tmp_path: Path, error: Exception, monkeypatch: pytest.MonkeyPatch) -> str:
    """What the application tells its web server of a start at which this was raised."""

    def refuse(*_: Any) -> Any:
        raise error

    monkeypatch.setattr(app, "open_resources", refuse)
    application, said = create_app(Settings(database=str(tmp_path))), list[Any]()

    async def main() -> None:
        async def receive() -> Any:
            return {"type": "lifespan.startup"}

        async def send(message: Any) -> None:
            said.append(message)

        with pytest.raises(type(error)):
            await application({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)

    asyncio.run(main())
    [message] = said
    assert message["type"] == "lifespan.startup.failed"
    return message["message"]


@pytest.mark.parametrize("error", [LedgerError("the disk is full"), AskanceError("is locked", where="data")])
def test_a_refused_start_is_one_line_also_under_another_web_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    assert started(tmp_path, error, monkeypatch) == str(error)
    # The control: the framework's own word for it.
    told = started(tmp_path, ValueError("a mistake of ours"), monkeypatch)
    assert told.startswith("Traceback")
    assert "a mistake of ours" in told
