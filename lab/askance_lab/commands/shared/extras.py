"""Packages that are not in the base install, and the extra of `pip install 'askance[…]'` that brings each."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Final

from askance_protocol.errors import MissingExtraError

EXTRAS: Final[Mapping[str, str]] = {
    "askance_server": "server",  # the image of a client has only its own room
    "dask": "dask",
    "fastapi": "server",
    "matplotlib": "lab",
    "prometheus_client": "server",
    "psycopg": "postgres",
    "pyarrow": "lab",
    "scipy": "lab",
    "starlette": "server",
    "uvicorn": "server",
}


def require(*packages: str) -> None:
    """Refuse to go on where one of these packages is not installed."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise MissingExtraError.of(package, EXTRAS[package])


def missing_extra(error: ModuleNotFoundError) -> MissingExtraError | None:
    """The error that names the extra, if the module that was not found belongs to one."""
    package = (error.name or "").partition(".")[0]
    return MissingExtraError.of(package, EXTRAS[package]) if package in EXTRAS else None
