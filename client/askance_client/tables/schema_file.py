"""Declared schemas: a JSON document that says what the columns of a table may hold, written before anybody looked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from askance_protocol.errors import DataError, ProtocolError
from askance_protocol.schema import Schema
from askance_protocol.values import read

_LARGEST: Final = 1 << 22
_REMEDY: Final = 'write it as {"fields": [{"kind": "integer", "name": "age", "low": 0, "high": 120}, …]}'


def written_schema(schema: Schema) -> str:
    """A schema as a document to be edited: a line a field."""
    fields = ",\n".join(f"  {json.dumps(_ordered(field.to_json()), ensure_ascii=False)}" for field in schema.fields)
    return f'{{"fields": [\n{fields}\n]}}\n'


def _ordered(field: Mapping[str, Any]) -> dict[str, Any]:
    """The members as a person reads them: the name first."""
    return {name: field[name] for name in ("name", "kind")} | dict(field)


def read_schema(path: str | Path) -> Schema:
    """Read a schema from a JSON file; an error names the file and the place in it."""
    path = Path(path)
    try:
        text = path.read_bytes()
    except OSError as error:
        reason = (error.strerror or "it seems damaged").lower()
        raise DataError(f"cannot be read: {reason}", where=str(path), remedy="name a file with a schema") from None
    try:
        return read(Schema, text, limit=_LARGEST)
    except ProtocolError as error:
        where = f"{path}, {error.where}" if error.where else str(path)
        raise DataError(error.what, where=where, remedy=error.remedy or _REMEDY) from None
