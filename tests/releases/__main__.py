"""`python -m tests.releases 1.0`: keep what this code writes, a ledger and wallets with some of everything in them."""

from __future__ import annotations

import argparse
import sys

from tests.harness.tree import ROOT
from tests.releases.keeping import FILES, FOLDER, TOLD, refusal, write


def main() -> int:
    """Write the files of a release that is to come; 6 if there is not all in them that should be."""
    options = argparse.ArgumentParser(prog="python -m tests.releases", description=__doc__)
    options.add_argument("release", help="MAJOR.MINOR of the next release")
    name = options.parse_args().release
    if why := refusal(name, (ROOT / "CHANGELOG.md").read_text("utf-8")):
        print(why, file=sys.stderr)
        return 2
    if lacking := write(name):
        print("nothing was written: there is none of\n  " + "\n  ".join(lacking), file=sys.stderr)
        return 6
    for file in (*FILES, TOLD):
        path = FOLDER / name / f"{file}.xz"
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
