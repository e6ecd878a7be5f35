"""The search for the smallest sufficient number finds it, from wherever it begins."""

from __future__ import annotations

import pytest

from askance_lab.curator.search import least


@pytest.mark.parametrize("start", [1, 2, 3, 64])
@pytest.mark.parametrize("wanted", [65, 66, 100, 127, 128, 129, 1000, 10**12 + 7])
def test_the_smallest_sufficient_number_is_found_in_few_tries(wanted: int, start: int) -> None:
    tried: list[int] = []

    def enough(number: int) -> bool:
        tried.append(number)
        return number >= wanted

    assert least(enough, start) == wanted
    assert len(tried) <= 2 * wanted.bit_length() + 1


def test_where_one_is_sufficient_it_is_one() -> None:
    assert least(lambda _: True) == 1
