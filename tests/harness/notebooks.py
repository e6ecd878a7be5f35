"""What a notebook says in words, held against what its cells print.

`askance_lab.lesson.holds` prints a sentence with ✓, or with ✗ where it is not true. So a notebook is wrong where a ✗ is
printed; and where the text of a part has a number that no true sentence of that part has. Numbers in code, in links and
in names (KLNRS11, 2⁶⁴, §5.3) are no claims. `website.notebooks` reads and runs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from website.notebooks import CodeCell, MarkdownCell, Notebook, Shown

_NUMBER: Final = re.compile(r"(?<![\w.,§])[+−-]?\d+(?:[.,]\d+)*(?![\w⁰¹²³⁴-⁹])")
_NO_CLAIM: Final = re.compile(r"```.*?```|`[^`]*`|\]\([^)]*\)|\$[^$]*\$", re.DOTALL)


def numbers(text: str) -> set[str]:
    """Numbers that a text states."""
    return set(_NUMBER.findall(_NO_CLAIM.sub(" ", text)))


def parts(notebook: Notebook) -> Iterator[list[MarkdownCell | CodeCell]]:
    """The cells of each part: from one heading to the next."""
    part: list[MarkdownCell | CodeCell] = []
    for cell in notebook.cells:
        if isinstance(cell, MarkdownCell) and cell.text.startswith("#") and part:
            yield part
            part = []
        part.append(cell)
    yield part


def faults(notebook: Notebook, shown: Shown) -> list[str]:
    """Sentences that are not true, numbers of a text that no true sentence of its part has, parts without question."""
    found: list[str] = []
    for part in parts(notebook):
        printed = "\n".join(shown.printed.get(cell.id, "") for cell in part).splitlines()
        found += [line for line in printed if line.startswith("✗")]
        true = "\n".join(line for line in printed if line.startswith("✓"))
        text = "\n".join(cell.text for cell in part if isinstance(cell, MarkdownCell))
        found += [f"{part[0].id}: {number} is nowhere shown" for number in sorted(numbers(text) - numbers(true))]
        is_part = part[0].text.startswith("## ")
        if is_part and not re.search(r"^\*\*Ask the class:\*\* .*\?", part[-1].text, re.MULTILINE):
            found.append(f"{part[0].id}: no question to the class at its end")
    return found
