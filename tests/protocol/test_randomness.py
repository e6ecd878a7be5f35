"""Random words: addressed by position, the same however they are asked for."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import LEAD_BITS, OsRandom, SimulatedRandom, keystream, words_at

KEY = bytes(range(16))


def test_the_keystream_is_aes_counter_mode_from_any_byte() -> None:
    whole = Cipher(algorithms.AES(KEY), modes.CTR(bytes(16))).encryptor().update(bytes(3 << 20))
    for start, count in [(0, 1), (0, 16), (5, 40), (16, 16), (31, 2), (100, 2 << 20), (7, 0)]:
        assert keystream(KEY, start, count).tobytes() == whole[start : start + count]


def test_words_at_chosen_places_are_those_of_the_keystream() -> None:
    words = keystream(KEY, 0, 8000).view("<u8")
    places = np.array([999, 0, 1, 500, 500, 2], np.uint64)
    assert words_at(KEY, places).tolist() == words[places.astype(int)].tolist()


@pytest.mark.parametrize("count", [0, 1, 2, 5, 300])
@pytest.mark.parametrize("apart", [1, 4, 5, 6, 1000])
def test_words_near_each_other_and_far_apart_are_those_of_the_keystream(count: int, apart: int) -> None:
    """As a run, or each alone: which of the two is a matter of time."""
    words = keystream(KEY, 8 * 77, 8 * (apart * count + 1)).view("<u8")
    places = np.arange(count)[::-1] * apart

    assert words_at(KEY, (places + 77).astype(np.uint64)).tolist() == words[places].tolist()


def test_a_word_does_not_depend_on_which_others_were_completed() -> None:
    words = SimulatedRandom(7).draw(1000).words(np.arange(1000)).tolist()
    lazily = SimulatedRandom(7)
    first, second = lazily.draw(400), lazily.draw(600)

    assert second.words(np.array([3, 599, 0])).tolist() == [words[403], words[999], words[400]]
    assert first.words(np.array([399])).tolist() == [words[399]]
    one_by_one = SimulatedRandom(7)
    assert [one_by_one.word() for _ in range(50)] == words[:50]


@pytest.mark.parametrize("source", [SimulatedRandom(7), OsRandom()])
def test_a_lead_is_the_top_of_its_word(source: SimulatedRandom | OsRandom) -> None:
    draw = source.draw(64)
    assert (draw.words(np.arange(64)) >> np.uint64(64 - LEAD_BITS)).tolist() == draw.leads.tolist()


def test_seeds_and_streams_give_unrelated_words() -> None:
    first = {SimulatedRandom(seed, stream=stream).word() for seed in range(20) for stream in range(20)}
    assert len(first) == 400


def test_simulated_words_are_uniform_in_every_byte() -> None:
    words = SimulatedRandom(1).draw(1 << 17).words(np.arange(1 << 17))
    for shift in range(0, 64, 8):
        counts = np.bincount((words >> np.uint64(shift) & np.uint64(255)).astype(int), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-7


def test_the_production_source_cannot_be_seeded() -> None:
    assert not inspect.signature(OsRandom).parameters
    assert OsRandom().word() != OsRandom().word()
    assert not OsRandom().simulated
    assert SimulatedRandom(0).simulated


@pytest.mark.parametrize("seed", [-1, 1 << 128, 1.0, True, "1", None])
def test_a_seed_is_a_non_negative_integer(seed: object) -> None:
    with pytest.raises(ProtocolError, match=r"^seed: "):
        SimulatedRandom(seed)  # type: ignore[arg-type]
