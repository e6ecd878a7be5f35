"""`python -m tests.snapshots`: write down what is new of what users rely on, and declare what is broken on purpose."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory

from tests.harness.tree import ROOT
from tests.snapshots.announcing import announced, days_of, too_soon
from tests.snapshots.comparing import Difference, Surface
from tests.snapshots.keeping import broken_by, complaint, declare, declared, keep, next_version, promised, unreleased

CHANGELOG = ROOT / "CHANGELOG.md"


def now(*, long: bool) -> dict[str, Surface]:
    """All surfaces, as the code has them. Without `long` what takes a minute stays as it is."""
    from tests.snapshots.outputs import LONG, outputs  # they load the whole system, which --next needs not
    from tests.snapshots.surfaces import SURFACES

    with TemporaryDirectory() as folder:
        printed = outputs(Path(folder), long=long)
    kept = {} if long else {f"askance {name}": promised("json").get(f"askance {name}", set()) for name in LONG}
    return {**{name: surface() for name, surface in SURFACES.items()}, "json": {**printed, **kept}}


def version() -> str:
    """The one that was released last."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]


def refused(broken: Mapping[str, Sequence[str]]) -> list[str]:
    """What must not be broken yet. Before 1.0 a version breaks what it says it breaks."""
    if version().startswith("0."):
        return []
    return list(too_soon(broken, announced(), days_of(CHANGELOG.read_text("utf-8")), datetime.now(UTC).date()))


def main() -> int:
    """Write the files, or say what is broken."""
    options = argparse.ArgumentParser(prog="python -m tests.snapshots", description=__doc__)
    options.add_argument("--breaking", metavar="WHY", help="what is gone, and what to do instead, in a user's words")
    options.add_argument("--harm", action="store_true", help="to keep it would harm a privacy or a budget: at once")
    options.add_argument("--long", action="store_true", help="run what takes a minute, too: askance demo")
    options.add_argument("--next", action="store_true", help="say the least number that the next release may have")
    asked = options.parse_args()
    if asked.next:
        breaks = [each for each in declared() if not each.get("harm")]  # what does harm is mended in any version
        print(next_version(version(), len(breaks), unreleased(CHANGELOG.read_text("utf-8"))))
        return 0
    surfaces = now(long=asked.long)
    broken = broken_by(surfaces)
    if broken and not asked.breaking:
        print("".join(complaint(name, Difference(lines, ())) for name, lines in broken.items()), file=sys.stderr)
        return 6
    if asked.breaking and not broken:
        print("Nothing is broken: nothing to declare.", file=sys.stderr)
        return 2
    if asked.breaking and not asked.harm and (soon := refused(broken)):
        print("Not yet: announce it first (docs/stable.md).\n  " + "\n  ".join(soon), file=sys.stderr)
        return 6
    if asked.breaking:
        declare(asked.breaking, broken, CHANGELOG, harm=asked.harm)
    keep(surfaces)
    return 0


if __name__ == "__main__":
    sys.exit(main())
