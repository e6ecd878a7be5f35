"""The application as others hold it: its description stays what clients were written against."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from askance_server.app import create_app
from askance_server.settings import Settings

DESCRIPTION = "ad2767ed6f30011cfa52442c472158b77d44ea142ead7c1ea9b6590db52eb368"
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
