"""The files of the snapshots: compared with the code, written anew, and what is broken on purpose declared."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.snapshots.comparing import Difference, Surface, difference, read, written

FOLDER: Final = Path(__file__).parent
BREAKS: Final = "breaks.toml"
SECTION: Final = "### Breaking"


def promised(name: str, folder: Path = FOLDER) -> dict[str, set[str]]:
    """A surface as its file has it; none of a file that is not there yet."""
    path = folder / f"{name}.txt"
    return read(path.read_text("utf-8")) if path.exists() else {}


def complaint(name: str, found: Difference) -> str:
    """What to do about a difference, in a message that says all of it; empty where there is none."""
    parts = list[str]()
    if found.broken:
        parts.append(
            f"What users rely on is broken (tests/snapshots/{name}.txt):\n"
            + "".join(f"  {line}\n" for line in found.broken)
            + 'Keep it: docs/stable.md says how, "How something goes". If it has to go, declare it:\n'
            '  python -m tests.snapshots --breaking "WHAT IS GONE, AND WHAT TO DO INSTEAD"\n'
        )
    if found.added:
        parts.append(
            f"New, and not promised yet (tests/snapshots/{name}.txt):\n"
            + "".join(f"  {line}\n" for line in found.added)
            + "From a release on it has to stay. If it is meant so:\n  python -m tests.snapshots\n"
        )
    return "".join(parts)


def keep(surfaces: Mapping[str, Surface], folder: Path = FOLDER) -> None:
    """Write the files of these surfaces."""
    for name, surface in surfaces.items():
        (folder / f"{name}.txt").write_text(written(surface), "utf-8")


def broken_by(surfaces: Mapping[str, Surface], folder: Path = FOLDER) -> dict[str, tuple[str, ...]]:
    """What is broken, by surface."""
    found = {name: difference(promised(name, folder), surface).broken for name, surface in surfaces.items()}
    return {name: lines for name, lines in found.items() if lines}


def declare(
    why: str, broken: Mapping[str, Sequence[str]], changelog: Path, folder: Path = FOLDER, *, harm: bool = False
) -> None:
    """Note what is broken on purpose, and tell users why: in breaks.toml, and in the changelog's next version.

    `harm`: to keep it would harm somebody's privacy or budget.
    """
    path = folder / BREAKS
    text = path.read_text("utf-8")
    for name, lines in broken.items():
        # A text of JSON is one of TOML.
        shown = "".join(f"  {json.dumps(line, ensure_ascii=False)},\n" for line in lines)
        said = json.dumps(why, ensure_ascii=False)
        at_once = "harm = true\n" if harm else ""
        text += f'\n[[break]]\nsurface = "{name}"\nwhy = {said}\n{at_once}lines = [\n{shown}]\n'
    path.write_text(text, "utf-8")
    changelog.write_text(with_break(changelog.read_text("utf-8"), why), "utf-8")


def with_break(changelog: str, why: str) -> str:
    """The changelog with one more line of what breaks, first of its next version."""
    head, start, rest = changelog.partition("## Unreleased\n")
    now, *former = rest.split("\n## ", maxsplit=1)
    if SECTION + "\n" not in now:
        now = f"\n{SECTION}\n" + now
    before, _, after = now.partition(SECTION + "\n")
    lines = after.lstrip("\n")
    now = f"{before}{SECTION}\n\n- {why}\n" + ("" if lines.startswith("- ") else "\n") + lines
    return "\n## ".join([head + start + now, *former])


def declared(folder: Path = FOLDER) -> list[dict[str, Any]]:
    """What was broken on purpose since the last release."""
    return tomllib.loads((folder / BREAKS).read_text("utf-8")).get("break", [])


def unreleased(changelog: str) -> str:
    """What the changelog has of the next version."""
    return changelog.partition("## Unreleased\n")[2].partition("\n## ")[0]


def next_version(version: str, breaks: int, changes: str) -> str:
    """The least number that the next release may have, by the rules of semantic versions."""
    major, minor, patch = map(int, version.split("."))
    if breaks and major:
        return f"{major + 1}.0.0"
    if breaks or any(f"\n### {kind}\n" in changes for kind in ("Added", "Deprecated")):
        return f"{major}.{minor + 1}.0"
    return f"{major}.{minor}.{patch + 1}"
