"""What users rely on is there, and what is new is written down: docs/stable.md says what that is."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import askance_protocol
from askance_lab.cli import CommandModules, app
from askance_server import create_app
from askance_server.settings import Settings
from tests.harness.tree import ROOT
from tests.snapshots import surfaces
from tests.snapshots.comparing import Difference, difference, read, written
from tests.snapshots.keeping import (
    BREAKS,
    FOLDER,
    broken_by,
    complaint,
    declare,
    declared,
    keep,
    next_version,
    promised,
    unreleased,
    with_break,
)
from tests.snapshots.outputs import LONG, lost, outputs, shape
from tests.snapshots.surfaces import MODULES, SURFACES, described

PAGE = (ROOT / "docs" / "stable.md").read_text("utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")


@pytest.mark.parametrize("name", SURFACES)
def test_what_users_rely_on_is_there(name: str) -> None:
    found = difference(promised(name), SURFACES[name]())

    assert found == Difference((), ()), complaint(name, found)
    assert len(promised(name)) >= 2


@pytest.mark.slow
def test_what_commands_print_as_json_has_the_members_that_programs_read(tmp_path: Path) -> None:
    kept = {owner: lines for owner, lines in promised("json").items() if owner.removeprefix("askance ") not in LONG}
    found = difference(kept, outputs(tmp_path))

    assert found == Difference((), ()), complaint("json", found)


def test_every_command_that_prints_json_is_called() -> None:
    printing = {owner for owner, lines in promised("commands").items() if "--json: flag" in lines}

    assert printing <= set(promised("json"))
    assert len(printing) > 35
    assert {f"askance {name}" for name in LONG} <= set(promised("json"))


def test_every_option_that_help_shows_is_compared() -> None:
    """And no other: what stands there is what a person sees."""
    shown = CliRunner().invoke(app, ["study", "create", "--help"]).output
    options = set(re.findall(r"^  (--[a-z-]+)", shown, re.MULTILINE))
    compared = {re.split("[:,]", line)[0] for line in promised("commands")["askance study create"]}

    assert options == {name for name in compared if name.startswith("--")}


# ------------------------------------------------------------------------------------------ the controls: what is found


@pytest.mark.parametrize("name", [*SURFACES, "json"])
def test_a_line_that_is_gone_breaks_and_one_that_is_new_does_not(name: str) -> None:
    before = promised(name)
    for owner in list(before)[:3]:
        [first, *others] = sorted(before[owner])
        assert difference(before, {**before, owner: set(others)}).broken == (f"{owner}: {first}: is gone",)
        more = difference(before, {**before, owner: {*before[owner], "a new one"}})
        assert more == Difference((), (f"{owner}: a new one",))
    owner, *_ = before
    fewer = {name: lines for name, lines in before.items() if name != owner}
    assert difference(before, fewer).broken == (f"{owner}: is gone",)
    assert difference(fewer, before).broken == ()


def test_what_is_required_anew_breaks_though_it_is_new() -> None:
    before = {"askance x": {"--a: text"}, "document Me": {"cap: integer"}}

    assert difference(before, {**before, "askance x": {"--a: text", "--b: text, required"}}).broken == (
        "askance x: --b: text, required: is new, and required",
    )
    nullable = {**before, "document Me": {"cap: integer", "cap: null"}}
    assert difference(before, nullable).broken == ("document Me: cap: null: may be null now",)
    # A command that is new may require what it likes, and a field that is new may be null.
    newer = {**before, "askance y": {"--b: text, required"}, "document Me": {"cap: integer", "new: null"}}
    assert difference(before, newer).broken == ()


Change = Callable[[dict[str, Any]], object]


def changed(api: dict[str, Any], *path: str) -> Any:
    """A part of a description."""
    part: Any = api
    for name in path:
        part = part[name]
    return part


@pytest.mark.parametrize(
    ("change", "broken"),
    [
        (lambda api: api["paths"].pop("/v1/me"), "GET /v1/me: is gone"),
        (lambda api: changed(api, "paths", "/v1/studies", "get")["parameters"].pop(0), "query limit: is gone"),
        (lambda api: api["components"]["schemas"]["Me"]["properties"].pop("user"), "document Me: user"),
        (
            lambda api: changed(api, "components", "schemas", "NewStudy")["required"].append("live"),
            "live, may be left out: is gone",
        ),
        (
            lambda api: changed(api, "components", "schemas", "Cause")["enum"].remove("learned"),
            'document Cause: "learned": is gone',
        ),
    ],
)
def test_a_part_of_rest_that_goes_is_found(change: Change, broken: str, tmp_path: Path) -> None:
    api = json.loads(json.dumps(create_app(Settings(database=str(tmp_path))).openapi()))
    assert difference(promised("rest"), described(api)).broken == ()
    change(api)

    assert any(broken in line for line in difference(promised("rest"), described(api)).broken)


def test_an_option_that_goes_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fewer(CommandModules):
        def __getitem__(self, name: str) -> Any:
            found = super().__getitem__(name)
            found.params = [each for each in found.params if "--alpha" not in each.opts]
            return found

    monkeypatch.setattr(surfaces, "CommandModules", Fewer)
    lost = difference(promised("commands"), SURFACES["commands"]()).broken

    assert "askance plan: --alpha: text: is gone" in lost


def test_a_name_and_a_parameter_of_python_that_go_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def prepare(query: object, *, schema: object) -> None: ...

    monkeypatch.setattr(askance_protocol, "prepare", prepare)
    monkeypatch.setattr(askance_protocol, "__all__", [name for name in askance_protocol.__all__ if name != "Coin"])
    lost = difference(promised("python"), SURFACES["python"]()).broken

    assert "askance_protocol: Coin: is gone" in lost
    assert any(line.startswith("askance_protocol.prepare(): 2 ") for line in lost)


def test_a_member_of_an_output_that_goes_or_is_of_another_kind_is_found() -> None:
    before = {"askance plan": set(shape({"enrol": 7, "rounds": [{"planned": 7}], "exact": None}))}
    after = {"askance plan": set(shape({"enrol": "7", "rounds": [{}], "exact": None, "more": 1}))}

    assert before["askance plan"] == {
        "enrol: number",
        "exact: null",
        "rounds: list",
        "rounds[]: object",
        "rounds[].planned: number",
    }
    assert difference(before, after) == Difference(
        ("askance plan: enrol: number: is gone", "askance plan: rounds[].planned: number: is gone"),
        ("askance plan: enrol: text", "askance plan: more: number"),
    )
    # What is named by a strategy or an oracle may come and go; what such a member has may not.
    assert set(shape({"rows": {"mean": {"exact": {"error": 0.5}}}})) == set(
        shape({"rows": {"mode": {"local": {"error": 1}}}})
    )


def test_what_a_long_run_lacks_is_found() -> None:
    """The control of `lost`, with which the tests of these commands look."""
    row = {"error": 0.5, "learned": True, "reason": ""}
    document = {"schema_version": 1, "users": 7, "epsilon": "1", "rows": {"mean": {"exact": row}}}

    assert lost("oracles", document) == []
    assert lost("oracles", {**document, "rows": {}}) == []
    assert lost("oracles", {**document, "rows": {"mean": {"exact": {"error": 0.5, "reason": ""}}}}) == [
        "rows{}{}.learned"
    ]
    del document["users"]
    assert lost("oracles", document) == ["users"]


# ------------------------------------------------------------------------------- what is done about it: the one command


def test_what_is_new_is_written_and_read_again(tmp_path: Path) -> None:
    surface = {"b": ["2", "1"], "a": []}
    keep({"some": surface}, tmp_path)

    assert (tmp_path / "some.txt").read_text("utf-8") == "a\nb\n    1\n    2\n"
    assert promised("some", tmp_path) == {"a": set(), "b": {"1", "2"}}
    for path in FOLDER.glob("*.txt"):
        text = path.read_text("utf-8")
        assert written(read(text)) == text, path.name


def test_what_is_broken_on_purpose_is_declared_to_users(tmp_path: Path) -> None:
    keep({"some": {"a": ["1", "2"]}}, tmp_path)
    (tmp_path / BREAKS).write_text("# none\n", "utf-8")
    changelog = tmp_path / "CHANGELOG.md"
    changelog.write_text("# Changelog\n\n## Unreleased\n\n### Added\n\n- A thing.\n\n## 1.0.0\n\n- All.\n", "utf-8")
    broken = broken_by({"some": {"a": ["1"]}}, tmp_path)
    declare('"2" of a is gone: use 1', broken, changelog, tmp_path)
    declare("More is gone", broken, changelog, tmp_path)

    assert declared(tmp_path)[0] == {"surface": "some", "why": '"2" of a is gone: use 1', "lines": ["a: 2: is gone"]}
    assert changelog.read_text("utf-8") == (
        '# Changelog\n\n## Unreleased\n\n### Breaking\n\n- More is gone\n- "2" of a is gone: use 1\n\n### Added\n\n'
        "- A thing.\n\n## 1.0.0\n\n- All.\n"
    )


def told_to_nobody(breaks: list[dict[str, Any]], changes: str) -> list[str]:
    """Breaks that the changelog of the next version does not name."""
    return [each["why"] for each in breaks if f"- {each['why']}\n" not in changes]


def test_what_is_broken_is_in_the_changelog() -> None:
    assert told_to_nobody(declared(), unreleased(CHANGELOG)) == []
    # The control.
    assert told_to_nobody([{"why": "x is gone"}], unreleased(with_break(CHANGELOG, "y is gone"))) == ["x is gone"]
    assert told_to_nobody([{"why": "x is gone"}], unreleased(with_break(CHANGELOG, "x is gone"))) == []


def test_the_next_version_follows_from_what_changed() -> None:
    added, mended = "\n### Added\n\n- A thing.\n", "\n### Fixed\n\n- A thing.\n"

    assert next_version("1.4.2", 1, added) == "2.0.0"
    assert next_version("1.4.2", 0, added) == "1.5.0"
    assert next_version("1.4.2", 0, mended) == "1.4.3"
    assert next_version("0.1.0", 1, mended) == "0.2.0", "before 1.0 a minor version may break"


def test_the_message_says_what_is_broken_and_what_to_do() -> None:
    said = complaint("rest", Difference(("GET /v1/me: is gone",), ("GET /v1/you",)))

    assert "  GET /v1/me: is gone\n" in said
    assert 'python -m tests.snapshots --breaking "' in said
    assert "  GET /v1/you\n" in said
    assert said.endswith("  python -m tests.snapshots\n")
    assert complaint("rest", Difference((), ())) == ""


# --------------------------------------------------------------------------------------------------- the page about it


def test_the_page_names_every_snapshot_and_every_module() -> None:
    """docs/stable.md is what users read."""
    files = {path.name for path in FOLDER.glob("*.txt")}

    assert files == {f"{name}.txt" for name in [*SURFACES, "json"]}
    assert set(re.findall(r"tests/snapshots/(\w+\.txt)", PAGE)) == files
    assert re.findall(r"^- `(askance_[a-z_.]+)`", PAGE, re.MULTILINE) == list(MODULES)


def test_the_version_stands_in_one_place() -> None:
    """`pyproject.toml`; a program asks the metadata of what is installed."""
    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    named = [
        path.relative_to(ROOT).as_posix()
        for room in ("protocol", "client", "server", "lab")
        for path in (ROOT / room).rglob("*")
        if path.suffix in {".py", ".mjs", ".toml", ".html"} and f'"{version}"' in path.read_text("utf-8")
    ]

    assert named == []
