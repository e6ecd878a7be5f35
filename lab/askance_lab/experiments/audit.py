"""Empirical audit of a local randomizer: a lower bound on its ε from reports alone, wrong with probability ≤ failure.

KLNRS11 Definition 5.1: R is ε-local if Pr[R(u) ∈ E] ≤ e^ε·Pr[R(v) ∈ E] for all inputs u, v and events E. So any one
event bounds ε from below by ln(Pr[R(u) ∈ E] / Pr[R(v) ∈ E]). The two probabilities are bounded by Clopper–Pearson
intervals (Clopper & Pearson, Biometrika 1934), which are exact at every sample size.

Theory of operation. The reported bound is the best over many events, so it must hold for all of them at once:

- *The events are fixed before the counted reports are seen*: every single outcome, and every prefix and suffix of an
  order of the outcomes. Over all events the ratio is largest on a single outcome; prefixes and suffixes gather a leak
  that is spread over outcomes too rare to show it one by one.
- *Each event costs four one-sided bounds* (two inputs, two sides). The failure is divided by their number
  (Bonferroni). That is valid under any dependence between them, and cheap, because interval width grows with the root
  of the logarithm: from 2 outcomes to 128 the intervals widen by less than a fifth at failure 10⁻⁶.
- *The order comes from other reports.* `audit_channel` sorts the outcomes by likelihood ratio in a pilot that is then
  thrown away, so its threshold sets are those of Neyman and Pearson as well as the pilot knows them.

A violation is evidence; consistency is not. What certifies ε is the channel's integer table, never this audit.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import numpy as np

from askance_protocol.arrays import Floats, Integers
from askance_protocol.channels import Channel
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import RandomSource
from askance_server.core.estimators import binomial_bounds

Sampler: TypeAlias = Callable[[int], Integers]
"""n -> n outcomes in 0..outcomes−1 of the randomizer on one fixed input."""

FAILURE = 1e-6
"""The project's level for every statistical test."""

PILOT_SHARE = 5
"""One report in five goes into the order: the other intervals widen by √(5/4) < 12 % at most."""


class Direction(Enum):
    """Input that makes the event likelier."""

    U_OVER_V = "u over v"
    V_OVER_U = "v over u"


class AuditVerdict(Enum):
    """Result of comparing an audit with a claim. CONSISTENT means not refuted, nothing more."""

    CONSISTENT = "consistent"
    VIOLATED = "violated"


@dataclass(frozen=True, slots=True)
class Audit:
    """With probability ≥ 1 − failure, ε ≥ epsilon_lower_bound, as seen on `event` (a set of outcomes).

    `samples` is the number of reports counted, both inputs together.
    """

    epsilon_lower_bound: float
    event: tuple[int, ...]
    direction: Direction
    failure: float
    samples: int

    def verdict(self, claimed_micro_epsilon: int) -> AuditVerdict:
        """VIOLATED is wrong with probability ≤ failure if the claim is true."""
        violated = self.epsilon_lower_bound > claimed_micro_epsilon / 1_000_000
        return AuditVerdict.VIOLATED if violated else AuditVerdict.CONSISTENT


def sampler_of(channel: Channel, given: int, source: RandomSource) -> Sampler:
    """Sampler of a channel's reports under one input."""
    value = channel.check_input(given)
    return lambda samples: channel.sample(np.full(samples, value, np.uint16), source).outcomes.astype(np.int64)


def audit_channel(
    sample_u: Sampler,
    sample_v: Sampler,
    samples: int,
    claimed_micro_epsilon: int,
    *,
    outcomes: int,
    failure: float = FAILURE,
) -> tuple[Audit, AuditVerdict]:
    """Draw `samples` reports under each input, a pilot first, and hold the claim against the rest.

    `outcomes` is the channel's number of outcomes: read off the reports, it would make the events depend on them.
    """
    if samples < 2:
        raise ProtocolError("need two reports per input, one of them for the pilot", where="samples")
    if claimed_micro_epsilon < 0:
        raise ProtocolError("a claimed ε is not negative", where="claimed_micro_epsilon")
    _require_failure(failure)
    pilot = -(-samples // PILOT_SHARE)
    order = likelihood_order(_tally(sample_u, pilot, outcomes), _tally(sample_v, pilot, outcomes))
    rest = samples - pilot
    audit = audit_counts(_tally(sample_u, rest, outcomes), _tally(sample_v, rest, outcomes), failure, order=order)
    return audit, audit.verdict(claimed_micro_epsilon)


def audit_counts(
    counts_u: Integers, counts_v: Integers, failure: float = FAILURE, *, order: Integers | None = None
) -> Audit:
    """Compute the best lower bound on ε from the counts of each outcome under u and under v.

    `order` is a permutation of the outcomes chosen without these counts; by default their own order, which is right
    for noise added to a value.
    """
    _require_counts(counts_u, counts_v)
    _require_failure(failure)
    order = np.arange(len(counts_u)) if order is None else order
    if not np.array_equal(np.sort(order), np.arange(len(counts_u))):
        raise ProtocolError("not a permutation of the outcomes", where="order")
    inside_u, inside_v = _in_events(counts_u, order), _in_events(counts_v, order)
    total_u, total_v = int(counts_u.sum()), int(counts_v.sum())
    each = failure / (4 * len(inside_u))
    u_over_v = _log_ratio_below(inside_u, total_u, inside_v, total_v, each)
    v_over_u = _log_ratio_below(inside_v, total_v, inside_u, total_u, each)
    bounds, direction = max((u_over_v, Direction.U_OVER_V), (v_over_u, Direction.V_OVER_U), key=lambda it: it[0].max())
    best = int(bounds.argmax())
    # ε ≥ 0 always, so a negative bound says nothing.
    return Audit(max(0.0, float(bounds[best])), _event(best, order), direction, failure, total_u + total_v)


def likelihood_order(counts_u: Integers, counts_v: Integers) -> Integers:
    """Outcomes by rising estimated ratio Pr[w|u]/Pr[w|v], from reports that must not be counted again."""
    _require_counts(counts_u, counts_v)
    # Half a report added to each count keeps the logarithm of an unseen outcome finite; any order is a valid one.
    log_ratio = np.log(counts_u + 0.5) - np.log(counts_v + 0.5)
    return np.argsort(log_ratio, kind="stable").astype(np.int64)


def _log_ratio_below(over: Integers, total_over: int, under: Integers, total_under: int, each: float) -> Floats:
    """For each event, ln(lower bound on its probability / upper bound on the other); −∞ for an event never seen."""
    below, _ = binomial_bounds(over, total_over, each)
    _, above = binomial_bounds(under, total_under, each)
    with np.errstate(divide="ignore"):
        return np.log(below) - np.log(above)


def _in_events(counts: Integers, order: Integers) -> Integers:
    """Number of reports inside each event: the single outcomes, then prefixes, then suffixes of 2..m−1 outcomes."""
    prefixes = np.cumsum(counts[order])[1:-1]
    suffixes = np.cumsum(counts[order[::-1]])[1:-1]
    return np.concatenate([counts, prefixes, suffixes])


def _event(index: int, order: Integers) -> tuple[int, ...]:
    """The outcomes of the event at this index of `_in_events`."""
    outcomes = len(order)
    if index < outcomes:
        return (index,)
    longer = index - outcomes
    prefixes = outcomes - 2
    members = order[: longer + 2] if longer < prefixes else order[::-1][: longer - prefixes + 2]
    return tuple(sorted(int(outcome) for outcome in members))


def _tally(sample: Sampler, samples: int, outcomes: int) -> Integers:
    drawn = sample(samples)
    if drawn.shape != (samples,) or not np.issubdtype(drawn.dtype, np.integer):
        raise ProtocolError("a sampler returns as many integers as it is asked for", where="sample")
    if drawn.min() < 0 or drawn.max() >= outcomes:
        raise ProtocolError(f"an outcome lies outside 0..{outcomes - 1}", where="sample")
    return np.bincount(drawn.astype(np.int64), minlength=outcomes)


def _require_counts(counts_u: Integers, counts_v: Integers) -> None:
    if counts_u.ndim != 1 or counts_u.shape != counts_v.shape or len(counts_u) < 2:
        raise ProtocolError("need two arrays of the same length, with at least two outcomes", where="counts")
    for counts, where in ((counts_u, "counts_u"), (counts_v, "counts_v")):
        if not np.issubdtype(counts.dtype, np.integer) or counts.min() < 0 or counts.sum() < 1:
            raise ProtocolError("counts are non-negative integers, not all zero", where=where)


def _require_failure(failure: float) -> None:
    if not 0 < failure < 1:
        raise ProtocolError("a failure probability lies strictly between 0 and 1", where="failure")
