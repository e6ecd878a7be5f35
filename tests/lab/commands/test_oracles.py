"""`askance oracles`: a row for each strategy, a column for each oracle."""

from __future__ import annotations

import json

from askance_server.strategies.registry import registry
from tests.lab.commands.calls import invoke
from tests.snapshots.outputs import lost


def test_the_table_of_oracles_has_a_row_for_each_strategy() -> None:
    lines = invoke("oracles", "--users", 2000).splitlines()

    assert [line.split("|")[1].strip() for line in lines[2:]] == list(registry())
    assert {line.count("|") for line in lines} == {11}
    printed = json.loads(invoke("oracles", "--users", 2000, "--json"))
    assert set(printed["rows"]) == set(registry())
    assert lost("oracles", printed) == []
