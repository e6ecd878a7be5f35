"""Logs: JSON lines or text on standard error, and never a header, a body or a token.

What a record may carry is a closed list, `FIELDS`. The filter sits on the handler, so everything that reaches the log
passes it, also what other libraries write: it strikes tokens and passwords out of texts, takes off every field that
is not on the list, and of an exception it keeps the place and the type. An exception's own words are kept only where
its class promises that they repeat nothing private.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Final, Literal, TextIO, TypeAlias, cast

from askance_protocol.errors import ProtocolError
from askance_server.ledger.base import LedgerError

LogFormat: TypeAlias = Literal["auto", "json", "text"]
LogLevel: TypeAlias = Literal["debug", "info", "warning", "error"]

FIELDS: Final = frozenset(
    {
        *("study", "round", "sequence", "strategy", "state"),
        *("method", "path", "status", "problem", "milliseconds"),
        *("reports", "users", "accepted", "refused", "queued", "count", "seconds"),
        *("url", "host", "port", "database", "signal", "version"),
    }
)
"""All fields that a record may have beside its message. There is no `user`: nobody is to learn who answers when."""

_STANDARD: Final = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
# uvicorn's message a second time, with colours.
_IGNORED: Final = frozenset({"color_message"})
_HIDDEN: Final = "…"

# They log every start, stop and request, which is shown on demand only: --log-level debug.
_CHATTY: Final = ("asyncio", "httpcore", "httpx", "uvicorn")

_SECRETS: Final = (
    (re.compile(r"\b(user|enrolment|operator|gateway)\.[\w-]{2,}\.[\w-]{8,}", re.ASCII), rf"\1.{_HIDDEN}"),
    (re.compile(r"\b(bearer|basic)\s+[^\s'\",]+", re.IGNORECASE), rf"\1 {_HIDDEN}"),
    # To the last @: a password that was not percent-encoded may hold one.
    (re.compile(r"([a-z][a-z0-9+.-]*://[^\s:/@]*:)[^\s]*@", re.IGNORECASE), rf"\1{_HIDDEN}@"),
    (re.compile(r"\b((?:ssl)?password=)[^\s&'\"]+", re.IGNORECASE), rf"\1{_HIDDEN}"),
)

_OUTSPOKEN: Final = (ProtocolError, LedgerError, OSError)


def scrub(text: str) -> str:
    """`text` with the tokens and passwords in it replaced."""
    for pattern, replacement in _SECRETS:
        text = pattern.sub(replacement, text)
    return text


class RedactingFilter(logging.Filter):
    """Passes every record, with secrets removed."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Remove secrets in place, so that no formatter or handler after this one can see them."""
        record.msg, record.args = scrub(_message(record)), None
        if record.exc_info and record.exc_info[1] is not None:
            record.exc_text = scrub("\n".join(_told(record.exc_info[1])))
        elif record.exc_text:
            record.exc_text = scrub(record.exc_text)
        record.exc_info = None
        record.stack_info = scrub(record.stack_info) if record.stack_info else None
        withheld = [name for name in record.__dict__ if name not in _STANDARD and not _keep(record, name)]
        for name in withheld:
            del record.__dict__[name]
        if names := sorted(set(withheld) - _IGNORED):
            record.__dict__["withheld"] = scrub(" ".join(names))
        return True


class JsonLines(logging.Formatter):
    """Formats a record as one line with a JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as an object: time, level, logger, message, and its fields."""
        line: dict[str, object] = {
            "time": _when(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_text:
            line["exception"] = record.exc_text
        return json.dumps(line, ensure_ascii=False)


class Text(logging.Formatter):
    """Formats a record as one line for people, an exception below it."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        fields = "".join(f" {name}={value}" for name, value in _fields(record).items())
        line = f"{_when(record):%H:%M:%S} {record.levelname.lower():7} {record.getMessage()}{fields}"
        return f"{line}\n{record.exc_text}" if record.exc_text else line


def configure(level: LogLevel = "info", format_: LogFormat = "auto", stream: TextIO | None = None) -> logging.Handler:
    """Send all logs of this process through the filter to one stream, and nowhere else."""
    handler = logging.StreamHandler(sys.stderr if stream is None else stream)
    handler.addFilter(RedactingFilter())
    for_people = format_ == "text" or (format_ == "auto" and handler.stream.isatty())
    handler.setFormatter(Text() if for_people else JsonLines())
    root = logging.getLogger()
    for other in root.handlers[:]:
        root.removeHandler(other)
    root.addHandler(handler)
    root.setLevel(level.upper())
    for chatty in _CHATTY:
        # NOTSET hands the decision on to the root.
        logging.getLogger(chatty).setLevel(logging.WARNING if level == "info" else logging.NOTSET)
    return handler


def _message(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # logging must not fail on its own message, and the arguments may be private
        return f"a message whose arguments do not fit, from {record.module}:{record.lineno}"


def _keep(record: logging.LogRecord, name: str) -> bool:
    """Whether a field may be logged. Secrets are removed from text here; only plain values can be searched for them."""
    value: object = record.__dict__[name]
    if isinstance(value, str):
        record.__dict__[name] = scrub(value)
    return name in FIELDS and isinstance(value, str | int | float | None)


def _fields(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in record.__dict__.items() if name in FIELDS or name == "withheld"}


def _when(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, UTC)


def _told(error: BaseException) -> Iterator[str]:
    """Places and types of an exception and its causes, first cause first; messages only where they are safe."""
    seen: list[BaseException] = []
    behind: BaseException | None = error
    while behind is not None and behind not in seen:
        seen.append(behind)
        behind = behind.__cause__ or (None if behind.__suppress_context__ else behind.__context__)
    for each in reversed(seen):
        yield "".join(traceback.format_tb(each.__traceback__)).rstrip("\n")
        yield f"{type(each).__name__}: {each}" if isinstance(each, _OUTSPOKEN) else type(each).__name__
        if isinstance(each, BaseExceptionGroup):
            for part in cast("BaseExceptionGroup[BaseException]", each).exceptions:
                yield from _told(part)
