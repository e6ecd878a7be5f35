"""Documents that a server answers with: those of the protocol, read strictly, and problem documents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar, cast

from askance_client.consent import AccountStatement
from askance_client.history import Pin
from askance_client.refusals import Reason, Refusal
from askance_protocol import canonical
from askance_protocol.budget import LARGEST
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import ProtocolError
from askance_protocol.rounds import Entry, read_entry
from askance_protocol.text import printable

T = TypeVar("T")
JsonObject = dict[str, Any]

_PROBLEM: Final = "urn:askance:problem:"
MOST_CONTAINERS: Final = 1 << 20
MOST_VALUES: Final = 1 << 22
"""Lists and objects, and values, of one answer: a bulletin of 10,000 rounds has a fifth of it."""
_PROBLEM_TEXT: Final = 500
"""Characters of a server's own words that are shown."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The server's word that a report is on its disk."""

    user: int
    round: str
    charged: int


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem document: what the server refuses to do at any time, and why, as a terminal may show it."""

    status: int
    name: str
    """The problem's type, without what all have in common."""
    detail: str
    next: str = ""
    """What the server says to do about it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "next", printable(self.next, _PROBLEM_TEXT))
        object.__setattr__(self, "name", printable(self.name, _PROBLEM_TEXT))
        object.__setattr__(self, "detail", printable(self.detail, _PROBLEM_TEXT))


@dataclass(frozen=True, slots=True)
class Enrolled:
    """New users, with consecutive numbers."""

    first: int
    tokens: tuple[str, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class Tail:
    """The last entries of a bulletin, as a server gives them."""

    entries: tuple[Entry, ...]
    pin: Pin
    """What the server says of the whole bulletin."""
    size: int
    """Bytes that it came in, by which the work is known that it makes."""


class GarbledError(ProtocolError):
    """An answer that is not even of the form that it should have."""


def read(answer: bytes | Problem | Refusal, reader: Callable[[bytes], T]) -> T | Problem | Refusal:
    """Read an answer's body, or refuse it. The server's words are not repeated: they may echo what is private.

    The limits of size are those that the body had when it arrived.
    """
    if not isinstance(answer, bytes):
        return answer
    try:
        _check_amount(answer)
        return reader(answer)
    except (ProtocolError, KeyError, TypeError, ValueError, RecursionError) as error:
        what = str(error) if isinstance(error, ProtocolError) else type(error).__name__
        return Refusal(Reason.UNREADABLE, what, passing=isinstance(error, GarbledError))


def _check_amount(body: bytes) -> None:
    """Count brackets and commas before parsing: an empty list is two bytes long, and takes sixty in memory."""
    containers, values = body.count(b"[") + body.count(b"{"), body.count(b",")
    if containers > MOST_CONTAINERS or values > MOST_VALUES:
        raise GarbledError(f"has {containers} brackets and {values} commas, over {MOST_CONTAINERS} and {MOST_VALUES}")


def read_tail(body: bytes) -> Tail:
    """Read the last entries of a bulletin."""
    document = _object(_loaded(body), {"head", "length", "entries"})
    entries = tuple(read_entry(canonical.dumps(entry)) for entry in _list(document["entries"]))
    pin = Pin(_whole(document["length"], canonical.MAX_SAFE_INTEGER), _text(document["head"]))
    if entries and Pin(entries[-1].sequence + 1, entries[-1].digest()) != pin:
        raise ProtocolError("is not that of the last entry", where="head")
    return Tail(entries, pin, len(body))


def read_statement(body: bytes) -> AccountStatement:
    """Read a user's account."""
    names = {"user", "cap_micro_epsilon", "spent_micro_epsilon", "remaining_micro_epsilon", "charges"}
    document = _object(_loaded(body), names)
    charges: dict[str, int] = {}
    for item in _list(document["charges"]):
        charge = _object(item, {"round", "micro_epsilon"})
        charges[_text(charge["round"])] = _whole(charge["micro_epsilon"], LARGEST)
    return AccountStatement(
        _whole(document["user"], MAX_USER - 1), _whole(document["spent_micro_epsilon"], LARGEST), charges
    )


def read_receipt(body: bytes) -> Receipt:
    """Read the receipt for a report."""
    document = _object(_loaded(body), {"user", "round", "charged"})
    return Receipt(
        _whole(document["user"], MAX_USER - 1), _text(document["round"]), _whole(document["charged"], LARGEST)
    )


def read_enrolled(body: bytes) -> Enrolled:
    """Read the number and token of one new user, or those of many."""
    document = _object(_loaded(body), {"user", "users", "cap_micro_epsilon", "token", "tokens"})
    token = document["token"]
    tokens = [token] if token is not None else _list(document["tokens"])
    return Enrolled(_whole(document["user"], MAX_USER - 1), tuple(_text(each) for each in tokens))


def read_document(body: bytes) -> JsonObject:
    """Read any JSON object, which may have fractions in it."""
    return _object(canonical.loads_with_fractions(body, limit=len(body)), None)


def read_documents(body: bytes) -> list[JsonObject]:
    """Read a list of JSON objects."""
    return [_object(each, None) for each in _list(canonical.loads_with_fractions(body, limit=len(body)))]


def read_problem(status: int, body: bytes) -> Problem:
    """Read a problem document; of anything else the status says enough."""
    try:
        document = _object(_loaded(body), None)
    except (ProtocolError, RecursionError):
        document = {}
    name, detail, following = (
        value if isinstance(value := document.get(member), str) else "" for member in ("type", "detail", "next")
    )
    return Problem(status, name.removeprefix(_PROBLEM) if name.startswith(_PROBLEM) else "", detail, following)


def _loaded(body: bytes) -> canonical.Json:
    try:
        return canonical.loads(body, limit=len(body))
    except ProtocolError as error:
        raise GarbledError(error.what, where=error.where, remedy=error.remedy) from None


def _object(value: object, names: set[str] | None) -> JsonObject:
    if not isinstance(value, dict) or (names is not None and set(cast("JsonObject", value)) != names):
        raise GarbledError("has not the members that it should have", where="answer")
    return cast("JsonObject", value)


def _list(value: object) -> list[Any]:
    if not isinstance(value, list):
        raise ProtocolError("is no list", where="answer")
    return cast("list[Any]", value)


def _whole(value: object, most: int) -> int:
    if type(value) is not int or not 0 <= value <= most:
        raise ProtocolError(f"is not a whole number from 0 to {most}", where="answer")
    return value


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.isascii() or len(value) > 4096:
        raise ProtocolError("is not a short text", where="answer")
    return value
