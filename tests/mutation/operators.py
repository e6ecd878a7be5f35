"""All mutants of a module: its syntax tree with one small change.

A mutant is an edit of the tree: one slot (a field of a node, or a place in a list) gets another node. `edited` puts it
in, hands out the tree, and puts back what was there, so that thousands of mutants cost one tree.

Loops end early: after two items, or before the last one. A test whose lists have two items, or whose fault is in the
first of them, does not notice.

Left alone is what no test should pin: documentation, annotations, decorators, the words of an error (a `raise` is only
deleted whole), `__all__`, what is logged, and what only a type checker runs.
"""

from __future__ import annotations

import ast
import difflib
import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

SWAPPED: dict[type[ast.AST], type[ast.AST]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.And: ast.Or, ast.Or: ast.And,
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult, ast.Div: ast.Mult,
    ast.Mod: ast.FloorDiv, ast.Pow: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip
OTHER_NAME = {"min": "max", "max": "min", "minimum": "maximum", "maximum": "minimum", "floor": "ceil", "ceil": "floor"}
SPOKEN = {"log", "logger", "logging", "_log", "_logger", "assert_never"}
FOR_READERS = {"__all__", "TYPE_CHECKING", "strict", "frozen", "slots", "stacklevel"}
DELETED = (ast.Assign, ast.AugAssign, ast.Expr, ast.Raise, ast.Delete, ast.Break, ast.Continue)
UNTOUCHED = {
    "annotation", "returns", "decorator_list", "type_params", "bases",
    "ctx", "type_comment", "simple", "conversion", "format_spec", "names",
}  # fmt: skip

REDUCERS = {"all", "any", "sum", "min", "max", "tuple", "list", "set", "frozenset", "sorted", "dict", "join"}
EARLY = {
    "the loop ends after two": "__import__('itertools').islice({}, 2)",
    "the loop leaves out the last": "map(lambda pair: pair[0], __import__('itertools').pairwise({}))",
}
"""What stands in place of an iterable. Both are lazy: what is endless stays so."""

Slot = tuple[Any, str, int | None]  # a node, its field, the place in the field's list


@dataclass(frozen=True)
class Change:
    """One change. Module, function, the text of the line and the change name it: they stay when lines move."""

    module: str
    function: str
    line: str
    change: str
    lineno: int

    @property
    def key(self) -> tuple[str, str, str, str]:
        return self.module, self.function, self.line, self.change

    def lot(self, seed: str = "") -> str:
        """The place in the drawing of samples: a digest, so that it does not move when other code changes."""
        return hashlib.sha256("\0".join([*self.key, *filter(None, [seed])]).encode()).hexdigest()


@dataclass(frozen=True)
class Mutant(Change):
    """A change of a syntax tree."""

    slot: Slot
    new: object
    statement: Slot  # what the diff shows


def _get(slot: Slot) -> Any:
    node, field, place = slot
    return getattr(node, field) if place is None else getattr(node, field)[place]


def _set(slot: Slot, new: object) -> None:
    node, field, place = slot
    if place is None:
        setattr(node, field, new)
    else:
        getattr(node, field)[place] = new


@contextmanager
def edited(mutant: Mutant) -> Iterator[None]:
    """The module's tree with the change in it, until the block ends."""
    old = _get(mutant.slot)
    _set(mutant.slot, ast.copy_location(mutant.new, old) if isinstance(mutant.new, ast.expr | ast.stmt) else mutant.new)
    try:
        yield
    finally:
        _set(mutant.slot, old)


def diff(mutant: Mutant) -> str:
    """What changes, in the statement around it."""
    before = ast.unparse(_get(mutant.statement)).splitlines()
    with edited(mutant):
        after = ast.unparse(_get(mutant.statement)).splitlines()
    lines = list(difflib.unified_diff(before, after, n=1, lineterm=""))[3:]
    return "\n".join([f"{mutant.module}:{mutant.lineno} in {mutant.function}", *(f"    {line}" for line in lines)])


def mutants_of(module: str, source: str) -> tuple[ast.Module, list[Mutant]]:
    """The tree of a module, and all its mutants, each with a key of its own."""
    tree = ast.parse(source)
    walk = _Walk(module, source.splitlines())
    walk.visit(tree, (None, "", None), "<module>")
    seen = Counter[tuple[str, str, str, str]]()
    named = list[Mutant]()
    for mutant in walk.found:
        seen[mutant.key] += 1
        times = seen[mutant.key]
        named.append(mutant if times == 1 else replace(mutant, change=f"{mutant.change} (#{times})"))
    return tree, named


class _Walk:
    """Goes through a tree and collects what may be changed."""

    def __init__(self, module: str, lines: list[str]) -> None:
        self.module, self.lines, self.found = module, lines, list[Mutant]()

    def visit(self, node: ast.AST, statement: Slot, function: str) -> None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            function = node.name if function == "<module>" else f"{function}.{node.name}"
        for field, value in ast.iter_fields(node):
            if field in UNTOUCHED:
                continue
            for place, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                slot: Slot = (node, field, place)
                if isinstance(child, ast.AST) and not _left_alone(child):
                    around = slot if isinstance(child, ast.stmt) else statement
                    self._change(child, slot, around, function)
                    if not isinstance(child, ast.Raise):
                        self.visit(child, around, function)

    def _change(self, node: ast.AST, slot: Slot, around: Slot, function: str) -> None:
        lineno: int = getattr(node, "lineno", None) or getattr(slot[0], "lineno", None) or _get(around).lineno
        for change, target, new in _changes(node, slot, inside=function != "<module>"):
            line = self.lines[lineno - 1].strip()
            self.found.append(Mutant(self.module, function, line, change, lineno, target, new, around))


def _left_alone(node: ast.AST) -> bool:
    match node:
        case ast.Expr(value=ast.Constant()) | ast.JoinedStr() | ast.Import() | ast.ImportFrom():
            return True  # documentation, `...`, words
        case ast.Expr(value=ast.Call(func=ast.Name(id=name) | ast.Attribute(value=ast.Name(id=name)))):
            return name in SPOKEN
        case ast.Assign(targets=[ast.Name(id=name), *_]) | ast.If(test=ast.Name(id=name)) | ast.keyword(arg=name):
            return name in FOR_READERS
        case _:
            return False


def _changes(  # noqa: PLR0912 - a case an operator
    node: ast.AST, slot: Slot, *, inside: bool
) -> Iterator[tuple[str, Slot, object]]:
    """The changes of one node: in words, where, and what comes there."""
    whole = ast.unparse(slot[0] if isinstance(node, ast.cmpop | ast.operator | ast.boolop) else node)
    if type(node) in SWAPPED:
        other = SWAPPED[type(node)]
        yield f"{type(node).__name__} becomes {other.__name__} in {whole}", slot, other()
    if inside and isinstance(node, DELETED) and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Yield)):
        yield "deleted", slot, ast.Pass()
    if (iterated := _iterated(node)) is not None:
        yield from _early(*iterated)
    match node:
        case ast.BoolOp(op=op, values=values):
            for place, each in enumerate(values):
                rest = [*values[:place], *values[place + 1 :]]
                yield f"without {ast.unparse(each)}", slot, ast.BoolOp(op, rest) if len(rest) > 1 else rest[0]
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div()):
            yield f"{whole} becomes {ast.unparse(left)}", slot, left
        case ast.Compare(left=ast.Tuple(elts=[one, _, *_]), ops=[op], comparators=[ast.Tuple(elts=[other, _, *_])]):
            yield f"{whole} compares the first only", slot, ast.Compare(one, [op], [other])
        case ast.Constant(value=bool() as value):
            yield f"{value} becomes {not value}", slot, ast.Constant(not value)
        case ast.Constant(value=int() | float() as value):
            yield f"{value} becomes {value + 1}", slot, ast.Constant(value + 1)
            yield f"{value} becomes {value - 1}", slot, ast.Constant(value - 1)
        case ast.UnaryOp(op=ast.Not() | ast.USub() | ast.Invert(), operand=operand):
            yield f"{whole} becomes {ast.unparse(operand)}", slot, operand
        case ast.Name(id=name) if name in OTHER_NAME:
            yield f"{name} becomes {OTHER_NAME[name]}", slot, ast.Name(OTHER_NAME[name], ast.Load())
        case ast.Attribute(value=value, attr=name) if name in OTHER_NAME:
            yield f"{whole} becomes {OTHER_NAME[name]}", slot, ast.Attribute(value, OTHER_NAME[name], ast.Load())
        case ast.Call(func=ast.Name(id=name), args=[_, _]) if name in OTHER_NAME:
            pass  # the lesser of two is the same in either order
        case ast.Call(func=func, args=[first, second, *rest], keywords=keywords) if not isinstance(first, ast.Starred):
            swapped = ast.Call(func, [second, first, *rest], keywords)
            yield f"{whole} becomes {ast.unparse(swapped)}", slot, swapped
        case ast.Return(value=ast.expr() as value) if not (isinstance(value, ast.Constant) and value.value is None):
            yield "the value returned becomes None", slot, ast.Return(ast.Constant(None))
        case ast.If() | ast.IfExp() | ast.While():
            for truth in (True, False):
                if not (isinstance(node, ast.While) and truth):
                    yield f"the condition becomes {truth}", (node, "test", None), ast.Constant(truth)
        case ast.comprehension(ifs=ifs):
            for place, _ in enumerate(ifs):
                yield f"condition {place} becomes True", (node, "ifs", place), ast.Constant(True)
        case _:
            pass


def _iterated(node: ast.AST) -> Slot | None:
    """Where a node holds what it goes through item by item."""
    match node:
        case ast.For() | ast.comprehension(is_async=0):
            return node, "iter", None
        case ast.Starred(ctx=ast.Load()):
            return node, "value", None
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=[only]) if name in REDUCERS:
            return None if isinstance(only, ast.GeneratorExp | ast.ListComp | ast.Starred) else (node, "args", 0)
        case _:
            return None


def _early(*slot: Any) -> Iterator[tuple[str, Slot, object]]:
    """The ways in which going through these items ends too early."""
    items = _get(slot)
    for change, form in EARLY.items():
        if not (change.endswith("two") and isinstance(items, ast.Tuple | ast.List) and len(items.elts) <= 2):
            early = ast.parse(form.format("None"), mode="eval").body
            call = next(each for each in ast.walk(early) if isinstance(each, ast.Call) and _is_none(each.args[0]))
            call.args[0] = items
            yield f"{change}: {ast.unparse(items)}", slot, early


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
