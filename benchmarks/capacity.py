"""How much one server takes: the table of docs/monitoring.md, from the measurements that docs/performance.md keeps."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

KEPT: Final = Path(__file__).parents[1] / "docs" / "performance" / "measured.json"


def rows(runs: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    """What, how much, and which benchmark has measured it."""
    ingest, size, replicas = (runs[name]["said"] for name in ("ingest", "server_size", "replicas"))
    medians = {name: figure["median"] for name, figure in (size["figures"] | replicas["figures"]).items()}
    told = runs["responsiveness"]["said"]
    waits = [told[name] for name in told if isinstance(told[name], float) and name != "stop_seconds"]
    users, studies = size["users"], size["studies"]
    return [
        ("single reports, 128 connections", _rate(ingest["requests_per_second"]["few_128"]), "ingest"),
        (f"the same, of {users:,} users", _rate(ingest["requests_per_second"]["many_128"]), "ingest"),
        ("reports of a gateway, in batches", _rate(ingest["batch_reports_per_second"]), "ingest"),
        ("single reports, one server on PostgreSQL", _rate(medians["one_singles_a_second"]), "replicas"),
        (
            "single reports, three servers on it that share two processors",
            _rate(medians["three_singles_a_second"]),
            "replicas",
        ),
        ("batches, one server on PostgreSQL", _rate(medians["one_batches_a_second"]), "replicas"),
        (f"a start with {users:,} users and {studies:,} studies", f"{medians['start_seconds']:.1f} s", "server_size"),
        ("memory of it then", f"{medians['megabytes_started']:.0f} MB", "server_size"),
        ("memory once all studies and accounts were asked for", f"{medians['megabytes_asked']:.0f} MB", "server_size"),
        ("memory without users", f"{medians['megabytes_empty']:.0f} MB", "server_size"),
        ("longest wait for `/healthz` beside the longest work", f"{max(waits):.0f} ms", "responsiveness"),
    ]


def markdown(runs: Mapping[str, Any]) -> str:
    """The table."""
    head = ["| what | how much | benchmark |", "|---|--:|---|"]
    return "\n".join([*head, *(f"| {what} | {much} | `{name}` |" for what, much, name in rows(runs))])


def _rate(a_second: float) -> str:
    return f"{a_second:,.0f} a second"


if __name__ == "__main__":
    print(markdown(json.loads(KEPT.read_text("utf-8"))["runs"]))
