"""The base of every published document: frozen pydantic models that are read strictly and named by a digest."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Annotated, Any, Final, Self, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from askance_protocol import canonical
from askance_protocol.budget import LARGEST
from askance_protocol.errors import ProtocolError
from askance_protocol.text import QUOTED, printable, quoted

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}\z")]
Digest: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]
SafeInteger: TypeAlias = Annotated[int, Field(ge=-canonical.MAX_SAFE_INTEGER, le=canonical.MAX_SAFE_INTEGER)]
MicroEpsilon: TypeAlias = Annotated[int, Field(ge=1, le=LARGEST)]

V = TypeVar("V", bound="Value")


def _whole(value: object) -> object:
    if type(value) is not int:
        raise ValueError("Input should be a valid integer")
    return value


WHOLE: Final = BeforeValidator(_whole)
"""Goes with a `Literal` of integers: pydantic, though strict, takes `true` and `1.0` for `Literal[1]`."""


class Value(BaseModel):
    """Frozen, without coercion (`true`, `"1"` and `1.0` are not 1), and closed to unknown members.

    A value never changes, so its canonical bytes and its digest are computed once and kept in slots: a copy, a
    pickle and an equality test look at the fields only, and a copy with other fields starts without them.
    """

    __slots__ = ("_canonical", "_digest")
    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    def to_json(self) -> dict[str, Any]:
        """This value as JSON; members that are absent stay absent."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_bytes(self) -> bytes:
        """The canonical form, which the digest is of."""
        kept: bytes | None = getattr(self, "_canonical", None)
        if kept is None:
            kept = canonical.dumps(self.to_json())
            object.__setattr__(self, "_canonical", kept)
        return kept

    def digest(self) -> str:
        """SHA-256 of the canonical form, which is the name of a published document."""
        kept: str | None = getattr(self, "_digest", None)
        if kept is None:
            kept = hashlib.sha256(self.to_bytes()).hexdigest()
            object.__setattr__(self, "_digest", kept)
        return kept

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """A copy, with some fields replaced. What an object has worked out from its fields is not copied."""
        copied = super().model_copy(update=update, deep=deep)
        held = vars(copied)
        for name in held.keys() - type(self).model_fields.keys():
            del held[name]
        return copied


def read(kind: type[V] | TypeAdapter[V], data: bytes | str, *, limit: int = 1 << 20) -> V:
    """Read a JSON document strictly; an error names the place and the remedy."""
    return _read(kind, data, limit)[0]


def read_exactly(kind: type[V] | TypeAdapter[V], data: bytes | str, *, limit: int) -> V:
    """Read a document that is named by its digest: it has to spell out every member, defaults too."""
    value, parsed = _read(kind, data, limit)
    if parsed is not None and value.to_bytes() != canonical.dumps(parsed):
        raise ProtocolError(
            "leaves out a member, or adds a null, that its canonical form has not",
            where=type(value).__name__,
            remedy="publish every member, defaults too, and no nulls",
        )
    return value


def _read(kind: type[V] | TypeAdapter[V], data: bytes | str, limit: int) -> tuple[V, canonical.Json]:
    """The value, and the JSON where it had to be parsed by itself: None where `data` is the canonical form.

    Pydantic's parser lets pass what this protocol refuses: a member that stands twice, a number that is too large.
    But a value's own canonical form has none of that, and almost every document arrives in it. So the bytes are
    compared, and only where they differ are they parsed a second time, strictly.
    """
    canonical.check_length(data, limit)
    try:
        if isinstance(kind, TypeAdapter):
            value = kind.validate_json(data, strict=True)
        else:
            value = kind.model_validate_json(data, strict=True)
    except ValidationError as error:
        canonical.loads(data, limit=limit)
        raise refused(error) from None
    given = data.encode("utf-8", "surrogatepass") if isinstance(data, str) else data
    try:
        if value.to_bytes() == given:
            return value, None
    except ProtocolError:
        # The strict parser below names the place as it stands in the text.
        canonical.loads(data, limit=limit)
        raise
    return value, canonical.loads(data, limit=limit)


def refused(error: ValidationError) -> ProtocolError:
    """The error for the first thing that pydantic found wrong. Of what was sent it shows a few characters at most.

    The texts of pydantic hold input in two cases: a member that the form has not, and a tag that names none of its
    kinds, which may be anything, a list of somebody's numbers too.
    """
    first = error.errors(include_url=False, include_input=False)[0]
    # A step is the name of a member, and an unknown one may be as long as the document.
    steps = (f"[{step}]" if isinstance(step, int) else f".{printable(step, QUOTED)}" for step in first["loc"])
    place = "".join(steps).lstrip(".")
    if first["type"] == "extra_forbidden":
        return ProtocolError(
            "is not a member of this form", where=place, remedy="leave it out; unknown members are refused"
        )
    if first["type"] == "union_tag_invalid":
        context = first.get("ctx", {})
        what = f"has {quoted(context['tag'])} as its {context['discriminator']}"
        return ProtocolError(what, where=place or "document", remedy=f"use one of {context['expected_tags']}")
    return ProtocolError(first["msg"].removeprefix("Value error, "), where=place or "document")
