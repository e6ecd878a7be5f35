"""What is read of the dashboard, of what the balancer says, and of what `make test-compose` has printed."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any


def expressions(dashboard: Path) -> Iterator[tuple[str, str]]:
    """Title and query of each line of each panel."""
    for panel in json.loads(dashboard.read_text("utf-8"))["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def killed(log: str) -> Counter[str]:
    """How often each server of the balancer was gone and came back, by its log."""
    gone: set[str] = set()
    found = Counter[str]()
    for name, state in re.findall(r"Server servers/(\S+) is (DOWN|UP)", log):
        if state == "DOWN":
            gone.add(name)
        elif name in gone:
            gone.remove(name)
            found[name] += 1
    return found


def typed(page: str) -> list[list[str]]:
    """The commands of a page that take a server out and let it in again, block by block."""
    blocks = [block.splitlines() for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL) if "replica-1" in block]
    return [[line.partition("#")[0].strip() for line in block] for block in blocks]


def sentences(printed: Mapping[str, Any]) -> list[str]:
    """What docs/compose.md says of a run."""
    size, told = printed["megabytes"], "\n".join(printed["scale"]["told"])
    over = {room: f"{size[room] - size['base']:.0f} MB" for room in ("server", "client")}
    return [
        f"The server's image was {over['server']} over its base, the client's {over['client']}.",
        f"```text\n{told}\n```",
        f"`replica-3` was gone {printed['scale']['kills']['replica-3']} times meanwhile.",
    ]
