"""Studies as a terminal shows them: plain lines, tables, and a screen that is drawn anew while a study goes on.

Whatever a server says is made harmless before it is shown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from rich.console import Console, ConsoleOptions, RenderResult
from rich.table import Table
from rich.text import Text

from askance_client.news import time_left
from askance_lab.commands.shared.estimates_text import MOST_LINES, estimate_lines
from askance_lab.commands.shared.progress import bar_of
from askance_lab.commands.shared.window import window_width, wrapped
from askance_lab.remote.management import ServerDocument
from askance_protocol.budget import to_text
from askance_protocol.queries.notation import CUT
from askance_protocol.text import counted, printable
from askance_server.core.strategy import Estimate

_WIDEST: Final = 120
"""Columns that a screen uses at most: in a wider line the eye loses its row."""
_LINES_OF_THE_REST: Final = 9
"""What stands around rounds and estimates: title, heads, gaps, and what was learned."""
_LEAST_LINES: Final = 3
_LONGEST_BAR, _SHORTEST_BAR = 40, 6


def summary(study: ServerDocument) -> dict[str, Any]:
    """What one line tells of a study, for programs."""
    spec, rounds = study["study"], study["rounds"]
    return {
        "id": study["id"],
        "state": study["state"],
        "paused": study.get("paused"),
        "title": spec["title"],
        "strategy": spec["strategy"],
        "simulated": spec["simulated"],
        "cap_micro_epsilon": spec["cap"],
        "rounds": len(rounds),
        "received": sum(each["received"] for each in rounds),
        "target": sum(each["round"]["target"] for each in rounds),
    }


COLUMNS: Final = ("study", "state", "strategy", "rounds", "reports", "title")


def cells(study: ServerDocument) -> tuple[str, ...]:
    """What one line tells of a study, for a person."""
    told = summary(study)
    return (
        _shown(told["id"], 64)[:8],
        "paused" if told["paused"] else _shown(told["state"], 12),
        _shown(told["strategy"], 28),
        str(told["rounds"]),
        f"{told['received']:,}/{told['target']:,}",
        _shown(told["title"], 40),
    )


def rows(studies: Sequence[ServerDocument]) -> str:
    """Studies, a line each, where no table is drawn."""
    lines = [COLUMNS, *map(cells, studies)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(COLUMNS))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def round_rows(study: ServerDocument) -> list[dict[str, Any]]:
    """The rounds of a study, for programs."""
    return [
        {
            "number": each["round"]["number"],
            "id": each["id"],
            "state": each["state"],
            "received": each["received"],
            "target": each["round"]["target"],
            "deadline": each["round"]["deadline"],
            "questions": len(each["round"]["parts"]),
        }
        for each in study["rounds"]
    ]


def description(study: ServerDocument, result: ServerDocument, now: float, most: int = MOST_LINES) -> str:
    """All of a study that a person asks about, with so many estimates at most."""
    lines = [line for label, text in _described(study, result, now) for line in wrapped(text, f"{label:11}")]
    return "\n".join([*lines, *_estimates(result, most)])


def _described(study: ServerDocument, result: ServerDocument, now: float) -> Iterator[tuple[str, str]]:
    spec = study["study"]
    yield "study", str(study["id"])
    yield "title", _shown(spec["title"])
    yield "state", _state(study)
    given = "".join(f", {_shown(name)} = {_shown(str(value), 200)}" for name, value in spec["parameters"].items())
    yield "strategy", f"{_shown(spec['strategy'])}{given}"
    kind = "simulated users, by gateways" if spec["simulated"] else "people"
    many = "in rounds" if spec["interactive"] else "all at once"
    yield "asks", f"{kind}, {many}, for ε = {to_text(spec['cap'])} of each user at most"
    for each in study["rounds"]:
        yield f"round {each['round']['number']}", f"{each['state']}, {round_line(each, now)}"
    yield "bulletin", counted(study["length"], "entry", "entries")
    yield "head", _shown(study["head"], 64)
    yield from zip(("learned" if result["text"] else "ended", "ended"), _words(result), strict=False)


def _state(study: ServerDocument) -> str:
    return f"paused: {_shown(study['paused'])}" if study.get("paused") else _shown(study["state"], 20)


def _words(result: ServerDocument) -> list[str]:
    """What was learned, and what the reason says beyond that: mostly it is the same."""
    text, reason = _shown(result["text"] or ""), _shown(result["reason"])
    if text and reason.startswith(text[:200]):
        reason = reason.removeprefix(text).strip()
    return [words for words in (text, reason) if words]


def round_line(each: ServerDocument, now: float) -> str:
    """How far a round is, and until when it waits."""
    spec = each["round"]
    of = f"{each['received']:,} of {counted(spec['target'], 'report')}"
    return f"{of}, {left(spec['deadline'], now)}" if each["state"] == "open" else of


def left(deadline: int, now: float) -> str:
    """The time until a deadline, in words."""
    return f"{time_left(deadline, now)} left" if deadline > now else "its deadline has passed"


def _estimates(result: ServerDocument, most: int) -> list[str]:
    """So many estimates as a table below what stands above, and how many more there are."""
    lines = estimate_lines([_estimate(each) for each in result.get("estimates", ())], most=most, width=window_width())
    if left_out := result.get("estimates_left_out"):
        lines.append(f"{CUT} and {left_out:,} more, in the tallies of the rounds")
    return ["", *lines] if lines else []


def outcome(result: ServerDocument, most: int = MOST_LINES) -> str:
    """What a study has come to, with so many estimates at most."""
    lines = [line for words in _words(result) for line in wrapped(words)]
    return "\n".join([*lines, *_estimates(result, most)])


@dataclass(frozen=True, slots=True)
class StudyScreen:
    """A study that goes on, in the width of its window: its rounds, what they have, and what is known by now."""

    study: ServerDocument
    result: ServerDocument
    clock: Callable[[], float] = time.time

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it; rich asks for it anew whenever it is shown."""
        width, spec, result = min(options.max_width, _WIDEST), self.study["study"], self.result
        # A study without a title of its own has its strategy's name.
        names = dict.fromkeys((_shown(spec["title"], 60), _shown(spec["strategy"], 40)))
        head = Text(" · ".join((*names, _shown(self.study["id"], 64)[:8], "")), "bold")
        yield head.append(_state(self.study)[:60])
        # What is higher than its window cannot be drawn over: then the last rounds are shown, and some estimates.
        height = options.max_height - _LINES_OF_THE_REST
        rounds = self.study["rounds"][-max(_LEAST_LINES, height // 2) :]
        yield _rounds_table(rounds, self.clock(), width)
        left_out = int(result.get("estimates_left_out") or 0)
        told = [_estimate(each) for each in result.get("estimates", ())]
        most = min(MOST_LINES, max(_LEAST_LINES, height - len(rounds)))
        lines = estimate_lines(told, most=most, width=width, left_out=left_out, rest="askance study result")
        for number, line in enumerate(["", *lines] if lines else []):
            yield Text(line, "bold" if number == 1 else "", no_wrap=True, overflow="ellipsis")
        words = [printable(text, 600) for text in _words(result)]
        yield from map(Text, ["", *words] if words else [])


def _estimate(each: ServerDocument) -> Estimate:
    """An estimate as a server tells it."""
    numbers = {name: each[name] for name in ("estimate", "low", "high", "level", "reports")}
    return Estimate(_shown(each["name"], 200), **numbers)


def _rounds_table(rounds: Sequence[ServerDocument], now: float, width: int) -> Table:
    rows = [
        (
            str(each["round"]["number"]),
            _shown(each["state"], 10),
            f"{each['received']:,}/{each['round']['target']:,}",
            left(each["round"]["deadline"], now) if each["state"] == "open" else "",
        )
        for each in rounds
    ]
    head = ("round", "state", "reports", "")
    room = width - sum(2 + max(map(len, column)) for column in zip(head, *rows, strict=True))
    table = Table(box=None, padding=(0, 2, 0, 0), show_edge=False)
    table.add_column("#" if room < 0 else head[0], justify="right", no_wrap=True)
    if room >= 0:
        table.add_column(head[1], no_wrap=True)
    table.add_column(head[2], justify="right", no_wrap=True)
    if room >= _SHORTEST_BAR:
        table.add_column("")
    table.add_column("", no_wrap=True)
    for each, (number, state, reports, rest) in zip(rounds, rows, strict=True):
        # In a narrow window the time that is left tells which round is open.
        states = [state] if room >= 0 else []
        bars = [bar_of(each["received"], each["round"]["target"], min(room, _LONGEST_BAR))]
        table.add_row(number, *states, reports, *(bars if room >= _SHORTEST_BAR else []), rest)
    return table


def _shown(text: object, most: int = 2000) -> str:
    return printable(str(text), most)
