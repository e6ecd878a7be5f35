"""Users that each question takes, in one table: proved, as planned, measured at 95 %, and the limit for everybody.

ε = 1, β = .05. Numbers are of four kinds, a column each:

- proved: enough for every population, by KLNRS11, Thm 5.7 with the constants that are proved;
- planned: users to enrol, by the server's plan; of a strategy whose questions depend on answers (marked ~) for all
  of these, or for the runs that were tried where it does not say after which it asks the most;
- measured: the fewest with .95 of the studies right, of one population, from whatever files of docs other benchmarks
  keep; "not measured" where none has it;
- limit: with fewer no learner for whom it holds keeps the promise over every population: a theorem's record, which
  says for whom (learners in one round, or in any number of rounds) and what it assumes.

The goal is at most twice the limit, of what was measured, or else of what is planned. What was planned and measured
before, as docs/users/before.json keeps it, stands beside it.

    python benchmarks/users.py [--only STRATEGY,…] [--keep FILE] [--remake]

Prints one JSON object; exits 6 where a goal is missed. `--remake` writes everything that is made from such numbers: the
table of docs/users.md, and what `askance separation --table` prints in README.md and docs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final, cast

from askance_lab.commands.plan import call_of
from askance_lab.experiments.planned_users import plan_study
from askance_lab.experiments.separation import users as separation
from askance_lab.theory.theorem import theorems
from askance_protocol.errors import AskanceError
from askance_server.strategies.registry import registry

ROOT: Final = Path(__file__).parents[1]
DOCS: Final = ROOT / "docs"
TIMES: Final = 2
"""A goal is so many times the limit."""
MASKED: Final = "masked-parity/measured.json"
"""What benchmarks/masked_parity.py keeps, in docs."""
BEFORE: Final = "users/before.json"
TABLE: Final = "users/table.json"
PACKAGE: Final = ROOT / "lab" / "askance_lab" / "experiments" / "separation" / "measured.json"
EPSILON: Final = "1"


@dataclass(frozen=True, slots=True)
class Question:
    """A question to a strategy: what it is planned for, which kept rows are of it, which record limits it."""

    name: str
    strategy: str
    parameters: Mapping[str, Any]
    limit: str = ""
    """Name of the record, if there is one."""
    of_limit: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """Values of the record's parameters; ε and β are those of the table."""
    kept: Mapping[str, Any] = field(default_factory=dict[str, Any])
    """What a kept row says besides the strategy."""


def _learner(strategy: str, d: int, **more: Any) -> Question:
    """A learner of d bits; its limit is the record of its name, where there is one: for learners in one round."""
    values = {"dimension": d, "error": float(more["alpha"])} if "alpha" in more else {"dimension": d}
    name = f"{strategy}, d = {d}"
    return Question(name, strategy, {"d": d, **more}, f"{strategy}-at-once-limit", values, {"d": d})


def _masked(strategy: str, d: int, limit: str) -> Question:
    return Question(f"MASKED-PARITY, d = {d}", strategy, {"d": d}, limit, {"dimension": d}, {"d": d})


def _telemetry(name: str, strategy: str, parameters: Mapping[str, Any], limit: str, **values: Any) -> Question:
    return Question(name, strategy, parameters, limit, values, {"question": name})


QUESTIONS: Final = (
    _telemetry("mean within .05", "mean", {"tolerance": "0.05"}, "mean-limit", tolerance=0.05),
    *(
        _telemetry(
            f"{k} shares within .05",
            "histogram",
            {"cells": k, "tolerance": "0.05"},
            "histogram-limit",
            cells=k,
            tolerance=0.05,
        )
        for k in (2, 16)
    ),
    *(
        _telemetry("median of 256 values", each, {"cells": 256}, "quantile-limit", tolerance=0.05)
        for each in ("quantile", "quantile-at-once")
    ),
    *(
        _telemetry("heavy strings of 32 bits", each, asked, f"{each}-limit", dimension=32, share=0.2)
        for each in ("heavy-hitters", "heavy-hitters-at-once")
        for asked in ({"d": 32, "share": "0.2"},)
    ),
    *(_learner(each, d, alpha="0.1") for d in (8, 64) for each in ("conjunction", "conjunction-checked")),
    _learner("parity", 8),
    *(_learner(each, 4, alpha="0.1") for each in ("decision-list", "decision-list-checked", "decision-tree-checked")),
    *(_masked("masked-parity-pooled", d, "rounds-limit") for d in (8, 16, 32, 64)),
    _masked("masked-parity-noninteractive", 8, "at-once-limit"),
)


# ------------------------------------------------------------------------------------------------------------ numbers


def kept_rows(docs: Path = DOCS) -> list[dict[str, Any]]:
    """Every row at this ε of what other benchmarks keep: what names a strategy, users, and how many were right."""
    there = sorted(path for path in docs.glob("*/*.json") if f"{path.relative_to(docs)}" not in (BEFORE, TABLE))
    rows = ((path, value) for path in there if _epsilon(value := _read(path)) == EPSILON)
    return [row | {"kept": f"docs/{path.relative_to(docs)}"} for path, value in rows for row in _rows(value)]


def _epsilon(value: object) -> str:
    return str(cast("dict[str, Any]", value).get("epsilon", EPSILON)) if isinstance(value, dict) else EPSILON


def _rows(value: object) -> Iterator[dict[str, Any]]:
    """All such objects inside a value, whatever they are filed under."""
    if isinstance(value, dict):
        mine = cast("dict[str, Any]", value)
        if {"strategy", "users", "successes", "seeds"} <= mine.keys():
            yield mine
        else:
            yield from (row for each in mine.values() for row in _rows(each))
    elif isinstance(value, list):
        several = cast("list[object]", value)
        yield from (row for each in several for row in _rows(each))


def _read(path: Path) -> Any:
    return json.loads(path.read_text("utf-8"))


def measured(question: Question, rows: Iterable[Mapping[str, Any]]) -> dict[str, Any] | None:
    """The fewest users, of the kept rows of this question, with which .95 of the studies were right.

    Where a row says ε, or what the strategy was asked with, it has to be what is asked here.
    """
    asked = {"strategy": question.strategy, **question.kept}
    others = {"epsilon": EPSILON, "eta": "0", **question.parameters}
    mine = [
        row
        for row in rows
        if all(row.get(name) == value for name, value in asked.items())
        and all(str(row.get(name, value)) == str(value) for name, value in others.items())
    ]
    enough = [row for row in mine if row["successes"] >= 0.95 * row["seeds"]]
    best = min(enough, key=lambda row: row["users"], default=None)
    return None if best is None else {name: best[name] for name in ("users", "successes", "seeds", "kept")}


def planned(question: Question) -> dict[str, Any]:
    """By the proved constants, and as planned. Nothing where the strategy is not here, or will not be planned."""
    try:
        plan = plan_study(question.strategy, {**question.parameters, "epsilon": EPSILON, "beta": "0.05"})
    except AskanceError as error:
        return {"proved": None, "planned": None, "refused": str(error)}
    one = registry()[question.strategy].interactive
    return {"proved": sum(each.repaired for each in plan.rounds), "planned": plan.enrol, "depends_on_answers": one}


def limit(question: Question) -> dict[str, Any] | None:
    """Of the record with this name, if there is one: the number, for whom it holds, and what it assumes."""
    record = theorems().get(question.limit)
    if record is None:
        return None
    values = {"epsilon": float(EPSILON), "failure": 0.05, **question.of_limit}
    mine = {name: value for name, value in values.items() if name in {each.name for each in record.parameters}}
    users = record.compute(mine)["sharp"].fields["users"]
    return {"users": users, "theorem": record.name, "holds_for": record.holds_for, "assumes": record.assumes}


def row(question: Question, rows: Sequence[Mapping[str, Any]], before: Mapping[str, Any]) -> dict[str, Any]:
    """One row of the table."""
    found, bound, plan = measured(question, rows), limit(question), planned(question)
    takes = found["users"] if found else plan["planned"]
    goal = None if bound is None else TIMES * bound["users"]
    return {
        "question": question.name,
        "strategy": question.strategy,
        "call": call_of(question.strategy, question.parameters),
        **plan,
        "measured": found,
        "limit": bound,
        "goal": goal,
        "missed": goal is not None and takes is not None and takes > goal,
        "before": before.get(key(question)),
    }


def key(question: Question) -> str:
    """Names a question among those of before."""
    return f"{question.strategy}: {question.name}"


def table(questions: Sequence[Question] = QUESTIONS, docs: Path = DOCS) -> list[dict[str, Any]]:
    """All rows."""
    rows = kept_rows(docs)
    before: dict[str, Any] = _read(docs / BEFORE)["rows"]
    return [row(each, rows, before) for each in questions]


def missed(rows: Iterable[Mapping[str, Any]]) -> list[str]:
    """Rows whose goal is missed."""
    return [f"{each['strategy']}: {each['question']}" for each in rows if each["missed"]]


# ----------------------------------------------------------------------------------------------------------- markdown


HEAD: Final = (
    "question",
    "planned by",
    "before: planned",
    "before: measured",
    "proved",
    "planned",
    "measured at 95 %",
    "limit",
    "goal",
)


def markdown(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """The table of docs/users.md."""
    cells = [HEAD, ("---", "---", *("--:",) * (len(HEAD) - 2)), *map(_cells, rows)]
    return [f"| {' | '.join(line)} |" for line in cells]


def _cells(each: Mapping[str, Any]) -> tuple[str, ...]:
    found, bound = each["measured"], each["limit"]
    before: Mapping[str, Any] = each["before"] or {}
    plan = _users(each["planned"]) + (" ~" if each.get("depends_on_answers") and each["planned"] else "")
    return (
        each["question"],
        f"`{each['call']}`",
        _users(before.get("planned")),
        _users(before.get("measured")),
        _users(each["proved"]),
        plan,
        "not measured" if found is None else f"{_users(found['users'])} ({found['successes']}/{found['seeds']})",
        "none known" if bound is None else f"{_users(bound['users'])} ({_scope(bound)})",
        "–" if each["goal"] is None else f"{_users(each['goal'])}: {'missed' if each['missed'] else 'met'}",
    )


def _scope(bound: Mapping[str, Any]) -> str:
    """For whom a limit holds, and whether anything is assumed."""
    whom = str(bound["holds_for"]).removeprefix("learners in ").replace("any number of rounds", "any rounds")
    return whom if bound["assumes"] else f"{whom}, proved"


def _users(number: int | None) -> str:
    return "–" if number is None else separation.shown(number)


# ------------------------------------------------------------------------------------------------- what is made from it


def measured_in_rounds(more: object = None) -> list[separation.FewestMeasured]:
    """What the package keeps of learners of MASKED-PARITY in rounds: the fewest users of each dimension."""
    strategies = [name for name, each in registry().items() if name.startswith("masked-parity") and each.interactive]
    rows = [*_rows(_read(DOCS / MASKED)), *_rows(more)]
    return separation.fewest(rows, strategies, EPSILON)


MARK: Final = "<!-- benchmarks/users.py -->"
SHOWN: Final = "askance separation --table"


def quoted(text: str, printed: str) -> str:
    """A document with what the command prints now, below each place where it says so."""
    shown = rf"^\$ {SHOWN}\n.*?(?=^(?:```|\$ ))"
    return re.sub(shown, lambda _: f"$ {SHOWN}\n{printed}", text, flags=re.MULTILINE | re.DOTALL)


def between(text: str, lines: Sequence[str]) -> str:
    """A document with another table behind its only mark."""
    new = "".join(f"{line}\n" for line in lines)
    return re.sub(rf"{MARK}\n\n(?:\|.*\n)*\n?", lambda _: f"{MARK}\n\n{new}\n", text)


def remake(rows: Sequence[Mapping[str, Any]]) -> None:
    """Write what is made from the numbers. Nothing is measured."""
    PACKAGE.write_text(json.dumps([asdict(each) for each in measured_in_rounds()], indent=1) + "\n", "utf-8")
    _edit(DOCS / "users.md", lambda text: between(text, markdown(rows)))
    (DOCS / TABLE).write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", "utf-8")
    whole = [sys.executable, "-m", "askance_lab", *SHOWN.split()[1:]]
    wide = {**os.environ, "COLUMNS": "120", "NO_COLOR": "1"}
    printed = subprocess.run(whole, capture_output=True, text=True, check=True, env=wide).stdout  # noqa: S603 - our own
    for path in (ROOT / "README.md", DOCS / "separation.md"):
        _edit(path, lambda text: quoted(text, printed))
    page = ROOT / "server" / "askance_server" / "dashboard" / "measured" / "separation.json"
    page.write_text(json.dumps(of_the_page(_read(page)), indent=1) + "\n", "utf-8")


def of_the_page(results: Mapping[str, Any]) -> dict[str, Any]:
    """The results that come with the server's page, with the limits and measured users of today."""
    for cached in (separation.measured_users, separation.separation_users):
        cached.cache_clear()
    limits = separation.table(separation.DIMENSIONS, EPSILON)
    return {name: value for name, value in results.items() if name != "needed"} | {
        "limits": [each.to_json() for each in limits]
    }


def _edit(path: Path, change: Callable[[str], str]) -> None:
    path.write_text(change(path.read_text("utf-8")), "utf-8")


def main(given: Sequence[str] | None = None) -> int:
    """Compute or read, print, compare with the goals."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="STRATEGY,…")
    parser.add_argument("--keep", type=Path, metavar="FILE")
    parser.add_argument("--remake", action="store_true")
    chosen = parser.parse_args(given)
    wanted = [name for name in chosen.only.split(",") if name]
    unknown = sorted(set(wanted) - {each.strategy for each in QUESTIONS})
    if unknown or (chosen.remake and wanted):
        parser.error(f"no such strategy here: {', '.join(unknown)}" if unknown else "--remake is for the whole table")
    rows = table([each for each in QUESTIONS if not wanted or each.strategy in wanted])
    result = {"schema_version": 1, "epsilon": EPSILON, "rows": rows, "missed": missed(rows)}
    if chosen.keep:
        chosen.keep.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", "utf-8")
    if chosen.remake:
        remake(rows)
    print(json.dumps(result))
    return 6 if result["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
