"""`askance demo`: it ends by itself, with a row for each learner, whose error is that of the definition."""

from __future__ import annotations

from typing import Any

import pytest

from askance_lab.evaluation.exact import exact_error
from askance_server.strategies.masked_parity import MASKED_PARITY
from tests.lab.commands.calls import json_of


@pytest.mark.slow
def test_the_demo_ends_by_itself_with_a_table_of_both_learners() -> None:
    shown = json_of("demo", "--users", 600, "--d", 4, "--clients", 3, "--port", 0)

    assert [row["learner"] for row in shown["learners"]] == ["masked-parity-pooled", "masked-parity-noninteractive"]
    for row, interactive in zip(shown["learners"], (True, False), strict=True):
        assert (row["rounds"] > 1, row["refusals"]) == (interactive, 0)
        assert row["users"] <= 600
        assert row["max_spent_micro_epsilon"] == 1_000_000
        assert row["state"] == "finished"
        assert 0 <= row["error"] <= 0.75
    assert [each["d"] for each in shown["planned"]] == [8, 16, 32, 64]


def test_errors_of_masked_parity_are_those_of_the_definition() -> None:
    """KLNRS11, §5.3, by going through all examples of d = 2."""
    truth = {"r": "01", "a": 1}

    def label(concept: dict[str, Any], x: tuple[int, int], i: int, b: int) -> int:
        r = [int(bit) for bit in concept["r"]]
        return (-1) ** r[i] if b else (-1) ** (r[0] * x[0] + r[1] * x[1] + concept["a"])

    domain = [((x0, x1), i, b) for x0 in (0, 1) for x1 in (0, 1) for i in (0, 1) for b in (0, 1)]
    for r in ("00", "01", "10", "11"):
        for a in (0, 1):
            learned = {"r": r, "a": a}
            wrong = sum(label(learned, *example) != label(truth, *example) for example in domain)
            assert exact_error(MASKED_PARITY, learned, truth) == wrong / len(domain)
