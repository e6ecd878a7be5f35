"""What a mechanism is: one file that ends with its MECHANISM, which the package finds; its answers, its refusals."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from askance_lab import curator
from askance_lab.cli import app
from askance_lab.curator import choosing, generic_conjunction, registry, train_test
from askance_lab.curator.concepts import (
    A_CONJUNCTION,
    A_MASKED_PARITY,
    A_PARITY,
    A_POINT,
    A_THRESHOLD,
    COUNTS,
    Names,
    exact_value,
)
from askance_lab.curator.databases import BitSample, LabelledSample, masked_examples
from askance_lab.curator.errors import TooFewExamplesError
from askance_lab.curator.registry import mechanisms
from askance_lab.curator.render import as_json, as_text
from askance_lab.data.problems import masked_parity
from askance_lab.theory.targets import Targets
from askance_protocol.errors import Code, ProtocolError
from tests.lab.curator.curating import draws

DROPPED = """
from typing import Final

from askance_lab.curator.concepts import A_NUMBER, POINT
from askance_lab.curator.mechanism import Mechanism

MECHANISM: Final = Mechanism(
    name="constant",
    summary="42, whatever the examples",
    by="nobody",
    concepts=POINT,
    answers=A_NUMBER,
    run=lambda sample, targets, draw: 42,
    needed=lambda d, targets: 1,
    off=lambda found, sample: 0.0,
)
"""


@pytest.fixture
def dropped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A file with a mechanism and one without lie on the package's path."""
    (tmp_path / "constant.py").write_text(DROPPED)
    (tmp_path / "without_mechanism.py").write_text("MECHANISM = 'no mechanism'\n")
    monkeypatch.setattr(curator, "__path__", [*curator.__path__, str(tmp_path)])
    registry.mechanisms.cache_clear()
    yield
    registry.mechanisms.cache_clear()
    for name in ("constant", "without_mechanism"):
        sys.modules.pop(f"askance_lab.curator.{name}", None)
        if hasattr(curator, name):
            delattr(curator, name)


@pytest.mark.usefixtures("dropped")
def test_a_file_that_is_dropped_into_the_package_is_a_mechanism_of_the_command() -> None:
    known = list(mechanisms())
    done = CliRunner().invoke(app, ["curator", "constant", "--seed", "1", "--json"], catch_exceptions=False)
    found = json.loads(done.stdout)

    assert known[-1] == "constant"
    assert len(known) == 23
    assert (found["hypothesis"], found["users"], found["by"]) == ({"answer": 42}, 1, "nobody")
    assert "42, whatever the examples" in CliRunner().invoke(app, ["curator", "list"]).stdout


def test_without_the_file_there_is_no_such_mechanism() -> None:
    assert "constant" not in mechanisms()
    with pytest.raises(ProtocolError, match="is nothing that a curator does here"):
        registry.mechanism("constant")


@pytest.mark.parametrize("name", mechanisms())
def test_a_mechanism_is_named_cited_placed_and_pays_no_more_than_it_may(name: str) -> None:
    each, targets = mechanisms()[name], Targets(alpha=mechanisms()[name].alpha)
    paid = each.paid(targets, each.d)

    assert each.name == name
    assert each.by
    assert each.summary
    assert 0 < paid.epsilon <= targets.epsilon
    assert 0 <= paid.delta <= targets.delta
    assert each.needed(each.d, targets) > 0
    # What has an error to tell labels examples; what is off by something does not.
    assert (each.answers.labels is None) == (each.off is not None)


def test_no_two_mechanisms_have_a_place_in_common() -> None:
    places = [each.place for each in mechanisms().values()]

    assert len(set(places)) == len(places)


# --------------------------------------------------------------------------------------------------------- answers

BITS = BitSample.of([[1, 1, 0], [1, 0, 1], [0, 0, 0]], [1, 0, 1])
NUMBERS = LabelledSample.of(4, [3, 5, 5, 9], [1, 0, 1, 1])


def test_hypotheses_are_written_as_strategies_write_them_and_read_by_people() -> None:
    names = Names(("ill", "old", "tall"), lambda number: f"{number} years")

    assert A_PARITY.to_json(0b101, 3) == {"r": "101"}
    assert A_PARITY.to_json(0b001, 3) == {"r": "100"}
    assert A_PARITY.text(0b101, 3, names) == "odd ill ⊕ tall"
    assert A_PARITY.text(0, 3, names) == "odd 0"
    assert A_MASKED_PARITY.to_json(0b1011, 3) == {"r": "110", "a": 1}
    assert A_MASKED_PARITY.text(0b0011, 3, Names()) == "r = 110, a = 0"
    assert A_CONJUNCTION.to_json((0, 2), 3) == {"variables": [0, 2]}
    assert A_CONJUNCTION.text((0, 2), 3, Names()) == "x_0 ∧ x_2"
    assert A_CONJUNCTION.text((), 3, names) == "true"
    assert A_POINT.text(7, 3, names) == "x = 7 years"
    assert A_THRESHOLD.text(7, 3, names) == "x < 7 years"
    assert A_THRESHOLD.to_json(1 << 60, 64) == {"threshold": 1 << 60}


def test_hypotheses_label_examples() -> None:
    assert A_PARITY.labels is not None
    assert A_CONJUNCTION.labels is not None
    assert A_POINT.labels is not None
    assert A_THRESHOLD.labels is not None
    assert A_PARITY.labels(0b101, BITS).tolist() == [True, False, False]
    assert A_CONJUNCTION.labels((0, 2), BITS).tolist() == [False, True, False]
    assert A_CONJUNCTION.labels((), BITS).tolist() == [True, True, True]
    assert A_POINT.labels(5, NUMBERS).tolist() == [False, True, True, False]
    assert A_THRESHOLD.labels(5, NUMBERS).tolist() == [True, False, False, False]


def test_a_masked_parity_that_is_true_has_the_labels_of_its_examples_and_no_error() -> None:
    problem = masked_parity(8, 0.1, 300, 2)
    truth = problem.people.truth
    found = sum(int(bit) << i for i, bit in enumerate(str(truth["r"]) + str(truth["a"])))
    sample = masked_examples(problem.columns)

    assert A_MASKED_PARITY.labels is not None
    assert np.array_equal(A_MASKED_PARITY.labels(found, sample), sample.labels)
    assert problem.error(A_MASKED_PARITY.to_json(found, 8)) == 0
    assert problem.error(A_MASKED_PARITY.to_json(found ^ 1 << 8, 8)) == 0.5


def test_numbers_that_json_may_not_keep_are_strings() -> None:
    assert exact_value({1 << 70: 3, 5: 1 << 53, "r": "01"}) == {str(1 << 70): 3, "5": str(1 << 53), "r": "01"}
    assert COUNTS.text({1: 2}, 4, Names()) == "{'1': 2}"


def test_bottom_is_null_for_programs_and_a_sign_for_people() -> None:
    chosen = mechanisms()["parity"]

    assert as_json(chosen, 8, None) is None
    assert as_text(chosen, 8, None, Names()) == "⊥"
    assert as_json(generic_conjunction.MECHANISM, 8, (1,)) == {"variables": [1]}


# -------------------------------------------------------------------------------------------------------- refusals


def test_too_few_examples_have_an_error_with_a_code_of_its_own() -> None:
    few = LabelledSample.of(4, [1, 2, 3], [1, 0, 1])

    with pytest.raises(TooFewExamplesError, match="give at least") as refused:
        choosing.MECHANISM.run(few, Targets(), draws())
    assert refused.value.code is Code.TOO_FEW_USERS
    with pytest.raises(TooFewExamplesError, match="insufficient samples"):
        train_test.MECHANISM.run(BITS, Targets(), draws())
