"""The clock tells nothing in a browser either: the same steps for every example, input and outcome.

What is counted is each block of code that the engine takes, by its own counters: a branch, a loop, `&&`, `||`, `?:`, a
function. Nothing that is answered may become an integer that grows with its value. The nodes, examples and rounds are
those of `test_steps`, so a new node has its case here too. What is below a block is left to the form in which values
are held: see `evaluation.mjs`.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import pytest

from askance_protocol.budget import MICRO
from askance_protocol.channels import KaryResponse
from askance_protocol.channels.ratio import WORD
from askance_protocol.rounds import Bulletin, PreparedRound, RoundPublished, StudyPublished
from tests.protocol.generators import extremes
from tests.protocol.studies import SCHEMA
from tests.protocol.test_steps import EXAMPLES, NODES, PEOPLE, QUERIES, asked, rounds
from tests.protocol.web.scripts import INTERPRETED, WEB, planted, run

pytestmark = pytest.mark.slow

TABLE = [[str(weight) for weight in row] for row in KaryResponse(MICRO, 40).table()]
CHANNELS: dict[str, list[Any]] = {
    "a bit": ["binary", MICRO, 1],
    "a value": ["binary", MICRO, 20_000],
    "cells": ["kary", MICRO, 300],
    "geometric": ["geometric", MICRO, 50],
    "laplace": ["laplace", MICRO, 50],
    "table": ["tabulated", TABLE],
}


def entries(round_: PreparedRound) -> list[Any]:
    """The bulletin of a round."""
    first = Bulletin()
    study = first.next(StudyPublished(study=round_.study))
    return [study.to_json(), first.append(study).next(RoundPublished(round=round_.spec)).to_json()]


@cache
def job() -> Any:
    queries = {f"node {name}": asked(node).to_json() for name, node in NODES.items()}
    return {
        "schema": PEOPLE.to_json(),
        "examples": [example.record() for example in EXAMPLES],
        "words": [str(word) for word in (0, 1 << 20, WORD // 3, WORD // 2, WORD - WORD // 8, WORD - 1)],
        "queries": queries | {f"query {name}": query.to_json() for name, query in QUERIES.items()},
        "channels": {f"channel {name}": each for name, each in CHANNELS.items()},
        "rounds": {f"round {each.id}": entries(each.values[0]) for each in rounds()},
        "people": [example.record() for example in extremes(SCHEMA)],
    }


def ways(folder: Path, modules: Path = WEB, only: str = "") -> dict[str, int]:
    """In how many ways each node, query, channel and report runs whose name begins so."""
    groups = {
        group: {name: each for name, each in job()[group].items() if name.startswith(only)}
        for group in ("queries", "channels", "rounds")
    }
    found: dict[str, int] = run("steps.mjs", job() | groups, folder, modules=modules, flags=INTERPRETED)
    return found


def test_every_node_query_channel_and_report_runs_in_one_way(tmp_path: Path) -> None:
    found = ways(tmp_path)

    assert {name: many for name, many in found.items() if many != 1} == {}
    assert len(found) >= len(NODES) + len(QUERIES) + len(CHANNELS) + 10


FAULTS = {
    "node dot": (
        "evaluation.mjs",
        {
            "registers[at] += weights[index] * bits[first + index];": (
                "if (bits[first + index]) registers[at] += weights[index];"
            )
        },
    ),
    "node and": (
        "evaluation.mjs",
        {
            "for (const each of held) registers[at] += registers[each];": (
                "for (const each of held) { if (!registers[each]) break; registers[at] += 1; }"
            )
        },
    ),
    "node if": (
        "evaluation.mjs",
        {"registers[choices[registers[test]]]": "registers[test] ? registers[then] : registers[otherwise]"},
    ),
    "node field": ("evaluation.mjs", {"either[Number(example.numbers[position] === nothing)]": "either[0] === nothing ? gap : either[0]"}),
    "query cell": (
        "evaluation.mjs",
        {"Number(registers[cell] >= 0) & Number(": "Number(registers[cell] >= 0) && Number("},
    ),
    "channel cells": ("channels.mjs", {"either[Number(dealt < 0)]": "dealt < 0 ? input : dealt"}),
    "channel laplace": (
        "channels.mjs",
        {"for (let at = 0; at < count; at++) {": "for (let at = 0; at < count && this.high[first + at] <= word[0]; at++) {"},
    ),
    "round binary for a cell or none": (
        "hadamard.mjs",
        {"let ones = (Math.abs(answer) - 1) & row;": "if (answer === 0) return 1;\n  let ones = (Math.abs(answer) - 1) & row;"},
    ),
    "round hash for a cell or none": (
        "hashing.mjs",
        {"const none = Number(answer === 0);": "if (answer === 0) return 2 ** bits;\n    const none = 0;"},
    ),
    "round hash for a cell": ("hashing.mjs", {"bucket ^= (odd & 1) << bit;": "if (odd & 1) bucket ^= 1 << bit;"}),
    "round laplace": (
        "reports.mjs",
        {"const blank = Number(left[0] === 0) &": "const blank = Number(left[0] === 0) &&"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_control_steps_that_depend_on_what_is_private_are_found(tmp_path: Path, name: str) -> None:
    module, changes = FAULTS[name]
    found = ways(tmp_path, planted(tmp_path, module, changes), name)

    assert max(found.values()) > 1


def test_control_an_integer_that_grows_with_its_value_is_found(tmp_path: Path) -> None:
    growing = {
        "(example) => {\n    const registers": "(example) => {\n    BigInt(example.numbers[0]);\n    const registers"
    }
    copied = planted(tmp_path, "evaluation.mjs", growing)

    with pytest.raises(AssertionError, match="an integer that grows with its value"):
        ways(tmp_path, copied, "node bit")
