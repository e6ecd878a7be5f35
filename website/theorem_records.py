"""The page of theorem records: each with what the text states, what holds, and the numbers at its example."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from askance_lab.theory.theorem import Kind, Theorem, readable, theorems
from website.text import cell, escaped, table

_MEANING: Final = {
    Kind.ENOUGH: "with this many it works",
    Kind.LIMIT: "with fewer, or beyond this, it cannot be done",
    Kind.PRICE: "what a mechanism costs",
    Kind.FALSE: "what the text claims does not hold",
    Kind.SHAPE: "what an algorithm asks for or does",
}


def page() -> str:
    """The page."""
    records = theorems().values()
    listed = table(
        ["record", "what it says"], ([f"[`{each.name}`](#{each.name})", cell(each.says)] for each in records)
    )
    return listed + "".join(part for each in records for part in _record(each))


def _record(record: Theorem) -> Iterator[str]:
    yield f"## {record.name}\n\n**{escaped(record.title)}.** {escaped(record.says)}\n\n"
    yield f"*{escaped(record.citation)}.* Its number says {_MEANING[record.kind]}.\n\n"
    yield f"Holds for: {escaped(record.holds_for)}.\n\n" if record.holds_for else ""
    for label, note in {"Needs": record.needs, "Assumes": record.assumes, "Differs": record.differs}.items():
        yield f"{label}: {escaped(note)}\n\n" if note else ""
    if record.traps:
        yield "See " + ", ".join(f"[trap {each}](../theory.md#trap-{each})" for each in record.traps) + ".\n\n"
    yield table(
        ["parameter", "what it is", "example"],
        ([f"`{each.shown}`", cell(each.meaning), readable(each.example)] for each in record.parameters),
    )
    yield table(["form", "what it gives"], ([f"`{form}`", given] for form, given in _given(record)))
    tests = ", ".join(f"`{each}`" for each in record.checked_by)
    yield f"Checked by {tests}.\n\n" if tests else ""


def _given(record: Theorem) -> Iterator[tuple[str, str]]:
    for form, computed in record.compute().items():
        fields = ", ".join(f"{name} {readable(value)}" for name, value in computed.fields.items())
        yield form, cell(fields or f"refuses: {computed.refusal}")
