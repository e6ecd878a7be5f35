"""The names of the oracles and of the engines, in a module that loads nothing else: the command prints them as help."""

from __future__ import annotations

from enum import StrEnum


class OracleName(StrEnum):
    """Who answers a strategy's queries."""

    LOCAL = "local"
    HTTP = "http"
    EXACT = "exact"
    ADVERSARIAL = "adversarial"
    SAMPLES = "samples"
    CURATOR = "curator"
    FRESH = "fresh"
    FRESH_LAPLACE = "fresh-laplace"

    @property
    def local(self) -> bool:
        """Whether users randomize their own reports."""
        return self in {self.LOCAL, self.HTTP, self.FRESH, self.FRESH_LAPLACE}


class EngineName(StrEnum):
    """Where users are simulated."""

    LOCAL = "local"
    DASK = "dask"
