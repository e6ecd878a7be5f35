"""Reports on the wire: one user's, and columns of many.

One report is `{"outcome": i}`, padded with blanks so that all reports of a round have one length: the length
would otherwise tell small outcomes from large ones. Many are JSON columns `{"users": […], "outcomes": […]}`, or
raw columns:

    bytes  0 ..  4   "ASKB"
    byte   4         version, 1
    byte   5         flags: bit 0 is set where a seeded source produced the reports
    bytes  6 ..  8   zero
    bytes  8 .. 16   n, little-endian
    then             n user numbers of 8 bytes, n outcomes of 4 bytes, little-endian

Decoding coerces nothing: `true`, `"1"`, `1.0` and NaN are not 1. No error repeats a report's content.
"""

from __future__ import annotations

import json
import re
import struct
from dataclasses import dataclass
from typing import Any, Final, NoReturn, cast

import numpy as np
from numpy.typing import NDArray

from askance_protocol import canonical
from askance_protocol.arrays import Integers
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import ProtocolError
from askance_protocol.text import counted

MAX_REPORT_BYTES: Final = 64
MAX_BATCH: Final = 1_000_000
MAX_OUTCOME: Final = 1 << 32

_EXPLAINED: Final = 1 << 20
"""Bytes of columns up to which the place of a fault is looked for: to parse 9 MB at once would keep every other thread
of the process waiting for half a second."""

# JSON's white space, which has neither \v nor \f.
_REPORT: Final = re.compile(
    rb'[ \t\n\r]*\{[ \t\n\r]*"outcome"[ \t\n\r]*:[ \t\n\r]*(0|[1-9][0-9]{0,9})[ \t\n\r]*\}[ \t\n\r]*'
)
_COLUMNS: Final = re.compile(
    rb'[ \t\n\r]*\{[ \t\n\r]*"(users|outcomes)"[ \t\n\r]*:[ \t\n\r]*\[([0-9, \t\n\r]*)\][ \t\n\r]*,'
    rb'[ \t\n\r]*"(users|outcomes)"[ \t\n\r]*:[ \t\n\r]*\[([0-9, \t\n\r]*)\][ \t\n\r]*\}[ \t\n\r]*'
)
_BEYOND: Final = {b"users": MAX_USER, b"outcomes": MAX_OUTCOME}
_PIECE: Final = 1 << 16
"""Bytes of a column that are read at a time."""
_HEADER: Final = struct.Struct("<4sBBHQ")
_MAGIC: Final = b"ASKB"
_VERSION: Final = 1
_SIMULATED: Final = 1
_ROW_BYTES: Final = 12


@dataclass(frozen=True, slots=True, eq=False)
class ReportBatch:
    """Reports of many users: a gateway's delivery."""

    users: NDArray[np.uint64]
    outcomes: NDArray[np.uint32]
    simulated: bool

    def __post_init__(self) -> None:
        if len(self.users) != len(self.outcomes):
            raise ProtocolError(
                f"has {counted(len(self.outcomes), 'entry', 'entries')}, users has {len(self.users):,}",
                where="outcomes",
                remedy="give one outcome a user",
            )
        if len(self.users) > MAX_BATCH:
            raise ProtocolError(
                f"has {len(self.users)} reports, over the limit of {MAX_BATCH}", where="batch", remedy="send less"
            )
        if len(self.users) and int(self.users.max()) >= MAX_USER:
            raise ProtocolError(f"is not below {MAX_USER}", where=f"users[{int(self.users.argmax())}]")

    def __len__(self) -> int:
        return len(self.users)

    def check_outcomes(self, outcomes: int) -> None:
        """Refuse the batch where a report names an outcome that its round does not have."""
        if len(self) and int(self.outcomes.max()) >= outcomes:
            raise ProtocolError(f"is not in 0 .. {outcomes - 1}", where=f"outcomes[{int(self.outcomes.argmax())}]")


def encode_report(outcome: int, outcomes: int) -> bytes:
    """The body of one report, in the length that all reports with this many outcomes have."""
    if isinstance(outcome, bool) or not 0 <= outcome < outcomes <= MAX_OUTCOME:
        raise ProtocolError(f"is not in 0 .. {outcomes - 1}", where="outcome")
    return b'{"outcome":%*d}' % (len(str(outcomes - 1)), outcome)


def decode_report(body: bytes, outcomes: int) -> int:
    """The outcome of one report, or an error that says where it is wrong."""
    match = _REPORT.fullmatch(body) if len(body) <= MAX_REPORT_BYTES else None
    outcome = int(match[1]) if match else _explain(body)
    if outcome >= outcomes:
        raise ProtocolError(f"is not in 0 .. {outcomes - 1}", where="outcome", remedy="report the index of an outcome")
    return outcome


def encode_columns(batch: ReportBatch) -> bytes:
    """Write reports as JSON columns.

    The form has no member for the mark of a simulation: only simulated studies take batches.
    """
    columns = {"users": batch.users.tolist(), "outcomes": batch.outcomes.tolist()}
    return json.dumps(columns, separators=(",", ":")).encode()


def decode_columns(body: bytes) -> ReportBatch:
    """Read reports from JSON columns.

    The usual form is read piece by piece: a million reports as one document would keep every other thread of the
    process waiting, because the parser does not let go of Python's lock.
    """
    usual = _COLUMNS.fullmatch(body)
    if usual is not None and usual[1] != usual[3]:
        try:
            columns = {
                usual[1]: _pieces(usual[2], _BEYOND[usual[1]]),
                usual[3]: _pieces(usual[4], _BEYOND[usual[3]]),
            }
        except (ValueError, OverflowError):
            pass  # The place of the fault is looked for below.
        else:
            return ReportBatch(columns[b"users"].astype(np.uint64), columns[b"outcomes"].astype(np.uint32), True)
    if len(body) > _EXPLAINED:
        remedy = f"send whole numbers within range; in at most {_EXPLAINED} bytes, the place of a fault is named"
        raise ProtocolError('is not {"users": […], "outcomes": […]}', where="batch", remedy=remedy)
    return _decode_document(body)


def _pieces(column: bytes, beyond: int) -> Integers:
    """The integers of one column; ValueError if it is not one of integers within range."""
    pieces = list[Integers]()
    begin = 0
    while begin <= len(column):
        end = column.find(b",", begin + _PIECE)
        end = len(column) if end < 0 else end
        values = json.loads(b"[%b]" % column[begin:end])
        if not values and end - begin < len(column):
            raise ValueError("a number is missing beside a comma")
        pieces.append(np.array(values, np.int64))
        begin = end + 1
    numbers = np.concatenate(pieces)
    if len(numbers) and not 0 <= int(numbers.min()) <= int(numbers.max()) < beyond:
        raise ValueError("a number is out of range")
    return numbers


def _decode_document(body: bytes) -> ReportBatch:
    try:
        # As UTF-8: of bytes, the parser guesses an encoding.
        columns: Any = json.loads(body.decode(), object_pairs_hook=_members, parse_constant=_not_a_number)
    except ProtocolError:
        raise
    except (ValueError, RecursionError):
        # No JSON, no UTF-8, nested too deeply, or a number of thousands of digits.
        raise ProtocolError("is not JSON", where="batch") from None
    if not isinstance(columns, dict):
        raise ProtocolError("is not an object", where="batch", remedy='send {"users": […], "outcomes": […]}')
    members = cast("dict[str, Any]", columns)
    users = _column(members["users"], "users", MAX_USER).astype(np.uint64)
    outcomes = _column(members["outcomes"], "outcomes", MAX_OUTCOME).astype(np.uint32)
    if b"-0" in body:
        # All else is a list of whole numbers, so it stands for one.
        raise ProtocolError("holds −0, which is not an integer", where="batch", remedy="write 0")
    return ReportBatch(users, outcomes, simulated=True)


def encode_raw(batch: ReportBatch) -> bytes:
    """Write reports as raw columns."""
    header = _HEADER.pack(_MAGIC, _VERSION, _SIMULATED if batch.simulated else 0, 0, len(batch))
    return header + batch.users.astype("<u8").tobytes() + batch.outcomes.astype("<u4").tobytes()


def decode_raw(body: bytes) -> ReportBatch:
    """Read reports from raw columns."""
    if len(body) < _HEADER.size:
        raise ProtocolError(f"has {len(body)} bytes, the header alone has {_HEADER.size}", where="batch")
    magic, version, flags, zero, count = _HEADER.unpack_from(body)
    if magic != _MAGIC:
        raise ProtocolError('does not begin with "ASKB"', where="bytes 0 .. 4", remedy="send raw columns as documented")
    if version != _VERSION:
        raise ProtocolError(f"is {version}, this side speaks {_VERSION}", where="version")
    if flags & ~_SIMULATED or zero:
        raise ProtocolError("has bits set that mean nothing", where="bytes 5 .. 8", remedy="set them to zero")
    if len(body) != _HEADER.size + _ROW_BYTES * count:
        raise ProtocolError(
            f"has {len(body)} bytes, {counted(count, 'report')} take {_HEADER.size + _ROW_BYTES * count}", where="batch"
        )
    users = np.frombuffer(body, "<u8", count, _HEADER.size)
    outcomes = np.frombuffer(body, "<u4", count, _HEADER.size + 8 * count)
    return ReportBatch(users, outcomes, simulated=bool(flags & _SIMULATED))


def _explain(body: bytes) -> NoReturn:
    """Raise the error that says what is wrong with a body, without repeating it."""
    remedy = 'send {"outcome": i} with a whole number i'
    if len(body) > MAX_REPORT_BYTES:
        raise ProtocolError(
            f"has {len(body)} bytes, over the limit of {MAX_REPORT_BYTES}", where="report", remedy=remedy
        )
    report = canonical.loads(body)
    if not isinstance(report, dict):
        raise ProtocolError("is not an object", where="report", remedy=remedy)
    for name in report:
        if name != "outcome":
            raise ProtocolError("has a member other than outcome", where="report", remedy=remedy)
    if "outcome" not in report:
        raise ProtocolError("is missing", where="outcome", remedy=remedy)
    raise ProtocolError(
        f"is not a whole number but a {type(report['outcome']).__name__}, or out of range",
        where="outcome",
        remedy=remedy,
    )


def _members(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = [name for name, _ in pairs]
    if sorted(names) != ["outcomes", "users"]:
        raise ProtocolError(
            "has not exactly the members users and outcomes", where="batch", remedy="name each once, and no others"
        )
    return dict(pairs)


def _column(values: Any, where: str, beyond: int) -> Integers:
    if not isinstance(values, list):
        raise ProtocolError("is not a list", where=where)
    items = cast("list[Any]", values)
    # One pass in C for the usual case; the place of a fault is looked for only when there is one.
    if set(map(type, items)) - {int} or (items and not 0 <= min(items) <= max(items) < beyond):
        first = next(at for at, item in enumerate(items) if type(item) is not int or not 0 <= item < beyond)
        raise ProtocolError(f"is not a whole number in 0 .. {beyond - 1}", where=f"{where}[{first}]")
    return np.array(items, np.int64)


def _not_a_number(_: str) -> NoReturn:
    raise ProtocolError("holds NaN or an infinity", where="batch")
