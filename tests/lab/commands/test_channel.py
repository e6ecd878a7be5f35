"""`askance channel`, as its contract has it."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import numpy as np
import pytest
from scipy import stats

from askance_protocol.budget import MICRO
from askance_protocol.channels import (
    BinaryResponse,
    Channel,
    DiscreteLaplace,
    KaryResponse,
    TwoSidedGeometric,
)
from tests.lab.commands.calls import COMMAND

CHANNELS: list[tuple[list[str], Channel]] = [
    (["--kind", "binary", "--epsilon", "1"], BinaryResponse(MICRO)),
    (["--kind", "binary", "--epsilon", "0.123456"], BinaryResponse(123_456)),
    (["--kind", "kary", "--epsilon", "2", "--k", "5"], KaryResponse(2 * MICRO, 5)),
    (["--kind", "geometric", "--epsilon", "1", "--range", "7"], TwoSidedGeometric(MICRO, 7)),
    (["--kind", "laplace", "--epsilon", "4", "--range", "3"], DiscreteLaplace(4 * MICRO, 3)),
]
each_channel = pytest.mark.parametrize(("options", "channel"), CHANNELS)


def askance(*arguments: str, **more: Any) -> subprocess.CompletedProcess[Any]:
    command = [*COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, timeout=60, check=False, **more)


def json_of(*arguments: str) -> Any:
    run = askance(*arguments, text=True)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return json.loads(run.stdout)


@each_channel
def test_describe_prints_the_exact_table(options: list[str], channel: Channel) -> None:
    table = json_of("channel", "describe", *options, "--json")

    assert table["schema_version"] == 1
    assert (table["inputs"], table["outcomes"]) == (channel.inputs, channel.outcomes)
    assert [[int(weight) for weight in row] for row in table["weights"]] == [list(row) for row in channel.table()]
    assert all(type(weight) is str for row in table["weights"] for weight in row)
    assert table["certified_micro_epsilon"] == channel.certified_micro_epsilon


@each_channel
def test_describe_for_people_says_the_same_shape(options: list[str], channel: Channel) -> None:
    run = askance("channel", "describe", *options, text=True)
    assert run.returncode == 0
    assert f"{channel.inputs} inputs, {channel.outcomes} outcomes" in run.stdout


@each_channel
def test_raw_samples_are_little_endian_words_of_the_channel(options: list[str], channel: Channel) -> None:
    """From the production source, so not repeatable: χ² at 10⁻⁹ for each of five channels."""
    given = channel.inputs - 1
    run = askance("channel", "sample", *options, "--input", str(given), "--n", "200000", "--raw")
    outcomes = np.frombuffer(run.stdout, "<u4")
    expected = np.array([float(channel.probability(outcome, given)) for outcome in range(channel.outcomes)]) * 200_000

    assert len(outcomes) == 200_000
    assert stats.chisquare(np.bincount(outcomes, minlength=channel.outcomes), expected).pvalue > 1e-9


def test_two_samples_differ_because_nothing_is_seeded() -> None:
    arguments = ("channel", "sample", "--kind", "binary", "--epsilon", "1", "--input", "0", "--n", "1000", "--raw")
    assert askance(*arguments).stdout != askance(*arguments).stdout


def test_samples_come_as_lines_and_as_json_too() -> None:
    arguments = ("channel", "sample", "--kind", "kary", "--k", "3", "--epsilon", "1", "--input", "2", "--n", "50")
    lines = askance(*arguments, text=True).stdout.split()
    assert len(lines) == 50
    assert set(lines) <= {"0", "1", "2"}
    result = json_of(*arguments, "--json")
    assert len(result["outcomes"]) == 50
    assert result["simulated"] is False


def test_no_samples_are_no_bytes() -> None:
    run = askance("channel", "sample", "--kind", "binary", "--epsilon", "1", "--input", "0", "--n", "0", "--raw")
    assert (run.returncode, run.stdout) == (0, b"")


def test_a_comparison_says_which_channel_is_taken_and_what_the_others_need() -> None:
    arguments = ("channel", "compare", "--cells", "16", "--epsilon", "4", "--tolerance", "0.05")
    found = json_of(*arguments, "--json")
    lines = {line["name"]: line for line in found["channels"]}

    assert (found["schema_version"], found["cells"], found["tolerance"], found["beta"]) == (1, 16, 0.05, 0.05)
    assert lines["one bit"]["reports"] / lines["k-ary response"]["reports"] == pytest.approx(2.55, abs=0.01)
    assert {name for name, line in lines.items() if not line["offered"]} == {
        "unary encoding, OUE",
        "local hashing, OLH, g = 8",
    }
    shown = askance(*arguments, text=True).stdout
    taken = next(line["name"] for line in found["channels"] if line["offered"])
    assert f"A study is planned with {taken}: it needs the fewest reports" in shown
    assert all(name in shown and f"{line['reports']:,}" in shown for name, line in lines.items())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["describe", "--kind", "binary", "--epsilon", "0"], "below one micro"),
        (["describe", "--kind", "binary", "--epsilon", "-1"], "not a positive decimal"),
        (["describe", "--kind", "binary", "--epsilon", "nan"], "not a positive decimal"),
        (["describe", "--kind", "binary", "--epsilon", "inf"], "not a positive decimal"),
        (["describe", "--kind", "binary", "--epsilon", "5e-324"], "below one micro"),
        (["describe", "--kind", "binary", "--epsilon", "24"], "too large to certify"),
        (["describe", "--kind", "binary", "--epsilon", "1e300"], "out of range"),
        (["describe", "--kind", "kary", "--epsilon", "1", "--k", "1"], "k: "),
        (["describe", "--kind", "binary", "--epsilon", "1", "--k", "3"], "--k: "),
        (["describe", "--kind", "kary", "--epsilon", "1", "--range", "3"], "--range: "),
        (["describe", "--kind", "geometric", "--epsilon", "1", "--range", "0"], "range: "),
        (["describe", "--kind", "gaussian", "--epsilon", "1"], "--kind"),
        (["sample", "--kind", "binary", "--epsilon", "1", "--input", "2", "--n", "1"], "input: "),
        (["sample", "--kind", "binary", "--epsilon", "1", "--input", "0", "--n", "-1"], "--n"),
        (["sample", "--kind", "binary", "--epsilon", "1", "--input", "0", "--n", "1", "--raw", "--json"], "--raw"),
    ],
)
def test_what_cannot_be_done_is_a_usage_error_in_one_line(arguments: list[str], complaint: str) -> None:
    run = askance("channel", *arguments, text=True)
    assert run.returncode == 2
    assert run.stdout == ""
    assert complaint in run.stderr
    assert "Traceback" not in run.stderr
