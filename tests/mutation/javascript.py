"""All mutants of an ES module: its text with one small change.

There is no parser: words, comments and patterns are blanked out, and what is left is looked through by expressions. A
change that is no JavaScript, or makes the module throw whatever it is asked, is killed by any test: such mutants make a
share of the killed look better than it is, and hide no survivor.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from tests.mutation.operators import Change

_BLANKED: Final = re.compile(
    r"""//[^\n]*|/\*[\s\S]*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'|`(?:\\.|[^`\\])*`"""
    r"""|(?<=[(,=:\[!&|?{;])\s*/(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\\n\[])+/[a-z]*"""
)
_FUNCTION: Final = re.compile(
    r"^(?:export )?(?:async )?function\*? (\w+)|^(?:export )?const (\w+) =|^(?:export )?class (\w+)"
    r"|^  (?:static |async |get |set |\*)*(\w+)\(.*\{$"
)
_SWAPPED: Final = {
    "===": "!==", "!==": "===", "<": "<=", "<=": "<", ">": ">=", ">=": ">", "&&": "||", "||": "&&", "+": "-", "-": "+",
    "*": "+", "/": "*", "&": "|", "|": "&", "^": "&", "<<": ">>", ">>": "<<", "+=": "-=", "??": "&&",
}  # fmt: skip
_OPERATOR: Final = re.compile(r"(?<=[\w)\]}\"'`] )(===|!==|<=|>=|<<|>>|&&|\|\||\?\?|\+=|[<>+\-*/&|^])(?= \S)")
_NUMBER: Final = re.compile(r"(?<![\w.$])(\d[\d_]*)(n?)(?![\w.])")
_WORDS: Final = {"every": "some", "some": "every", "min": "max", "max": "min"}
_CALLED: Final = re.compile(r"(?<=\.)(every|some|min|max)(?=\()")
_THROUGH: Final = re.compile(r"(?<=[\w)\]])\.(?=(?:every|some|map|forEach|filter|flatMap|reduce|find|findIndex)\()")
_OF: Final = re.compile(r"\bfor \(const (?:\w+|[\[{][^\]}]*[\]}]) of ")
_BOUND: Final = re.compile(r"(?<= )<=? (?=[^;<]+;[^;)]*\+\+\))")
_TESTED: Final = re.compile(r"\b(if|while) (?=\()")
_NOT: Final = re.compile(r"(?<![\w!])!(?=[\w(])")
_RETURN: Final = re.compile(r"\breturn (?=[^;\n]+;$)", re.MULTILINE)
_STATEMENT: Final = re.compile(
    r"(?<=[;{})]\n)( *)(?!(?:const|let|return|import|export|if|for|while|case|else|break|class|function)\b)"
    r"[\w(.][^\n]*;$",
    re.MULTILINE,
)
EARLY: Final = {"0, 2": "ends after two", "0, -1": "leaves out the last"}
_CLOSES: Final = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True)
class TextMutant(Change):
    """A change of a text: what stands from `begin` to `end` becomes `new`."""

    begin: int
    end: int
    new: str

    def applied(self, text: str) -> str:
        """The text with the change in it."""
        return text[: self.begin] + self.new + text[self.end :]


def diff(mutant: TextMutant, text: str) -> str:
    """The lines that change, before and after."""
    begin, end = text.rfind("\n", 0, mutant.begin) + 1, text.index("\n", mutant.end)
    after = text[begin : mutant.begin] + mutant.new + text[mutant.end : end]
    lines = [*(f"-{line}" for line in text[begin:end].split("\n")), *(f"+{line}" for line in after.split("\n"))]
    return "\n".join([f"{mutant.module}:{mutant.lineno} in {mutant.function}", *(f"    {line}" for line in lines)])


def mutants_of(module: str, text: str) -> list[TextMutant]:
    """All mutants of a module, each with a key of its own."""
    lines, seen, found = text.split("\n"), Counter[tuple[str, str, str, str]](), list[TextMutant]()
    for begin, end, new, change in sorted(set(_changes(_blanked(text), text))):
        lineno = text.count("\n", 0, begin) + 1
        mutant = TextMutant(
            module, _function(lines[:lineno]), lines[lineno - 1].strip(), change, lineno, begin, end, new
        )
        seen[mutant.key] += 1
        times = seen[mutant.key]
        found.append(mutant if times == 1 else replace(mutant, change=f"{change} (#{times})"))
    return found


def _blanked(text: str) -> str:
    """The text, of the same length, with nothing but code in it."""
    return _BLANKED.sub(
        lambda each: re.sub(r"[^\n]", " ", each[0]) if each[0].lstrip()[:1] == "/" else _word(each[0]), text
    )


def _word(text: str) -> str:
    """A text as long, of which the ends alone are left."""
    return text[0] + re.sub(r"[^\n]", "_", text[1:-1]) + text[-1]


def _function(lines: list[str]) -> str:
    """Name of what the last of these lines is in."""
    names = list[str]()
    for line in reversed(lines):
        found = _FUNCTION.match(line)
        if found and (not names or not line.startswith(" ")):
            names.append(next(filter(None, found.groups())))
            if not line.startswith(" "):
                break
    return ".".join(reversed(names)) or "<module>"


def _closing(code: str, at: int) -> int:
    """Where the bracket at this place is closed; one more."""
    open_, depth = code[at], 0
    for place in range(at, len(code)):
        depth += (code[place] == open_) - (code[place] == _CLOSES[open_])
        if not depth:
            return place + 1
    return len(code)


def _changes(code: str, text: str) -> Iterator[tuple[int, int, str, str]]:
    """From where to where, what comes there, and the change in words."""
    for each in _OPERATOR.finditer(code):
        other = _SWAPPED[each[0]]
        yield *each.span(), other, f"{each[0]} becomes {other}"
    for each in _NUMBER.finditer(code):
        value = int(each[1].replace("_", ""))
        for new in (value + 1, value - 1):
            yield *each.span(), f"({new}{each[2]})" if new < 0 else f"{new}{each[2]}", f"{each[0]} becomes {new}"
    for each in _CALLED.finditer(code):
        yield *each.span(), _WORDS[each[0]], f"{each[0]} becomes {_WORDS[each[0]]}"
    for each in _NOT.finditer(code):
        yield *each.span(), "", "not"
    for each in _TESTED.finditer(code):
        end = _closing(code, each.end())
        for truth in ("true", "false")[each[1] == "while" :]:
            yield each.end(), end, f"({truth})", f"the condition becomes {truth}"
        yield from _without(code, each.end() + 1, end - 1)
    for each in _RETURN.finditer(code):
        yield each.end(), code.index(";", each.end()), "undefined", "the value returned becomes undefined"
        yield from _without(code, each.end(), code.index(";", each.end()))
    for each in _STATEMENT.finditer(code):
        line = each[0].strip()
        if all(line.count(open_) == line.count(close) for open_, close in _CLOSES.items()):
            yield each.start() + len(each[1]), each.end(), ";", "deleted"
    yield from _early(code, text)


def _without(code: str, begin: int, end: int) -> Iterator[tuple[int, int, str, str]]:
    """A condition of several parts, without one of them."""
    cuts, depth = list[int](), 0
    for at in range(begin, end):
        depth += (code[at] in "([{") - (code[at] in ")]}")
        if not depth and code[at : at + 2] in {"&&", "||"}:
            cuts.append(at)
    if len({code[at] for at in cuts}) == 1 and "?" not in code[begin:end]:
        yield begin, cuts[0] + 2, "", "without the first part"
        for number, cut in enumerate(cuts, 2):
            yield cut, [*cuts, end][number - 1], "", f"without part {number}"


def _early(code: str, text: str) -> Iterator[tuple[int, int, str, str]]:
    """The ways in which a loop ends too early: after two, and before the last."""
    for each in _OF.finditer(code):
        end = _closing(code, code.index("(", each.start())) - 1
        for cut, name in EARLY.items():
            yield each.end(), end, f"[...{text[each.end() : end]}].slice({cut})", f"the loop {name}"
    for each in _THROUGH.finditer(code):
        for cut, name in EARLY.items():
            yield each.start(), each.start(), f".slice({cut})", name
    for each in _BOUND.finditer(code):
        yield each.end(), each.end(), "-1 + ", "the loop leaves out the last"
