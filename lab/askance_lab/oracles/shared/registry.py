"""The registry of oracles: every module of `oracles` is one. Names are read from file names, without imports."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from askance_lab import oracles
from askance_lab.oracles.shared.setting import OracleKind
from askance_protocol.errors import UsageError


def oracle_names() -> list[str]:
    """All names, sorted."""
    return sorted(module.name.replace("_", "-") for module in iter_modules(oracles.__path__) if not module.ispkg)


def oracle_named(name: str) -> OracleKind:
    """Look up an oracle by name; the error for an unknown one lists the known names."""
    if name not in oracle_names():
        known = ", ".join(oracle_names())
        raise UsageError(f"there is no {name!r} here", where="--oracle", remedy=f"use one of {known}")
    kind = import_module(f"{oracles.__name__}.{name.replace('-', '_')}").ORACLE
    assert isinstance(kind, OracleKind)  # noqa: S101 - every module of the package ends with one: a test says so
    return kind
