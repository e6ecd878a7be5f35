"""`askance refutation`: the verdict at each small d, over all concepts."""

from __future__ import annotations

import json

import pytest

from askance_lab.theory.masked_parity import klnrs08_refuted
from askance_protocol.errors import UsageError
from tests.lab.commands.calls import invoke


@pytest.mark.parametrize("d", [2, 4, pytest.param(8, marks=pytest.mark.slow)])
def test_the_verdict_is_that_of_the_formulas(d: int) -> None:
    found = json.loads(invoke("refutation", "--d", d, "--json"))

    assert found["refuted"] is klnrs08_refuted(dimension=d)
    assert (found["queries"], found["concepts"], found["claimed"]) == (d + 1, 2 ** (d + 1), 2**d - 1)
    # The control: below d = 8 some lie within the tolerance hides the mask bit.
    assert (found["learned"] == found["concepts"]) is (d == 8)
    assert (found["bias"] > found["tolerance"]) is (d == 8)


def test_it_reads_as_text() -> None:
    assert "at d = 4 the theorem is not refuted" in invoke("refutation", "--d", 4)


@pytest.mark.parametrize("d", [0, 3, 16])
def test_a_d_that_is_not_tried_is_refused(d: int) -> None:
    with pytest.raises(UsageError, match="one of 2, 4, 8"):
        invoke("refutation", "--d", d)
