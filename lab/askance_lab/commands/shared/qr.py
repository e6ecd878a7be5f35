"""QR codes of addresses, for a terminal and for a sheet to be printed."""

from __future__ import annotations

import html
import io
from collections.abc import Sequence
from typing import Final

import segno

_SHEET: Final = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 14px system-ui, sans-serif; margin: 1cm }}
ol {{ display: grid; grid-template-columns: repeat(3, 1fr); gap: 0; padding: 0; list-style: none }}
li {{ border: 1px dashed #777; padding: 8px; text-align: center; break-inside: avoid }}
svg {{ width: 100%; height: auto }}
p {{ overflow-wrap: anywhere; font-size: 7px; margin: 0 }}
</style>
<h1>{title}</h1>
<p style="font-size:14px">Cut along the lines. Each code lets in one person, once.</p>
<ol>
{codes}
</ol>
</html>
"""


def terminal_code(address: str) -> str:
    """An address as a QR code of blocks, for a terminal."""
    out = io.StringIO()
    segno.make_qr(address, error="l").terminal(out, compact=True, border=2)
    return out.getvalue()


def sheet(title: str, addresses: Sequence[str]) -> str:
    """A page with a QR code for each address, to be printed and cut."""
    codes = "\n".join(f"<li>{_drawn(each)}<p>{html.escape(each)}</p></li>" for each in addresses)
    return _SHEET.format(title=html.escape(title), codes=codes)


def _drawn(address: str) -> str:
    return str(segno.make_qr(address, error="l").svg_inline(omitsize=True, border=2))
