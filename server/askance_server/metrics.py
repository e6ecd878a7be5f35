"""Metrics for a monitor: counts and durations only, no user, no report, no token."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from askance_protocol.rounds import RoundState, StudyState
from askance_server.ledger import Census, Verdict, Verdicts

BUCKET: Final = 10
"""Seconds for which accepted reports are counted together."""
_BUCKETS: Final = 60


class AcceptanceRate:
    """How many reports were accepted, by ten seconds, in the last ten minutes of this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._start = clock, self._bucket(clock())
        self._counts = deque[tuple[int, int]](maxlen=_BUCKETS + 1)

    def add(self, count: int) -> None:
        """Count reports that were accepted now."""
        now = self._bucket(self._clock())
        before = self._counts.pop()[1] if self._counts and self._counts[-1][0] == now else 0
        self._counts.append((now, before + count))

    def seconds(self) -> list[tuple[int, float]]:
        """For each ten seconds that are over: how many seconds ago they began, and reports a second. Oldest first."""
        now, counts = self._bucket(self._clock()), dict(self._counts)
        first = max(self._start, now - _BUCKETS)
        return [((now - each) * BUCKET, counts.get(each, 0) / BUCKET) for each in range(first, now)]

    @staticmethod
    def _bucket(seconds: float) -> int:
        return int(seconds // BUCKET)


class Metrics:
    """The metrics of one server, in a registry of its own: several servers in one process do not share counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.pace = AcceptanceRate()
        self.totals = [0] * len(Verdict)
        """Reports by verdict, since this process started."""
        reports = Counter("askance_reports", "Reports by verdict.", ["verdict"], registry=self.registry)
        # Looked up once: to look a label up for each report would cost more than the count.
        self._reports = [reports.labels(verdict.name.lower()) for verdict in Verdict]
        self._latency = Histogram(
            "askance_commit_seconds",
            "Time to decide and commit a group of reports.",
            registry=self.registry,
            buckets=(0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.05, 0.2, 1.0),
        )
        self._depth = Gauge("askance_queue_depth", "Single reports that wait for a commit.", registry=self.registry)
        self._studies = Gauge("askance_studies", "Studies by state.", ["state"], registry=self.registry)
        self._rounds = Gauge("askance_rounds", "Rounds by state.", ["state"], registry=self.registry)
        self._users = Gauge("askance_users", "Users who are enrolled.", registry=self.registry)

    def committed(self, verdicts: Verdicts, seconds: float) -> None:
        """Count the verdicts of one group, and the time that it took."""
        self._latency.observe(seconds)
        self.decided(verdicts)

    def decided(self, verdicts: Verdicts) -> None:
        """Count verdicts, also of what never came to be committed."""
        if len(verdicts) and not verdicts.any():
            self._count(0, len(verdicts))
            return
        for verdict, count in enumerate(np.bincount(verdicts, minlength=len(self._reports)).tolist()):
            if count:
                self._count(verdict, count)

    def _count(self, verdict: int, count: int) -> None:
        self._reports[verdict].inc(count)
        self.totals[verdict] += count
        if verdict == Verdict.ACCEPTED:
            self.pace.add(count)

    def exposition(self, *, depth: int, census: Census) -> bytes:
        """The metrics in the Prometheus text format."""
        self._depth.set(depth)
        self._users.set(census.users)
        for study_state in StudyState:
            self._studies.labels(study_state.value).set(census.studies.get(study_state, 0))
        for round_state in RoundState:
            self._rounds.labels(round_state.value).set(census.rounds.get(round_state, 0))
        return generate_latest(self.registry)
