"""What a picture of a lesson is: numbers that show themselves as a table and as a figure."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, ClassVar, Final

import typer

from askance_lab.experiments import figure as plots

FIRST: Final = "#2345d3"
"""The colour of what is asked in rounds, and of the first of two; with round marks."""
SECOND: Final = "#b04c08"
"""The colour of what is asked at once, and of the second of two; with square marks. The two differ for every eye."""
QUIET: Final = plots.GUIDE
"""The colour of what is known or proved beforehand."""
LOOKS: Final = ((FIRST, "o", "-"), (SECOND, "s", "--"), (QUIET, "^", "-."))
"""Colour, mark and line of the first, second and third of several: a shape says what a colour says."""


class Picture(ABC):
    """Numbers that a figure is drawn of. A notebook shows the figure where such a value ends a cell."""

    __slots__ = ()
    HEAD: ClassVar[tuple[str, ...]]
    """What the columns of the table are."""

    @abstractmethod
    def rows(self) -> Sequence[tuple[str, ...]]:
        """Numbers of the figure, as they are read."""

    @abstractmethod
    def figure(self) -> Any:
        """Draw the figure, a matplotlib `Figure`."""

    def table(self) -> str:
        """Text of the table: what the figure shows, for those who do not see it."""
        lines = [self.HEAD, *self.rows()]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        return "\n".join("  ".join(map(str.rjust, line, widths)) for line in lines)

    def _repr_svg_(self) -> str:
        return plots.svg(self.figure())


def holds(true: bool, sentence: str) -> None:
    """Say a sentence that the numbers above bear out; or that they do not, after somebody has changed them."""
    typer.echo(f"✓ {sentence}" if true else f"✗ with these numbers it does not hold: {sentence}")
