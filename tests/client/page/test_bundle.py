"""Modules are joined into one script that does what they do, and what cannot be joined is refused."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from askance_client.page.bundle import BundleError, bundle

MODULES = {
    "main.mjs": """// The entry.
import { twice as double, LIST } from "./numbers.mjs";
import * as words from "./words.mjs";
import { three } from "package";

console.log(JSON.stringify([double(2), LIST, words.said, three, new words.Said().it]));
""",
    "numbers.mjs": """import { said } from "./words.mjs";
const hidden = said.length;
export const LIST = [hidden];
export function twice(n) {
  return 2 * n;
}
""",
    "words.mjs": 'const hidden = "four";\nexport const said = hidden;\nexport class Said {\n  it = hidden;\n}\n',
    "package/index.mjs": 'export { four as three } from "./inside.mjs";\n',
    "package/inside.mjs": "const four = 3;\nexport { four };\n",
}


def placed(folder: Path, modules: dict[str, str]) -> str:
    for name, text in modules.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    return bundle(folder / "main.mjs", {"package": folder / "package" / "index.mjs"})


def test_a_bundle_does_what_its_modules_do(tmp_path: Path) -> None:
    script = tmp_path / "out.mjs"
    script.write_text(placed(tmp_path, MODULES))
    ran = subprocess.run(["node", str(script)], capture_output=True, text=True, check=True)

    assert ran.stdout.strip() == '[4,[4],"four",3,"four"]'
    # The control: these modules by themselves.
    alone = MODULES["main.mjs"].replace('"package"', '"./package/index.mjs"')
    (tmp_path / "main.mjs").write_text(alone)
    again = subprocess.run(["node", str(tmp_path / "main.mjs")], capture_output=True, text=True, check=True)
    assert again.stdout == ran.stdout


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('import "./words.mjs";', "another form"),
        ("export default 1;", "another form"),
        ("export let changing = 1;", "another form"),
        ('import words from "./words.mjs";', "another form"),
        ('export * from "./words.mjs";', "passes on all"),
        ('const late = await import("./words.mjs");', "another form"),
        ('import { a } from "elsewhere";', "no package"),
        ('import { a } from "./missing.mjs";', "cannot be read"),
        ('import { a } from "./main.mjs";', "imports itself"),
    ],
)
def test_what_cannot_be_joined_is_refused(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(BundleError, match=why):
        placed(tmp_path, MODULES | {"main.mjs": text})


def test_a_word_that_only_looks_like_an_import_is_left_alone(tmp_path: Path) -> None:
    text = '// import this from "there"\nconst exported = "export me";\nconsole.log(exported);\n'

    assert "export me" in placed(tmp_path, {"main.mjs": text})
