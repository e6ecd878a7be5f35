"""Check the types of all JavaScript modules of the sources."""

from __future__ import annotations

import sys

from tests.harness.tree import ROOT
from tests.harness.typescript import check, configs


def main() -> int:
    """Print what is wrong, and say whether anything is."""
    wrong = False
    for config in configs():
        done = check(config)
        sys.stdout.write(done.stdout + done.stderr)
        wrong |= done.returncode != 0
        sys.stdout.write(f"{config.parent.relative_to(ROOT)}: {'wrong' if done.returncode else 'no errors'}\n")
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
