"""One name, one meaning: no class and no type alias of the four rooms has the name of another."""

from __future__ import annotations

import ast
import shutil
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ["protocol", "client", "server", "lab"]
ALLOWED: dict[str, str] = {}
"""Names that may be defined twice, each with its reason. There is none now."""


def is_type(value: ast.expr | None) -> bool:
    """Whether what is assigned at the top of a module is a type with parameters, as `NDArray[…]` is."""
    if isinstance(value, ast.BinOp):
        return is_type(value.left)
    return isinstance(value, ast.Subscript) and isinstance(value.value, ast.Name)


def defined(source: str) -> Iterator[str]:
    """The classes and the type aliases at the top of a module, but those of it alone, which begin with `_`."""
    for node in ast.parse(source).body:
        match node:
            case ast.ClassDef(name=name):
                yield name
            case ast.AnnAssign(target=ast.Name(id=name), annotation=ast.Name(id="TypeAlias")):
                yield name
            case ast.Assign(targets=[ast.Name(id=name)], value=value) if name[0].isupper() and is_type(value):
                if not name.isupper():
                    yield name
            case _:
                pass


def shared_names(tree: Path) -> dict[str, list[str]]:
    """Every name that more than one module of the rooms defines, with these modules."""
    modules: dict[str, list[str]] = defaultdict(list)
    for room in ROOMS:
        for path in sorted((tree / room).rglob("*.py")):
            for name in set(defined(path.read_text("utf-8"))):
                if not name.startswith("_"):
                    modules[name].append(str(path.relative_to(tree)))
    return {name: where for name, where in modules.items() if len(where) > 1}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for room in ROOMS:
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_each_name_is_defined_in_one_module() -> None:
    assert {name: where for name, where in shared_names(ROOT).items() if name not in ALLOWED} == {}
    assert set(ALLOWED) <= set(shared_names(ROOT)), "what is allowed and does not occur goes"


@pytest.mark.parametrize(
    ("planted", "name"),
    [
        ("class Bulletin: ...", "Bulletin"),
        ("from typing import TypeAlias\nFloats: TypeAlias = list[float]", "Floats"),
        ("Words = list[int]", "Words"),
    ],
)
def test_a_name_that_is_defined_again_is_found(tree: Path, planted: str, name: str) -> None:
    """The planted fault of the test above: a class, an alias, and an alias that is not annotated."""
    (tree / "lab" / "askance_lab" / "planted.py").write_text(planted)

    assert "lab/askance_lab/planted.py" in shared_names(tree)[name]
