"""One strategy against one oracle, once: what it learned, how wrong that is, and whether its promise was kept."""

from __future__ import annotations

from dataclasses import dataclass, replace
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
from askance_server.core.strategy import Estimate


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
    estimates: tuple[Estimate, ...] = ()
    """What reports say of all that was asked and answered, where users report."""


def run_once(setting: OracleSetting, kind: OracleKind) -> SingleRun:
    """Let the setting's strategy learn from this oracle. What ends a study is a result; other errors pass through."""
    with kind.open(setting) as oracle:
        try:
            learned = oracle.learn(setting.strategy, setting.own)
        except (TooFewUsersError, StrategyError) as failed:
            received, so_far = tuple(oracle.received), tuple(oracle.estimates(None))
            return SingleRun("failed", str(failed), code=failed.code, received=received, estimates=so_far)
        run = SingleRun("finished", learned.reason, learned, received=learned.received)
        try:
            run = replace(run, estimates=tuple(oracle.estimates(setting.strategy)))
        except StrategyError as failed:
            # It has learned, and cannot say how sure its answers are: then they are told by their queries.
            run = replace(run, reason=f"{run.reason} ({failed})", estimates=tuple(oracle.estimates(None)))
    error = UNKNOWN
    try:
        error = error_of(setting.strategy, learned.hypothesis.value, setting.population, setting.users)
        error = _released(setting, error) if setting.real_noise else error
        return replace(run, error=error, success=is_kept(setting.strategy, setting.own, error.value))
    except StrategyError as failed:
        # It has learned, and cannot say what its hypothesis is worth, or what it promised.
        return replace(run, reason=f"{run.reason} ({failed})", error=error)


def _released(setting: OracleSetting, error: KnownError) -> KnownError:
    """The error on the rows that were held back, with noise for which these rows pay ε, as the others did for reports.

    An error on rows that were learned from is not told: they have paid already.
    """
    size = setting.population.size
    if error.value is None:
        return error
    if error.known != "held-out" or size is None:
        return UNKNOWN
    rows, epsilon = size - setting.users, Fraction(setting.micro_epsilon, 1_000_000)
    released = release_share(round(error.value * rows), rows, epsilon=epsilon, draw=below(OsRandom()))
    return KnownError(released.value, "held-out", released.interval)
