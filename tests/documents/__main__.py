"""How many figures each document has, and what holds them: `python -m tests.documents`. Exits 1 where nothing does."""

from __future__ import annotations

import sys
from collections import Counter

from tests.documents.holding import PAGES, WAYS, whole


def main() -> int:
    """A line for each page; all that is wrong goes to standard error."""
    print(f"{'page':40}", *(f"{way:>10}" for way in WAYS), f"{'none':>6}")
    bad = 0
    for name in PAGES:
        held, faults = whole(name)
        found = Counter(held.values())
        print(f"{name:40}", *(f"{found[way]:10,}" for way in WAYS), f"{len(faults):6,}")
        for fault in faults:
            print(f"{name}: {fault}", file=sys.stderr)
        bad += len(faults)
    return min(1, bad)


if __name__ == "__main__":
    sys.exit(main())
