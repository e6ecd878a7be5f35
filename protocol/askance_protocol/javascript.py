"""The protocol in JavaScript, which comes with this package: its ES modules, and how modules become one script.

In the repository they are the files of `protocol/web`; an installed package has them in `askance_protocol/web`. A
server serves them as they are. A page that is one file, so that its code need not come from a server, has them as one
script.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from askance_protocol.errors import ProtocolError

_HERE: Final = Path(__file__).parent
_IMPORT: Final = re.compile(r'^import \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
_FORWARD: Final = re.compile(r'^export \{([^}]*)\} from "([^"]+)";\n', re.MULTILINE)
_EXPORT: Final = re.compile(r"^export (?=(?:const|let|function|async function|class) (\w+))", re.MULTILINE)
_UNKNOWN: Final = re.compile(r"^(?:import|export)\b.*|\bimport\(.*", re.MULTILINE)
_COMMENTS: Final = re.compile(r"^[ \t]*//.*|/\*[\s\S]*?\*/", re.MULTILINE)
_ENDS: Final = re.compile(r"</script|<!--", re.IGNORECASE)


def modules() -> Mapping[str, str]:
    """The text of each module, by its name; `index.mjs` is the one that a page imports."""
    folder = _HERE / "web"
    found = (folder if folder.is_dir() else _HERE.parent / "web").glob("*.mjs")
    return MappingProxyType({path.name: path.read_text(encoding="utf-8") for path in sorted(found)})


def bundled(sources: Mapping[str, str], entry: str) -> str:
    """One script that does what module `entry` does: each module in a scope of its own, after those that it imports.

    Modules import by name, from paths relative to their own, and not in circles; they export what they declare, or
    what they import. Anything else is refused, and so is text that would end the element of a page that holds it.
    """
    order: dict[str, None] = {}
    _visit(sources, entry, order, ())
    numbers = {name: number for number, name in enumerate(order)}
    return "".join(_scope(name, sources[name], numbers) for name in order)


def _visit(sources: Mapping[str, str], name: str, order: dict[str, None], above: tuple[str, ...]) -> None:
    """Put a module behind all that it imports."""
    if name in order:
        return
    if name not in sources or name in above:
        what = "is imported in a circle" if name in above else "is no module that is here"
        raise ProtocolError(what, where=name, remedy="see how modules are bundled: askance_protocol.javascript")
    for pattern in (_IMPORT, _FORWARD):
        for found in pattern.finditer(sources[name]):
            _visit(sources, _resolved(name, found[2]), order, (*above, name))
    order[name] = None


def _resolved(name: str, path: str) -> str:
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), path))


def _scope(name: str, text: str, numbers: Mapping[str, int]) -> str:
    """A module as a function that is called once, and returns what it exports."""
    exported = [found[1] for found in _EXPORT.finditer(text)]

    def take(found: re.Match[str]) -> str:
        return f"const {{ {', '.join(_names(found[1]))} }} = module{numbers[_resolved(name, found[2])]};\n"

    def forward(found: re.Match[str]) -> str:
        exported.extend(each.split(": ")[-1] for each in _names(found[1]))
        return take(found)

    body = _EXPORT.sub("", _FORWARD.sub(forward, _IMPORT.sub(take, text))).strip()
    unknown = _UNKNOWN.search(_COMMENTS.sub("", body)) or _ENDS.search(body)
    if unknown is not None:
        raise ProtocolError(f"cannot be bundled: {unknown[0]}", where=name, remedy="import and export by name")
    returned = f"return {{ {', '.join(exported)} }};\n" if exported else ""
    return f"// {name}\nconst module{numbers[name]} = (() => {{\n{body}\n{returned}}})();\n"


def _names(found: str) -> list[str]:
    """What stands between the braces of an import, as a pattern of names has it: `a`, or `a: b` for `a as b`."""
    return [": ".join(each.split(" as ")) for each in map(str.strip, found.split(",")) if each]
