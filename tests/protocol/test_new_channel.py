"""A channel is one file: put into a copy of the package it is published, sampled, estimated and planned."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import askance_protocol
from askance_protocol import channels
from askance_protocol.channels import CHANNELS

ROOT = Path(__file__).parents[2]

ABSTAIN = '''
"""Binary response with a third outcome: one report in four says nothing, whatever the answer."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal

import numpy as np

from askance_protocol.channels.channel import Channel, ChannelKind, EpsilonSpec, Inputs, Outcomes
from askance_protocol.channels.ratio import SCALE_BITS, WORD, certified_micro_epsilon, exp_lower, whole_epsilon
from askance_protocol.queries import BooleanQuery, Query
from askance_protocol.randomness import Words
from askance_protocol.schema import Schema


@dataclass(frozen=True, slots=True)
class Abstaining(Channel):
    """Inputs 0 and 1; outcomes 0, 1 and "nothing"."""

    kind: ClassVar[str] = "abstain"
    micro_epsilon: int

    @property
    def inputs(self) -> int:
        return 2

    @property
    def outcomes(self) -> int:
        return 3

    @property
    def said(self) -> int:
        """The words that say something."""
        return WORD // 4 * 3

    @property
    def keep(self) -> int:
        """The words that tell the truth."""
        odds = exp_lower(whole_epsilon(self.micro_epsilon))
        return self.said * odds // ((1 << SCALE_BITS) + odds)

    @property
    def certified_micro_epsilon(self) -> int:
        return certified_micro_epsilon([(self.said - self.keep, self.keep)])

    def segments(self, given: int) -> Iterator[tuple[int, int]]:
        yield self.keep, given
        yield self.said, 1 - given
        yield WORD, 2

    def decide(self, given: Inputs, words: Words) -> Outcomes:
        truth = np.where(words < np.uint64(self.keep), given, 1 - given)
        return np.where(words < np.uint64(self.said), truth, 2).astype(np.uint8)


class AbstainSpec(EpsilonSpec):
    """Binary response that may say nothing, for a boolean query."""

    kind: Literal["abstain"] = "abstain"
    answers = "a boolean query"

    def build(self, query: Query, schema: Schema) -> Abstaining:
        if not isinstance(query, BooleanQuery):
            raise self.refuse(query)
        return _abstaining(self.micro_epsilon)


_abstaining = lru_cache(Abstaining)
CHANNEL = ChannelKind("abstain", "a bit, or nothing", AbstainSpec, build=Abstaining)
'''

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

channel = CHANNELS["abstain"].build(MICRO)
json_part = {**part().to_json(), "channel": {"kind": "abstain", "micro_epsilon": MICRO}}
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


def test_the_contract_suite_takes_it_as_it_is(copied: Path) -> None:
    (copied / "askance_protocol" / "channels" / "abstain.py").write_text(ABSTAIN)
    suite = "tests/protocol/test_channel_contract.py"
    run = python(copied, "-m", "pytest", "-q", "-p", "no:cacheprovider", suite, "-k", "abstain")

    assert run.returncode == 0, run.stdout
    # Three ε and one query, by seven promises; and the published form by five.
    assert "33 passed" in run.stdout


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
