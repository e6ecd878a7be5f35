"""Files of a folder are found by their records; one that has none, or fails, is named."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from askance_protocol import discovery
from askance_protocol.errors import AskanceError


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[ModuleType]:
    """A package with a sound file, one without a record, one of another type, and one that fails."""
    package = ModuleType("found_here")
    package.__path__ = [str(tmp_path)]
    (tmp_path / "sound.py").write_text("RECORD = 'sound'\n")
    (tmp_path / "empty.py").write_text("")
    (tmp_path / "other.py").write_text("RECORD = 3\n")
    (tmp_path / "inside").mkdir()
    (tmp_path / "inside" / "__init__.py").write_text("")
    sys.modules["found_here"] = package
    yield package
    for name in [name for name in sys.modules if name.partition(".")[0] == "found_here"]:
        del sys.modules[name]


def test_names_load_nothing_and_leave_out_packages(folder: ModuleType) -> None:
    assert discovery.names(folder) == ["empty", "other", "sound"]
    assert "found_here.sound" not in sys.modules


def test_records_are_those_of_the_type(folder: ModuleType) -> None:
    assert list(discovery.records(folder, "RECORD", str)) == ["sound"]
    assert discovery.record(folder, "sound", "RECORD", str) == "sound"


@pytest.mark.parametrize("name", ["empty", "other"])
def test_a_file_without_its_record_is_named(folder: ModuleType, name: str) -> None:
    with pytest.raises(AskanceError, match=rf"found_here\.{name}: does not end with its RECORD"):
        discovery.record(folder, name, "RECORD", str)


def test_a_file_that_fails_is_named(folder: ModuleType, tmp_path: Path) -> None:
    (tmp_path / "fails.py").write_text("1 / 0\n")
    with pytest.raises(AskanceError, match=r"found_here\.fails: cannot be loaded: ZeroDivisionError"):
        discovery.record(folder, "fails", "RECORD", str)
