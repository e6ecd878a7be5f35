"""docs/protocol.md names every member of every form, so that another implementation needs nothing else."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from askance_protocol.channels import CHANNELS
from askance_protocol.rounds import Entry, RoundSpec, StudySpec
from askance_protocol.values import Value

PAGE = Path(__file__).parents[2].joinpath("docs", "protocol.md").read_text("utf-8")
FORMS = (Entry, RoundSpec, StudySpec)


def below(kind: type[Value]) -> Iterator[type[Value]]:
    for each in kind.__subclasses__():
        yield each
        yield from below(each)


def published() -> list[type[Value]]:
    """Every class whose objects stand in a document: those that a person could meet in JSON."""
    room = [each for each in below(Value) if each.__module__.startswith("askance_protocol.")]
    return [each for each in room if not each.__subclasses__() and each.model_fields]


def paragraph(page: str, name: str) -> str:
    """The line of a table, or the whole paragraph, that speaks of this class."""
    at = page.find(f"`{name}`")
    if at < 0:
        return ""
    line = page[page.rfind("\n", 0, at) + 1 : page.find("\n", at)]
    return line if line.startswith("|") else page[page.rfind("\n\n", 0, at) : page.find("\n\n", at)]


def missing(page: str) -> list[str]:
    """Members of the protocol's documents that the page does not name where it speaks of their form."""
    common = {"kind", "op", "name"}
    return [
        f"{form.__name__}.{member}"
        for form in published()
        for member in form.model_fields
        if member not in common and not re.search(rf"`{member}`", paragraph(page, form.__name__))
    ]


def test_every_member_of_every_form_is_named() -> None:
    section = PAGE[PAGE.index("## Every member") : PAGE.index("## Why it is private")]

    assert len(published()) > 30
    assert {kind.spec for kind in CHANNELS.values()} | set(FORMS) <= set(published())
    assert missing(section) == []
    # The control: a member that is named nowhere, and a form.
    assert missing(section.replace("`first_slot`", "the first slot")) == ["Cohort.first_slot"]
    assert "RoundClosed.received" in missing(section.replace("`RoundClosed`", "a round"))
