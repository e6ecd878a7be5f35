"""Answers of mechanisms as JSON for programs and as text for people."""

from __future__ import annotations

from collections.abc import Mapping

from askance_lab.curator.concepts import Answer, Database, Names, exact_value
from askance_lab.curator.mechanism import Mechanism


def as_json(mechanism: Mechanism[Database, Answer], d: int, found: Answer | None) -> Mapping[str, object] | None:
    """Answer as strategies and populations write hypotheses, with exact numbers; ⊥ is None."""
    if found is None:
        return None
    return {name: exact_value(value) for name, value in mechanism.answers.to_json(found, d).items()}


def as_text(mechanism: Mechanism[Database, Answer], d: int, found: Answer | None, names: Names) -> str:
    """Answer as text, in the names of the user's own table if it is from one."""
    return "⊥" if found is None else mechanism.answers.text(found, d, names)
