"""Random words: addressed by position, the same however they are asked for."""

from __future__ import annotations

import gc
import inspect
import os
from collections.abc import Sequence
from types import FrameType

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from askance_protocol import randomness
from askance_protocol.budget import MICRO
from askance_protocol.channels import BinaryResponse
from askance_protocol.errors import ProtocolError
from askance_protocol.randomness import (
    _READ_AT_ONCE,
    LEAD_BITS,
    Draw,
    Leads,
    OsRandom,
    SimulatedRandom,
    keystream,
    words_at,
)

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


# ------------------------------------------------------------------------------------------------- real noise in bulk

MANY = 1 << 16
SIZES = [8, _READ_AT_ONCE // 2, _READ_AT_ONCE // 2 + 1, MANY]
"""Words of a draw: read at once, the last of these, the first under a key, and many."""


class KeptKey(OsRandom):
    """A fault, planted: the key is drawn once for all calls, as a generator that is set up once has it."""

    def __init__(self) -> None:
        self._key, self._position = os.urandom(16), 0

    def draw(self, count: int) -> Draw:
        self._position += 2 * count
        return randomness._OsDraw(keystream(self._key, self._position - 2 * count, 2 * count).view("<u2"))


def drawn(source: OsRandom, count: int) -> bytes:
    """Leads and whole words of one draw."""
    draw = source.draw(count)
    return draw.leads.tobytes() + draw.words(np.arange(count)).tobytes()


def same_in_a_child(source: OsRandom, count: int) -> bool:
    """Whether a child that is forked from here draws what its parent draws."""
    source.draw(count)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(source.draw(count).leads.tobytes())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        theirs = pipe.read()
    assert os.waitpid(child, 0)[1] == 0
    assert len(theirs) == 2 * count
    return theirs == source.draw(count).leads.tobytes()


@pytest.mark.parametrize("count", SIZES)
def test_no_two_draws_of_real_noise_are_alike(count: int) -> None:
    source = OsRandom()

    assert len({drawn(each, count)[:64] for each in (source, source, OsRandom(), OsRandom())}) == 4


@pytest.mark.parametrize("count", SIZES)
def test_a_forked_child_draws_other_noise_than_its_parent(count: int) -> None:
    assert not same_in_a_child(OsRandom(), count)
    assert same_in_a_child(KeptKey(), count)


def asked_of_the_system(monkeypatch: pytest.MonkeyPatch, source: OsRandom, counts: Sequence[int]) -> list[bytes]:
    """What these draws read from the operating system."""
    read, urandom = list[bytes](), os.urandom

    def noted(count: int) -> bytes:
        read.append(urandom(count))
        return read[-1]

    with monkeypatch.context() as patch:
        patch.setattr(os, "urandom", noted)
        for count in counts:
            source.draw(count)
    return read


def test_each_draw_has_a_key_of_its_own_and_nothing_keeps_it(monkeypatch: pytest.MonkeyPatch) -> None:
    source, module = OsRandom(), dict(vars(randomness))
    keys = asked_of_the_system(monkeypatch, source, [MANY] * 5)

    assert [len(key) for key in keys] == [16] * 5
    assert len(set(keys)) == 5
    assert vars(source) == {}
    assert vars(source.draw(MANY)).keys() == {"leads"}
    assert dict(vars(randomness)) == module
    for key in keys:
        # The list that holds them here, and the argument: no other object of the process.
        holders = [each for each in gc.get_referrers(key) if each is not keys and not isinstance(each, FrameType)]
        assert holders == []


def test_a_source_that_keeps_its_key_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    source = KeptKey()

    assert asked_of_the_system(monkeypatch, source, [MANY] * 5) == []
    assert vars(source)


def test_few_words_are_read_from_the_operating_system(monkeypatch: pytest.MonkeyPatch) -> None:
    read = asked_of_the_system(monkeypatch, OsRandom(), [0, 1, *SIZES])

    assert [len(each) for each in read] == [0, 2, 16, _READ_AT_ONCE, 16, 16]


def repeats(leads: Leads) -> int:
    """Blocks of a keystream that are there more than once: each pair of them with probability 2^-128."""
    blocks = leads[: len(leads) // 8 * 8].reshape(-1, 8)
    return len(blocks) - len(np.unique(blocks, axis=0))


def test_real_noise_is_uniform_and_no_block_of_it_comes_twice() -> None:
    draw = OsRandom().draw(MANY)
    words = draw.words(np.arange(MANY))

    for shift in range(0, 64, 8):
        counts = np.bincount((words >> np.uint64(shift) & np.uint64(255)).astype(int), minlength=256)
        assert stats.chisquare(counts).pvalue > 1e-8
    assert repeats(draw.leads) == 0
    assert repeats(np.concatenate([draw.leads, OsRandom().draw(MANY).leads])) == 0
    # A counter that begins anew in each piece of a stream.
    assert repeats(np.concatenate([keystream(KEY, 0, MANY).view("<u2")] * 2)) == MANY // 16


@pytest.mark.parametrize("size", [_READ_AT_ONCE // 2, 200_000])
def test_a_channel_keeps_its_law_however_its_noise_is_drawn(size: int) -> None:
    """Both ways of drawing give the frequencies of the table; an exact binomial test for each input."""
    channel = BinaryResponse(MICRO)
    truth = channel.keep / 2**64
    for given, share in ((0, 1 - truth), (1, truth)):
        ones = int(channel.sample(np.full(size, given, np.uint8), OsRandom()).outcomes.sum())
        assert stats.binomtest(ones, size, share).pvalue > 1e-7
        if size > MANY:
            # A control: a hundredth off is seen.
            assert stats.binomtest(ones, size, share + 0.01).pvalue < 1e-7
