"""Metrics for a monitor: counts and durations only, no user, no report, no token.

What may be told
----------------
Anybody may ask for them, and look again and again while one person reports. That her report was accepted is public at
once: her round's count goes up by it. Why one was not is hers: that she has spent her cap, has answered before, or
sends it again follows from what nobody but her and the server knows. So whatever was not accepted is counted by
`Refusals`, with which no single one is seen, here and on the page of the budget alike. All verdicts alike: some follow
from public data (a round had closed, somebody was not asked), but that one refusal was none of those would tell as
much.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from datetime import datetime
from typing import Final

import numpy as np
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from askance_protocol.rounds import RoundState, StudyState
from askance_server.ledger import Census, Users, Verdict, Verdicts

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


STEP: Final = 5
"""Users who are told together, at least."""
EVERY: Final = 60.0
"""Seconds for which what is told of users stays the same."""


def in_steps(count: int) -> int:
    """A number of users, or of their reports, as it is told: in steps, rounded down."""
    return count - count % STEP


class Refusals:
    """Reports that were not accepted, by verdict, as anybody is told of them.

    What comes within `EVERY` seconds is told when they are over, and of a verdict only together with the reports of at
    least `STEP` different users: until so many have come, it waits. So neither who looks after each report, nor who
    sends refused ones of her own in between, sees that of one other person. As with what is told of an open round: who
    speaks for `STEP` − 1 users herself reads the one that completes them.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._since = clock, self._now(clock())
        self._told = [0] * len(Verdict)
        self._waiting = [0] * len(Verdict)
        self._users = [set[int]() for _ in Verdict]
        """Of each verdict some of the users whose reports wait, as many as matter."""

    def add(self, users: Users, verdicts: Verdicts) -> None:
        """Count what was not accepted of these."""
        self._turn()
        reasons: list[int] = np.unique(verdicts[verdicts != Verdict.ACCEPTED]).tolist()
        for verdict in reasons:
            mine = users[verdicts == verdict]
            self._waiting[verdict] += len(mine)
            for user in np.unique(mine)[:STEP].tolist():
                if len(self._users[verdict]) < STEP:
                    self._users[verdict].add(user)

    def told(self, verdict: Verdict) -> int:
        """How many there were, as far as it is told."""
        self._turn()
        return in_steps(self._told[verdict])

    def _turn(self) -> None:
        """Tell what waits, where the time is over and there are enough."""
        now = self._now(self._clock())
        if now == self._since:
            return
        self._since = now
        for verdict, users in enumerate(self._users):
            if len(users) >= STEP:
                self._told[verdict] += self._waiting[verdict]
                self._waiting[verdict] = 0
                users.clear()

    @staticmethod
    def _now(seconds: float) -> int:
        return int(seconds // EVERY)


class Metrics:
    """The metrics of one server, in a registry of its own: several servers in one process do not share counts."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.pace, self.refusals = AcceptanceRate(), Refusals()
        self.accepted = 0
        """Reports that were accepted since this process started."""
        reports = Counter(
            "askance_reports",
            f"Reports by verdict; others than accepted in steps of {STEP}, a minute later.",
            ["verdict"],
            registry=self.registry,
        )
        # Looked up once: to look a label up for each report would cost more than the count.
        self._reports = [reports.labels(verdict.name.lower()) for verdict in Verdict]
        self._said = [0] * len(Verdict)
        """What the monitor was told of each."""
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
        self._paused = Gauge(
            "askance_studies_paused", "Studies that cannot go on with what is installed here.", registry=self.registry
        )
        self._expiry = Gauge(
            "askance_certificate_expiry_timestamp_seconds",
            "When the certificate of TLS expires; 0 where none is used.",
            registry=self.registry,
        )

    def committed(self, users: Users, verdicts: Verdicts, seconds: float) -> None:
        """Count the verdicts of one group, and the time that it took."""
        self._latency.observe(seconds)
        self.decided(users, verdicts)

    def decided(self, users: Users, verdicts: Verdicts) -> None:
        """Count verdicts, also of what never came to be committed."""
        refused = int(np.count_nonzero(verdicts))
        if refused:
            self.refusals.add(users, verdicts)
        if len(verdicts) > refused:
            self.accepted += len(verdicts) - refused
            self.pace.add(len(verdicts) - refused)

    def expires(self, at: datetime) -> None:
        """Note until when the certificate holds that is shown."""
        self._expiry.set(at.timestamp())

    def exposition(self, *, depth: int, census: Census, paused: int) -> bytes:
        """The metrics in the Prometheus text format."""
        for verdict, counter in zip(Verdict, self._reports, strict=True):
            count = self.accepted if verdict is Verdict.ACCEPTED else self.refusals.told(verdict)
            counter.inc(count - self._said[verdict])
            self._said[verdict] = count
        self._depth.set(depth)
        self._users.set(census.users)
        self._paused.set(paused)
        for study_state in StudyState:
            self._studies.labels(study_state.value).set(census.studies.get(study_state, 0))
        for round_state in RoundState:
            self._rounds.labels(round_state.value).set(census.rounds.get(round_state, 0))
        return generate_latest(self.registry)
