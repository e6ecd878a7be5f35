"""What goes was announced, and long enough ago: what docs/stable.md promises under "How something goes"."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Final

from tests.snapshots.keeping import FOLDER

ANNOUNCED: Final = "deprecated.toml"
AT_LEAST: Final = timedelta(days=183)
"""Six months, from the day of the release that says it first."""
_RELEASE: Final = re.compile(r"^## (\d+\.\d+)\.0 - (\d{4}-\d\d-\d\d)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Announcement:
    """What is going to go, as it stands in deprecated.toml."""

    surface: str
    line: str
    since: str
    why: str

    def is_of(self, surface: str, broken: str) -> bool:
        """Whether it announces that this line of a surface is broken."""
        return surface == self.surface and broken.startswith(f"{self.line}:")


def announced(folder: Path = FOLDER) -> list[Announcement]:
    """All that is announced."""
    given = tomllib.loads((folder / ANNOUNCED).read_text("utf-8"))
    return [Announcement(**each) for each in given.get("deprecated", [])]


def days_of(changelog: str) -> dict[str, date]:
    """The day of each MINOR that was released."""
    return {release: date.fromisoformat(day) for release, day in _RELEASE.findall(changelog)}


def too_soon(
    broken: Mapping[str, Sequence[str]], known: Sequence[Announcement], days: Mapping[str, date], today: date
) -> Iterator[str]:
    """What must not go yet, of lines that are broken by surface: with what is missing."""
    for surface, lines in broken.items():
        for line in lines:
            since = [days.get(each.since) for each in known if each.is_of(surface, line)]
            released = [day for day in since if day is not None]
            if not since:
                yield f"{line}: was never announced"
            elif not released:
                yield f"{line}: no release has announced it yet"
            elif today < min(released) + AT_LEAST:
                yield f"{line}: not before {min(released) + AT_LEAST}"


def told_to_nobody(known: Sequence[Announcement], changelog: str) -> list[str]:
    """What is announced and stands in no changelog: not in that of its release nor, before it, in the next."""
    return [each.why for each in known if f"- {each.why}\n" not in _deprecated_in(changelog, each.since)]


def _deprecated_in(changelog: str, release: str) -> str:
    """The section "Deprecated" of a release; before there is one, that of the next."""
    heading = f"## {release}.0 - " if release in days_of(changelog) else "## Unreleased\n"
    of_release = changelog.partition(heading)[2].partition("\n## ")[0]
    return of_release.partition("### Deprecated\n")[2].partition("\n### ")[0] + "\n"
