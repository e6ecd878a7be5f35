"""When each alert has to fire, and when it must not, as series that Prometheus is given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

INTERVAL: Final = "15s"
_DAY: Final = 86_400


@dataclass(frozen=True, slots=True)
class Case:
    """Series in Prometheus's own notation (`1x4`: 1, and four times the same), and what fires at a time."""

    alert: str
    why: str
    series: Mapping[str, str]
    at: str
    fires: tuple[Mapping[str, str], ...] = ()
    """The labels that each alert has from its series; none: it must not fire."""
    step: str = INTERVAL


def _of(metric: str, server: str = "a:8080", **labels: str) -> str:
    named = {"job": "askance", "instance": server, **labels}
    return metric + "{" + ", ".join(f'{name}="{value}"' for name, value in named.items()) + "}"


def _commits(slow: int, server: str = "a:8080") -> dict[str, str]:
    """A hundred commits each 15 seconds, so many of which take more than 0.2 seconds."""
    upto = {"0.01": 100 - slow, "0.05": 100 - slow, "0.2": 100 - slow, "1.0": 100, "+Inf": 100}
    return {_of("askance_commit_seconds_bucket", server, le=le): f"0+{count}x120" for le, count in upto.items()}


def _verdicts(verdict: str, values: str) -> dict[str, str]:
    return {_of("askance_reports_total", verdict=verdict): values}


A: Final = {"instance": "a:8080", "job": "askance"}
B: Final = {"instance": "b:8080", "job": "askance"}
JOB: Final = {"job": "askance"}

CASES: Final = (
    Case("AskanceDown", "it has not answered for minutes", {_of("up"): "1x4 0x20"}, "4m", (A,)),
    Case("AskanceDown", "the other one is up", {_of("up"): "0x20", _of("up", "b:8080"): "1x20"}, "4m", (A,)),
    Case("AskanceDown", "it has not answered for less than a minute", {_of("up"): "1x12 0x20"}, "3m45s"),
    Case("AskanceDown", "it answers again", {_of("up"): "1x4 0x8 1x20"}, "5m"),
    Case("AskanceDown", "another job is down", {'up{job="node", instance="a:9100"}': "0x20"}, "4m"),
    # A name that is looked up by DNS, or a container's, is not asked any more when it is gone: its series ends.
    Case("AskanceGone", "its name is gone", {_of("up"): "1x4 stale", _of("up", "b:8080"): "1x40"}, "4m", (A,)),
    Case(
        "AskanceGone",
        "it was down when its name went",
        {_of("up"): "0x4 stale", _of("up", "b:8080"): "1x40"},
        "4m",
        (A,),
    ),
    Case("AskanceGone", "all are gone", {_of("up"): "1x4 stale", _of("up", "b:8080"): "1x4 stale"}, "4m", (A, B, JOB)),
    Case("AskanceGone", "none was ever there", {'up{job="node", instance="a:9100"}': "1x20"}, "4m", (JOB,)),
    Case("AskanceGone", "nothing was, for longer than an hour", {_of("up"): "1x4 stale"}, "90m", (JOB,)),
    Case("AskanceGone", "all are there", {_of("up"): "1x40", _of("up", "b:8080"): "1x40"}, "4m"),
    Case("AskanceGone", "one is down, of which AskanceDown tells", {_of("up"): "1x4 0x40"}, "4m"),
    Case(
        "AskanceGone",
        "it is back within a minute",
        {_of("up"): "1x4 stale _x1 1x20", _of("up", "b:8080"): "1x40"},
        "4m",
    ),
    Case(
        "AskanceGone",
        "it was taken out an hour ago",
        {_of("up"): "1x4 stale", _of("up", "b:8080"): "1x400"},
        "75m",
    ),
    Case("AskanceStudyPaused", "one is, for long", {_of("askance_studies_paused"): "0x4 1x40"}, "8m", (JOB,)),
    Case("AskanceStudyPaused", "it goes on by itself", {_of("askance_studies_paused"): "0x4 1x8 0x40"}, "8m"),
    Case("AskanceStudyPaused", "none is", {_of("askance_studies_paused"): "0x60"}, "8m"),
    Case("AskanceQueueGrows", "more than 100,000 wait", {_of("askance_queue_depth"): "100001x20"}, "4m", (A,)),
    Case("AskanceQueueGrows", "100,000 wait", {_of("askance_queue_depth"): "100000x20"}, "4m"),
    Case("AskanceQueueGrows", "they are written soon", {_of("askance_queue_depth"): "0x10 900000x2 0x20"}, "3m15s"),
    Case("AskanceCommitsSlow", "one in ten", _commits(10), "25m", ({},)),
    Case("AskanceCommitsSlow", "one in fifty", _commits(2), "25m"),
    Case("AskanceCommitsSlow", "half of all, since a moment", _commits(50), "8m"),
    Case("AskanceCommitsSlow", "there are none", {_of("up"): "1x100"}, "25m"),
    Case(
        "AskanceNobodyReports",
        "a round is open, and nobody has",
        {_of("askance_rounds", state="open"): "1x200", **_verdicts("accepted", "7x200")},
        "8h",
        (JOB,),
        "3m",
    ),
    Case(
        "AskanceNobodyReports",
        "one has, hours ago",
        {_of("askance_rounds", state="open"): "1x200", **_verdicts("accepted", "7x80 8x120")},
        "8h",
        step="3m",
    ),
    Case(
        "AskanceNobodyReports",
        "no round is open",
        {_of("askance_rounds", state="open"): "0x200", **_verdicts("accepted", "7x200")},
        "8h",
        step="3m",
    ),
    Case("AskanceBudgetsSpent", "five were refused", _verdicts("over_budget", "0x20 5x20"), "6m", (JOB,)),
    Case("AskanceBudgetsSpent", "five were, long ago", _verdicts("over_budget", "0x20 5x600"), "100m"),
    Case("AskanceBudgetsSpent", "none was", _verdicts("over_budget", "5x40"), "6m"),
    Case("AskanceBudgetsSpent", "the server was started again", _verdicts("over_budget", "5x20 0x20"), "6m"),
    Case("AskanceConflicts", "five conflicted", _verdicts("conflict", "0x20 5x20"), "6m", (JOB,)),
    Case("AskanceConflicts", "five did, long ago", _verdicts("conflict", "0x20 5x600"), "100m"),
    Case("AskanceConflicts", "others were refused", _verdicts("over_budget", "0x20 5x20"), "6m"),
    Case(
        "AskanceCertificateExpires",
        "in 13 days",
        {_of("askance_certificate_expiry_timestamp_seconds"): f"{13 * _DAY}x20"},
        "2m",
        (A,),
    ),
    Case(
        "AskanceCertificateExpires",
        "in 15 days",
        {_of("askance_certificate_expiry_timestamp_seconds"): f"{15 * _DAY}x20"},
        "2m",
    ),
    Case(
        "AskanceCertificateExpires",
        "there is none",
        {_of("askance_certificate_expiry_timestamp_seconds"): "0x20"},
        "2m",
    ),
)


def uncovered(rules: list[dict[str, Any]], cases: tuple[Case, ...] = CASES) -> Iterator[str]:
    """Alerts that no case has fire, or that no case keeps quiet; and cases of alerts that there are not."""
    names = {str(rule["alert"]) for rule in rules}
    yield from sorted({case.alert for case in cases} - names)
    for name in sorted(names):
        for fires in (True, False):
            if not any(case.alert == name and bool(case.fires) == fires for case in cases):
                yield f"{name} {'fires' if fires else 'keeps quiet'} in no case"


def document(path: Path, rules: list[dict[str, Any]], only: str = "") -> dict[str, Any]:
    """All cases, or those of one alert, as `promtool test rules` reads them."""
    by_name = {rule["alert"]: rule for rule in rules}
    return {
        "rule_files": [str(path)],
        "evaluation_interval": INTERVAL,
        "tests": [_as_test(case, by_name[case.alert]) for case in CASES if only in {"", case.alert}],
    }


def _as_test(case: Case, rule: dict[str, Any]) -> dict[str, Any]:
    expected = [
        {"exp_labels": rule["labels"] | dict(each), "exp_annotations": rule["annotations"]} for each in case.fires
    ]
    return {
        "name": f"{case.alert}: {case.why}",
        "interval": case.step,
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "alert_rule_test": [{"eval_time": case.at, "alertname": case.alert, "exp_alerts": expected}],
    }
