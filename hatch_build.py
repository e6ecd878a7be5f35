"""What the metadata of a distribution says of addresses: `hatchling` runs it with each build.

The files of this repository name each other by relative links, which lead nowhere on the page of a package index.
Where the project can be read is one setting, `ASKANCE_PROJECT_URL`, given when a release is built: then its links are
absolute and its metadata has URLs. Without it nothing is invented: a link becomes the name of the file, which the
source distribution has, and a picture what it shows, in words.

The protocol in JavaScript is `protocol/web` here, and `askance_protocol/web` in a wheel: package data of the room that
it is the twin of. An editable installation has it where it is.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

SETTING = "ASKANCE_PROJECT_URL"
_RELATIVE = re.compile(r"\[([^\]]+)\]\((?![a-z]+:|#)([^)]+)\)")
_PICTURE = re.compile(r'<img src="(?![a-z]+:)([^"]+)"([^>]*) alt="([^"]+)">')


def with_links(text: str, address: str) -> str:
    """A document whose relative links lead to files below an address; without one they are plain text."""

    def link(found: re.Match[str]) -> str:
        name, path = found.groups()
        if address:
            return f"[{name}]({address}/{path})"
        return name if name == path else f"{name} ({path})"

    def picture(found: re.Match[str]) -> str:
        path, size, shows = found.groups()
        return f'<img src="{address}/{path}"{size} alt="{shows}">' if address else f"*{shows}*"

    return _PICTURE.sub(picture, _RELATIVE.sub(link, text))


def urls_below(address: str) -> dict[str, str]:
    """URLs of a project that can be read at an address."""
    files = {"Documentation": "docs/architecture.md", "Changelog": "CHANGELOG.md"}
    return {"Homepage": address, **{name: f"{address}/{file}" for name, file in files.items()}} if address else {}


class Metadata(MetadataHookInterface):
    """Readme and URLs."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Fill in what `pyproject.toml` declares as dynamic."""
        address = os.environ.get(SETTING, "").rstrip("/")
        if address and not re.fullmatch(r"https://[^\s()<>]+", address):
            raise ValueError(f"{SETTING}={address!r} is not an address that begins with https://")
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": with_links(text, address)}
        metadata["urls"] = urls_below(address)


class JavaScript(BuildHookInterface[Any]):
    """The protocol's JavaScript modules, as data of the package `askance_protocol`."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add the modules to a wheel; not to an editable one, which would hold copies that grow old."""
        if version != "editable":
            for path in sorted((Path(self.root) / "protocol" / "web").glob("*.mjs")):
                build_data["force_include"][str(path)] = f"askance_protocol/web/{path.name}"
