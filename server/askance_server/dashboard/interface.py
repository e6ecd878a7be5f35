"""`/docs`: all endpoints for programs in a table, from the service's own description."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from askance_server.dashboard.templates import rendered


def interface_page(schema: dict[str, Any]) -> bytes:
    """The page, rendered. For a thread."""
    return rendered("interface.html", endpoints=list(_endpoints(schema)), version=schema["info"]["version"])


def _endpoints(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            yield {
                "method": method.upper(),
                "path": path,
                "what": operation.get("description", operation.get("summary", "")),
                "answers": operation["responses"],
            }
