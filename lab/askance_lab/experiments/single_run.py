"""One strategy against one oracle, once: what it learned, how wrong that is, and whether its promise was kept."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

from askance_lab.curator.draws import below
from askance_lab.curator.held_out import release_share
from askance_lab.evaluation.error import UNKNOWN, KnownError, error_of
from askance_lab.evaluation.exact import is_kept
from askance_lab.oracles.shared.oracle import Learned
from askance_lab.oracles.shared.setting import OracleKind, OracleSetting
from askance_protocol.errors import Code
from askance_protocol.randomness import OsRandom
from askance_server.core.planning import TooFewUsersError
from askance_server.core.run import StrategyError


@dataclass(frozen=True, slots=True)
class SingleRun:
    """What one run has come to."""

    state: Literal["finished", "failed"]
    reason: str
    learned: Learned | None = None
    error: KnownError = UNKNOWN
    success: bool | None = None
    """Whether the strategy kept its promise; None: it makes none, or nobody knows its error."""
    code: Code | None = None
    """Why it failed."""
    received: tuple[int, ...] = ()
    """Number of users asked in each round."""


def run_once(setting: OracleSetting, kind: OracleKind) -> SingleRun:
    """Let the setting's strategy learn from this oracle. What ends a study is a result; other errors pass through."""
    with kind.open(setting) as oracle:
        try:
            learned = oracle.learn(setting.strategy, setting.own)
        except (TooFewUsersError, StrategyError) as failed:
            return SingleRun("failed", str(failed), code=failed.code, received=tuple(oracle.received))
    error = UNKNOWN
    try:
        error = error_of(setting.strategy, learned.hypothesis.value, setting.population, setting.users)
        error = _released(setting, error) if setting.real_noise else error
        success = is_kept(setting.strategy, setting.own, error.value)
    except StrategyError as failed:
        # It has learned, and cannot say what its hypothesis is worth, or what it promised.
        return SingleRun("finished", f"{learned.reason} ({failed})", learned, error, received=learned.received)
    return SingleRun("finished", learned.reason, learned, error, success, received=learned.received)


def _released(setting: OracleSetting, error: KnownError) -> KnownError:
    """The error on the rows that were held back, with noise for which these rows pay ε, as the others did for reports.

    An error on rows that were learned from is not told: they have paid already.
    """
    size = setting.population.size
    if error.value is None or error.known != "measured" or size is None:
        return UNKNOWN
    rows, epsilon = size - setting.users, Fraction(setting.micro_epsilon, 1_000_000)
    released = release_share(round(error.value * rows), rows, epsilon=epsilon, draw=below(OsRandom()))
    return KnownError(released.value, "measured", released.interval)
