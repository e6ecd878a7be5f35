"""What a person finds around the code: how to cite it, report a fault, and take part; and which Pythons it is for."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.harness.tree import ROOT
from tests.pythons import PYTHONS, SUBSET, found, places, told, version_of

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
TEMPLATES = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.md"))

# --------------------------------------------------------------------------------------------------------- CITATION.cff

REQUIRED = {"cff-version", "message", "title", "authors"}
KNOWN = REQUIRED | {"abstract", "type", "license", "keywords", "references", "version", "date-released", "doi", "url"}
KNOWN |= {"commit", "contact", "identifiers", "preferred-citation", "repository", "repository-code", "license-url"}
KNOWN |= {"repository-artifact"}
"""All keys of the Citation File Format 1.2.0."""
PERSON = {"family-names", "given-names", "name-particle", "name-suffix", "alias", "affiliation", "orcid", "email"}
REFERENCE = {"type", "title", "authors"}


def faults(citation: dict[str, Any]) -> list[str]:
    """What a reader of the format would refuse."""
    found = [f"{key} is missing" for key in sorted(REQUIRED - citation.keys())]
    found += [f"{key} is unknown" for key in sorted(citation.keys() - KNOWN)]
    found += [] if citation.get("cff-version") == "1.2.0" else ["cff-version is another"]
    found += [] if citation.get("type", "software") in {"software", "dataset"} else ["type is another"]
    found += [] if citation.get("authors") else ["there is no author"]
    for each in [citation, *citation.get("references", [])]:
        found += [
            f"an author has {who}" for who in each.get("authors", []) if not ("name" in who or who.keys() <= PERSON)
        ]
        doi = each.get("doi", "10.1/a")
        found += [] if re.fullmatch(r"10\.\d+(\.\d+)*/\S+", doi) else [f"doi {doi}"]
    for each in citation.get("references", []):
        found += [f"a reference has no {key}" for key in sorted(REFERENCE - each.keys())]
    return found


def citation() -> dict[str, Any]:
    return yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))


def test_the_citation_is_one() -> None:
    found = citation()

    assert faults(found) == []
    assert found["license"] == PROJECT["license"]
    assert set(found["keywords"]) <= set(PROJECT["keywords"])
    assert "version" not in found, "it stands in pyproject.toml alone"


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"message": None}, "message is missing"),
        ({"autors": []}, "autors is unknown"),
        ({"cff-version": "1.1.0"}, "cff-version is another"),
        ({"authors": []}, "there is no author"),
        ({"authors": [{"surname": "B"}]}, "an author has {'surname': 'B'}"),
        ({"references": [{"type": "article", "title": "x"}]}, "a reference has no authors"),
        ({"references": [{"type": "article", "title": "x", "authors": [], "doi": "10/x"}]}, "doi 10/x"),
    ],
)
def test_a_fault_of_a_citation_is_found(change: dict[str, Any], fault: str) -> None:
    changed = {key: value for key, value in {**citation(), **change}.items() if value is not None}

    assert faults(changed) == [fault]


# ---------------------------------------------------------------------------------------------------- what is asked for


def head_of(text: str) -> dict[str, str]:
    """What a template says of itself, before its text."""
    return yaml.safe_load(text.split("---\n")[1]) if text.startswith("---\n") else {}


def test_there_is_a_form_for_a_bug_an_idea_and_a_wrong_figure() -> None:
    assert [path.stem for path in TEMPLATES] == ["bug", "idea", "wrong_figure"]
    for path in TEMPLATES:
        head = head_of(path.read_text("utf-8"))
        assert head["name"], path.name
        assert head["about"], path.name
    assert "--breaking" in (ROOT / ".github" / "PULL_REQUEST_TEMPLATE.md").read_text("utf-8")
    assert head_of("name: x\n") == {}, "the control"


def test_what_harms_is_not_reported_in_public() -> None:
    for name in ("bug", "wrong_figure"):
        assert "SECURITY.md" in (ROOT / ".github" / "ISSUE_TEMPLATE" / f"{name}.md").read_text("utf-8")


# -------------------------------------------------------------------------------------------------------- changelog

ORDER = [
    "Breaking",
    "Breaking, for Python that imported modules of 0.1",
    "Added",
    "Changed",
    "Deprecated",
    "Fixed",
    "Inside",
]


def sections(changelog: str) -> list[str]:
    """The headings of the next version."""
    now = changelog.partition("\n## Unreleased\n")[2].partition("\n## ")[0]
    return re.findall(r"^### (.+)$", now, re.MULTILINE)


def misplaced(found: list[str]) -> list[str]:
    """Headings that are unknown, there twice, or before one that should stand first."""
    known = [each for each in found if each in ORDER]
    in_turn = all(ORDER.index(one) < ORDER.index(next_) for one, next_ in pairwise(known))
    return [each for each in found if each not in ORDER] + ([] if in_turn else ["order"])


def test_the_changelog_says_first_what_breaks() -> None:
    found = sections((ROOT / "CHANGELOG.md").read_text("utf-8"))

    assert misplaced(found) == []
    assert misplaced(["Added", "Breaking"]) == ["order"], "the control"
    assert misplaced(["Added", "Added", "News"]) == ["News", "order"]


# -------------------------------------------------------------------------------------------------------------- Pythons


def minors(classifiers: Iterable[str]) -> list[str]:
    return [each.rpartition(" ")[2] for each in classifiers if re.search(r":: 3\.\d+$", each)]


def test_the_pythons_that_are_named_are_those_that_are_tried() -> None:
    assert minors(PROJECT["classifiers"]) == list(PYTHONS)
    assert PROJECT["requires-python"] == f">={PYTHONS[0]}"
    assert minors([*PROJECT["classifiers"], "Programming Language :: Python :: 3.99"]) != list(PYTHONS), "the control"


def test_an_interpreter_is_what_it_says_and_no_name(tmp_path: Path) -> None:
    """A shim of a version that is not installed is there, and does not start; another has a false name."""
    broken, other = tmp_path / "python3.12", tmp_path / "python3.13"
    for path, text in ((broken, "exit 127"), (other, "echo 3.9")):
        path.write_text(f"#!/bin/sh\n{text}\n", "utf-8")
        path.chmod(0o755)
    right = Path(sys.executable)
    version = f"3.{sys.version_info[1]}"

    assert [version_of(each) for each in (broken, other, right)] == ["", "3.9", version]
    assert found(version, lambda _: iter([tmp_path / "none", broken, other, right])) == right
    assert found("3.12", lambda _: iter([broken, other])) is None
    named = {"PYTHONS": f"{other} {right}", "PATH": str(tmp_path), "PYENV_ROOT": str(tmp_path)}
    assert list(places("3.13", named))[:3] == [other, right, other]


def test_a_python_that_is_not_there_is_named() -> None:
    said = told({"3.11": "passed: 7 passed in 1s"}).splitlines()

    assert said[0] == "Python 3.11  passed: 7 passed in 1s"
    assert said[1:] == [f"Python 3.{minor}  is not on this machine" for minor in (12, 13, 14)]


def test_what_is_tried_in_each_python_is_there() -> None:
    assert [name for name in SUBSET if not (ROOT / name).exists()] == []
