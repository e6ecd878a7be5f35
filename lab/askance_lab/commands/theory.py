"""`askance theory`: what the texts state, what holds, and the numbers of both at any parameters.

Without a name it lists the theorems. With one it prints the citation, the statement, what it needs and assumes, where
the text differs from what is proved, and its formulas side by side.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import typer

from askance_lab.commands.shared.completion import words_of
from askance_lab.commands.shared.options import JsonOption, examples
from askance_lab.commands.shared.parse_set import parse_set
from askance_lab.commands.shared.window import wrapped
from askance_lab.theory.theorem import Computed, Number, Theorem, readable, theorem, theorems
from askance_protocol.errors import UsageError

SCHEMA_VERSION: Final = 1

app = typer.Typer()


@app.command(
    epilog=examples(
        "askance theory",
        "askance theory generic-learner --set hypotheses=2^64 --set epsilon=1/2",
        "askance theory masked-parity --json",
    )
)
def theory(
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME",
            help="Name of the theorem to print.  [default: list all theorems]",
            autocompletion=words_of("askance_lab.theory.theorem", "theorems"),
        ),
    ] = "",
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            metavar="NAME=VALUE",
            help="Value of a parameter, such as d=64, epsilon=1/2 or domain=2^64. May be given again.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Print a theorem and its numbers: as the text states it, as repaired, and in a sharper form if one is known."""
    if not name:
        if parameter:
            raise UsageError("needs a theorem", where="--set", remedy="askance theory lists their names")
        every = tuple(theorems().values())
        typer.echo(json.dumps(_listed(every), ensure_ascii=False) if as_json else "\n".join(_table(every)))
        return
    chosen = theorem(name)
    values = _values(chosen, parameter or ())
    computed = chosen.compute(values)
    if as_json:
        typer.echo(json.dumps(_described(chosen, values, computed), ensure_ascii=False))
    else:
        typer.echo("\n".join(_text(chosen, values, computed)))


def _values(chosen: Theorem, written: Sequence[str]) -> dict[str, Number]:
    """A value for each parameter of the theorem: what was written, or its example."""
    return chosen.values({name: chosen.parameter(name).read(str(value)) for name, value in parse_set(written).items()})


def _listed(every: Sequence[Theorem]) -> dict[str, Any]:
    names = ("name", "title", "citation", "says", "kind", "holds_for")
    return {
        "schema_version": SCHEMA_VERSION,
        "theorems": [{name: getattr(each, name) for name in names} for each in every],
    }


def _described(chosen: Theorem, values: Mapping[str, Number], computed: Mapping[str, Computed]) -> dict[str, Any]:
    names = ("name", "title", "citation", "says", "kind", "holds_for", "gives", "needs", "assumes", "differs")
    return {
        "schema_version": SCHEMA_VERSION,
        **{name: getattr(chosen, name) for name in (*names, "traps", "checked_by")},
        "parameters": [
            {"name": each.name, "symbol": each.symbol, "meaning": each.meaning, "value": values[each.name]}
            for each in chosen.parameters
        ],
        "formulas": {
            form: {
                "function": each.formula,
                "fields": dict(each.fields),
                "refused": str(each.refusal) if each.refusal else None,
            }
            for form, each in computed.items()
        },
    }


def _table(every: Sequence[Theorem]) -> Iterator[str]:
    """Name of each, and its sentence with the citation, wrapped to the terminal."""
    first = max(len(each.name) for each in every) + 2
    yield f"{'name':<{first}}what it says (where)"
    for each in every:
        yield from wrapped(f"{each.says} ({each.citation})", f"{each.name:<{first}}")


def _text(chosen: Theorem, values: Mapping[str, Number], computed: Mapping[str, Computed]) -> Iterator[str]:
    yield from wrapped(f"{chosen.name}: {chosen.title}")
    yield from wrapped(f"{chosen.citation} ({chosen.means})")
    yield from wrapped(chosen.says)
    notes = {"needs": chosen.needs, "assumes": chosen.assumes, "differs": chosen.differs}
    for label, note in notes.items():
        if note:
            yield from wrapped(note, f"{label + ':':<10}")
    if chosen.traps:
        yield from wrapped(", ".join(f"docs/theory.md#trap-{number}" for number in chosen.traps), f"{'see:':<10}")
    yield ""
    yield from _aligned([(f"{each.shown} = {readable(values[each.name])}", each.meaning) for each in chosen.parameters])
    main = {form: each for form, each in computed.items() if form in _FORMS}
    if main:
        yield ""
        yield from _beside(main)
    others = {form: each for form, each in computed.items() if form not in main}
    if others:
        yield ""
        yield from _aligned([row for form, each in others.items() for row in _rows(form, each)])
    refused = [f"{form} refuses these: {each.refusal}" for form, each in computed.items() if each.refusal]
    yield from ("", *(line for each in refused for line in wrapped(each))) if refused else ()


_FORMS: Final = ("stated", "repaired", "sharp")


def _beside(computed: Mapping[str, Computed]) -> Iterator[str]:
    """The forms as columns, a row for each number that they give."""
    numbers = list(dict.fromkeys(name for each in computed.values() for name in each.fields))
    rows = [["", *computed]]
    for number in numbers:
        cells = (readable(each.fields[number]) if number in each.fields else "-" for each in computed.values())
        rows.append([number, *cells])
    first = max(len(row[0]) for row in rows) + 2
    widths = [max(len(row[at]) for row in rows) + 3 for at in range(1, len(rows[0]))]
    for row in rows:
        yield f"{row[0]:<{first}}" + "".join(f"{cell:>{wide}}" for cell, wide in zip(row[1:], widths, strict=True))


def _rows(form: str, computed: Computed) -> Iterator[tuple[str, str]]:
    if computed.refusal:
        yield form, "-"
    for name, number in computed.fields.items():
        yield form if name == "value" else f"{form}.{name}", readable(number)


def _aligned(rows: Sequence[tuple[str, str]]) -> Iterator[str]:
    first = max(len(name) for name, _ in rows) + 3
    yield from (line for name, rest in rows for line in wrapped(rest, f"{name:<{first}}"))
