"""KLNRS08, Thm 5.1 against d + 1 nonadaptive queries: they learn, whatever the oracle says within its tolerance."""

from __future__ import annotations

import numpy as np
import pytest

from askance_lab.experiments.converse import LIE_SCHEDULES
from askance_lab.experiments.refutation import REFUTATION
from askance_lab.theory.masked_parity import klnrs08_nonadaptive_stated, klnrs08_refuted
from askance_server.core.run import Run
from askance_server.core.strategy import Hypothesis
from tests.server.learners import concepts, exact, learn, masked

LIES = list(LIE_SCHEDULES.values())


@pytest.mark.slow
def test_all_512_concepts_at_d_8_are_learned_from_nine_queries_at_the_theorems_tolerance() -> None:
    claim = klnrs08_nonadaptive_stated(dimension=8)
    learned = 0
    for r, a in concepts(8):
        columns = masked(8, r, a)
        [asks] = learn(REFUTATION, {"d": 8}, columns)[1]
        assert len(asks) == 9 <= claim.queries
        assert {ask.tolerance for ask in asks} == {claim.tolerance}
        means = [exact(ask, columns) for ask in asks]
        for lie in LIES:
            run = Run(REFUTATION, {"d": 8})
            run.step(None)
            said = run.step([mean + lie(k) * claim.tolerance for k, mean in enumerate(means)])
            assert isinstance(said, Hypothesis)
            assert said.value == {"r": r, "a": a}
            learned += 1
    assert learned == 512 * len(LIES)


def test_the_queries_have_the_means_that_the_refutation_claims() -> None:
    d = 4
    for r, a in concepts(d):
        columns = masked(d, r, a)
        [asks] = learn(REFUTATION, {"d": d}, columns)[1]
        *shown, bent = [exact(ask, columns) for ask in asks]

        assert shown == [1 - int(bit) / d for bit in r]
        assert abs(bent - 1 / 2) == 2 ** (-d / 2 - 1)


def test_below_d_8_the_theorems_tolerance_hides_the_mask_and_klnrs11s_always_does() -> None:
    """The control: with a tolerance above the bent query's bias a lie turns its sign."""
    assert [d for d in (2, 4, 8, 16, 32) if klnrs08_refuted(dimension=d)] == [8, 16, 32]
    columns = masked(4, "0110", 1)
    lies = [learn(REFUTATION, {"d": 4}, columns, lambda _, lie=lie: lie)[0].value for lie in (1.0, -1.0)]

    assert any(learned != {"r": "0110", "a": 1} for learned in lies)
    for d in (8, 16, 32, 64):
        assert 2 ** (-d / 3) > 2 ** (-d / 2 - 1)
    assert np.isclose(klnrs08_nonadaptive_stated(dimension=8).tolerance, 2 ** (-16 / 3))
