"""Style sheet and scripts: what is at an address never changes, so that a browser asks for it once.

The address of each begins with a digest of all of them. Modules name each other by relative paths, so they are found
at the same place, and never one of today beside one of yesterday. Nothing is built: the files are sent as they are.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable
from types import MappingProxyType
from typing import Final

from askance_protocol.javascript import modules

MEDIA_TYPES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "css": "text/css; charset=utf-8",
        "js": "text/javascript; charset=utf-8",
        "mjs": "text/javascript; charset=utf-8",
        "svg": "image/svg+xml",
    }
)
"""The kinds of files that are served; any other file in the folders is not."""
PROTOCOL: Final = "protocol/"
"""Below what name the protocol's modules are, with which a browser verifies."""


@dataclass(frozen=True, slots=True)
class Assets:
    """The files by name, and the digest of them all."""

    files: Mapping[str, bytes]
    digest: str

    @classmethod
    def of(cls, found: Mapping[str, bytes]) -> Assets:
        """Files with their digest: of each name and content, with its length, so that nothing can move between them."""
        digest = hashlib.sha256()
        for name, content in sorted(found.items()):
            digest.update(b"%d %b %d %b" % (len(name), name.encode(), len(content), content))
        return cls(MappingProxyType(dict(found)), digest.hexdigest()[:16])

    def address(self, name: str) -> str:
        """Where a file is; KeyError for one that there is not, which is a mistake of a template."""
        if name not in self.files:
            raise KeyError(name)
        return f"/assets/{self.digest}/{name}"


@cache
def assets() -> Assets:
    """The files of this installation."""
    own = dict(_below(files("askance_server.dashboard") / "static", ""))
    return Assets.of(own | {PROTOCOL + name: text.encode() for name, text in modules().items()})


def media_type(name: str) -> str:
    """The kind of a file."""
    return MEDIA_TYPES[name.rpartition(".")[2]]


def _below(folder: Traversable, prefix: str) -> Iterator[tuple[str, bytes]]:
    for each in folder.iterdir():
        if each.is_dir():
            yield from _below(each, f"{prefix}{each.name}/")
        elif each.name.rpartition(".")[2] in MEDIA_TYPES:
            yield prefix + each.name, each.read_bytes()
