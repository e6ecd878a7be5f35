"""The application as others get hold of it, and its description, which stays what clients were written against."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

import askance_server
from askance_server import create_app
from askance_server.settings import Settings

DESCRIPTION = "5c1cca216324dcbc1bf8ef9d78fa340b279a900a6281a44ef18cd52e17ec0dd1"
"""SHA-256 of /openapi.json without the version of this program. A change of the contract is a change here."""


def digest(schema: dict[str, Any]) -> str:
    shown = {**schema, "info": {name: value for name, value in schema["info"].items() if name != "version"}}
    return hashlib.sha256(json.dumps(shown).encode()).hexdigest()


def test_the_description_of_the_service_does_not_change_unnoticed(tmp_path: Path) -> None:
    schema = create_app(Settings(database=str(tmp_path))).openapi()

    assert digest(schema) == DESCRIPTION
    # The control: one word of one operation is noticed.
    schema["paths"]["/healthz"]["get"]["summary"] = "another"
    assert digest(schema) != DESCRIPTION


def test_the_package_gives_the_application_also_without_settings() -> None:
    app = create_app()

    assert isinstance(app, FastAPI)
    assert askance_server.__all__ == ["create_app"]
    with pytest.raises(AttributeError, match="no attribute 'create_map'"):
        _ = askance_server.create_map  # pyright: ignore[reportAttributeAccessIssue] - that is what is tested


HEAVY = ("fastapi", "starlette", "uvicorn", "psycopg", "prometheus_client")


@pytest.mark.parametrize(
    ("statement", "heavy"),
    [
        ("import askance_server", False),
        ("import askance_server.strategies.registry", False),
        ("import askance_server.core.planning", False),
        ("import askance_server.ledger", False),
        # The control.
        ("from askance_server import create_app", True),
    ],
)
def test_strategies_and_ledger_are_loaded_without_the_framework(statement: str, heavy: bool) -> None:
    program = f"import sys; {statement}; print(*(name for name in {HEAVY} if name in sys.modules))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()

    assert ("fastapi" in loaded) is heavy
    assert heavy or not loaded
