"""The table of users: computed anew it is the one of the page, and a goal that is missed is found."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks import users

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "users.md").read_text("utf-8")
KEPT: list[dict[str, Any]] = json.loads((ROOT / "docs" / users.TABLE).read_text("utf-8"))
MEAN = next(each for each in users.QUESTIONS if each.strategy == "mean")


def test_the_page_is_the_table_that_was_kept() -> None:
    table = "\n".join(users.markdown(KEPT))

    assert table in PAGE
    assert users.between(PAGE, users.markdown(KEPT)) == PAGE
    # The control: one user more in one cell.
    more = [KEPT[0] | {"planned": KEPT[0]["planned"] + 1}, *KEPT[1:]]
    assert users.between(PAGE, users.markdown(more)) != PAGE


def test_the_table_that_was_kept_is_the_one_of_today() -> None:
    """Plans, limits and kept files: whatever changes one of them, `python benchmarks/users.py --remake` follows it."""
    assert users.table() == KEPT


def test_what_the_separation_shows_is_what_its_command_prints_today() -> None:
    """README.md and docs/separation.md are run by the tests; here it is made sure that both have it."""
    for name in ("README.md", "docs/separation.md"):
        text = (ROOT / name).read_text("utf-8")
        assert users.quoted(text, "planted\n") != text
        assert "$ askance separation --table\nplanted\n```" in users.quoted(text, "planted\n")


def test_a_goal_that_is_missed_is_named_and_ends_with_6(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert users.main(["--only", "mean"]) == 0
    assert json.loads(capsys.readouterr().out)["missed"] == []
    # The control: a goal that nobody keeps, by a limit that is a hundredth.
    monkeypatch.setattr(users, "TIMES", 1 / 50)
    assert users.main(["--only", "mean"]) == 6
    assert json.loads(capsys.readouterr().out)["missed"] == ["mean: mean within .05"]


def test_what_nobody_kept_is_not_measured_and_what_has_no_record_has_no_limit(tmp_path: Path) -> None:
    (tmp_path / "users").mkdir()
    (tmp_path / users.BEFORE).write_text('{"rows": {}}')
    unlimited = users.Question("any", "mean", {}, "no-such-limit")
    [row, other] = users.table([MEAN, unlimited], tmp_path)
    lines = users.markdown([row, other])

    assert row["measured"] is None
    assert row["limit"]["users"] > 0
    assert "not measured" in lines[2]
    assert other["limit"] is None
    assert other["goal"] is None
    assert "none known" in lines[3]


def test_a_file_that_another_benchmark_keeps_is_read_whatever_it_files_its_rows_under(tmp_path: Path) -> None:
    """Learners are measured by another benchmark: a row names strategy, d, users, successes and seeds."""
    kept = {"strategy": "parity", "d": 8, "seeds": 100}
    rows = [kept | {"users": 30_000, "successes": 95}, kept | {"users": 20_000, "successes": 94}]
    other = kept | {"users": 10, "successes": 100}
    others = [other | {"d": 4}, other | {"epsilon": "2"}, other | {"eta": "0.1"}]
    (tmp_path / "learners").mkdir()
    (tmp_path / "learners" / "measured.json").write_text(json.dumps({"deep": {"rows": [*rows, *others]}}))
    (tmp_path / "learners" / "private.json").write_text(json.dumps({"epsilon": "2", "rows": [other]}))
    parity = next(each for each in users.QUESTIONS if each.strategy == "parity")

    assert users.measured(parity, users.kept_rows(tmp_path)) == {
        "users": 30_000,
        "successes": 95,
        "seeds": 100,
        "kept": "docs/learners/measured.json",
    }


def test_the_page_of_the_server_has_the_limits_of_today() -> None:
    page = ROOT / "server" / "askance_server" / "dashboard" / "measured" / "separation.json"
    results = json.loads(page.read_text("utf-8"))

    assert users.of_the_page(results) == results


def test_a_strategy_that_is_not_there_is_refused() -> None:
    with pytest.raises(SystemExit):
        users.main(["--only", "forest"])
