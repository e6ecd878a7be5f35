"""The aggregator: publishes studies, takes reports, keeps every user's budget, runs strategies on the answers.

`create_app` is the server. `core` and `strategies` are pure and need nothing of it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from askance_server.app import create_app

__all__ = ["create_app"]


def __getattr__(name: str) -> object:
    """Load the application when it is asked for: strategies and planning work without the server's extra."""
    if name == "create_app":
        from askance_server.app import create_app  # noqa: PLC0415 - brings FastAPI

        return create_app
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
