"""Lists of tests of one bit: as queries, and as what was learned."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from askance_protocol.queries.language import Affine, AnyNumber, AnyTest, Compare, Dot, If, Integer, Not, Term
from askance_server.core.strategy import Learnt

Rule = tuple[int, int, int]
"""A bit, the value for which the rule decides, and the label that it then gives."""
_RUNS: Final = 40
"""Rules of one label after the other that a question has room for: of more, the rest count as the list's end."""


def undecided(d: int, rules: list[Rule]) -> AnyNumber:
    """0 for an x that no rule (i, v, label) decides, as x_i = v for none of them; 1 for the others."""
    if not rules:
        return Integer(of=0)
    return If(test=Not(of=meets(d, rules)), then=Integer(of=0), otherwise=Integer(of=1))


def meets(d: int, rules: Sequence[Rule]) -> AnyTest:
    """Does any of the rules decide x?"""
    weights = tuple(sum(2 * v - 1 for i, v, _ in rules if i == j) for j in range(d))
    none, dot = Integer(of=sum(v - 1 for _, v, _ in rules)), Dot(field="x", weights=weights)
    return Compare(left=dot, relation="!=", right=none)


def positive(d: int, rules: Sequence[Rule], otherwise: int) -> AnyTest:
    """Does the list label x +1? Each run of rules with one label weighs more than all that come after it."""
    runs = [(label, list(run)) for label, run in groupby(rules, key=lambda rule: rule[2])]
    terms = tuple(
        Term(
            weight=label * (1 << (len(runs) - at)),
            of=If(test=meets(d, run), then=Integer(of=1), otherwise=Integer(of=0)),
        )
        for at, (label, run) in enumerate(runs)
    )
    said = Affine(constant=otherwise, terms=terms) if terms else Integer(of=otherwise)
    return Compare(left=said, relation=">", right=Integer(of=0))


def in_runs(rules: Sequence[Rule]) -> list[Rule]:
    """The rules up to those that a question has no room for: runs of one label are what it is made of."""
    runs = [list(run) for _, run in groupby(rules, key=lambda rule: rule[2])]
    return [rule for run in runs[:_RUNS] for rule in run]


def rules(value: Learnt) -> list[Rule]:
    """The rules of a list that was learned."""
    return [(i, v, label) for i, v, label in value["rules"]]


def described(rules: Sequence[Rule], otherwise: int) -> tuple[str, dict[str, object]]:
    """The list, to read and as JSON."""
    tests = "".join(f"if {'' if v else '¬'}x_{i} then {label:+d}, else " for i, v, label in rules)
    return f"{tests}{otherwise:+d}", {"rules": [list(rule) for rule in rules], "otherwise": otherwise}
