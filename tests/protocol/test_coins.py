"""The public coin: anybody computes the same, and it deals evenly."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from scipy import stats

from askance_protocol import hadamard
from askance_protocol.coins import MAX_USER, Coin, choices, chosen, rows
from askance_protocol.errors import ProtocolError

DIGEST = hashlib.sha256(b"a round").hexdigest()


def by_the_book(digest: str, user: int) -> int:
    """The coin as the documentation defines it, one user at a time, with nothing of this project."""
    key = hashlib.sha256(b"askance coin v1" + bytes.fromhex(digest)).digest()[:16]
    block = Cipher(algorithms.AES(key), modes.CTR((user // 2).to_bytes(16, "big"))).encryptor().update(bytes(16))
    return int.from_bytes(block[8 * (user % 2) :][:8], "little")


def test_coins_are_those_of_the_definition() -> None:
    users = [0, 1, 2, 3, 1000, 12345, 2**32 + 1, MAX_USER - 1]
    assert Coin(DIGEST).toss(np.array(users)).tolist() == [by_the_book(DIGEST, user) for user in users]


def test_a_run_of_users_and_an_array_of_them_get_the_same_coins() -> None:
    coin = Coin(DIGEST)
    assert coin.toss(range(17, 500)).tolist() == coin.toss(np.arange(17, 500)).tolist()


def test_another_digest_is_another_coin() -> None:
    other = hashlib.sha256(b"another round").hexdigest()
    assert not (Coin(DIGEST).toss(range(1000)) == Coin(other).toss(range(1000))).any()


@pytest.mark.parametrize("count", [2, 3, 7, 128, 1000])
def test_choices_and_rows_are_dealt_evenly_and_independently(count: int) -> None:
    coins = Coin(DIGEST).toss(range(400_000))
    dealt, row = choices(coins, count), rows(coins, 3)

    together = np.bincount(dealt.astype(np.int64) * 4 + row, minlength=4 * count)
    assert len(together) == 4 * count
    assert stats.chisquare(together).pvalue > 1e-6


@pytest.mark.parametrize("digest", ["", "0" * 63, "0" * 65, "G" * 64, "A" * 64, "0" * 63 + "\n"])
def test_only_a_digest_has_a_coin(digest: str) -> None:
    with pytest.raises(ProtocolError, match=r"^digest: "):
        Coin(digest)


@pytest.mark.parametrize(
    "users",
    [
        range(-1, 2),
        range(0, 4, 2),
        range(MAX_USER, MAX_USER + 1),
        np.array([-1]),
        np.array([MAX_USER]),
        np.array([0.0]),
        np.array([[1]]),
    ],
)
def test_only_user_numbers_have_coins(users: range) -> None:
    with pytest.raises(ProtocolError, match=r"^users: "):
        Coin(DIGEST).toss(users)


# --------------------------------------------------------------------------------------------------- Hadamard


@pytest.mark.parametrize("cells", [1, 2, 3, 4, 5, 64, 100])
def test_one_user_and_many_encode_alike_and_by_the_matrix(cells: int) -> None:
    height = hadamard.rows_for(cells)
    matrix = sylvester(height)
    answers = np.array([sign * (cell + 1) for cell in range(cells) for sign in (1, -1)] + [0])
    for row in range(height):
        encoded = hadamard.encode_all(answers, np.full(len(answers), row, np.uint16))
        assert encoded.tolist() == [hadamard.encode(int(answer), row) for answer in answers]
        assert encoded[-1] == 1
        signs = np.sign(answers[:-1]) * matrix[row, np.abs(answers[:-1]) - 1]
        assert (encoded[:-1].astype(int) - 1).tolist() == signs.tolist()


@pytest.mark.parametrize("height", [1, 2, 4, 128])
def test_the_fast_transform_is_the_matrix(height: int) -> None:
    column = np.arange(height) ** 2 - 3
    assert hadamard.transform(column).tolist() == (sylvester(height) @ column).tolist()


def sylvester(height: int) -> np.ndarray:
    matrix = np.ones((1, 1), int)
    while len(matrix) < height:
        matrix = np.block([[matrix, matrix], [matrix, -matrix]])
    return matrix


def by_division(coins: np.ndarray, count: int) -> list[int]:
    """The choice as the documentation defines it: ⌊high · count / 2³²⌋."""
    return [(coin >> 32) * count >> 32 for coin in coins.tolist()]


@pytest.mark.parametrize("count", [1, 2, 3, 7, 64, 65_536, 1 << 20])
def test_a_choice_is_that_of_the_definition_and_is_known_without_looking_it_up(count: int) -> None:
    ends = [(choice << 32) // count + off << 32 for choice in (0, 1, count // 2, count) for off in (-1, 0, 1)]
    near = np.array([coin + off for coin in ends for off in (-1, 0, 1) if 0 <= coin + off < 1 << 64], np.uint64)
    coins = np.concatenate([near, Coin(DIGEST).toss(range(500))])
    made = by_division(coins, count)

    assert choices(coins, count).tolist() == made
    for first in {0, 1 % count, count // 2, count - 1}:
        for number in {1, (count - first + 1) // 2, count - first}:
            right = [first <= choice < first + number for choice in made]
            assert chosen(coins, count, first, number).tolist() == right
