"""Coverage and width of every kind of interval that the project shows, at 95 %, with ε = 1 unless said otherwise.

Each kind is asked of populations of which a share p answers one way and the others another, by so many users; runs are
drawn as tallies from the channel's own table, with fixed seeds. Prints one JSON object; docs/intervals.md reads it.
Exits 6 where an interval covers less than 95 % by more than three standard errors (such a row is drawn once more, with
ten times the runs), or more than 97 % by as much where the law is continuous enough, or where the control is not found:
the same intervals a tenth shorter. What is measured is kept in a file, if one is given, and not measured again.

*Continuous enough*: 1,000 reports at least, whose sum has a standard deviation of ten of the steps that it moves by,
and a truth four standard errors inside of what can be: nearer to an end nothing is missed beyond it. A quotient of two
estimates holds by Bonferroni's inequality, so it covers more; that it covers enough is all that is asked of it.

    python benchmarks/coverage.py [runs] [--workers N] [--keep FILE]
"""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
from tasks import arguments, measured_tasks

from askance_protocol.arrays import Floats, Integers
from askance_protocol.budget import MICRO
from askance_protocol.channels.channel import matrix
from askance_protocol.queries import BooleanQuery, CellQuery, RealQuery
from askance_protocol.queries.language import Bit, Clamp, FieldValue, Label
from askance_protocol.rounds import (
    BinarySpec,
    Cohort,
    GeometricSpec,
    KarySpec,
    LaplaceSpec,
    Part,
    PreparedPart,
    RoundSpec,
    StudySpec,
    prepare_round,
)
from askance_protocol.schema import BitsField, IntegerField, LabelField, RealField, Schema
from askance_protocol.tally import Tally
from askance_server.core import cell_channels
from askance_server.core.estimators import Sums, bounded_interval, estimate_each
from askance_server.strategies.shared.survey_answers import VALUE_FAILS, quotient_interval

LEVEL: Final = 0.95
SHORTER: Final = 0.1
MOST: Final = 0.97
SHARES: Final = (0.0, 0.001, 0.01, 0.1, 0.5, 0.9, 1.0)
USERS: Final = (1, 3, 10, 30, 100, 1_000, 100_000)
AGAIN: Final = 10
CELLS: Final = 8
DENOMINATOR: Final = 10

SCHEMA: Final = Schema(
    fields=(
        BitsField(name="x", width=1),
        IntegerField(name="i", low=0, high=CELLS - 1),
        RealField(name="height", low=-1, high=1, denominator=DENOMINATOR),
        LabelField(name="y"),
    )
)
BIT: Final = BooleanQuery(test=Bit(field="x", index=0))
HEIGHT: Final = RealQuery(numerator=FieldValue(field="height"), denominator=DENOMINATOR)
WHICH: Final = CellQuery(cells=CELLS, cell=FieldValue(field="i"))
SIGNED: Final = CellQuery(
    cells=CELLS, cell=Clamp(of=FieldValue(field="i"), low=0, high=CELLS - 1), negative=Label(sign=-1)
)


def prepared(query: BooleanQuery | RealQuery | CellQuery, channel: Any, epsilon: int = 1) -> PreparedPart:
    """One part of a round of its own."""
    study = StudySpec(
        title="Coverage",
        nonce="0" * 32,
        example=SCHEMA,
        strategy="coverage",
        parameters={},
        interactive=True,
        simulated=True,
        cap=epsilon * MICRO,
    )
    part = Part(query=query, channel=channel, charge=epsilon * MICRO, share=1)
    spec = RoundSpec(
        study=study.digest(),
        number=1,
        parts=(part,),
        cohort=Cohort(users=1_000_000),
        target=1000,
        deadline=4_000_000_000,
    )
    return prepare_round(study, spec).parts[0]


Answers = Callable[[float], dict[int, float]]
"""How many answer what, by the share p."""


def of_two(one: int, other: int) -> Answers:
    """A share p gives one answer, all others another."""
    return lambda share: {one: share, other: 1 - share}


def alike(share: float) -> dict[int, float]:
    """All hold one value, p of the way from −1 to 1."""
    return {round((2 * share - 1) * DENOMINATOR): 1.0}


@dataclass(frozen=True, slots=True)
class Interval:
    """One kind of interval: what is asked, of whom, and which of its estimates is looked at."""

    name: str
    part: PreparedPart
    answers: Answers
    value: Callable[[int], float]
    """What the estimate is the mean of, for each answer."""
    sums: Sums = ()
    several: bool = False
    """Whether the score takes more than two values: then the width that such intervals had before is told, too."""

    def law(self, share: float) -> Floats:
        """Pr[row, outcome] of a random user's report."""
        table, part = matrix(self.part.channel), self.part
        rows = [
            sum(weight * table[int(part.encode(answer, row))] for answer, weight in self.answers(share).items())
            for row in range(part.rows)
        ]
        return np.array(rows) / part.rows

    def truth(self, share: float) -> float:
        """What is estimated."""
        return sum(weight * self.value(answer) for answer, weight in self.answers(share).items())


def first_cell(answer: int) -> float:
    """Whether it is cell 0, with its sign."""
    return float(np.sign(answer) * (abs(answer) == 1))


def kinds() -> list[Interval]:
    """All kinds of intervals of one part."""
    binary, height = BinarySpec(micro_epsilon=MICRO), of_two(DENOMINATOR, -DENOMINATOR)
    subset = cell_channels.channel_for(WHICH, SCHEMA, MICRO)
    kary = KarySpec(micro_epsilon=MICRO)

    def number(answer: int) -> float:
        return answer / DENOMINATOR

    noise = [
        Interval(
            f"mean, {name}, {who}{at}",
            prepared(HEIGHT, spec(micro_epsilon=epsilon * MICRO), epsilon),
            answers,
            number,
            several=True,
        )
        for name, spec in (("geometric", GeometricSpec), ("Laplace", LaplaceSpec))
        for epsilon, at in ((1, ""), (4, ", ε = 4"))
        for who, answers in (("at both ends", height), ("all alike", alike))
    ]
    return [
        Interval("share, binary", prepared(BIT, binary), of_two(1, 0), float),
        Interval("mean, binary", prepared(HEIGHT, binary), height, number),
        Interval("cell, pooled bit", prepared(WHICH, binary), of_two(1, 2), first_cell),
        Interval("signed cell, pooled bit", prepared(SIGNED, binary), of_two(1, -2), first_cell),
        Interval("cell, k-ary", prepared(WHICH, kary), of_two(1, 2), first_cell),
        Interval("cell, sets of cells", prepared(WHICH, subset), of_two(1, 2), first_cell),
        Interval(
            "sum of cells, k-ary", prepared(WHICH, kary), of_two(1, 4), lambda answer: float(answer <= 3), ((0, 1, 2),)
        ),
        Interval("signed cell, k-ary", prepared(SIGNED, kary), of_two(1, -2), first_cell, several=True),
        *noise,
    ]


class CoverageTask(NamedTuple):
    """One kind of interval, for so many users."""

    kind: int
    users: int
    runs: int

    @property
    def key(self) -> str:
        """Names it among the results."""
        return f"{self.name} n={self.users} runs={self.runs}"

    @property
    def name(self) -> str:
        """The kind's."""
        return KINDS[self.kind].name if self.kind < len(KINDS) else QUOTIENT

    def row(self, share: float, runs: int, seed: Sequence[int]) -> dict[str, Any]:
        """One row of the table."""
        if self.kind < len(KINDS):
            return measured(KINDS[self.kind], share, self.users, runs, seed)
        return quotient(share, self.users, runs, seed)


KINDS: Final = kinds()
QUOTIENT: Final = "quotient of a mean and a share"


def rows_of(task: CoverageTask) -> dict[str, Any]:
    """Coverage and width for each share; where it is too low, from ten times the runs."""
    rows = list[dict[str, Any]]()
    for at, share in enumerate(SHARES):
        seed = (task.kind, task.users, at)
        row = task.row(share, task.runs, seed)
        if row["coverage"] < least(task.runs):
            row = task.row(share, AGAIN * task.runs, (*seed, 1))
        rows.append(row)
    return {"rows": rows}


def least(runs: int) -> float:
    """95 % less three standard errors."""
    return LEVEL - 3 * math.sqrt(LEVEL * (1 - LEVEL) / runs)


def measured(kind: Interval, share: float, users: int, runs: int, seed: Sequence[int]) -> dict[str, Any]:
    """So many runs of one kind, one share, and one number of users."""
    law, truth, ends = kind.law(share), kind.truth(share), domain(kind)
    drawn = np.random.default_rng(seed).multinomial(users, law.ravel() / law.sum(), size=runs)
    low, high = intervals(kind, drawn.reshape(runs, *law.shape), LEVEL)
    cut = (high - low) / 2 * SHORTER
    shorter = np.where(low > ends[0], low + cut, low), np.where(high < ends[1], high - cut, high)
    values = single(kind, law)
    error = math.sqrt(float(law.ravel() @ (values - truth) ** 2) / users)
    normal = 2 * 1.959964 * error
    return {
        "kind": kind.name,
        "share": share,
        "users": users,
        "runs": runs,
        "coverage": covered(low, high, truth),
        "missed_below": round(float((low > truth + 1e-9).mean()), 4),
        "missed_above": round(float((high < truth - 1e-9).mean()), 4),
        "width": round(float((high - low).mean()) / normal, 4),
        "before": round(before(drawn[:50], values, users, ends) / normal, 4) if kind.several else None,
        "continuous": continuous(values, law, truth, users, ends),
        "control": covered(*shorter, truth),
    }


def intervals(kind: Interval, drawn: Integers, level: float) -> tuple[Floats, Floats]:
    """Both ends for each of many tallies; a thousand at a time, and each that came several times once."""
    distinct, places = np.unique(drawn.reshape(len(drawn), -1), axis=0, return_inverse=True)
    tallies = [Tally(counts.reshape(drawn.shape[1:])) for counts in distinct]
    some = [tallies[begin : begin + 1000] for begin in range(0, len(tallies), 1000)]
    found = [each for few in some for each in estimate_each(kind.part, few, level, kind.sums)]
    ends = np.array([(each.low[0], each.high[0]) for each in found])[places]
    return ends[:, 0], ends[:, 1]


def quotient(share: float, users: int, runs: int, seed: Sequence[int]) -> dict[str, Any]:
    """The mean of those who have a value, every other user, as a survey tells it: from two questions to half each."""
    rng = np.random.default_rng(seed)
    mean = Interval("", prepared(HEIGHT, BinarySpec(micro_epsilon=MICRO)), lambda _: {}, float)
    known = Interval("", prepared(BIT, BinarySpec(micro_epsilon=MICRO)), of_two(1, 0), float)
    table = matrix(mean.part.channel)
    have = share * table[2 * DENOMINATOR] + (1 - share) * table[0]
    asked = max(1, users // 2)
    ends = [
        intervals(kind, rng.multinomial(asked, law, size=runs)[:, np.newaxis], 1 - (1 - LEVEL) * part)
        for kind, law, part in (
            (mean, (have + table[DENOMINATOR]) / 2, VALUE_FAILS),
            (known, known.law(0.5).ravel(), 1 - VALUE_FAILS),
        )
    ]
    rows = zip(*(zip(*each, strict=True) for each in ends), strict=True)
    low, high = (np.array(end) for end in zip(*(quotient_interval(*row) for row in rows), strict=True))
    truth = 2 * share - 1
    return {
        "kind": QUOTIENT,
        "share": share,
        "users": users,
        "runs": runs,
        "coverage": covered(low, high, truth),
        "missed_below": round(float((low > truth + 1e-9).mean()), 4),
        "missed_above": round(float((high < truth - 1e-9).mean()), 4),
        "width": None,
        "before": None,
        "continuous": False,
        "control": None,
    }


def covered(low: Floats, high: Floats, truth: float) -> float:
    """The share of intervals that hold it."""
    return round(float(((low <= truth + 1e-9) & (truth - 1e-9 <= high)).mean()), 5)


def domain(kind: Interval) -> tuple[float, float]:
    """The least and the greatest value that there may be."""
    signed = isinstance(kind.part.query.query, RealQuery) or kind.part.query.query == SIGNED
    return (-1.0, 1.0) if signed else (0.0, 1.0)


def single(kind: Interval, law: Floats) -> Floats:
    """What a report of each row and outcome estimates alone."""
    alone = np.eye(law.size, dtype=np.int64)
    tallies = [Tally(counts.reshape(law.shape)) for counts in alone]
    return np.array([float(each.values[0]) for each in estimate_each(kind.part, tallies, LEVEL, kind.sums)])


def continuous(values: Floats, law: Floats, truth: float, users: int, ends: tuple[float, float]) -> bool:
    """Whether the law of the estimate is continuous enough for a coverage of 95 %."""
    spread = math.sqrt(float(law.ravel() @ (values - truth) ** 2))
    steps = np.diff(np.unique(values.round(9)))
    inside = min(truth - ends[0], ends[1] - truth) >= 4 * spread / math.sqrt(users)
    return bool(users >= 1000 and math.sqrt(users) * spread >= 10 * steps.max() and inside)


def before(tallies: Integers, values: Floats, users: int, ends: tuple[float, float]) -> float:
    """Mean width of the intersection of Hoeffding's and Maurer and Pontil's intervals, of some of the tallies."""
    widths = list[float]()
    for counts in tallies:
        mean = float(counts @ values) / users
        variance = float(counts @ (values - mean) ** 2) / max(users - 1, 1)
        possible = min(max(mean, ends[0]), ends[1])
        low, high = bounded_interval(possible, variance, users, (float(values.min()), float(values.max())), LEVEL)
        widths.append(min(high, ends[1]) - max(low, ends[0]))
    return float(np.mean(widths))


def faults(rows: Sequence[dict[str, Any]]) -> list[str]:
    """What does not hold, in words: there should be none."""
    found = list[str]()
    for row in rows:
        where = f"{row['kind']}, p = {row['share']}, {row['users']:,} users: {100 * row['coverage']:.2f} %"
        if row["coverage"] < least(row["runs"]):
            found.append(f"too few: {where}")
        if row["continuous"] and row["coverage"] > MOST + 3 * math.sqrt(MOST * (1 - MOST) / row["runs"]):
            found.append(f"too many: {where}")
    for kind in dict.fromkeys(row["kind"] for row in rows):
        if kind != QUOTIENT and all(row["control"] >= least(row["runs"]) for row in rows if row["kind"] == kind):
            found.append(f"intervals a tenth shorter are not found: {kind}")
    return found


def markdown(rows: Sequence[dict[str, Any]]) -> list[str]:
    """The page's tables: coverage over all shares, least and most; and mean widths at p = ½, and before."""
    names = list(dict.fromkeys(row["kind"] for row in rows))
    users = list(dict.fromkeys(row["users"] for row in rows))
    head = "".join(f" {number:,} |" for number in users)
    lines = [f"| coverage in % |{head}", "|---|" + "---|" * len(users)]
    for name in names:
        mine = {
            number: [row["coverage"] for row in rows if (row["kind"], row["users"]) == (name, number)]
            for number in users
        }
        lines.append(
            f"| {name} |" + "".join(f" {100 * min(each):.1f}–{100 * max(each):.1f} |" for each in mine.values())
        )
    lines += ["", f"| width, p = .5 |{head}", "|---|" + "---|" * len(users)]
    for name in names:
        half = [row for row in rows if row["kind"] == name and row["share"] == 0.5]
        if name == QUOTIENT:
            continue
        lines.append(f"| {name} |" + "".join(f" {width(row)} |" for row in half))
    return lines


def summary(rows: Sequence[dict[str, Any]]) -> str:
    """The page's sentence: the least coverage of all, and both ends where the law is continuous enough."""
    smooth = [row for row in rows if row["continuous"]]
    least_of_all = 100 * min(row["coverage"] for row in rows)
    low, high = (100 * end(row["coverage"] for row in smooth) for end in (min, max))
    control = 100 * min(row["control"] for row in smooth)
    return (
        f"Of {len(rows)} rows the least covers {least_of_all:.2f} %; the {len(smooth)} whose law is continuous enough "
        f"cover {low:.2f} to {high:.2f} %, and a tenth shorter as few as {control:.2f} %."
    )


def width(row: dict[str, Any]) -> str:
    """A width, with what it was before."""
    return f"{row['width']:.2f}" if row["before"] is None else f"{row['width']:.2f} ({row['before']:.2f})"


def main() -> int:
    """Measure, print."""
    chosen = arguments(__doc__, seeds=2000)
    begin = time.perf_counter()
    tasks = [CoverageTask(kind, users, chosen.seeds) for kind in range(len(KINDS) + 1) for users in USERS]
    rows = [
        row for found in measured_tasks(rows_of, {task.key: task for task in tasks}, chosen) for row in found["rows"]
    ]
    found = faults(rows)
    result = {
        "schema_version": 1,
        "level": LEVEL,
        "rows": rows,
        "faults": found,
        "seconds": round(time.perf_counter() - begin),
    }
    print(json.dumps(result))
    return 6 if found else 0


if __name__ == "__main__":
    sys.exit(main())
