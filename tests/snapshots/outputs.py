"""What commands print as JSON: the names of its members and their kinds, read off calls that are run.

One process runs all calls, one after the other, against one server: a study is opened, answered, closed, told, exported
and verified. What follows from an earlier call (a study's id) stands in braces.
"""

from __future__ import annotations

import io
import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import chdir, suppress
from pathlib import Path
from typing import Any, Final
from unittest.mock import patch

from askance_lab.cli import CommandModules, main
from tests.harness.servers import serving
from tests.harness.tree import ROOT
from tests.snapshots.keeping import promised

Lines = dict[str, list[str]]

CALLS: Final = (
    "audit --kind binary --epsilon 1 --samples 2000 --seed 1",
    "channel describe --kind binary --epsilon 1",
    "channel sample --kind kary --epsilon 1 --k 3 --input 1 --n 5",
    "channel compare --cells 4 --epsilon 1",
    "converse --kind kary --k 3 --epsilon 1 --reports 50",
    "curator list",
    "curator generic-conjunction --d 4 --seed 1",
    "doctor",
    "page",
    "plan mean",
    "plan mean --epsilon 0.5,1",
    "plan masked-parity --d 4 --users 3000",
    "refutation --d 2",
    "run mean --users 200 --seed 1",
    "run masked-parity --d 4 --users 4000 --seed 1",
    "separation --table --d 8",
    "separation --d 4 --users 100 --seeds 1 --out separation",
    "theory",
    "theory parity",
    "schema me.csv",
    "survey --ask share(country) --users 500 --seed 1",
    "health {server}",
    "- client --data me.csv --cap 2 --schema fields.json --yes --wait 0 {server} {enrolment}",
    "users enrol 2 --out users.csv {server} {operator}",
    "users enrol 2 --simulated {server} {operator}",
    "users invite 2 --out invitation.token {server} {operator}",
    "users codes 2 --out codes.txt {server} {operator}",
    "users renew 1 --out renewed.csv {server} {operator}",
    "users count {server} {operator}",
    "study create mean {server} {operator}",
    "client --data me.csv --study {study} --yes --once {server} {enrolment}",
    "wallet show askance.wallet",
    "wallet heads askance.wallet",
    "study close {study} {server} {operator}",
    "study list {server}",
    "study show {study} {server}",
    "study result {study} {server}",
    "study watch {study} {server}",
    "study export {study} --out export {server}",
    "study verify export",
    "study create mean --simulated --gateway-token gateway.token {server} {operator}",
    "study cancel {study} --yes {server} {operator}",
    "- fleet --users 4 --wallets fleet --wait 0 {server} {enrolment}",
    "study create mean --simulated --gateway-token other.token {server} {operator}",
    "fleet --users 4 --wallets fleet --study {study} {server}",
    "load --users 20 {server} {operator} {enrolment}",
    "ask Tea? --choices yes,no --until 1s {server} {operator} --out answers",
)
"""A new command gets a line, or several where it prints several forms. {study} is the newest that was opened.

What begins with a dash is run for what it does, and prints nothing.
"""

LONG: Final = {
    "demo": "demo --users 600 --clients 2 --concepts 2 --port 0",
    "landscape": "landscape --out {landscape} --show",
    "oracles": "oracles --users 100",
}
"""What takes long: `python -m tests.snapshots --long` runs it, and a test that runs it anyway looks what is `lost`."""
MAPS: Final = {"rows", "rows{}", "results", "verdicts", "formulas", "formulas{}.fields", "refused"}
"""Members whose own members are names of something: strategies, oracles, results, formulas. Those may come and go."""
_FIELDS: Final = '{"fields": [{"kind": "real", "name": "value", "low": -1, "high": 1, "denominator": 1000}]}'


def shape(value: object, path: str = "") -> Iterator[str]:
    """Each member of a document with its kind; of the elements of a list all that any of them has."""
    if path:
        yield f"{path}: {_kind(value)}"
    match value:
        case Mapping() if path.rpartition("[].")[2] in MAPS:
            yield from (line for member in value.values() for line in shape(member, f"{path}{{}}"))
        case Mapping():
            yield from (line for name in value for line in shape(value[name], f"{path}.{name}".lstrip(".")))
        case list():
            yield from (line for member in value for line in shape(member, f"{path}[]"))
        case _:
            pass


def _kind(value: object) -> str:
    kinds = {
        bool: "truth",
        int: "number",
        float: "number",
        str: "text",
        list: "list",
        dict: "object",
        type(None): "null",
    }
    return kinds[type(value)]


def outputs(folder: Path, *, long: bool = False) -> Lines:
    """The lines of every call, by the command. It needs an empty folder, in which it leaves what the calls write."""
    (folder / "me.csv").write_text("value\n0.5\n-0.25\n")
    (folder / "fields.json").write_text(_FIELDS)
    environment = {name: each for name, each in os.environ.items() if not name.startswith("ASKANCE_")}
    with (
        serving(folder / "data", "--cap", "50") as server,
        chdir(folder),
        patch.dict(os.environ, environment, clear=True),
    ):
        known = {
            "server": f"--server {server.url}",
            "operator": f"--operator-token {folder / 'data' / 'operator.token'}",
            "enrolment": f"--enrolment-token {folder / 'data' / 'enrolment.token'}",
            "landscape": str(ROOT / "docs" / "landscape"),
            "study": "",
        }
        lines: Lines = {"askance serve": list(shape(server.announced))}
        for call in [*CALLS, *(LONG.values() if long else [])]:
            printed = _printed(call.removeprefix("- ").format_map(known).split())
            if call.startswith("- "):
                continue
            assert printed, call
            if call.startswith("study create"):
                known["study"] = json.loads(printed)["id"]
            owner = f"askance {_command(call.split())}"
            for line in printed.splitlines():
                lines.setdefault(owner, []).extend(shape(json.loads(line)))
    return lines


def lost(command: str, document: object) -> list[str]:
    """What a document of a command lacks of what is promised; elements of lists that are empty here are not missed."""
    found = list(shape(document))
    names, absent = {line.split(": ")[0] for line in found}, {line.split(": ")[0] for line in found if ": null" in line}
    return [
        name
        for name in sorted({line.split(": ")[0] for line in promised("json")[f"askance {command}"]} - names)
        if not any(above in absent or (above[-1] in "]}" and above not in names) for above in [*_above(name), name])
    ]


def _above(name: str) -> Iterator[str]:
    """The members that a member is in: of `a[].b` these are `a` and `a[]`."""
    yield from (name[: cut.start()] for cut in re.finditer(r"\.|\[\]|\{\}", name) if cut.start())


def _command(words: list[str]) -> str:
    return " ".join(words[: 2 if hasattr(CommandModules()[words[0]], "commands") else 1])


def _printed(words: list[str]) -> str:
    """What a call prints; how it ends, and what it says beside that, is for other tests."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    asked = [*words, *([] if words[:2] == ["study", "watch"] else ["--json"])]
    with patch.multiple(sys, argv=["askance", *asked], stdout=out, stderr=err), suppress(SystemExit):
        main()
    buffer: Any = out.buffer
    return buffer.getvalue().decode()
