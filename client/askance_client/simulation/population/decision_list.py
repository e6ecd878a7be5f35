"""Bits, labelled by the first of some tests of one bit that holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from askance_client.population import Population
from askance_client.simulation.population.boolean import BITS, bits_x
from askance_client.simulation.population.kind import PopulationKind
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import labelled, noise
from askance_protocol import parameters as read
from askance_protocol.concepts import DecisionListConcept
from askance_protocol.parameters import Parameters
from askance_protocol.schema import MAX_WIDTH

_RULE: Final = re.compile(r"([0-9]{1,4})=([01]):([+-])", re.ASCII)
_LAST: Final = re.compile(r"else:([+-])", re.ASCII)


def decision_list(parameters: Parameters, seed: int) -> Population:
    """Bits, labelled by the first of some tests of one bit that holds."""
    d = read.whole(parameters, "d", 1, MAX_WIDTH)
    target = Source(seed, "decision-list", "target")
    length = read.whole(parameters, "length", 0, d, default=min(4, d))
    given = parameters.get("list")
    rule = _drawn_list(target.once(2 * d + 1), d, length) if given is None else _given_list(given, d)
    return labelled(target, (bits_x(target, d, parameters),), rule, noise(parameters))


def _drawn_list(words: Sequence[int], d: int, length: int) -> DecisionListConcept:
    """Draw a list of tests of different bits. The word that orders a bit does not choose what is asked of it."""
    order = sorted(range(d), key=words.__getitem__)[:length]
    rules = tuple((i, words[d + i] & 1, 1 - (words[d + i] & 2)) for i in order)
    return DecisionListConcept(rules, 1 - 2 * (words[2 * d] & 1))


def _given_list(text: int | bool | str, d: int) -> DecisionListConcept:
    """Read a list as "3=1:+ 0=0:- else:+"."""
    *tests, last = text.split() if isinstance(text, str) and text.strip() else [""]
    matches, end = [_RULE.fullmatch(test) for test in tests], _LAST.fullmatch(last)
    rules = tuple((int(m[1]), int(m[2]), int(m[3] + "1")) for m in matches if m is not None and int(m[1]) < d)
    if end is None or len(rules) < len(tests):
        raise read.refused("list", f"is not a decision list over {d} bits", 'write it as "3=1:+ 0=0:- else:+"')
    return DecisionListConcept(rules, int(end[1] + "1"))


KIND: Final = PopulationKind(
    "decision-list",
    "the first test of a bit of x that holds",
    {**BITS, "length": "how many tests", "list": 'the list, as "3=1:+ 0=0:- else:+"'},
    decision_list,
)
