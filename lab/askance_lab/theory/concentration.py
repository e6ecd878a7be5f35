"""Concentration bounds of the texts: records of the functions that the planner also uses.

The functions are in `askance_server.core.tails`: the server plans with them and does not see the lab.
"""

from __future__ import annotations

from typing import Final

from askance_lab.theory.theorem import FAILURE, Kind, Parameter, Theorem
from askance_server.core.tails import (
    chernoff_lower_tail,
    chernoff_upper_tail,
    hoeffding_tail,
    laplace_sum_tail_chernoff,
    laplace_sum_tail_klnrs08_repaired,
    laplace_sum_tail_klnrs08_stated,
    laplace_sum_tail_markov,
    laplace_sum_tail_repaired,
    laplace_sum_tail_stated,
    users_hoeffding,
)

_USERS: Final = Parameter("users", "n", "number of users", int, 200)
_DEVIATION: Final = Parameter("deviation", "δ", "how far the average is off", float, 1.0)

THEOREMS: Final = (
    Theorem(
        name="chernoff",
        title="Chernoff's bound",
        citation="KLNRS11, Thm A.1",
        says="The average of n Bernoulli(µ) variables exceeds (1+φ)µ, or falls below (1-φ)µ, with this probability.",
        kind=Kind.PRICE,
        gives="probability",
        parameters=(
            _USERS,
            Parameter("mean", "µ", "mean of a variable", float, 0.25),
            Parameter("excess", "φ", "relative deviation", float, 0.5),
        ),
        stated=chernoff_upper_tail,
        others=(chernoff_lower_tail,),
        checked_by=("server/core/test_tails.py::test_chernoff_bounds_the_exact_binomial",),
    ),
    Theorem(
        name="hoeffding",
        title="Hoeffding's bound",
        citation="KLNRS11, Thm A.2",
        says="The average of n variables in an interval of this width is off by δ with this probability.",
        kind=Kind.PRICE,
        gives="users",
        parameters=(
            _USERS,
            _DEVIATION.at(0.1),
            Parameter("width", "width", "length of the variables' interval", float, 1.0),
            FAILURE,
        ),
        stated=users_hoeffding,
        others=(hoeffding_tail,),
        checked_by=("server/core/test_tails.py::test_hoeffding_users_is_where_the_tail_crosses",),
    ),
    Theorem(
        name="laplace-sum",
        title="Sums of Laplace variables",
        citation="KLNRS11, Lemma A.3",
        says="The average of n variables Lap(λ) is off by δ with this probability.",
        kind=Kind.PRICE,
        gives="probability",
        parameters=(_USERS, _DEVIATION, Parameter("scale", "λ", "scale of a variable", float, 1.0)),
        stated=laplace_sum_tail_stated,
        repaired=laplace_sum_tail_repaired,
        sharp=laplace_sum_tail_chernoff,
        needs="repaired: δ up to 2√2·λ",
        differs="(1-x)^{-n} < e^{nx} is the wrong way round, and the stated tail is smaller than the true one.",
        traps=(2, 24),
        checked_by=(
            "server/core/test_tails.py::test_the_stated_lemma_a3_is_below_the_truth",
            "server/core/test_tails.py::test_the_repaired_lemma_a3_is_above_the_truth",
            "server/core/test_tails.py::test_the_chernoff_bound_holds_beyond_the_repaired_range",
        ),
    ),
    Theorem(
        name="laplace-sum-klnrs08",
        title="Sums of Laplace variables, conference version",
        citation="KLNRS08, Lemma 4.2",
        says="The same by Markov's inequality with a chosen t; λ = 1.",
        kind=Kind.PRICE,
        gives="probability",
        parameters=(_USERS, _DEVIATION.at(0.5), Parameter("t", "t", "Markov's exponent", float, 0.25)),
        stated=laplace_sum_tail_klnrs08_stated,
        repaired=laplace_sum_tail_klnrs08_repaired,
        others=(laplace_sum_tail_markov,),
        needs="a deviation below 1, for the text's t = τ'",
        differs="t = τ' gives a bound above 1; t = τ'/2 works.",
        traps=(3,),
        checked_by=("server/core/test_tails.py::test_klnrs08_lemma_4_2_gives_no_bound_at_the_texts_t",),
    ),
)
