"""The registry of oracles: every module of `oracles` is one. Names are read from file names, without imports."""

from __future__ import annotations

from askance_lab import oracles
from askance_lab.oracles.shared.setting import OracleKind
from askance_protocol import discovery
from askance_protocol.errors import UsageError
from askance_protocol.text import one_of, quoted


def oracle_names() -> list[str]:
    """All names, sorted."""
    return [name.replace("_", "-") for name in discovery.names(oracles)]


def oracle_named(name: str) -> OracleKind:
    """Look up an oracle by name; the error for an unknown one lists the known names."""
    if name not in oracle_names():
        remedy = one_of(name, oracle_names())
        raise UsageError(f"there is no {quoted(name)} here", where="--oracle", remedy=remedy)
    return discovery.record(oracles, name.replace("-", "_"), "ORACLE", OracleKind)
