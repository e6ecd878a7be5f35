"""Join ES modules into one: what a browser does when it loads them, done once and ahead.

Theory of operation
-------------------
Each module becomes a function that runs once, in the order of imports, and gives its exports; an import becomes the
reading of such an export. So every module keeps its own names, and none is renamed: the text between the imports and
the exports stays as it was written, and can be read in the result.

Only what these modules need is understood: named imports and exports, whole lines of their own, no cycles, no default
export, nothing that is exported and assigned again later. Anything else is refused, because a bundle that is nearly
right would be a page that nobody has tested.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Final

from askance_protocol.errors import ProtocolError

_NAMES: Final = r"\{(?P<names>[^}]*)\}"
_FROM: Final = r'from\s+"(?P<source>[^"]+)";'
_IMPORT: Final = re.compile(rf"^import\s+(?:{_NAMES}|\*\s+as\s+(?P<all>\w+))\s+{_FROM}[ \t]*$", re.MULTILINE)
_PASSED_ON: Final = re.compile(rf"^export\s+(?:{_NAMES}|(?P<all>\*))\s+{_FROM}[ \t]*$", re.MULTILINE)
_LISTED: Final = re.compile(rf"^export\s+{_NAMES};[ \t]*$", re.MULTILINE)
_DECLARED: Final = re.compile(
    r"^export\s+(?P<kept>(?:const|class|function\*?|async\s+function\*?)\s+(?P<name>\w+))", re.MULTILINE
)
_LEFT: Final = re.compile(r"^(?:import|export)\b(?!\()|\bimport\s*[(.]", re.MULTILINE)
_COMMENT: Final = re.compile(r"/\*.*?\*/|^\s*//.*$", re.MULTILINE | re.DOTALL)


class BundleError(ProtocolError):
    """A module that cannot be joined with others."""


def bundle(entry: Path, packages: Mapping[str, Path]) -> str:
    """The script that does what this module does. `packages`: the first module of each package that has a name."""
    bundler = _Bundler(packages)
    bundler.add(entry.resolve())
    return "".join(bundler.pieces)


@dataclass
class _Bundler:
    packages: Mapping[str, Path]
    pieces: list[str] = field(default_factory=list[str])
    names: dict[Path, str] = field(default_factory=dict[Path, str])
    """Of each module that has been added: what holds its exports."""
    _adding: list[Path] = field(default_factory=list[Path])

    def add(self, path: Path) -> str:
        """Add a module behind all that it imports, unless it is there; what holds its exports."""
        if path in self.names:
            return self.names[path]
        if path in self._adding:
            raise BundleError("imports itself, by way of others", where=path.name, remedy="move what both need")
        try:
            text = path.read_text(encoding="utf-8")
        except OSError as error:
            raise BundleError(f"cannot be read: {error.strerror}", where=path.name) from None
        self._adding.append(path)
        body, exports = self._translated(path, text)
        self._adding.pop()
        name = f"m{len(self.names)}"
        self.names[path] = name
        given = ", ".join(f"{public}: {local}" if public != local else public for public, local in exports.items())
        self.pieces.append(f"// {path.name}\nconst {name} = (() => {{\n{body.strip()}\nreturn {{ {given} }};\n}})();\n")
        return name

    def _translated(self, path: Path, text: str) -> tuple[str, dict[str, str]]:
        exports = dict[str, str]()

        def imported(found: re.Match[str]) -> str:
            held = self.add(self._source(path, found["source"]))
            if found["all"]:
                return f"const {found['all']} = {held};"
            names = ", ".join(f"{public}: {local}" if public != local else public for public, local in _pairs(found))
            return f"const {{ {names} }} = {held};"

        def passed_on(found: re.Match[str]) -> str:
            held = self.add(self._source(path, found["source"]))
            if found["all"]:
                raise BundleError("passes on all of another module", where=path.name, remedy="name what is passed on")
            exports.update({public: f"{held}.{local}" for local, public in _pairs(found)})
            return ""

        def listed(found: re.Match[str]) -> str:
            exports.update({public: local for local, public in _pairs(found)})
            return ""

        def declared(found: re.Match[str]) -> str:
            exports[found["name"]] = found["name"]
            return found["kept"]

        for pattern, replacement in (
            (_IMPORT, imported),
            (_PASSED_ON, passed_on),
            (_LISTED, listed),
            (_DECLARED, declared),
        ):
            text = pattern.sub(replacement, text)
        if (left := _LEFT.search(_COMMENT.sub("", text))) is not None:
            raise BundleError(f"has an {left[0]} of another form", where=path.name, remedy="import and export by name")
        return text, exports

    def _source(self, importer: Path, source: str) -> Path:
        """The file that an import names."""
        if source.startswith("."):
            return (importer.parent / PurePosixPath(source)).resolve()
        if source in self.packages:
            return self.packages[source].resolve()
        raise BundleError(f"imports {source}, which is no package here", where=importer.name)


def _pairs(found: re.Match[str]) -> Iterator[tuple[str, str]]:
    """Names in braces, each with the name that it gets."""
    for item in found["names"].split(","):
        if words := item.split():
            yield words[0], words[-1]
