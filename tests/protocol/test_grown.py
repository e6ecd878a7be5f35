"""Sequences and mappings that grow: they say what tuples and dictionaries would, and share what they have in common."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from askance_protocol.grown import Grown, GrownMapping

Steps = list[tuple[int, list[int]]]
STEPS = st.lists(st.tuples(st.integers(0, 20), st.lists(st.integers(0, 30), max_size=4)), max_size=12)
"""To which of those that were made before something is appended, and what."""


@given(STEPS)
def test_each_sequence_stays_what_it_was_whichever_of_them_goes_on(steps: Steps) -> None:
    made, plain = [Grown[int]()], [list[int]()]
    for chosen, items in steps:
        k = chosen % len(made)
        made.append(made[k].plus(items))
        plain.append(plain[k] + items)
    for one, other in zip(made, plain, strict=True):
        assert list(one) == other
        assert len(one) == len(other)
        assert [one[k] for k in range(-len(other), len(other))] == other * 2
        for cut in (slice(None), slice(1, None), slice(-2, None), slice(None, 2), slice(None, None, -1), slice(2, 50)):
            assert list(one[cut]) == other[cut]
        for beyond in (len(other), -len(other) - 1):
            with pytest.raises(IndexError):
                one[beyond]


@given(STEPS)
def test_each_mapping_stays_what_it_was_whichever_of_them_goes_on(steps: Steps) -> None:
    made, plain = [GrownMapping[int, int]()], [dict[int, int]()]
    for number, (chosen, keys) in enumerate(steps):
        k, items = chosen % len(made), dict.fromkeys(keys, number)
        made.append(made[k].plus(items))
        plain.append(plain[k] | items)
    for one, other in zip(made, plain, strict=True):
        assert list(one.items()) == list(other.items())
        assert one == other
        assert all((key in one) == (key in other) for key in range(31))


def test_what_goes_on_shares_what_was_there_and_a_second_branch_copies_it() -> None:
    first = Grown(range(1000))
    longer = first.plus([1000])
    branch = first.plus([-1])

    assert longer._shared is first._shared
    assert branch._shared is not first._shared
    assert (len(first), longer[-1], branch[-1]) == (1000, 1000, -1)


def test_threads_that_go_on_from_the_same_one_do_not_meet() -> None:
    first = Grown([0])
    with ThreadPoolExecutor(8) as threads:
        made = list(threads.map(lambda k: first.plus([k] * 50), range(200)))

    assert all(list(one) == [0, *([k] * 50)] for k, one in enumerate(made))


def test_they_are_compared_and_packed_by_what_they_hold() -> None:
    one, other = Grown([1]).plus([2]), Grown([1, 2]).plus([])
    other.plus([3])
    mapping = GrownMapping({"a": 1}).plus({"b": 2})

    assert one == other
    assert hash(one) == hash(other)
    assert one != Grown([1])
    assert one != [1, 2]
    assert pickle.loads(pickle.dumps(other)) == other
    assert pickle.loads(pickle.dumps(mapping)) == mapping
    assert (repr(one), repr(mapping)) == ("Grown([1, 2])", "GrownMapping({'a': 1, 'b': 2})")
