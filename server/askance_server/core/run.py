"""One run of a strategy under guard: its asks are checked, it stops, and each failure has a reason.

Every oracle and every study runs a strategy through this: the generator itself may be somebody else's code.
A strategy that computes for ever between two rounds is not stopped by this, only one that asks for ever.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import wraps
from itertools import islice
from typing import Any, Final, TypeAlias, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from askance_protocol.coins import MAX_CHOICES
from askance_protocol.errors import AskanceError, Code
from askance_protocol.examples import Columns
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import AnyTest
from askance_protocol.rounds.hypothesis import LearnedHypothesis, TooLargeError
from askance_protocol.schema import Schema
from askance_server.core.strategy import (
    Answer,
    Ask,
    Asking,
    Estimate,
    Hypothesis,
    Parameters,
    Reports,
    Strategy,
    Truths,
)

T = TypeVar("T")

MAX_QUERIES: Final = 4096
"""Queries of one study, over all its rounds."""
MAX_REASON: Final = 1000
"""Characters of what a strategy gives as a reason or a hypothesis for people to read."""


class StrategyError(AskanceError):
    """A strategy failed in a way that ends its study; the message says how."""

    code = Code.STRATEGY


class Run:
    """A strategy between two rounds."""

    def __init__(self, strategy: Strategy, parameters: Parameters) -> None:
        self._strategy = strategy
        self._rounds = self._queries = 0
        try:
            asking = cast("object", strategy.run(dict(parameters)))
        except (Exception, SystemExit) as error:
            raise raised(error) from error
        if not isinstance(asking, Generator):
            raise StrategyError("the strategy does not run as a generator (its function has no `yield`)")
        self._asking = cast("Asking", asking)

    def step(self, answers: Sequence[Answer] | None) -> tuple[Ask, ...] | Hypothesis:
        """Send the answers to the last asks (none at first); return the next asks, or the hypothesis."""
        try:
            asks: object = next(self._asking) if answers is None else self._asking.send(answers)
            taken = tuple(islice(asks, MAX_QUERIES + 1)) if _is_sequence(asks) else ()
        except StopIteration as stop:
            return _sound_hypothesis(stop.value)
        except (Exception, SystemExit, GeneratorExit) as error:
            raise raised(error) from error
        self._count(len(taken))
        for number, ask in enumerate(taken):
            _check_ask(f"ask {number} of round {self._rounds}", ask)
        shares = [ask.share for ask in taken]
        if any(shares) and not (all(shares) and sum(shares) <= MAX_CHOICES):
            raise StrategyError(
                f"round {self._rounds} has asks without a share beside others, or shares above {MAX_CHOICES} in all"
            )
        return cast("tuple[Ask, ...]", taken)

    def _count(self, asks: int) -> None:
        """Count rounds and queries, and stop a strategy that exceeds the limits."""
        self._rounds += 1
        self._queries += asks
        if not asks:
            raise StrategyError(f"round {self._rounds} is not a list of one or more asks")
        if self._rounds > self._strategy.rounds:
            raise StrategyError(f"the strategy asks for round {self._rounds} and declares {self._strategy.rounds}")
        if self._queries > MAX_QUERIES:
            raise StrategyError(f"the strategy asks more than {MAX_QUERIES} queries")


def guarded(strategy: Strategy) -> Strategy:
    """The same strategy; what its functions raise or return that cannot be used is a StrategyError that names them.

    What reads parameters may refuse them with an error of this project, which passes; the others have nothing to
    refuse.
    """
    others = {
        name: _guarded(part, f"{strategy.name}.{name}", *returns)
        for name, returns in _RETURNS.items()
        if (part := getattr(strategy, name)) is not None
    }
    schema = _guarded(strategy.schema, f"{strategy.name}.schema", "a Schema", _schema, passing=AskanceError)
    own = {"over": _guarded_over(strategy), "at": _guarded_at(strategy), "fields": _guarded_fields(strategy)}
    former = strategy.former and guarded(strategy.former)
    return replace(strategy, schema=schema, portions_for=_guarded_portions(strategy), former=former, **own, **others)


def _guarded_over(strategy: Strategy) -> Callable[[Schema], Strategy | None] | None:
    if strategy.over is None:
        return None
    over = _guarded(strategy.over, f"{strategy.name}.over", "a Strategy", _strategy, passing=AskanceError)
    return lambda schema: None if (found := over(schema)) is None else guarded(found)


def _guarded_portions(strategy: Strategy) -> Callable[[Parameters], tuple[int, ...]] | None:
    if strategy.portions_for is None:
        return None
    what = f"portions of 1 to {strategy.rounds} rounds"

    def check(_: Sequence[object], found: object) -> tuple[int, ...]:
        portions = tuple(cast("Sequence[object]", found))
        if not 1 <= len(portions) <= strategy.rounds or not all(type(each) is int and each >= 1 for each in portions):
            raise TypeError
        return cast("tuple[int, ...]", portions)

    return _guarded(strategy.portions_for, f"{strategy.name}.portions_for", what, check, passing=AskanceError)


def _guarded_at(strategy: Strategy) -> Callable[[Reports], Strategy] | None:
    if strategy.at is None:
        return None
    at = _guarded(strategy.at, f"{strategy.name}.at", "a Strategy", _certain, passing=AskanceError)
    return lambda reports: guarded(at(reports))


def _guarded_fields(strategy: Strategy) -> Callable[[Parameters], Sequence[str]] | None:
    if strategy.fields is None:
        return None
    return _guarded(strategy.fields, f"{strategy.name}.fields", "names of fields", _names, passing=AskanceError)


_Check: TypeAlias = Callable[[Sequence[object], object], T]
"""Takes what a function was called with and what it returned; returns that, or raises whatever it likes."""


def _guarded(
    function: Callable[..., object],
    where: str,
    wanted: str,
    check: _Check[T],
    passing: type[AskanceError] = StrategyError,
) -> Callable[..., T]:
    @wraps(function)
    def call(*arguments: object) -> T:
        try:
            found = function(*arguments)
        except passing:
            raise
        except (Exception, SystemExit) as error:
            raise StrategyError(raised(error).what, where=where) from error
        try:
            return check(arguments, found)
        except (Exception, SystemExit) as error:
            # A number is shown as it is, of anything else its type alone: it may be long, or an example.
            seen = str(found) if isinstance(found, float) else f"a {type(found).__name__}"
            raise StrategyError(f"returned {seen}, not {wanted}", where=where) from error

    return call


def _schema(_: Sequence[object], found: object) -> Schema:
    if not isinstance(found, Schema):
        raise TypeError
    return found


def _strategy(_: Sequence[object], found: object) -> Strategy | None:
    if found is not None and not isinstance(found, Strategy):
        raise TypeError
    return found


def _certain(arguments: Sequence[object], found: object) -> Strategy:
    strategy = _strategy(arguments, found)
    if strategy is None:
        raise TypeError
    return strategy


def _names(_: Sequence[object], found: object) -> tuple[str, ...]:
    names = tuple(cast("Sequence[object]", found))
    if isinstance(found, str) or not all(isinstance(name, str) for name in names):
        raise TypeError
    return cast("tuple[str, ...]", names)


def _finite(_: Sequence[object], found: object) -> float:
    number = cast("float", found)
    if (
        isinstance(found, bool)
        or not isinstance(found, int | float | Fraction | np.number)
        or not math.isfinite(number)
    ):
        raise TypeError
    return float(number)


def _finite_or_none(arguments: Sequence[object], found: object) -> float | None:
    return None if found is None else _finite(arguments, found)


def _labels(arguments: Sequence[object], found: object) -> Truths:
    labels, columns = cast("NDArray[Any]", found), cast("Columns", arguments[-1])
    if not isinstance(found, np.ndarray) or labels.dtype != np.bool or labels.shape != (len(columns),):
        raise TypeError
    return labels


def _estimates(_: Sequence[object], found: object) -> tuple[Estimate, ...]:
    records = tuple(cast("Sequence[object]", found))
    if not all(isinstance(each, Estimate) for each in records):
        raise TypeError
    return cast("tuple[Estimate, ...]", records)


def _test(_: Sequence[object], found: object) -> AnyTest:
    return BooleanQuery(test=cast("AnyTest", found)).test


_RETURNS: Final[Mapping[str, tuple[str, _Check[object]]]] = {
    "predict": ("a truth value for each example", _labels),
    "positive": ("a test", _test),
    "promise": ("a finite number", _finite),
    "error": ("a finite number or None", _finite_or_none),
    "cost": ("a finite number", _finite),
    "estimates": ("a list of estimates", _estimates),
}
"""What the functions that a strategy may have beside its schema return, and the check of it."""


def raised(error: BaseException) -> StrategyError:
    """Reason text for an exception that a strategy raised."""
    try:
        said = str(error)
    except Exception:
        said = "(its message cannot be read)"
    # One line, whatever the message is: it stands in an error, or in a bulletin's last entry.
    said = " ".join(said.split())
    return StrategyError(readable(f"the strategy raised {type(error).__name__}: {said}"))


def readable(text: str) -> str:
    """Text cut to a readable length, made of whole characters."""
    whole = text.encode("utf-8", "replace").decode()
    return whole if len(whole) <= MAX_REASON else whole[: MAX_REASON - 1] + "…"


def _is_sequence(asks: object) -> bool:
    return isinstance(asks, Sequence) and not isinstance(asks, str | bytes)


def _check_ask(where: str, ask: object) -> None:
    if not isinstance(ask, Ask):
        raise StrategyError(f"{where} is a {type(ask).__name__}, not an Ask")
    query, tolerance = cast("object", ask.query), cast("object", ask.tolerance)
    if not isinstance(query, BooleanQuery | RealQuery | CellQuery):
        raise StrategyError(f"{where} has a {type(query).__name__} for a query")
    if ask.channel not in ("fewest", "best", "kary", "binary"):
        raise StrategyError(f"{where} has a channel that is none of fewest, best, kary and binary")
    if ask.sums and not _has_cells(ask):
        raise StrategyError(f"{where} has sums that are not sets of cells of a query by the channel kary")
    if ask.row_lead and not _has_rows(ask):
        raise StrategyError(f"{where} has a row_lead that is not above 0, of cells that one bit asks for")
    if not isinstance(tolerance, int | float) or isinstance(tolerance, bool) or not 0 < tolerance < math.inf:
        raise StrategyError(f"{where} has a tolerance that is not a number above 0")
    if type(ask.share) is not int or ask.share < 0:
        raise StrategyError(f"{where} has a share that is not a whole number from 0 on")


def _has_rows(ask: Ask) -> bool:
    """Whether the row that is sought is one of a cell query's by one bit, and leads."""
    lead = cast("object", ask.row_lead)
    lead = float(lead) if isinstance(lead, int | float) and not isinstance(lead, bool) else 0.0
    return isinstance(ask.query, CellQuery) and ask.channel == "binary" and 0 < lead <= 2


def _has_cells(ask: Ask) -> bool:
    """Whether the sums that are asked for are each a set of the query's cells, which the channel names."""
    if not isinstance(ask.query, CellQuery) or ask.query.negative is not None or ask.channel != "kary":
        return False
    cells = range(ask.query.cells)
    # Numbers and sets may be anything that another package gives.
    every = cast("Sequence[Sequence[object]]", ask.sums)
    try:
        return all(
            one and len(set(one)) == len(one) and all(type(cell) is int and cell in cells for cell in one)
            for one in every
        )
    except TypeError:
        return False


def _sound_hypothesis(learned: object) -> Hypothesis:
    if not isinstance(learned, Hypothesis):
        raise StrategyError(f"the strategy returned a {type(learned).__name__}, not a Hypothesis")
    if not isinstance(cast("object", learned.text), str):
        raise StrategyError("the strategy returned a hypothesis that is not text and JSON values")
    try:
        # What will be read from a bulletin has to be what was meant: no NaN, no tuples, no keys that are not text.
        value = dict(learned.value)
        sound = LearnedHypothesis.of(learned.text, value).value == value
    except TooLargeError as error:
        raise StrategyError(f"the strategy returned a hypothesis that is too large: {error.what}") from error
    except (TypeError, ValueError, RecursionError):
        sound = False
    if not sound:
        raise StrategyError("the strategy returned a hypothesis that is not text and JSON values")
    return learned
