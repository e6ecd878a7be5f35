"""Packages that may be missing, and the extra of `pip install 'askance[…]'` that brings each.

The base installation runs every command on its defaults. A device, or the image of a client, may have less than that.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Final

from askance_protocol.errors import MissingExtraError

BASE: Final = ""
"""What a plain `pip install askance` brings."""
EXTRAS: Final[Mapping[str, str]] = {
    "dask": "dask",
    "distributed": "dask",
    "fastapi": BASE,
    "httptools": BASE,
    "matplotlib": "lab",
    "prometheus_client": BASE,
    "psycopg": "postgres",
    "pyarrow": "lab",
    "starlette": BASE,
    "uvicorn": BASE,
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
