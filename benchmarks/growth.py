"""How time grows with users, dimensions, rounds, studies, connections and streams of events.

Prints one JSON object: of each curve its exponent, over the upper half of its sizes, with the least and the most of all
turns, beside the largest that it may be; and the curve itself. Exits 6 where an exponent is larger. With `--planted`
the seconds of a curve count in proportion to its size: one exponent more, which has to be found.

    python benchmarks/growth.py [CURVE ...] [--turns N] [--planted CURVE]
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any, Final

from growth_curves import CURVES, Curve
from growth_served import SERVED
from measuring import Figure, Growth, growing, held, on_one_core, tell

NAMED: Final = {curve.name: curve for curve in (*CURVES, *SERVED)}


def measured(curve: Curve, turns: int, *, planted: bool = False) -> Growth:
    """One curve."""
    clock, turns = curve.clock or time.perf_counter, min(turns, curve.most_turns)
    with curve.work() as work:
        return growing(work, curve.sizes, turns, budget=curve.budget, planted=planted, least=curve.least, clock=clock)


def main() -> int:
    """Measure, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("curves", nargs="*", metavar="CURVE", help=f"all, unless given: {', '.join(NAMED)}")
    parser.add_argument("--turns", type=int, default=4, help="how often everything is measured")
    parser.add_argument("--planted", choices=list(NAMED), help="let this grow with one exponent more: it must be found")
    given = parser.parse_args()
    if unknown := [name for name in given.curves if name not in NAMED]:
        parser.error(f"no curve is named {unknown[0]!r}: choose from {', '.join(NAMED)}")
    on_one_core()
    figures, curves = dict[str, Figure](), dict[str, Any]()
    for name in given.curves or ([given.planted] if given.planted else NAMED):
        curve, begin = NAMED[name], time.perf_counter()
        grown = measured(curve, given.turns, planted=name == given.planted)
        figures[name] = grown.exponent(at_most=curve.at_most)
        turns = len(figures[name].values)
        about = {"of": curve.of, "what": curve.what, "limit": curve.limit, "turns": turns, "held": held(turns)}
        curves[name] = about | grown.to_json()
        took = time.perf_counter() - begin
        print(f"{name}: {figures[name].median:.2f} (at most {curve.at_most}), {took:.0f} s", file=sys.stderr)
    return tell(figures, curves=curves)


if __name__ == "__main__":
    sys.exit(main())
