"""Shared parts of populations over bits: their parameters, and features of their bits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Final

from askance_client.simulation.population.features import BitsFeature
from askance_client.simulation.population.source import Source
from askance_client.simulation.population.synthetic import ETA
from askance_protocol import parameters as read
from askance_protocol.parameters import Parameters

BITS: Final[Mapping[str, str]] = {"d": "how many bits x has", "bias": "the chance that a bit of x is 1", **ETA}


def bias(parameters: Parameters) -> Fraction:
    """Read the chance of a 1."""
    chance = read.decimal(parameters, "bias", "0.5", least="0", most="1")
    if not 0 < chance < 1:
        raise read.refused("bias", "makes all bits the same", "give a chance between 0 and 1")
    return chance


def bits_x(target: Source, d: int, parameters: Parameters) -> BitsFeature:
    """The field x: d bits, with the bias that the parameters give."""
    return BitsFeature.of(target.of("x"), d, bias(parameters))


def bit_string(words: Sequence[int]) -> str:
    """A bit string of fair bits, one of each word."""
    return "".join(str(word & 1) for word in words)
