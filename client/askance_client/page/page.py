"""The page as it leaves: a document with its script and its stylesheet, beside it or inside it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from askance_protocol import javascript

_HERE: Final = Path(__file__).parent
_PLACE: Final = "client/askance_client/page/"
_PROTOCOL: Final = "protocol/web/"
_HEAD: Final = "<!-- HEAD -->"
_CONNECT: Final = "connect-src 'self' http: https:"


@dataclass(frozen=True)
class Page:
    """The page's parts. Equal parts make equal bytes, so that two who have the same version can compare them."""

    template: str
    style: str
    script: str

    def linked(self, style: str, script: str, icon: str) -> bytes:
        """The document with its parts, and a picture for its tab, at these addresses."""
        sheet = f'<link rel="icon" href="{icon}">\n  <link rel="stylesheet" href="{style}">'
        head = f'{sheet}\n  <script type="module" src="{script}"></script>'
        return self.template.replace(_HEAD, head).encode()

    @cached_property
    def one_file(self) -> bytes:
        """The document with its parts inside. Its policy lets run what has these digests, and nothing else.

        It may ask any server, since the one that it is used with is named in the link.
        """
        policy = (
            f"default-src 'none'; script-src '{_source(self.script)}'; style-src '{_source(self.style)}'; "
            f"img-src data:; {_CONNECT}; base-uri 'none'; form-action 'none'"
        )
        head = (
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
            # Otherwise a browser asks whoever serves the file for a picture of its tab.
            '  <link rel="icon" href="data:,">\n'
            f"  <style>{self.style}</style>\n"
            f'  <script type="module">{self.script}</script>'
        )
        return self.template.replace(_HEAD, head).encode()

    @cached_property
    def script_digest(self) -> str:
        """SHA-256 of the script: the same in a file and at every server of this version."""
        return hashlib.sha256(self.script.encode()).hexdigest()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of the file."""
        return hashlib.sha256(self.one_file).hexdigest()


def read_page() -> Page:
    """The page of this installation."""
    template, style = ((_HERE / name).read_text(encoding="utf-8") for name in ("page.html", "page.css"))
    return Page(template, style, javascript.bundled(page_modules(), _PLACE + "main.mjs"))


def page_modules() -> Mapping[str, str]:
    """The page's modules and those of the protocol, named as in the repository, by which they find each other."""
    own = {_PLACE + path.name: path.read_text(encoding="utf-8") for path in sorted(_HERE.glob("*.mjs"))}
    return own | {_PROTOCOL + name: text for name, text in javascript.modules().items()}


def _source(text: str) -> str:
    """How a Content-Security-Policy names a script or a style by what it is."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
