"""How this room writes its wire forms: frozen pydantic models that take nothing for granted."""

from __future__ import annotations

from typing import Annotated, Any, Final, TypeAlias, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, TypeAdapter, ValidationError

from askance_protocol import canonical
from askance_protocol.errors import ProtocolError

Name: TypeAlias = Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}\z")]
Digest: TypeAlias = Annotated[str, Field(pattern=r"^[0-9a-f]{64}\z")]
SafeInteger: TypeAlias = Annotated[int, Field(ge=-canonical.MAX_SAFE_INTEGER, le=canonical.MAX_SAFE_INTEGER)]

T = TypeVar("T")
V = TypeVar("V", bound="Value")


def _whole(value: object) -> object:
    if type(value) is not int:
        raise ValueError("Input should be a valid integer")
    return value


WHOLE: Final = BeforeValidator(_whole)
"""Goes with a `Literal` of integers: pydantic, though strict, takes `true` and `1.0` for `Literal[1]`."""


class Value(BaseModel):
    """Frozen, without coercion (`true`, `"1"` and `1.0` are not 1), and closed to unknown members."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", hide_input_in_errors=True)

    def to_json(self) -> dict[str, Any]:
        """This value as JSON; members that are absent stay absent."""
        return self.model_dump(mode="json", exclude_none=True)

    def to_bytes(self) -> bytes:
        """The canonical form."""
        return canonical.dumps(self.to_json())

    def digest(self) -> str:
        """SHA-256 of the canonical form."""
        return canonical.digest(self.to_json())


def read(kind: type[T] | TypeAdapter[T], data: bytes | str, *, limit: int = 1 << 20) -> T:
    """Read a wire form strictly, or say what is wrong, where, and what to do."""
    canonical.loads(data, limit=limit)
    adapter = kind if isinstance(kind, TypeAdapter) else TypeAdapter(kind)
    try:
        return adapter.validate_json(data, strict=True)
    except ValidationError as error:
        raise refused(error) from None


def read_exactly(kind: type[V], data: bytes | str, *, limit: int) -> V:
    """Read what is named by its digest: it has to say everything, defaults too, and nothing else."""
    value = read(kind, data, limit=limit)
    if value.to_bytes() != canonical.dumps(canonical.loads(data, limit=limit)):
        raise ProtocolError(
            "leaves out or adds what its canonical form does not",
            where=kind.__name__,
            remedy="publish every member, no nulls",
        )
    return value


def refused(error: ValidationError) -> ProtocolError:
    """The first complaint of pydantic, in this project's words."""
    first = error.errors(include_url=False, include_input=False)[0]
    place = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"]).lstrip(".")
    if first["type"] == "extra_forbidden":
        return ProtocolError(
            "is not a member of this form", where=place, remedy="leave it out; unknown members are refused"
        )
    return ProtocolError(first["msg"].removeprefix("Value error, "), where=place or "document")
