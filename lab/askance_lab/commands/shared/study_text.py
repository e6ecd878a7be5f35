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

from askance_lab.commands.shared.estimates_text import MOST_LINES, estimate_lines, numbers_text
from askance_lab.commands.shared.progress import bar_of
from askance_lab.remote.management import ServerDocument
from askance_protocol.budget import to_text
from askance_protocol.queries.notation import CUT
from askance_protocol.text import printable
from askance_server.core.strategy import Estimate

_WIDEST: Final = 120
"""Columns that a screen uses at most: in a wider line the eye loses its row."""
_LINES_OF_THE_REST: Final = 9
"""What stands around rounds and estimates: title, heads, gaps, and what was learned."""
_LEAST_LINES: Final = 3
_LONGEST_BAR, _SHORTEST_BAR = 40, 6
_UNITS: Final = ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


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
    return "\n".join(f"{label:11}{line}".rstrip() for label, line in _described(study, result, now, most))


def _described(study: ServerDocument, result: ServerDocument, now: float, most: int) -> Iterator[tuple[str, str]]:
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
    yield "bulletin", f"{study['length']} entries, head {study['head']}"
    yield from _outcome(result, most)


def _state(study: ServerDocument) -> str:
    return f"paused: {_shown(study['paused'])}" if study.get("paused") else _shown(study["state"], 20)


def _outcome(result: ServerDocument, most: int) -> Iterator[tuple[str, str]]:
    label = "estimates"
    for line in _estimates(result, most):
        yield label, line
        label = ""
    if result["text"]:
        yield "learned", _shown(result["text"])
    if result["reason"]:
        yield "ended", _shown(result["reason"])


def round_line(each: ServerDocument, now: float) -> str:
    """How far a round is, and until when it waits."""
    spec = each["round"]
    of = f"{each['received']:,} of {spec['target']:,} reports"
    return f"{of}, {left(spec['deadline'], now)}" if each["state"] == "open" else of


def left(deadline: int, now: float) -> str:
    """The time until a deadline, in words."""
    seconds = int(deadline - now)
    if seconds <= 0:
        return "its deadline has passed"
    size, unit = next(each for each in _UNITS if seconds >= each[0])
    return f"{seconds // size} {unit} left"


def estimate_line(each: ServerDocument) -> str:
    """An estimate with its interval."""
    value, low, high = numbers_text(each["estimate"], each["low"], each["high"])
    return (
        f"{_shown(each['name'], 200)} = {value} (from {low} to {high} "
        f"at {100 * each['level']:.4g} %, {each['reports']:,} reports)"
    )


def _estimates(result: ServerDocument, most: int) -> list[str]:
    """So many estimates, and how many more there are."""
    every = result.get("estimates", ())
    # A line that counts one more is as long as the one more.
    shown = every if len(every) == most + 1 else every[:most]
    lines = [estimate_line(each) for each in shown]
    if more := len(every) - len(shown):
        lines.append(f"{CUT} and {more:,} more: --json has them")
    if left_out := result.get("estimates_left_out"):
        lines.append(f"{CUT} and {left_out:,} more, in the tallies of the rounds")
    return lines


def outcome(result: ServerDocument, most: int = MOST_LINES) -> str:
    """What a study has come to, with so many estimates at most."""
    lines = [_shown(result["text"])] if result["text"] else []
    lines += _estimates(result, most)
    if not result["text"] or not _shown(result["reason"]).startswith(_shown(result["text"])[:200]):
        lines.append(_shown(result["reason"]))
    elif result["reason"] != result["text"]:
        lines.append(_shown(result["reason"]).removeprefix(_shown(result["text"])).strip())
    return "\n".join(line for line in lines if line)


@dataclass(frozen=True, slots=True)
class StudyScreen:
    """A study that goes on, in the width of its window: its rounds, what they have, and what is known by now."""

    study: ServerDocument
    result: ServerDocument
    clock: Callable[[], float] = time.time

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Draw it; rich asks for it anew whenever it is shown."""
        width, spec, result = min(options.max_width, _WIDEST), self.study["study"], self.result
        head = Text(f"{_shown(spec['title'], 60)} · {_shown(spec['strategy'], 40)} · ", "bold")
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
        words = [_shown(text, 600) for text in dict.fromkeys((result["text"], result["reason"])) if text]
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
    for each, (number, state, reports, time_left) in zip(rounds, rows, strict=True):
        # In a narrow window the time that is left tells which round is open.
        states = [state] if room >= 0 else []
        bars = [bar_of(each["received"], each["round"]["target"], min(room, _LONGEST_BAR))]
        table.add_row(number, *states, reports, *(bars if room >= _SHORTEST_BAR else []), time_left)
    return table


def _shown(text: object, most: int = 2000) -> str:
    return printable(str(text), most)
