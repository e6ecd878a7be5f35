"""Nothing goes that was not announced, and long enough ago: docs/stable.md, "How something goes"."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest

from tests.harness.tree import ROOT
from tests.snapshots import __main__ as command
from tests.snapshots.announcing import AT_LEAST, Announcement, announced, days_of, told_to_nobody, too_soon
from tests.snapshots.keeping import BREAKS, broken_by, declared, keep, promised

CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
DAY = date(2020, 1, 31)
DAYS = {"7.1": DAY}
OPTION = Announcement("commands", "askance plan: --alpha", "7.1", "`askance plan --alpha`: use `--error`")
GONE = {"commands": ["askance plan: --alpha: text: is gone"]}


def refused(broken: Mapping[str, list[str]], *known: Announcement, after: timedelta = AT_LEAST) -> list[str]:
    return list(too_soon(broken, known, DAYS, DAY + after))


@pytest.mark.parametrize(
    ("surface", "line", "gone"),
    [
        ("commands", "askance plan: --alpha", "askance plan: --alpha: text: is gone"),
        ("commands", "askance plan", "askance plan: is gone"),
        ("python", "askance_protocol: Coin", "askance_protocol: Coin: is gone"),
        ("rest", "GET /v1/users", "GET /v1/users: is gone"),
        ("json", "askance plan: enrol", "askance plan: enrol: number: is gone"),
    ],
)
def test_what_was_announced_half_a_year_ago_may_go_and_not_a_day_before(surface: str, line: str, gone: str) -> None:
    known = Announcement(surface, line, "7.1", "it goes")

    assert refused({surface: [gone]}, known) == []
    assert refused({surface: [gone]}, known, after=AT_LEAST - timedelta(1)) == [f"{gone}: not before 2020-08-01"]


def test_what_was_not_announced_does_not_go() -> None:
    assert refused(GONE) == ["askance plan: --alpha: text: is gone: was never announced"]
    # Neither by another line, nor by another surface, nor by one that begins alike, nor before a release has it.
    for other in (
        Announcement("commands", "askance plan: --beta", "7.1", ""),
        Announcement("rest", "askance plan: --alpha", "7.1", ""),
        Announcement("commands", "askance plan: --al", "7.1", ""),
    ):
        assert len(refused(GONE, other)) == 1
    assert refused(GONE, Announcement("commands", "askance plan: --alpha", "7.2", "")) == [
        "askance plan: --alpha: text: is gone: no release has announced it yet"
    ]


def test_days_are_those_of_the_changelog() -> None:
    assert days_of("## Unreleased\n\n## 7.1.1 - 2020-02-02\n\n## 7.1.0 - 2020-01-31\n") == DAYS
    assert days_of(CHANGELOG)["0.1"] < datetime.now(UTC).date()


def test_what_is_announced_is_there_and_users_are_told() -> None:
    gone = [line for each in declared() for line in each["lines"]]
    for each in announced():
        lines = {f"{owner}: {line}" for owner, lines in promised(each.surface).items() for line in [*lines, ""]}
        assert any(line.startswith(f"{each.line}:") for line in [*lines, *gone]), each
    assert told_to_nobody(announced(), CHANGELOG) == []


def test_an_announcement_that_no_changelog_has_is_found() -> None:
    """The control."""
    said = f"### Deprecated\n\n- {OPTION.why}\n"

    assert told_to_nobody([OPTION], f"## Unreleased\n\n{said}\n## 7.0.0 - 2019-01-01\n") == []
    assert told_to_nobody([OPTION], f"## Unreleased\n\n## 7.1.0 - 2020-01-31\n\n{said}\n## 7.0.0 - 2019-01-01\n") == []
    for text in (
        "## Unreleased\n\n### Deprecated\n\n- Another\n",
        f"## Unreleased\n\n### Added\n\n- {OPTION.why}\n",
        f"## Unreleased\n\n{said}\n## 7.1.0 - 2020-01-31\n\n### Added\n\n- A thing.\n",
    ):
        assert told_to_nobody([OPTION], text) == [OPTION.why]


# --------------------------------------------------------------------------------------------------------- the command


@pytest.fixture
def breaking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of its own, from which an option is gone; the tool works on it."""
    keep({"commands": {"askance plan": ["--alpha: text", "--beta: text"]}}, tmp_path)
    (tmp_path / BREAKS).write_text("# none\n", "utf-8")
    (tmp_path / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n\n## 7.1.0 - 2020-01-31\n", "utf-8")
    now = {"commands": {"askance plan": ["--beta: text"]}}
    monkeypatch.setattr(command, "CHANGELOG", tmp_path / "CHANGELOG.md")
    monkeypatch.setattr(command, "now", lambda *, long: now)
    monkeypatch.setattr(command, "broken_by", lambda surfaces: broken_by(surfaces, tmp_path))
    monkeypatch.setattr(command, "keep", lambda surfaces: keep(surfaces, tmp_path))
    declared_in = partial(command.declare, folder=tmp_path)
    monkeypatch.setattr(command, "declare", declared_in)
    return tmp_path


def called(monkeypatch: pytest.MonkeyPatch, version: str, *options: str, known: Announcement | None = None) -> int:
    monkeypatch.setattr(command, "version", lambda: version)
    monkeypatch.setattr(command, "announced", lambda: [] if known is None else [known])
    monkeypatch.setattr(sys, "argv", ["snapshots", *options])
    return command.main()


def test_a_removal_that_nobody_announced_is_refused(
    breaking: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = {path: path.read_bytes() for path in breaking.iterdir()}
    assert called(monkeypatch, "7.1.0", "--breaking", "gone") == 6
    assert "askance plan: --alpha: text: is gone: was never announced" in capsys.readouterr().err
    assert {path: path.read_bytes() for path in breaking.iterdir()} == before


@pytest.mark.parametrize(
    ("version", "known", "options"),
    [("7.1.0", OPTION, []), ("0.1.0", None, []), ("7.1.0", None, ["--harm"])],
    ids=["announced in time", "before 1.0", "it does harm"],
)
def test_one_that_may_go_is_declared(
    breaking: Path, monkeypatch: pytest.MonkeyPatch, version: str, known: Announcement | None, options: list[str]
) -> None:
    assert called(monkeypatch, version, "--breaking", "gone", *options, known=known) == 0
    [written] = declared(breaking)
    assert (written["lines"], written.get("harm", False)) == (GONE["commands"], bool(options))
    assert "### Breaking\n\n- gone\n" in (breaking / "CHANGELOG.md").read_text("utf-8")


def test_what_is_broken_since_the_last_release_might_be() -> None:
    """Also where somebody wrote breaks.toml by hand."""
    for each in declared():
        assert each.get("harm") or command.refused({each["surface"]: each["lines"]}) == []
