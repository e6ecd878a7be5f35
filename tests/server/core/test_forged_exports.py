"""`askance study verify` refuses every export that is forged, and holds little while it does.

`forging` makes forged exports out of genuine ones; the control is a reader that is lenient as that of version 1.0 was.
This prints the count of a thousand and more: `ASKANCE_TORTURE=1 pytest -n 0 tests/server/core/test_forged_exports.py`.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import random
import subprocess
import sys
import zipfile
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, Final

import pytest

from askance_client.simulation.population import synthetic
from askance_lab.commands.shared.export_files import read_export, write_export
from askance_lab.run_study import run_study
from askance_protocol.errors import AskanceError
from askance_protocol.rounds import read_entry
from askance_server.core.archive import zipped
from askance_server.core.export import BULLETIN, FILES, MANIFEST, RESULT, export_files, verify_files
from askance_server.core.study import study_of
from askance_server.core.verification import NotInstalledError, VerificationError, same
from askance_server.strategies.registry import registry
from tests.harness.figures import Figures
from tests.server.core import bombs, forging
from tests.server.core.forging import Files, Forgery, forgeries, parsed, written

TORTURE: Final = os.environ.get("ASKANCE_TORTURE") == "1"
BOMBS: Final = (
    (*bombs.ZIPS, *bombs.SPARSE)
    if TORTURE
    else (
        "a bulletin of line ends",
        "an entry of half a million lists",
        "an entry of fewer members",
        "empty lists in a result",
        "one content behind four files",
        "sixty thousand files",
        "a sparse bulletin",
        "a sparse zip",
    )
)
NUMBER: Final = 1_500 if TORTURE else 75

STUDIES: Final[dict[str, tuple[dict[str, int | str], int]]] = {
    "masked-parity": ({"d": 4, "users": "all"}, 20_000),
    "mean": ({"tolerance": "0.1"}, 4_000),
    "histogram": ({"cells": 6, "users": "all"}, 3_000),
    "decision-tree": ({"d": 4, "users": "all"}, 20_000),
    "perceptron": ({"d": 4, "users": "all"}, 20_000),
}


@cache
def genuine() -> tuple[Files, ...]:
    """The exports of some studies, of which one holds fractions in what it has learned, and one has not ended."""
    strategies, found = registry(), list[Files]()
    for name, (parameters, users) in STUDIES.items():
        spec = study_of(
            strategies, strategy=name, parameters=parameters, title="Größe: a/b", nonce="00" * 16, simulated=True
        )
        own = {key: value for key, value in parameters.items() if key not in {"users", "tolerance"}}
        people = synthetic(strategies[name].examples or name, own, seed=1)
        entries = run_study(spec, strategies[name], people, users, 1).entries
        found.append(export_files(entries, strategies))
        if name == "masked-parity":
            found.append(export_files(entries[:5], strategies))
    return tuple(found)


def verify(forged: Forgery, folder: Path) -> None:
    """As the command does it."""
    if forged.zip is not None:
        (folder / "x.zip").write_bytes(forged.zip)
        verify_files(read_export(folder / "x.zip"), registry())
        return
    verify_files(forged.files, registry())


@cache
def due_of(bulletin: bytes) -> Files:
    """What follows from a bulletin."""
    return export_files([read_entry(line) for line in bulletin.splitlines()], registry())


def verify_leniently(forged: Forgery, folder: Path) -> None:
    """The reader of version 1.0: of a member that stands twice the last, whatever stands around it."""
    del folder
    files = forged.files
    if forged.zip is not None:
        with zipfile.ZipFile(io.BytesIO(forged.zip)) as archive:
            files = {info.filename: archive.read(info) for info in archive.infolist()}
    if set(files) != set(FILES):
        raise VerificationError("another file")
    entries = [read_entry(line) for line in files[BULLETIN].splitlines()]
    if any(entry.to_bytes() != line for entry, line in zip(entries, files[BULLETIN].splitlines(), strict=True)):
        raise VerificationError("an entry in another form")
    due = due_of(files[BULLETIN])
    digests = {name: hashlib.sha256(files[name]).hexdigest() for name in FILES if name != MANIFEST}
    for name in FILES[1:]:
        more = {"sha256": digests} if name == MANIFEST else {}
        if not same(json.loads(files[name]), {**json.loads(due[name]), **more}):
            raise VerificationError("is not what follows", where=name)


def let_through(found: list[Forgery], how: Callable[[Forgery, Path], None], folder: Path) -> list[Forgery]:
    """Those that a reader takes."""
    taken = list[Forgery]()
    for forged in found:
        try:
            how(forged, folder)
        except (AskanceError, ValueError, zipfile.BadZipFile, NotImplementedError, RuntimeError):
            # Of the lenient reader, which is a control. That the other raises nothing but its own error: see below.
            continue
        taken.append(forged)
    return taken


def test_no_forged_export_is_verified(tmp_path: Path, figures: Figures) -> None:
    found = list(forgeries(list(genuine()), 13, NUMBER))
    for forged in found:
        with pytest.raises((VerificationError, NotInstalledError)) as refused:
            verify(forged, tmp_path)
        assert len(str(refused.value)) < 500, forged.kind
    kinds = Counter(forged.kind for forged in found)
    assert len(kinds) == len(forging.TREE_EDITS) + len(forging.TEXT_EDITS) + len(forging.ZIP_EDITS)
    # The control: a lenient reader takes some of most kinds that lie to another one.
    lenient = Counter(forged.kind for forged in let_through(found, verify_leniently, tmp_path))
    assert {
        "a member twice, the lie first",
        "members in another order",
        "padding",
        "a byte order mark",
        "a .zip with a comment",
        "a .zip with bytes around it",
    } <= lenient.keys()
    assert "another value" not in lenient
    figures("forged exports", forged=len(found), kinds=len(kinds), verified=0, by_a_lenient_reader=lenient.total())


def test_the_genuine_exports_are_verified_as_a_folder_and_as_a_zip(tmp_path: Path) -> None:
    """The control of the harness: what it takes apart, and leaves as it is, is accepted."""
    for number, files in enumerate(genuine()):
        again = {
            name: written(parsed(text.decode()), 1).encode() + b"\n"
            if name != BULLETIN
            else b"".join(written(parsed(line.decode()), None).encode() + b"\n" for line in text.splitlines())
            for name, text in files.items()
        }
        assert again == forging.sealed(files) == files
        for name in (f"{number}", f"{number}.zip"):
            write_export(tmp_path / name, files)
            assert verify_files(read_export(tmp_path / name), registry()).entries
        assert forging.archive(forging.described(files)) == zipped(files)
        verify(Forgery("none", files, zipped(files)), tmp_path)
        verify_leniently(Forgery("none", files), tmp_path)


@pytest.mark.parametrize("kind", forging.TREE_EDITS)
def test_each_kind_is_refused_in_each_file_at_each_level(kind: str) -> None:
    """A member of the innermost object that is forged is found as one of the outermost is."""
    refused = Counter[str]()
    for files in genuine() if TORTURE else genuine()[:2]:
        for name in FILES:
            for seed in range(20 if TORTURE else 3):
                text = forging.edited(kind, name, files[name], random.Random(seed))
                if text is not None and text != files[name]:
                    with pytest.raises(VerificationError):
                        verify_files(
                            forging.sealed({**files, name: text}) if name != MANIFEST else {**files, name: text},
                            registry(),
                        )
                    refused[name] += 1
    lists = {BULLETIN, "tallies.json", RESULT}
    assert refused.keys() >= (lists if kind == "a list longer or shorter" else set(FILES))


def test_a_bulletin_by_itself_has_one_form_too(tmp_path: Path) -> None:
    for files in genuine():
        text = files[BULLETIN]
        for forged in (text.replace(b"\n", b"\r\n"), text + b"\n", b"\xef\xbb\xbf" + text, b"\n" + text, text[:-1]):
            with pytest.raises(VerificationError):
                verify_files({BULLETIN: forged}, registry())
        # An archive that is called a bulletin is read as what it is called.
        (tmp_path / "x.jsonl").write_bytes(text + zipped(files))
        with pytest.raises(VerificationError, match=r"bulletin\.jsonl"):
            verify_files(read_export(tmp_path / "x.jsonl"), registry())
        verify_files({BULLETIN: text}, registry())


def test_a_fraction_may_differ_as_those_of_two_machines_do_and_no_more() -> None:
    """What another machine computes has other last digits; written in the one way, it is accepted."""
    files = genuine()[2]
    [old] = {repr(each["estimate"]) for each in json.loads(files[RESULT])["estimates"][:1]}
    for change, accepted in ((1e-12, True), (1e-6, False)):
        new = repr(float(old) + change)
        changed = forging.sealed({**files, RESULT: files[RESULT].replace(old.encode(), new.encode())})
        assert changed[RESULT] != files[RESULT]
        if accepted:
            verify_files(changed, registry())
            # In another notation it is no fraction of a machine.
            again = {**changed, RESULT: changed[RESULT].replace(new.encode(), f"{float(new):.30f}".encode())}
            with pytest.raises(VerificationError, match="not written as"):
                verify_files(forging.sealed(again), registry())
        else:
            with pytest.raises(VerificationError, match="is not what follows"):
                verify_files(changed, registry())


def cost(how: str, folder: Path) -> list[dict[str, Any]]:
    """What each bomb in a folder has cost a process that reads it."""
    command = [sys.executable, "-m", "tests.server.core.bombs", how, str(folder)]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is read from /proc")
def test_a_bomb_is_refused_within_300_megabytes_and_10_seconds(tmp_path: Path, figures: Figures) -> None:
    bombs.lay(tmp_path, genuine()[0], BOMBS)
    found = cost("verify", tmp_path)

    assert len(found) == len(BOMBS)
    for each in found:
        assert each["said"] not in {"accepted", "died", "MemoryError"}, each
        assert each["peak"] <= bombs.LIMIT, each
    figures("bombs", refused=len(found), megabytes_at_most=max(each["peak"] for each in found))


@pytest.mark.skipif(sys.platform != "linux", reason="the peak of a process's memory is read from /proc")
def test_control_a_lenient_reader_is_blown_up_by_a_bomb(tmp_path: Path) -> None:
    bombs.lay(tmp_path, genuine()[0], ["empty lists in a result"])
    [found] = cost("leniently", tmp_path)

    assert found["said"] == "MemoryError" or found["peak"] > bombs.LIMIT
