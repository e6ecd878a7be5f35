"""Writes the test vectors: what any implementation of the protocol has to agree on, good and bad.

    python -m tests.vectors.generate            write the files beside this script
    python -m tests.vectors.generate --check    only say whether they are up to date

A vector with "success": false has to be refused, and "where" is the place that the refusal names.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.vectors import parts, whole

HERE = Path(__file__).parent


def files() -> dict[str, Any]:
    """Every file's content."""
    return {
        "queries.json": {"schema": parts.SCHEMA.to_json(), "records": parts.RECORDS, "vectors": list(parts.queries())},
        "gaps.json": {
            "schema": parts.GAP_SCHEMA.to_json(),
            "records": parts.GAP_RECORDS,
            "vectors": list(parts.gaps()),
        },
        "coins.json": {"vectors": list(parts.coins())},
        "channels.json": {"vectors": list(parts.channels())},
        "digests.json": {"vectors": list(parts.digests())},
        "reports.json": {"vectors": list(parts.reports())},
        "hadamard.json": {"vectors": list(parts.encodings())},
        "hashing.json": {"vectors": list(parts.hashings())},
        "rounds.json": {"study": whole.STUDY.to_json(), "vectors": list(whole.rounds())},
        "dealings.json": {"studies": whole.studies(), "rounds": whole.published(), "vectors": list(whole.dealings())},
        "chains.json": {"vectors": list(whole.chains())},
    }


def render(content: Any) -> str:
    """One vector a line, so that a change shows as a change of that vector."""
    head = "".join(f'"{name}": {json.dumps(value)},\n' for name, value in content.items() if name != "vectors")
    return (
        "{\n" + head + '"vectors": [\n' + ",\n".join(json.dumps(vector) for vector in content["vectors"]) + "\n]\n}\n"
    )


def main() -> int:
    """Write, or compare."""
    stale = []
    for name, content in files().items():
        path, text = HERE / name, render(content)
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(name)
    if stale:
        print(f"stale: {', '.join(stale)}; run make vectors")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
