"""The bill of materials of an image: all that is installed, as the lock has it, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from tests.harness.tree import ROOT

LOCK = ROOT / "server/requirements.txt"


@pytest.fixture
def sbom(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "deploy"))
    return import_module("sbom")


def printed(lock: Path, *options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "deploy/sbom.py", lock, *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)


def test_it_has_version_licence_and_hashes_of_each_package_and_is_the_same_each_time(sbom: Any) -> None:
    run = printed(LOCK, "--name", "askance-server")
    told, locked = json.loads(run.stdout), sbom.locked(LOCK.read_text("utf-8"))
    assert (told["bomFormat"], told["specVersion"], told["metadata"]["component"]["name"]) == (
        "CycloneDX",
        "1.6",
        "askance-server",
    )
    assert [each["name"] for each in told["components"]] == sorted(locked)
    for each in told["components"]:
        assert each["purl"] == each["bom-ref"] == f"pkg:pypi/{each['name']}@{each['version']}"
        hashes = [one["content"] for one in each["hashes"]]
        assert hashes
        assert tuple(hashes) == locked[each["name"]][each["version"]]
        [licence] = each["licenses"]
        assert licence.get("expression") or licence["license"]["name"]
    assert "scipy" not in locked
    assert printed(LOCK, "--name", "askance-server").stdout == run.stdout


@pytest.mark.parametrize("lock", ["server/requirements.txt", "client/requirements.txt"])
def test_every_image_writes_its_own_and_takes_nothing_that_is_not_locked(lock: str) -> None:
    room = lock.partition("/")[0]
    dockerfile = (ROOT / room / "Dockerfile").read_text()
    assert f"sbom.py requirements.txt --whole --name askance-{room} >/opt/askance/sbom.cdx.json" in dockerfile
    # The control: here is more than an image has.
    refused = printed(ROOT / lock, "--whole")
    assert refused.returncode == 1
    assert "installed, and not in the lock: " in refused.stderr
    assert "pytest" in refused.stderr


def test_a_package_that_is_not_the_locked_one_is_found(tmp_path: Path) -> None:
    planted = tmp_path / "requirements.txt"
    planted.write_text(LOCK.read_text().replace("httpx==0.", "httpx==9."))
    refused = printed(planted)
    assert refused.returncode == 1
    assert "httpx is installed as 0." in refused.stderr


def test_the_page_has_the_licence_of_each_package(sbom: Any) -> None:
    page = (ROOT / "docs/licences.md").read_text("utf-8")
    rows = sbom.table(sbom.packages(sbom.locked(LOCK.read_text("utf-8"))))
    assert page.endswith("\n".join(rows) + "\n")
    assert set(sbom.locked((ROOT / "client/requirements.txt").read_text())) < set(sbom.locked(LOCK.read_text()))
    # The control: a package more.
    assert not page.endswith("\n".join([*rows, "| scipy | BSD |"]) + "\n")


def test_a_package_without_a_licence_is_refused(sbom: Any, tmp_path: Path) -> None:
    from importlib.metadata import Distribution

    def licence(*lines: str) -> tuple[str, bool]:
        folder = tmp_path / "some-1.dist-info"
        folder.mkdir(exist_ok=True)
        (folder / "METADATA").write_text("\n".join(("Metadata-Version: 2.4", "Name: some", "Version: 1", *lines)))
        return sbom.licence_of(Distribution.at(folder))

    assert licence("License-Expression: MIT", "License: other") == ("MIT", True)
    assert licence("License: ISC License") == ("ISC License", False)
    assert licence("Classifier: License :: OSI Approved :: BSD License") == ("BSD License", False)
    with pytest.raises(sbom.BillError, match="some does not say its licence"):
        licence()
