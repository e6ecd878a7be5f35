"""A bill of materials: what an image installs, with version, licence and hashes, as CycloneDX 1.6 in JSON.

    python deploy/sbom.py server/requirements.txt --name askance-server
    python deploy/sbom.py server/requirements.txt --table

Versions and licences are those of the packages that are installed where it runs, hashes those of the lock: one for
each file that the lock admits. So both images make their own while they are built (`/opt/askance/sbom.cdx.json`), and
`make sbom` makes them of this repository's environment. `--whole`: nothing but those packages may be installed. The
same packages give the same bytes. What the base image brings is not in it: that is its maker's to tell.

`--table` prints the rows of docs/licences.md.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution, distributions
from pathlib import Path
from typing import Any, Final

OURS: Final = "askance"
TOOLS: Final = frozenset({"pip", "setuptools", "wheel"})
"""What an environment may have besides."""
_LONGEST: Final = 60
"""Characters of a field that names a licence; some have the whole text there."""


class BillError(Exception):
    """What is installed is not what the lock says."""


@dataclass(frozen=True, slots=True)
class Package:
    """A package that is installed."""

    name: str
    version: str
    licence: str
    spdx: bool
    """Whether the licence is an expression of SPDX; else it is what its author has called it."""
    hashes: tuple[str, ...]

    def component(self) -> dict[str, Any]:
        """As CycloneDX has it."""
        reference = f"pkg:pypi/{self.name}@{self.version}"
        licence = {"expression": self.licence} if self.spdx else {"license": {"name": self.licence}}
        return {
            "type": "library",
            "bom-ref": reference,
            "name": self.name,
            "version": self.version,
            "purl": reference,
            "licenses": [licence],
            "hashes": [{"alg": "SHA-256", "content": each} for each in self.hashes],
        }


def locked(text: str) -> dict[str, dict[str, tuple[str, ...]]]:
    """For each name that a file of requirements has for this system: its versions, and the hashes of each."""
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    for piece in re.split(r"\n(?=[a-z0-9])", text):
        if "sys_platform == 'win32'" in piece and sys.platform != "win32":
            continue
        if match := re.match(r"([a-z0-9.-]+)==([^\s;\\]+)", piece):
            found.setdefault(match[1], {})[match[2]] = tuple(re.findall(r"sha256:([0-9a-f]{64})", piece))
    return found


def normal(name: str) -> str:
    """A name as locks write it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def licence_of(found: Distribution) -> tuple[str, bool]:
    """What a package says of its licence, and whether in the words of SPDX."""
    for expression in _said(found, "License-Expression"):
        return expression, True
    for named in _said(found, "License"):
        if named and "\n" not in named and len(named) <= _LONGEST:
            return named, False
    trove = [each.rpartition(" :: ")[2] for each in _said(found, "Classifier") if each.startswith("License ::")]
    if not trove:
        raise BillError(f"{found.name} does not say its licence")
    return " or ".join(trove), False


def _said(found: Distribution, field: str) -> list[str]:
    """What the metadata of a package has under a name: once, several times, or not at all."""
    return [str(each).strip() for each in found.metadata.get_all(field) or ()]


def packages(lock: Mapping[str, Mapping[str, tuple[str, ...]]], *, whole: bool = False) -> list[Package]:
    """The packages of a lock that are installed here, by name. Those for other systems are not."""
    here = {normal(each.name): each for each in reversed(list(distributions()))}
    if whole and (others := sorted(here.keys() - lock.keys() - TOOLS - {OURS})):
        raise BillError(f"installed, and not in the lock: {', '.join(others)}")
    found: list[Package] = []
    for name in sorted(lock.keys() & here.keys()):
        version = here[name].version
        if version not in lock[name]:
            raise BillError(f"{name} is installed as {version}, and locked as {' or '.join(lock[name])}")
        found.append(Package(name, version, *licence_of(here[name]), lock[name][version]))
    return found


def bill(name: str, version: str, found: Sequence[Package]) -> dict[str, Any]:
    """The document."""
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "bom-ref": name,
                "name": name,
                "version": version,
                "licenses": [{"expression": "MIT"}],
            }
        },
        "components": [each.component() for each in found],
        "dependencies": [{"ref": name, "dependsOn": [each.component()["bom-ref"] for each in found]}],
    }


def table(found: Sequence[Package]) -> list[str]:
    """Rows of a page: name and licence."""
    return ["| package | licence |", "| --- | --- |", *(f"| {each.name} | {each.licence} |" for each in found)]


def main() -> int:
    """Print it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("lock", type=Path, help="a file of requirements with hashes")
    parser.add_argument("--name", default="askance", help="the image")
    parser.add_argument("--whole", action="store_true", help="fail where anything else is installed")
    parser.add_argument("--table", action="store_true", help="names and licences, in Markdown")
    given = parser.parse_args()
    try:
        found = packages(locked(given.lock.read_text("utf-8")), whole=given.whole)
    except BillError as error:
        print(f"sbom: {error} (make lock, and install what it says)", file=sys.stderr)
        return 1
    ours = [each.version for each in distributions() if normal(each.name) == OURS]
    if given.table:
        print("\n".join(table(found)))
    else:
        print(json.dumps(bill(given.name, ours[0] if ours else "unknown", found), indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
