"""Results that are kept as soon as they are there, so that whoever is interrupted goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def load(path: Path, part: str) -> dict[str, Any]:
    """What was stored, or nothing yet."""
    return json.loads(path.read_text("utf-8"))[part] if path.exists() else {}


def store(path: Path, part: str, results: Mapping[str, Any], schema_version: int) -> None:
    """Beside it first, then in its place: whoever is interrupted leaves the old or the new."""
    fresh = path.with_name(f"{path.name}.{os.getpid()}")
    fresh.write_text(json.dumps({"schema_version": schema_version, part: dict(results)}, indent=1), "utf-8")
    fresh.replace(path)
