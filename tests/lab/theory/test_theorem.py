"""The records: every public formula belongs to one, and each record is whole."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import re
import typing
from pathlib import Path
from types import ModuleType

import pytest

import askance_lab.theory
from askance_lab.theory import masked_parity
from askance_lab.theory.theorem import Kind, Theorem, readable, takes, theorem, theorems
from askance_protocol.errors import ProtocolError, UsageError
from askance_server.core import tails

TESTS = Path(__file__).parents[2]
PROVED = {"channel-gain", "at-once-proved", "heavy-hitters-limit", "heavy-hitters-at-once-limit"}
"""Limits of ours that assume nothing."""
RECORDS = list(theorems().values())
NOT_FORMULAS = ("targets", "theorem")


def modules() -> list[ModuleType]:
    names = [each.name for each in pkgutil.iter_modules(askance_lab.theory.__path__)]
    return [importlib.import_module(f"askance_lab.theory.{name}") for name in names if name not in NOT_FORMULAS]


def public_formulas(module: ModuleType) -> set[str]:
    """Functions that a module defines and that give something; a check gives nothing."""
    return {
        name
        for name, each in inspect.getmembers(module, inspect.isfunction)
        if each.__module__ == module.__name__
        and not name.startswith("_")
        and typing.get_type_hints(each).get("return") is not type(None)
    }


def outside(module: ModuleType, records: list[Theorem]) -> set[str]:
    return public_formulas(module) - {
        formula.__name__ for each in records for formula in each.forms.values() if formula.__module__ == module.__name__
    }


@pytest.mark.parametrize("module", [*modules(), tails], ids=lambda module: module.__name__.rpartition(".")[2])
def test_no_public_formula_is_outside_the_records(module: ModuleType) -> None:
    assert outside(module, RECORDS) == set()


def test_a_formula_outside_the_records_is_found() -> None:
    """The control: without the record of MASKED-PARITY pooled, its formula is missing."""
    rest = [each for each in RECORDS if each.name != "masked-parity-pooled"]

    assert outside(masked_parity, rest) == {"users_masked_parity_pooled"}


def test_a_formula_belongs_to_one_record_only() -> None:
    owners = [formula for each in RECORDS for formula in each.forms.values()]

    assert len(owners) == len(set(owners))


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_has_the_parameters_of_its_formulas(record: Theorem) -> None:
    """No more and no fewer, each with the type that the formulas declare."""
    hints = {
        name: hint
        for formula in record.forms.values()
        for name, hint in typing.get_type_hints(formula).items()
        if name != "return"
    }
    names = {name for formula in record.forms.values() for name in takes(formula)}

    assert names == {each.name for each in record.parameters}
    for each in record.parameters:
        assert hints[each.name] in {each.type, each.type | None}, each.name
        assert each.read(str(each.example)) == pytest.approx(each.example)
    assert len({each.symbol for each in record.parameters}) == len(record.parameters)


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_prints_numbers_at_its_examples(record: Theorem) -> None:
    for form, computed in record.compute().items():
        if (record.name, form) == ("parity-train-test", "stated"):
            assert isinstance(computed.refusal, ProtocolError)  # trap 7: there is no such number
            continue
        assert computed.refusal is None, form
        assert computed.fields, form


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_record_is_checked_by_tests_that_exist(record: Theorem) -> None:
    assert record.checked_by
    for each in record.checked_by:
        path, _, test = each.partition("::")
        assert re.search(rf"^def {test}\(", (TESTS / path).read_text("utf-8"), re.MULTILINE), each


@pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)
def test_a_records_words_are_there(record: Theorem) -> None:
    """A wrong text is explained: where a trap is named, so is what differs; a limit of ours says what it assumes."""
    assert record.citation
    assert record.says
    assert record.says.endswith(".")
    assert not record.traps or record.differs
    assert record.kind is not Kind.LIMIT or record.stated or record.assumes or record.name in PROVED


def test_every_trap_with_a_formula_has_a_record() -> None:
    """Trap 10 is about a hypothesis and trap 22 about intervals, not about numbers."""
    assert {trap for each in RECORDS for trap in each.traps} == set(range(1, 25)) - {10, 22}


def test_parameters_are_found_by_name_symbol_and_spelling() -> None:
    point = theorem("point")

    assert {point.parameter(name).name for name in ("alpha", "α", "error")} == {"error"}
    assert point.values({"d": 32, "alpha": 0.2})["dimension"] == 32
    with pytest.raises(UsageError, match=r"gamma: .*dimension \(d\)"):
        point.parameter("gamma")
    with pytest.raises(UsageError, match="given twice"):
        point.values({"d": 32, "dimension": 64})
    with pytest.raises(UsageError, match=r"point, .*sanitizer"):
        theorem("poin")


@pytest.mark.parametrize(
    ("text", "value"), [("64", 64), ("2^64", 2**64), ("1e3", 1000), ("2^4096", 2**4096), ("-1", -1)]
)
def test_whole_numbers_are_read_as_people_write_them(text: str, value: int) -> None:
    assert theorem("sauer").parameter("domain").read(text) == value


@pytest.mark.parametrize("text", ["", "a", "1.5", "2^-1", "9^9999999999", "1/0", "nan", "inf", "2^", "true"])
def test_what_is_no_whole_number_is_refused_by_name(text: str) -> None:
    with pytest.raises(UsageError, match=r"domain: .*whole number"):
        theorem("sauer").parameter("domain").read(text)


def test_fractions_and_truths_are_read() -> None:
    tries = theorem("simulation-tries")

    assert tries.parameter("epsilon").read("1/8") == 0.125
    assert tries.parameter("interactive").read("True") is True
    for name, text in (("epsilon", "nan"), ("epsilon", "1e9999"), ("interactive", "yes")):
        with pytest.raises(UsageError, match=name):
            tries.parameter(name).read(text)


def test_a_formula_may_refuse_where_another_holds_but_not_all() -> None:
    computed = theorem("distance-gap").compute({"epsilon": 4.0})

    assert computed["stated"].refusal is not None
    assert computed["repaired"].fields
    with pytest.raises(ProtocolError, match="epsilon"):
        theorem("distance-gap").compute({"epsilon": -1.0})


def test_a_number_beyond_floats_is_refused_in_words() -> None:
    computed = theorem("geometric").compute({"epsilon": 1e6})

    assert "larger than this machine can hold" in str(computed["geometric_base"].refusal)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (True, "yes"),
        (1234567, "1,234,567"),
        (2**64, "2^64"),
        (3 * 10**20, "3e+20"),
        (0.05, "0.05"),
        (3**2000, "about 2^3170"),
    ],
)
def test_numbers_are_readable(number: float, text: str) -> None:
    assert readable(number) == text
