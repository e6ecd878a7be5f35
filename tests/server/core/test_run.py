"""The guard of somebody else's strategy: what its functions raise or return that cannot be used names them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from askance_protocol.errors import ProtocolError
from askance_protocol.examples import Columns
from askance_server.core.run import StrategyError, guarded
from askance_server.core.strategy import Strategy
from askance_server.strategies.conjunction import CONJUNCTION
from askance_server.strategies.kmeans import KMEANS

COLUMNS = Columns.of(CONJUNCTION.schema({"d": 2}), {"x": np.zeros((3, 2), np.int64), "y": np.ones(3, np.int64)})
CALLED_WITH: dict[str, tuple[Any, ...]] = {
    "schema": ({"d": 2},),
    "promise": ({"d": 2, "alpha": "0.2"},),
    "error": ({"variables": [0]}, {"variables": [0]}),
    "predict": ({"variables": [0]}, COLUMNS),
    "cost": ({"centres": [["0", "0"]]}, COLUMNS),
}


class MuteError(Exception):
    """Cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError


def member(name: str, function: Any) -> Any:
    """One function of a strategy that has this one, guarded."""
    strategy: Strategy = replace(CONJUNCTION, name="theirs", **{name: function})
    return getattr(guarded(strategy), name)


@pytest.mark.parametrize("name", CALLED_WITH)
@pytest.mark.parametrize(
    ("error", "said"),
    [
        (RuntimeError("two\nlines"), "RuntimeError: two lines"),
        (SystemExit(3), "SystemExit: 3"),
        (MuteError(), r"MuteError: \(its message cannot be read\)"),
    ],
)
def test_whatever_a_function_raises_is_one_line_that_names_it(name: str, error: BaseException, said: str) -> None:
    def raising(*_: object) -> None:
        raise error

    with pytest.raises(StrategyError, match=f"^theirs.{name}: the strategy raised {said}$"):
        member(name, raising)(*CALLED_WITH[name])


@pytest.mark.parametrize(
    ("name", "returned", "said"),
    [
        ("schema", None, "a NoneType, not a Schema"),
        ("schema", np.zeros(2), "a ndarray, not a Schema"),
        ("promise", None, "a NoneType, not a finite number"),
        ("promise", float("nan"), "nan, not a finite number"),
        ("promise", True, "a bool, not a finite number"),
        ("promise", np.zeros(1), "a ndarray, not a finite number"),
        ("error", float("inf"), "inf, not a finite number or None"),
        ("error", "0.1", "a str, not a finite number or None"),
        ("cost", 1j, "a complex, not a finite number"),
        ("predict", None, "a NoneType, not a truth value for each example"),
        ("predict", [True, True, True], "a list, not a truth value for each example"),
        ("predict", np.ones(3), "a ndarray, not a truth value for each example"),
        ("predict", np.ones(2, np.bool), "a ndarray, not a truth value for each example"),
        ("predict", np.ones((3, 1), np.bool), "a ndarray, not a truth value for each example"),
    ],
)
def test_nonsense_is_refused_by_name(name: str, returned: object, said: str) -> None:
    with pytest.raises(StrategyError, match=f"^theirs.{name}: returned {said}$"):
        member(name, lambda *_: returned)(*CALLED_WITH[name])


def test_what_is_sound_passes() -> None:
    """The control of the checks: the functions of strategies that are known to be right."""
    mine, clusters = guarded(CONJUNCTION), guarded(KMEANS)

    assert mine.schema({"d": 2}) == CONJUNCTION.schema({"d": 2})
    assert mine.promise is not None
    assert mine.promise({"d": 2, "alpha": "0.2"}) == 0.2
    assert mine.error is not None
    assert mine.error({"variables": [0]}, {"variables": [0]}) == 0
    assert mine.predict is not None
    assert mine.predict({"variables": [0]}, COLUMNS).tolist() == [False, False, False]
    assert mine.cost is None
    assert clusters.cost is not None
    assert member("error", lambda *_: None)({}, {}) is None


def test_a_schema_refuses_parameters_as_its_own_error_and_the_others_refuse_nothing() -> None:
    def refusing(*_: object) -> None:
        raise ProtocolError("is missing", where="parameters.d")

    with pytest.raises(ProtocolError, match=r"parameters\.d: is missing"):
        member("schema", refusing)({})
    with pytest.raises(StrategyError, match=r"theirs\.promise: the strategy raised ProtocolError"):
        member("promise", refusing)({})
