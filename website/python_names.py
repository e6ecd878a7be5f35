"""The page of Python names: what each public package exports by `__all__`, with its docstrings."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from website.text import block, cell, code, escaped, paragraphs, table

ROOT: Final = Path(__file__).parents[1]
ROOMS: Final = ("protocol/askance_protocol", "client/askance_client", "server/askance_server", "lab/askance_lab")


def packages() -> Iterator[str]:
    """Packages that say what they export, room by room."""
    for room in ROOMS:
        base = ROOT / room
        for path in sorted(base.rglob("__init__.py")):
            if "__all__" in path.read_text("utf-8"):
                yield ".".join(path.parent.relative_to(base.parent).parts)


def page() -> str:
    """The page."""
    shown = dict[int, str]()
    return "".join(part for name in packages() for part in _package(import_module(name), shown))


def _package(module: ModuleType, shown: dict[int, str]) -> Iterator[str]:
    """A package: each name in full where it is met first, and by a link elsewhere."""
    yield f"## {module.__name__}\n\n{paragraphs(module.__doc__)}"
    names = sorted(module.__all__)
    values = {name: getattr(module, name) for name in names}
    known = [f"[`{name}`](#{shown[id(value)]})" for name, value in values.items() if id(value) in shown]
    yield f"As above: {', '.join(known)}.\n\n" if known else ""
    for name, value in values.items():
        if id(value) not in shown:
            shown[id(value)] = f"{module.__name__}.{name}"
            yield f'<h3 id="{module.__name__}.{name}"><code>{name}</code></h3>\n\n'
            yield from _class(value) if inspect.isclass(value) else _other(name, value)


def _other(name: str, value: Any) -> Iterator[str]:
    if callable(value) and not hasattr(value, "__origin__"):
        yield block(f"{name}{_signature(value)}", "python")
        yield paragraphs(inspect.getdoc(value))
    else:
        yield f"{code(_short(value))}\n\n"


def _class(value: type) -> Iterator[str]:
    """A class: its docstring, its fields and its public methods."""
    if (said := value.__dict__.get("__doc__")) and not said.startswith(f"{value.__name__}("):
        yield paragraphs(said)
    fields = list(_fields(value))
    yield table(["field", "type", "what it is"], ([f"`{name}`", code(type_), cell(doc)] for name, type_, doc in fields))
    yield table(["method", "what it does"], _methods(value))


def _fields(value: type) -> Iterator[tuple[str, str, str]]:
    """Public fields, each with the text that stands below it."""
    body = _source(value).body
    after = [*body[1:], None]
    for node, below in zip(body, after, strict=True):
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and not node.target.id.startswith("_"):
            yield node.target.id, ast.unparse(node.annotation), _text(below)


def _text(node: ast.stmt | None) -> str:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
        return inspect.cleandoc(node.value.value)
    return ""


def _source(value: type) -> ast.ClassDef:
    """The class as its module has it; an empty one, where there is no source."""
    nothing = ast.ClassDef(value.__name__, [], [], [], [])
    return _classes(value.__module__).get(value.__name__, nothing)


@cache
def _classes(module: str) -> dict[str, ast.ClassDef]:
    path = import_module(module).__file__
    tree = ast.parse(Path(path).read_text("utf-8")) if path else ast.Module([], [])
    return {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}


def _methods(value: type) -> Iterator[list[str]]:
    for node in _source(value).body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("_"):
            doc = ast.get_docstring(node) or ""
            call = node.name if _is_property(node) else f"{node.name}({_arguments(node)})"
            yield [code(call), escaped(" ".join(doc.split("\n\n")[0].split()))]


def _is_property(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    return any("property" in ast.unparse(each) for each in node.decorator_list)


def _arguments(node: ast.FunctionDef | ast.AsyncFunctionDef) -> str:
    """Arguments by name and default, without types and without self."""
    bare = ast.parse(ast.unparse(node.args).join(("def f(", "): ..."))).body[0]
    assert isinstance(bare, ast.FunctionDef)  # noqa: S101 - it was just made
    for each in [*bare.args.posonlyargs, *bare.args.args, *bare.args.kwonlyargs, bare.args.vararg, bare.args.kwarg]:
        if each is not None:
            each.annotation = None
    words = ast.unparse(bare.args)
    for first in ("self", "cls"):
        words = words.removeprefix(first).removeprefix(", ") if words.split(",")[0].strip() == first else words
    return words


def _signature(value: Any) -> str:
    try:
        return str(inspect.signature(value)).replace("'", "")
    except (TypeError, ValueError):
        return "(…)"


def _short(value: Any) -> str:
    text = str(value).replace("typing.", "")
    return text if len(text) <= 200 else f"{text[:199]}…"
