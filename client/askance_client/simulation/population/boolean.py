"""Populations over bits: parities, conjunctions, decision lists and points."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fractions import Fraction
from typing import Final

from askance_client.population import Population
from askance_client.simulation.population import draws
from askance_client.simulation.population.features import BitsFeature, PointMass, UniformFeature
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import labelled
from askance_protocol import parameters as read
from askance_protocol.concepts import (
    ConjunctionConcept,
    DecisionListConcept,
    MaskedParityConcept,
    ParityConcept,
    PointConcept,
)
from askance_protocol.parameters import Parameters
from askance_protocol.rounds.spec import MAX_PARTS
from askance_protocol.schema import MAX_WIDTH, IntegerField

_RULE: Final = re.compile(r"([0-9]{1,4})=([01]):([+-])", re.ASCII)
_LAST: Final = re.compile(r"else:([+-])", re.ASCII)


def masked_parity(parameters: Parameters, seed: int) -> Population:
    """(x, i, b) uniform, labelled by c_{r,a}. KLNRS11, §5.3."""
    d = read.whole(parameters, "d", 2, 64)
    if d & (d - 1):
        raise read.refused("d", "is not a power of two", "give 2, 4, 8, 16, 32 or 64")
    target = Source(seed, "masked-parity", "target")
    drawn = target.once(d + 1)
    r = read.bits(parameters, "r", d) or _string(drawn[:d])
    a = read.whole(parameters, "a", 0, 1, default=drawn[d] & 1)
    features = (
        BitsFeature.of(_part(target, "x"), d, bias(parameters)),
        UniformFeature(_part(target, "i"), IntegerField(name="i", low=0, high=d - 1), 0, d - 1),
        BitsFeature.of(_part(target, "b"), 1),
    )
    return labelled(target, features, MaskedParityConcept(r, a), noise(parameters))


def parity(parameters: Parameters, seed: int) -> Population:
    """Bits, labelled by the parity of some of them. KLNRS11, §4."""
    d = read.whole(parameters, "d", 1, MAX_WIDTH)
    target = Source(seed, "parity", "target")
    r = read.bits(parameters, "r", d) or _string(target.once(d))
    return labelled(target, (_x(target, d, parameters),), ParityConcept(r), noise(parameters))


def conjunction(parameters: Parameters, seed: int) -> Population:
    """Bits, labelled by whether some of them are all 1. BB-notes, Thm 5."""
    d = read.whole(parameters, "d", 1, MAX_PARTS)
    target = Source(seed, "conjunction", "target")
    count = read.whole(parameters, "relevant", 0, d, default=min(3, d))
    given = read.bits(parameters, "variables", d)
    chosen = draws.subset(target.once(d), count) if given is None else [i for i in range(d) if given[i] == "1"]
    return labelled(target, (_x(target, d, parameters),), ConjunctionConcept(tuple(chosen)), noise(parameters))


def decision_list(parameters: Parameters, seed: int) -> Population:
    """Bits, labelled by the first of some tests of one bit that holds."""
    d = read.whole(parameters, "d", 1, MAX_WIDTH)
    target = Source(seed, "decision-list", "target")
    length = read.whole(parameters, "length", 0, d, default=min(4, d))
    given = parameters.get("list")
    rule = _drawn_list(target.once(2 * d + 1), d, length) if given is None else _given_list(given, d)
    return labelled(target, (_x(target, d, parameters),), rule, noise(parameters))


def point(parameters: Parameters, seed: int) -> Population:
    """Bits, labelled +1 at one point only, which has a mass of its own. BNS13, §3.1: POINT_d."""
    d = read.whole(parameters, "d", 1, MAX_WIDTH)
    target = Source(seed, "point", "target")
    at = read.bits(parameters, "point", d) or _string(target.once(d))
    mass = read.decimal(parameters, "mass", "0.5", least="0", most="1")
    feature = PointMass(_part(target, "mass"), _x(target, d, parameters), int(at[::-1], 2), mass)
    return labelled(target, (feature,), PointConcept(at), noise(parameters))


def noise(parameters: Parameters) -> Fraction:
    """η < 1/2. BB-notes, §1.4."""
    eta = read.decimal(parameters, "eta", "0", least="0", most="0.5")
    if eta == Fraction(1, 2):
        raise read.refused("eta", "leaves nothing to learn", "give a noise rate below 0.5")
    return eta


def bias(parameters: Parameters) -> Fraction:
    """The chance of a 1."""
    chance = read.decimal(parameters, "bias", "0.5", least="0", most="1")
    if not 0 < chance < 1:
        raise read.refused("bias", "makes all bits the same", "give a chance between 0 and 1")
    return chance


def _x(target: Source, d: int, parameters: Parameters) -> BitsFeature:
    return BitsFeature.of(_part(target, "x"), d, bias(parameters))


def _part(target: Source, part: str) -> Source:
    return Source(target.seed, target.kind, part)


def _string(words: Sequence[int]) -> str:
    return "".join(str(word & 1) for word in words)


def _drawn_list(words: Sequence[int], d: int, length: int) -> DecisionListConcept:
    """Tests of different bits. The word that orders a bit does not choose what is asked of it."""
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
