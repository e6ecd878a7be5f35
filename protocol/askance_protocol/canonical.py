"""One JSON text for one value, so that a digest names a value and not its spelling.

The canonical form is RFC 8785 (JCS) restricted to what this protocol says: objects, arrays, strings, booleans,
null and integers within ±(2⁵³ − 1), which every JSON reader holds exactly. Larger integers travel as strings.
There are no floats, so none of JCS's number formatting is needed: keys sorted, no white space, UTF-8.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NoReturn, TypeAlias, cast

from askance_protocol.errors import ProtocolError

Json: TypeAlias = "bool | int | str | Sequence[Json] | Mapping[str, Json] | None"

MAX_SAFE_INTEGER: Final = 2**53 - 1
MAX_DEPTH: Final = 64
"""Nesting beyond this is refused before it is parsed; a query of depth 16 stays well below."""

_BRACKETS: Final = re.compile(r'"(?:[^"\\]++|\\.)*+"?|[\[{]|[\]}]')
"""Brackets, and strings to step over. A string matches also where it never ends: to try again at each quote of
an open string would take quadratic time, 30 s for 120 kB."""

DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def dumps(value: Json) -> bytes:
    """The canonical bytes of `value`."""
    if not _plain(value):
        _check(value, "")
    # After the check, the one thing that json does not know by itself is a mapping that is not a dict.
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False, default=dict)
    return text.encode()


def loads(data: bytes | str, *, limit: int = 1 << 20) -> Json:
    """Read JSON strictly: no duplicate keys, no floats, no NaN, no unsafe integers, no deep nesting."""
    check_length(data, limit)
    try:
        text = data if isinstance(data, str) else data.decode()
        check_depth(text)
        value: Json = _STRICT.decode(text)
    except json.JSONDecodeError as error:
        raise ProtocolError(f"is not JSON: {error.msg}", where=f"line {error.lineno} column {error.colno}") from None
    except UnicodeDecodeError as error:
        raise ProtocolError("is not UTF-8", where=f"byte {error.start}") from None
    if not text.isascii() or "\\u" in text:
        # All else has been looked at while parsing: names may still not be ASCII, and surrogates not be whole.
        _check(value, "")
    return value


def loads_with_fractions(data: bytes | str, *, limit: int = 1 << 20) -> Any:
    """Read JSON as strictly as `loads`, but take finite fractions, integers of any size and names beyond ASCII.

    Results and hypotheses are written so. `loads` reads everything else.
    """
    check_length(data, limit)
    try:
        text = data if isinstance(data, str) else data.decode()
        check_depth(text)
        return _WITH_FRACTIONS.decode(text)
    except ProtocolError:
        raise
    except (ValueError, RecursionError):
        raise ProtocolError("is not JSON, or was cut") from None


def check_length(data: bytes | str, limit: int) -> None:
    """Refuse a document that is too long to be read: in bytes of UTF-8, also where it is text already."""
    size = len(data)
    if isinstance(data, str) and size <= limit < 4 * size:
        size = len(data.encode("utf-8", "surrogatepass"))
    if size > limit:
        raise ProtocolError(
            f"is {size} long, over the limit of {limit}", where="document", remedy="send less at a time"
        )


def digest(value: Json) -> str:
    """SHA-256 of the canonical bytes, as 64 hexadecimal digits."""
    return hashlib.sha256(dumps(value)).hexdigest()


def _plain(value: Json) -> bool:
    """Whether a value surely has a canonical form: in a third of the time that finding the wrong place takes."""
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        below = list[Any]()
        for item in level:
            kind = cast("type[object]", type(item))
            if kind is dict:
                if not all(type(name) is str and name.isascii() for name in item):
                    return False
                below += item.values()
            elif kind is list or kind is tuple:
                if not _safe_integers(item):
                    below += item
            elif kind is int:
                if not -MAX_SAFE_INTEGER <= item <= MAX_SAFE_INTEGER:
                    return False
            elif kind is str:
                if not item.isascii():
                    return False
            elif item is not None and kind is not bool:
                return False
        if not below:
            return True
        level = below
    return False


def _check(value: Json, where: str, depth: int = 1) -> None:
    """Refuse a value that has no canonical form."""
    if depth > MAX_DEPTH and isinstance(value, Mapping | list | tuple):
        raise ProtocolError(f"is nested deeper than {MAX_DEPTH}", where=where)
    match value:
        case None | bool():
            return
        case int():
            if abs(value) > MAX_SAFE_INTEGER:
                raise ProtocolError("is beyond ±(2^53 - 1)", where=where, remedy="write a larger integer as a string")
        case str():
            if not value.isascii() and any("\ud800" <= character <= "\udfff" for character in value):
                raise ProtocolError(
                    "holds half of a surrogate pair", where=where, remedy="send whole Unicode characters"
                )
        case Mapping():
            for key, item in value.items():
                if type(key) is not str or not key.isascii():
                    # Sorting by code point and by UTF-16 unit, as JCS asks, agree on ASCII.
                    raise ProtocolError("a member's name is not ASCII text", where=where)
                # A name is cut in the place, so that naming every place stays linear in the text.
                _check(item, f"{where}.{key[:64]}" if where else key[:64], depth + 1)
        case list() | tuple():
            _check_list(value, where, depth)
        case _:
            raise ProtocolError(
                f"a {type(value).__name__} has no canonical form", where=where, remedy="use integers and text"
            )


def _check_list(values: Sequence[Json], where: str, depth: int) -> None:
    if _safe_integers(values):
        return
    for index, item in enumerate(values):
        _check(item, f"{where}[{index}]", depth + 1)


def _safe_integers(values: Sequence[Json]) -> bool:
    """Whether these are integers within the bound. Weights and tallies are, long lists of them: one pass in C tells."""
    return set(map(type, values)) == {int} and max(map(abs, cast("Sequence[int]", values))) <= MAX_SAFE_INTEGER


def check_depth(text: str) -> None:
    """Count brackets before parsing, because a recursive parser answers a deep text with a stack overflow."""
    if text.count("[") + text.count("{") <= MAX_DEPTH:
        return  # Whichever of them stand in strings.
    depth = 0
    for match in _BRACKETS.finditer(text):
        if match[0] in "[{":
            depth += 1
            if depth > MAX_DEPTH:
                raise ProtocolError(f"is nested deeper than {MAX_DEPTH}", where=f"character {match.start()}")
        elif match[0] in "]}":
            depth -= 1


# What these three refuse may be a report, so they do not repeat it.


def members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The members of an object; a hook for `json.loads`. Refuses a member that stands twice."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ProtocolError("has a member that stands twice", where="object", remedy="name each member once")
    return found


def _no_float(_: str) -> NoReturn:
    raise ProtocolError("is not an integer", where="number", remedy="this protocol speaks integers only")


def _finite(number: str) -> float:
    read = float(number)
    if not math.isfinite(read):
        raise ProtocolError("holds a number that is not finite")
    return read


def _safe_integer(text: str) -> int:
    if len(text) > 17 or abs(int(text)) > MAX_SAFE_INTEGER:
        raise ProtocolError("is beyond ±(2^53 - 1)", where="number", remedy="write a larger integer as a string")
    if text == "-0":
        raise ProtocolError("is -0, which is not an integer", where="number", remedy="write 0")
    return int(text)


_STRICT: Final = json.JSONDecoder(
    object_pairs_hook=members, parse_float=_no_float, parse_constant=_no_float, parse_int=_safe_integer
)
"""Made once: `json.loads` makes one for each text."""
_WITH_FRACTIONS: Final = json.JSONDecoder(object_pairs_hook=members, parse_float=_finite, parse_constant=_finite)
