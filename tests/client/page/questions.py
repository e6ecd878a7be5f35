"""Questions as a room asks them: of one field, which may be left empty."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from askance_protocol.budget import MICRO
from askance_protocol.queries import CellQuery, RealQuery
from askance_protocol.queries.language import FieldValue, Lookup
from askance_protocol.rounds import BinarySpec, KarySpec, Part, StudySpec
from askance_protocol.schema import CategoryField, IntegerField, Schema
from tests.client.liar import Liar
from tests.protocol.studies import study

LONG: Final = (
    "Ever? 🙈 هل نسخت واجبك المنزلي من قبل؟ "
    "Donaudampfschifffahrtselektrizitätenhauptbetriebswerkbauunterbeamtengesellschaft " + "and more words " * 10
)[:200]
HOMEWORK: Final = "Have you ever copied homework?"


def room(field: Any, title: str, **changes: Any) -> StudySpec:
    """A study of one field."""
    members: dict[str, Any] = {"simulated": False, "interactive": False, "title": title, "cap": 2 * MICRO}
    return study(**(members | {"example": Schema(fields=(field,))} | changes))


def yes_or_no(epsilon: int = MICRO) -> tuple[StudySpec, Part]:
    """Yes, no, or nothing: +1, −1 or 0, as one bit."""
    field = CategoryField(name="answer", values=("yes", "no"), gap=True)
    value = Lookup(index=FieldValue(field="answer", gap=2), table=(1, -1, 0), default=0)
    part = Part(
        query=RealQuery(numerator=value, denominator=1),
        channel=BinarySpec(micro_epsilon=epsilon),
        charge=epsilon,
        share=1,
    )
    return room(field, HOMEWORK), part


def one_of(
    values: Sequence[str], *, pooled: bool = False, title: str = "How often does an AI write your homework?"
) -> tuple[StudySpec, Part]:
    """One of several choices, by k-ary response or by one bit of a public row."""
    field = CategoryField(name="answer", values=tuple(values))
    channel = BinarySpec(micro_epsilon=MICRO) if pooled else KarySpec(micro_epsilon=MICRO)
    query = CellQuery(cells=len(values), cell=FieldValue(field="answer"))
    return room(field, title), Part(query=query, channel=channel, charge=MICRO, share=1)


def scale() -> tuple[StudySpec, Part]:
    """From 1 to 10, as one bit."""
    field = IntegerField(name="answer", low=1, high=10, gap=True)
    value = Lookup(index=FieldValue(field="answer", gap=0), table=(0, *range(-9, 10, 2)), default=0)
    part = Part(
        query=RealQuery(numerator=value, denominator=9), channel=BinarySpec(micro_epsilon=MICRO), charge=MICRO, share=1
    )
    return room(field, "How well did you sleep last night?"), part


def asking(asked: tuple[StudySpec, Part], **changes: Any) -> Liar:
    """A double that asks this, and tells the truth."""
    liar = Liar.of(asked[0])
    liar.ask(asked[1], **changes)
    return liar
