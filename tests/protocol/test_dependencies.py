"""The protocol needs numpy, pydantic and cryptography, and nothing else: it runs on a person's device."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import askance_protocol

ALLOWED = {"askance_protocol", "cryptography", "numpy", "pydantic", "pydantic_core"}


def packages_of(folder: Path) -> set[str]:
    """The packages beyond the standard library that the modules of a folder import, wherever in the file."""
    found: set[str] = set()
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            match node:
                case ast.Import(names=names):
                    found |= {name.name.split(".")[0] for name in names}
                case ast.ImportFrom(module=str(module)):
                    found.add(module.split(".")[0])
                case _:
                    pass
    return found - sys.stdlib_module_names


def test_the_protocol_imports_three_packages_and_itself() -> None:
    assert packages_of(Path(askance_protocol.__file__).parent) == ALLOWED


def test_control_an_import_inside_a_function_is_found(tmp_path: Path) -> None:
    (tmp_path / "planted.py").write_text("import json\n\n\ndef tail() -> float:\n    from scipy import stats\n")

    assert packages_of(tmp_path) == {"scipy"}
