"""What a second round is worth, in lines for a terminal or a pipe: errors of each concept, their means, the limit.

Nothing here is told by a colour alone, and no line is longer than the given width.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Final

from rich.text import Text

from askance_lab.commands.shared.colours import RIGHT, WRONG
from askance_lab.commands.shared.window import tied, wrapped
from askance_lab.evaluation.proportion import Proportion
from askance_lab.experiments.second_round import (
    LEARNERS,
    LIVE_LEARNERS,
    ConceptResult,
    ConceptTask,
    SecondRound,
    name_by_rounds,
)
from askance_lab.experiments.separation.measurement import BLIND
from askance_protocol.text import counted

_LABEL: Final = 12
_LONGEST: Final = 100
"""Columns of a line of prose."""
_CELL: Final = 5
_BAR: Final = 40
"""Characters of a bar of error ½."""
_STRONG = "bold"


def introduction(task: ConceptTask, concepts: int, width: int) -> list[Text]:
    """What is going to be seen, for somebody who has not read the paper."""
    many = f" There are {concepts} concepts, each with users of its own." if concepts > 1 else ""
    told = (
        f"Each of {task.users:,} users holds a labelled example and never sends it. Each sends one bit, randomized "
        f"with ε = {task.epsilon}, to each of two learners, which look for the concept behind the labels "
        f"(MASKED-PARITY: {task.d} bits r, and a mask bit a).{many} The learners are:"
    )
    learners = [
        f"- two rounds ({LEARNERS[0]}): first it asks for r, and then, knowing r, for a;",
        f"- one round ({LEARNERS[1]}): it asks everything before the first answer.",
    ]
    shown = [Text("What is a second round worth?", _STRONG), *_wrapped(told, width)]
    return [*shown, *(line for each in learners for line in _wrapped(each, width))]


def live_text(task: ConceptTask, width: int) -> list[Text]:
    """What the live concept is: it shows the protocol, and it is one concept."""
    told = (
        f"d = {task.d}, {task.users:,} users with a wallet each. The learner of more rounds is {LIVE_LEARNERS[0]}: it "
        f"takes as many as it needs, up to six. The one of one round is {LIVE_LEARNERS[1]}, as above. One concept "
        f"shows the protocol at work, and not the difference between learners."
    )
    return _wrapped(told, width)


def contradiction_text(task: ConceptTask, often: Proportion, width: int) -> list[Text]:
    """How often one concept like the live one says the opposite of the conclusion."""
    low, high = often.interval
    told = (
        f"The live concept says the opposite of what follows. That happens: of {often.total} such studies in this "
        f"process (d = {task.d}, {task.users:,} users) {often.count} said so too ({100 * low:.0f} to {100 * high:.0f} "
        f"of 100 at 95 %)."
    )
    return _wrapped(told, width)


def error_grid(results: Sequence[ConceptResult], width: int) -> list[Text]:
    """The error of each learner on each concept, as many concepts in a line as there is room for."""
    concepts = sorted({each.concept for each in results})
    errors = {(each.concept, each.learner): each.error for each in results}
    most = max(5, (width - _LABEL) // _CELL // 5 * 5)
    lines = list[Text]()
    for begin in range(0, len(concepts), most):
        some = concepts[begin : begin + most]
        lines += [Text(), _line("concept", [(str(concept), "") for concept in some])]
        for learner in LEARNERS:
            cells = [(_error(errors.get((concept, learner))), concept) for concept in some]
            lines.append(
                _line(
                    name_by_rounds(learner), [(text, _looks(errors.get((concept, learner)))) for text, concept in cells]
                )
            )
    return lines


def learner_lines(result: ConceptResult, width: int) -> list[Text]:
    """What one learner came to on one concept: a line, or two where it is long."""
    label = f"{name_by_rounds(result.learner):<{_LABEL}}"
    if result.error is None:
        told = wrapped(f"nothing learned: {result.text}", label, min(width, _LONGEST))
        return [Text(line, WRONG) for line in told]
    right = result.error == 0
    said = "right" if right else f"wrong, error {_error(result.error)}"
    asked = f"{counted(result.users, 'user')}, {counted(result.rounds, 'round')}"
    found = concept_text(result.hypothesis)
    line = Text(label).append(f"{said:<18}", RIGHT if right else WRONG).append(f"{asked:<24}")
    return [line.append(found)] if len(line) + len(found) <= width else [line, Text(f"   {found}")]


def concept_text(concept: Mapping[str, object]) -> str:
    """A concept, or a hypothesis."""
    return f"r = {concept['r']}, a = {concept['a']}"


def mean_bars(shown: SecondRound) -> list[Text]:
    """The mean error of each learner beside the line at ¼."""
    edge = round(_BAR * BLIND / 0.5)
    scale = Text(f"{'mean error':<{_LABEL}}0{'¼':>{edge}}{'½':>{_BAR - edge}}   mean (95 % interval)")
    lines = [scale]
    for point in (shown.in_rounds, shown.at_once):
        assert point.error is not None  # noqa: S101 - told the type checker: all errors are known
        mean, low, high = point.error
        filled = min(_BAR, math.ceil(2 * _BAR * mean))
        cells = ["█" if place < filled else " " for place in range(_BAR + 1)]
        if filled <= edge:
            cells[edge] = "│"
        ends = f"{_down(low)} to {_up(high)}"
        lines.append(Text(f"{name_by_rounds(point.learner):<{_LABEL}}{''.join(cells)}   {mean:.3f} ({ends})"))
    return lines


def quarter_note(shown: SecondRound, width: int) -> list[Text]:
    """What the line at ¼ means, and whether the learner in one round may stand there."""
    told = "¼ is the mean error of a learner that knows r and only guesses a: half of all examples are masked."
    if shown.guesses:
        told += " In one round, no better than that is shown."
    return _wrapped(told, width)


def conclusion(shown: SecondRound, width: int) -> list[Text]:
    """The sentence, and beside it the users that were asked and those that no learner can do without."""
    needed, asked = shown.needed, shown.asked
    mean = round(sum(asked) / len(asked))
    lines = [*_wrapped(shown.sentence, width, _STRONG), Text()]
    told = f"Two rounds asked {mean:,} users a concept."
    if needed.at_once_limit is not None:
        limit, theorem = _count(needed.at_once_limit), tied("askance theory at-once-proved")
        told += (
            f" In one round, no learner whatever is right 19 times in 20 with fewer than {limit} users "
            f"(d = {needed.d}, ε = {shown.task.epsilon}): proved, and nothing is assumed; {theorem}."
        )
    lines += _wrapped(told, width)
    higher = shown.higher
    if not higher:
        return lines
    lines += [Text(), Text("users, to be right 19 times in 20        two rounds        one round: at least")]
    for each in higher:
        limit = "-" if each.at_once_limit is None else _count(each.at_once_limit)
        kind = "measured" if each.measured else "enough"
        lines.append(Text(f"{'d = ' + str(each.d):>34}{each.in_rounds:>10,} {kind:<9}{limit:>23}"))
    told = "one round: proved for every learner, as above"
    if any(each.measured for each in higher):
        told += f"; measured: {LEARNERS[0]}, in studies, {tied('askance separation --table')}"
    if not all(each.measured for each in higher):
        told += "; enough: by a formula, which is not the least"
    return [*lines, *_wrapped(told, width)]


def _wrapped(text: str, width: int, style: str = "") -> list[Text]:
    return [Text(line, style) for line in wrapped(text, width=min(width, _LONGEST))]


def _line(label: str, cells: Sequence[tuple[str, str]]) -> Text:
    line = Text(f"{label:<{_LABEL}}")
    for text, style in cells:
        line.append(f"{text:>{_CELL}}", style)
    return line


def _error(error: float | None) -> str:
    """0 where it is exactly that; otherwise two digits."""
    if error is None:
        return "-"
    return "0" if error == 0 else f"{error:.2f}".removeprefix("0")


def _looks(error: float | None) -> str:
    return "" if error is None else RIGHT if error == 0 else WRONG


def _down(value: float) -> str:
    return f"{math.floor(1000 * value) / 1000:.3f}"


def _up(value: float) -> str:
    return f"{math.ceil(1000 * value) / 1000:.3f}"


def _count(number: int) -> str:
    """In full, as long as a line holds it."""
    return f"{number:,}" if number < 10**15 else f"{number:.1e}"
