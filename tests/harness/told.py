"""Hearing how far long work has come, and whether what was heard can be true."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import groupby, pairwise


@dataclass(frozen=True, slots=True)
class Told:
    """Hears what is told of a work: its parts, one after the other."""

    news: list[tuple[str, int, int]] = field(default_factory=list[tuple[str, int, int]])

    def __call__(self, part: str, done: int, of: int) -> None:
        """Hear it."""
        self.news.append((part, done, of))

    def fault(self, *parts: str) -> str | None:
        """What is wrong with it, or which of these parts was not told to its end; None if nothing is."""
        ended = set[str]()
        for part, together in groupby(self.news, key=lambda each: each[0]):
            news = [(done, of) for _, done, of in together]
            if any(before > after for (before, _), (after, of) in pairwise(news) if of):
                return f"{part}: it goes back"
            if any(of and done > of for done, of in news):
                return f"{part}: it goes beyond its end"
            if len({of for _, of in news if of}) > 1:
                return f"{part}: its end moves"
            if news[-1][0] == news[-1][1] > 0:
                ended.add(part)
        missing = [part for part in parts if part not in ended]
        return f"{missing[0]}: it is not told to its end" if missing else None
