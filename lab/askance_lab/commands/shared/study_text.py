"""Studies as a terminal shows them: plain lines, tables, and a screen that is drawn anew while a study goes on.

Whatever a server says is made harmless before it is shown.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from askance_lab.commands.shared.estimates_text import numbers_text
from askance_lab.remote.management import ServerDocument
from askance_protocol.budget import to_text
from askance_protocol.text import printable

SHOWN: Final = 12
"""Estimates that a screen shows: what more there are `askance study result` prints."""
_WIDTH: Final = 80
_NAME_WIDTH: Final = 34
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


def description(study: ServerDocument, result: ServerDocument, now: float) -> str:
    """All of a study that a person asks about."""
    return "\n".join(f"{label:11}{line}".rstrip() for label, line in _described(study, result, now))


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
    yield "bulletin", f"{study['length']} entries, head {study['head']}"
    yield from _outcome(result)


def _state(study: ServerDocument) -> str:
    return f"paused: {_shown(study['paused'])}" if study.get("paused") else _shown(study["state"], 20)


def _outcome(result: ServerDocument) -> Iterator[tuple[str, str]]:
    label = "estimates"
    for each in result.get("estimates", ()):
        yield label, estimate_line(each)
        label = ""
    if left := result.get("estimates_left_out"):
        yield label, f"and {left:,} more, in the tallies of the rounds"
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


def outcome(result: ServerDocument) -> str:
    """What a study has come to."""
    lines = [_shown(result["text"])] if result["text"] else []
    lines += [estimate_line(each) for each in result.get("estimates", ())]
    if left_out := result.get("estimates_left_out"):
        lines.append(f"and {left_out:,} more estimates, in the tallies of the rounds")
    if not result["text"] or not _shown(result["reason"]).startswith(_shown(result["text"])[:200]):
        lines.append(_shown(result["reason"]))
    elif result["reason"] != result["text"]:
        lines.append(_shown(result["reason"]).removeprefix(_shown(result["text"])).strip())
    return "\n".join(line for line in lines if line)


def screen(study: ServerDocument, result: ServerDocument, now: float | None = None) -> RenderableType:
    """A study that goes on, within 80 columns: its rounds, what they have, and what is known by now."""
    now = time.time() if now is None else now
    spec = study["study"]
    head = Text(f"{_shown(spec['title'], 60)} · {_shown(spec['strategy'], 40)} · ", "bold")
    head.append(_state(study)[:60])
    parts: list[RenderableType] = [head, _rounds_table(study, now)]
    if estimates := list(result.get("estimates", ())):
        parts.append(_estimates_table(estimates, int(result.get("estimates_left_out") or 0)))
    if result["text"]:
        parts.append(Text(_shown(result["text"], 600)))
    if result["reason"] and result["reason"] != result["text"]:
        parts.append(Text(_shown(result["reason"], 600), "dim"))
    return Group(*parts)


def _rounds_table(study: ServerDocument, now: float) -> Table:
    table = Table(box=None, padding=(0, 1), width=_WIDTH)
    for name, justify in (("round", "right"), ("state", "left"), ("reports", "right"), ("", "left"), ("", "left")):
        table.add_column(name, justify=justify, no_wrap=True)  # type: ignore[arg-type] - rich's own words
    for each in study["rounds"]:
        target, received = each["round"]["target"], each["received"]
        table.add_row(
            str(each["round"]["number"]),
            Text(_shown(each["state"], 10)),
            f"{received:,}/{target:,}",
            ProgressBar(total=target, completed=min(received, target), width=24),
            left(each["round"]["deadline"], now) if each["state"] == "open" else "",
        )
    return table


def _estimates_table(estimates: Sequence[ServerDocument], left_out: int) -> Table:
    table = Table(box=None, padding=(0, 1), width=_WIDTH)
    table.add_column("question", ratio=1, no_wrap=True, overflow="ellipsis")
    for name in ("estimate", "from", "to", "reports"):
        table.add_column(name, justify="right", no_wrap=True)
    for each in estimates[:SHOWN]:
        numbers = *numbers_text(each["estimate"], each["low"], each["high"]), f"{each['reports']:,}"
        table.add_row(Text(_shown(each["name"], 200)), *numbers)
    if more := len(estimates) - SHOWN + left_out if len(estimates) > SHOWN else left_out:
        table.add_row(Text(f"and {more:,} more: askance study result", "dim"), "", "", "", "")
    return table


def _shown(text: object, most: int = 2000) -> str:
    return printable(str(text), most)
