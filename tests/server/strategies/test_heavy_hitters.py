"""Heavy hitters, in rounds and at once: what is found, against the worst answers within tolerance and over users."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from askance_lab.data.made_up import made_up
from askance_lab.oracles.local import LocalReports, study_for
from askance_lab.oracles.shared.oracle import run as learned_by
from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_protocol.queries import prepare
from askance_protocol.schema import BitsField, CategoryField, Schema
from askance_server.core.strategy import Learnt, Strategy
from askance_server.strategies.heavy_hitters import HEAVY_HITTERS, ROUNDS, longer, steps
from askance_server.strategies.heavy_hitters_at_once import HEAVY_HITTERS_AT_ONCE, bucket, chunks
from askance_server.strategies.shared.heavy_strings import Heavy
from tests.server.learners import learn, value_of

BOTH = pytest.mark.parametrize("strategy", [HEAVY_HITTERS, HEAVY_HITTERS_AT_ONCE], ids=["rounds", "at-once"])


def of_strings(strings: list[str]) -> Columns:
    rows = np.array([[int(bit) for bit in string] for string in strings])
    return Columns.of(Schema(fields=(BitsField(name="x", width=len(strings[0])),)), {"x": rows})


def people(width: int, seed: int = 1) -> tuple[list[str], dict[str, float]]:
    """A thousand strings of which some are heavy, one is just too light, and the rest are any; and the shares."""
    source = np.random.default_rng(seed)
    heavy = ["".join(map(str, source.integers(0, 2, width))) for _ in range(4)]
    strings = [*[heavy[0]] * 300, *[heavy[1]] * 150, *[heavy[2]] * 100, *[heavy[3]] * 40]
    strings += ["".join(map(str, source.integers(0, 2, width))) for _ in range(1000 - len(strings))]
    return strings, {each: strings.count(each) / 1000 for each in strings}


@BOTH
@pytest.mark.parametrize("lie", [0.0, 1.0, -1.0])
@pytest.mark.parametrize("width", [1, 5, 12, 53, 90])
def test_every_heavy_string_is_found_whatever_the_answers_within_their_tolerance(
    strategy: Strategy, lie: float, width: int
) -> None:
    strings, true = people(width)
    learned, asked = learn(strategy, {"d": width, "share": "0.1"}, of_strings(strings), lambda _: lie)
    found = dict(zip(value_of(learned)["strings"], value_of(learned)["shares"], strict=True))

    assert {each for each, share in true.items() if share >= 0.1} <= found.keys()
    # By hashing, light strings of the same bucket count too.
    assert all(abs(share - true[each]) <= 0.03 for each, share in found.items())
    assert len(asked) <= strategy.planned({"d": width, "share": "0.1"}).rounds


def test_in_rounds_nothing_light_is_found_though_the_answers_err_towards_it() -> None:
    strings, true = people(40)
    learned, _ = learn(HEAVY_HITTERS, {"d": 40, "share": "0.1"}, of_strings(strings), lambda _: 1.0)

    assert all(true[each] >= 0.05 for each in value_of(learned)["strings"])


@BOTH
def test_answers_that_are_off_by_more_than_their_tolerance_lose_a_string(strategy: Strategy) -> None:
    strings, true = people(40)
    learned, _ = learn(strategy, {"d": 40, "share": "0.1"}, of_strings(strings), lambda _: -4.0)

    assert {each for each, share in true.items() if share >= 0.1} - set(value_of(learned)["strings"])


def test_nobody_has_a_heavy_string_and_none_is_found() -> None:
    strings = [f"{at:010b}" for at in range(1000)]
    for strategy in (HEAVY_HITTERS, HEAVY_HITTERS_AT_ONCE):
        learned, asked = learn(strategy, {"d": 10}, of_strings(strings))

        assert value_of(learned)["strings"] == []
        assert learned.text.startswith("0 strings")
        assert len(asked) == 1


@pytest.mark.parametrize("length", [1, 7, 52, 53, 60])
def test_a_prefix_is_met_by_the_strings_that_begin_so_and_no_others(length: int) -> None:
    source = np.random.default_rng(length)
    rows = source.integers(0, 2, (200, 64))
    rows[:100, :length] = rows[0, :length]
    columns = Columns.of(Schema(fields=(BitsField(name="x", width=64),)), {"x": rows})
    prefixes = [int("".join(map(str, rows[at, :length][::-1])), 2) for at in (150, 0)]
    answers = prepare(longer("x", prefixes, length, 3), columns.schema).answers(columns)
    after = rows[:, length : length + 3] @ [1, 2, 4]

    for row, answer in zip(rows, answers.tolist(), strict=True):
        mine = [at for at, there in enumerate((150, 0)) if (row[:length] == rows[there, :length]).all()]
        cells = [(at << 3) + int(row[length : length + 3] @ [1, 2, 4]) + 1 for at in mine]
        # Of two prefixes that are the same both count, and the cell is beyond the last.
        assert len(mine) > 1 or answer == (cells[0] if cells else 0)
    assert after.max() <= 7


@pytest.mark.parametrize(("width", "share"), [(1, "0.5"), (8, "0.2"), (64, "0.1"), (200, "0.2")])
def test_its_steps_are_the_whole_string_and_no_more_rounds_than_it_declares(width: int, share: str) -> None:
    heavy = Heavy.of(BitsField(name="x", width=width), {"share": share})

    assert sum(steps(heavy)) == width
    assert min(steps(heavy)) >= 1
    assert len(steps(heavy)) <= ROUNDS
    assert HEAVY_HITTERS.planned({"d": width, "share": share}).rounds == len(steps(heavy))


def test_the_chunks_are_the_whole_string_and_the_hash_is_spread() -> None:
    for width in (1, 9, 64, 208):
        assert [bit for chunk in chunks(width) for bit in chunk] == list(range(width))
    source = np.random.default_rng(5)
    buckets = [bucket(int(word), 64) for word in source.integers(0, 1 << 63, 2000)]

    assert np.bincount(buckets, minlength=512).max() < 20


REFUSED: list[tuple[Strategy, Schema | None, dict[str, Any], str]] = [
    (HEAVY_HITTERS, None, {}, "d"),
    (HEAVY_HITTERS, None, {"d": 500}, "d"),
    (HEAVY_HITTERS, None, {"d": 64, "share": "0.01"}, "share"),
    (HEAVY_HITTERS, None, {"d": 8, "share": "1"}, "share"),
    (HEAVY_HITTERS, None, {"d": 8, "theta": "0.1"}, "theta"),
    (HEAVY_HITTERS, Schema(fields=(CategoryField(name="plan", values=("a", "b")),)), {}, "column"),
]


@pytest.mark.parametrize(("strategy", "example", "parameters", "named"), REFUSED)
def test_what_it_cannot_use_is_refused_by_name(
    strategy: Strategy, example: Schema | None, parameters: dict[str, Any], named: str
) -> None:
    runs = strategy if example is None else strategy.on(example)
    with pytest.raises(ProtocolError) as error:
        runs.schema(parameters)

    assert error.value.where == f"parameters.{named}"


@BOTH
def test_a_field_of_another_study_is_asked_about(strategy: Strategy) -> None:
    example = Schema(fields=(CategoryField(name="plan", values=("a", "b")), BitsField(name="word", width=6)))
    rows = np.array([[1, 0, 1, 1, 0, 0]] * 3 + [[0, 0, 0, 0, 0, 1]] * 1)
    columns = Columns.of(example, {"plan": np.zeros(4, np.int64), "word": rows})
    learned, _ = learn(strategy.on(example), {"column": "word", "share": "0.4"}, columns)

    assert value_of(learned)["strings"] == ["101100"]


@BOTH
def test_over_users_the_promise_is_kept_and_the_intervals_hold(strategy: Strategy) -> None:
    parameters: dict[str, Any] = {"d": 12, "share": "0.2", "epsilon": "2"}
    kept, held, told = 0, 0, 0
    for seed in range(8):
        population = made_up(strategy, parameters, seed)
        study = study_for(strategy, {**parameters, "users": "all"}, seed)
        reports = LocalReports(study, strategy, population, 20_000, seed)
        found: Learnt = learned_by(strategy, {"d": 12, "share": "0.2"}, reports).hypothesis.value
        assert strategy.error is not None
        truth: Learnt = population.truth
        error, shares = strategy.error(found, truth), truth["shares"]
        assert error is not None
        kept += error <= 0.2
        for name, low, high in zip(found["strings"], found.get("low", []), found.get("high", []), strict=False):
            told += 1
            held += low <= shares.get(name, 0.0) <= high

    assert kept == 8
    assert held == told
    assert (told > 0) is (strategy is HEAVY_HITTERS)


def test_the_error_counts_what_is_missed_and_what_is_wrong() -> None:
    truth = {"shares": {"00": 0.5, "01": 0.3}}
    assert HEAVY_HITTERS.error is not None

    assert HEAVY_HITTERS.error({"strings": ["00"], "shares": [0.45]}, truth) == pytest.approx(0.3)
    assert HEAVY_HITTERS.error({"strings": ["00", "01"], "shares": [0.45, 0.3]}, truth) == pytest.approx(0.05)
    assert HEAVY_HITTERS.error({"strings": ["11"], "shares": [0.2]}, {"shares": {}}) == pytest.approx(0.2)
