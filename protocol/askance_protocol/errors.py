"""The one error of this room: what is wrong, where, and what to do next."""

from __future__ import annotations


class ProtocolError(ValueError):
    """Something that both sides must refuse.

    `what` says what is wrong, `where` names the place in the input, `remedy` says what to do next.
    The message never repeats an example or a report: those are private.
    """

    def __init__(self, what: str, *, where: str = "", remedy: str = "") -> None:
        self.what = what
        self.where = where
        self.remedy = remedy
        super().__init__(": ".join(part for part in (where, what) if part) + (f" ({remedy})" if remedy else ""))

    def at(self, where: str) -> ProtocolError:
        """The same error, seen from one level further out."""
        inner = self.where if self.where.startswith("[") or not self.where else f".{self.where}"
        return type(self)(self.what, where=where + inner, remedy=self.remedy)
