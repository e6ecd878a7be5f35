"""`askance curator`: every mechanism of a trusted curator, on made-up examples and on one's own table."""

from __future__ import annotations

import json
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from askance_lab.cli import app
from askance_lab.commands.shared.exit_codes import EXIT_OF, Exit
from askance_lab.curator import generic
from askance_lab.curator.held_out import noise_reach
from askance_lab.curator.inputs import made_up
from askance_lab.curator.mechanism import BoundParameters
from askance_lab.curator.registry import mechanisms
from askance_lab.theory.targets import Targets
from askance_protocol.errors import AskanceError, ProtocolError

MECHANISMS = mechanisms()
LEARNERS = [name for name, each in MECHANISMS.items() if each.off is None and name != "sanitizer-learner"]
"""Those that learn from a handful of examples at d = 8."""
RELEASES = ["laplace", "geometric", "exponential", "a-dist", "choosing"]
"""Those that release something about a database of any size."""


def askance(*arguments: object, code: int = 0) -> str:
    result = CliRunner().invoke(app, ["curator", *map(str, arguments)])
    assert result.exit_code == code, (result.output, result.exception)
    return result.output


def said(*arguments: object, code: int = 0) -> Any:
    return json.loads(askance(*arguments, "--json", code=code))


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People who are ill if they are younger than 40."""
    path, rng = tmp_path_factory.mktemp("curator") / "people.csv", random.Random(1)
    rows = [(rng.randint(18, 90), round(rng.random(), 2)) for _ in range(4000)]
    path.write_text("age,score,ill\n" + "".join(f"{age},{score},{'ny'[age < 40]}\n" for age, score in rows))
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", MECHANISMS)
def test_each_runs_on_as_many_made_up_users_as_its_bound_asks_for_and_says_what_it_paid(name: str) -> None:
    # The learner A says ⊥ every other time, and any may fail with β: a seed at which none does.
    answer = said(name, "--seed", 3)
    chosen = MECHANISMS[name]
    targets = Targets(alpha=chosen.alpha)
    paid = chosen.paid(targets, answer["d"])

    assert answer["users"] == answer["users_needed"]
    # A sanitizer's database is within 2α, and what is learned from one within 3α.
    assert answer["error"] <= {"interval-sanitizer": 2, "sanitizer-learner": 3}.get(name, 1) * targets.alpha
    assert (answer["epsilon"], answer["delta"]) == (float(paid.epsilon), float(paid.delta))
    assert paid.epsilon <= targets.epsilon
    assert paid.delta <= targets.delta
    assert answer["simulated_noise"]
    assert ("answer" in answer["hypothesis"]) == (chosen.off is not None)


def test_the_same_seed_finds_the_same_and_another_has_other_examples() -> None:
    first, again, other = (said("interval", "--d", 8, "--seed", seed) for seed in (1, 1, 2))

    for answer in (first, again, other):
        del answer["seconds"]
    assert first == again
    assert first["hypothesis"] != other["hypothesis"]


def test_large_numbers_stay_exact_in_json() -> None:
    assert int(said("interval", "--d", 1024, "--seed", 1)["hypothesis"]["threshold"]) > 2**1000


def test_bottom_is_an_answer() -> None:
    lines = {askance("parity", "--seed", seed).splitlines()[0] for seed in range(6)}

    assert any(line.endswith("⊥") for line in lines)
    assert any("odd x_" in line for line in lines)


@pytest.fixture(scope="module")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is known of such a table without looking at anybody's row."""
    fields = [
        {"kind": "integer", "name": "age", "low": 0, "high": 127},
        {"kind": "real", "name": "score", "low": 0, "high": 1, "denominator": 100},
        {"kind": "label", "name": "ill"},
    ]
    path = tmp_path_factory.mktemp("declared") / "people.json"
    path.write_text(json.dumps({"fields": fields}))
    return path


# ------------------------------------------------------------------------------------- what is said about real rows

PAID = {"hypothesis", "text", "error", "error_interval"}
"""All that may depend on the rows: it comes out of a mechanism."""


def with_a_row_changed(table: Path, folder: Path, row: str) -> Path:
    """The same table, but for its last row."""
    changed = folder / "changed.csv"
    changed.write_text("\n".join([*table.read_text().splitlines()[:-1], row]) + "\n")
    return changed


def unpaid(first: dict[str, Any], second: dict[str, Any]) -> set[str]:
    """What tells two tables apart that differ in one row, though nothing was paid for it."""
    return {name for name in first if first[name] != second[name]} - PAID - {"seconds"}


NUMBERS = ["laplace", "geometric", "exponential", "a-dist", "generic-point", "generic-interval", "interval"]


@pytest.mark.parametrize("name", [*NUMBERS, "label-private", "generic-conjunction"])
def test_under_a_declared_schema_nothing_unpaid_tells_one_row(
    table: Path, schema: Path, tmp_path: Path, name: str
) -> None:
    ask = [name, "--schema", schema, "--positive", "y", *(["--column", "age"] if name in NUMBERS else [])]
    if name == "label-private":
        ask += ["--column", "age"]
    changed = with_a_row_changed(table, tmp_path, "120,0.0,y")
    first, second = said(*ask, "--data", table), said(*ask, "--data", changed)

    assert unpaid(first, second) == set()
    assert (first["epsilon"], first["not_private"], first["simulated_noise"]) == (1, [], False)
    # A learner may take longer on some rows, so the time is not told either.
    assert first["seconds"] is None


def test_an_inferred_schema_tells_one_row_and_so_no_epsilon_is_claimed(table: Path, tmp_path: Path) -> None:
    """The control of the test above: d is the number of bits of a range that one row can stretch."""
    ask = ["generic-interval", "--label", "ill", "--column", "age"]
    changed = with_a_row_changed(table, tmp_path, "1000000,0.0,y")
    first, second = said(*ask, "--data", table), said(*ask, "--data", changed)

    assert (first["d"], second["d"]) == (7, 20)
    assert "d" in unpaid(first, second)
    assert first["epsilon"] is first["delta"] is None
    [reason] = first["not_private"]
    assert "inferred" in reason
    text = askance(*ask, "--data", table)
    assert "no ε is claimed" in text
    assert "Not private" in text
    assert "paid" not in text


def test_noise_from_a_seed_is_not_claimed_to_protect_real_rows(table: Path, schema: Path) -> None:
    ask = ["geometric", "--data", table, "--schema", schema, "--positive", "y", "--column", "age"]

    seeded = said(*ask, "--seed", 1)
    assert (seeded["epsilon"], seeded["simulated_noise"], len(seeded["not_private"])) == (None, True, 1)
    assert said("geometric", "--seed", 1)["epsilon"] == 1


def test_the_error_on_rows_held_out_is_released_with_noise(table: Path, schema: Path) -> None:
    """Its rows pay for it: they are none of those that were learned from."""
    ask = ["generic-point", "--data", table, "--schema", schema, "--positive", "y", "--column", "age"]
    answers = [said(*ask, "--epsilon", "0.1") for _ in range(8)]

    # Almost every point errs on the same rows, those that are ill.
    assert len({answer["error"] for answer in answers}) > 4
    for answer in answers:
        low, high = answer["error_interval"]
        assert low <= answer["error"] <= high
        assert high - low > 2 * noise_reach(Fraction(1, 10), 0.025) / answer["fresh"]
        assert answer["epsilon"] == 0.1


def test_labels_that_are_private_alone_are_said_to_be(table: Path, schema: Path) -> None:
    ask = ["label-private", "--data", table, "--schema", schema, "--positive", "y", "--column", "age"]

    assert said(*ask)["protects"] == "labels"
    assert "ε = 1 paid for a label" in askance(*ask)
    assert {name for name, each in MECHANISMS.items() if each.protects == "labels"} == {"label-private"}


def test_real_rows_get_the_bound_that_holds_where_no_concept_fits(table: Path, schema: Path) -> None:
    ask = ["--data", table, "--schema", schema, "--positive", "y", "--column", "age"]
    hypotheses = 2**7 + 1
    given: BoundParameters = {"epsilon": 1, "error": 0.1, "failure": 0.1}
    agnostic = generic.examples_sharp(hypotheses=hypotheses, **given)
    realizable = generic.examples_realizable_sharp(hypotheses=hypotheses, **given)

    assert realizable < agnostic
    assert said("generic-interval", *ask)["users_needed"] == agnostic
    assert said("generic-interval", "--d", 7, "--users", 10)["users_needed"] == realizable
    # The theorem is about examples that a concept labels without a mistake.
    assert said("interval", *ask)["users_needed"] is None


@pytest.mark.parametrize(
    ("options", "where", "what"),
    [
        (["--label", "age"], "--schema", "declares 'ill'"),
        (["--positive", "y", "--users", 3], "--users", "given by the table"),
        ([], "column 'ill'", "is not a label"),
    ],
)
def test_a_declared_schema_that_does_not_fit_is_refused(
    table: Path, schema: Path, options: list[object], where: str, what: str
) -> None:
    ask = ["curator", "geometric", "--data", table, "--schema", schema, "--column", "age", *options]
    with pytest.raises(AskanceError, match=what) as refused:
        CliRunner().invoke(app, list(map(str, ask)), catch_exceptions=False)
    assert where in refused.value.where


def test_ones_own_numbers_are_learned_and_read_as_they_stand_in_the_table(table: Path) -> None:
    answer = said("generic-interval", "--data", table, "--label", "ill", "--column", "age", "--seed", 1)

    assert answer["text"] in {f"x < {age}" for age in range(36, 44)}
    assert answer["error"] < 0.1
    assert (answer["users"], answer["fresh"], answer["error_on"]) == (3200, 800, "fresh rows")


def test_ones_own_bits_keep_their_names(table: Path) -> None:
    answer = said("generic-conjunction", "--data", table, "--label", "ill", "--seed", 1)

    assert "age < 54" in answer["text"]
    assert len(answer["features"]) == 12
    assert answer["error"] < 0.2


def test_real_rows_get_real_noise_unless_a_seed_is_given(table: Path) -> None:
    ask = ["geometric", "--data", table, "--label", "ill", "--column", "age"]
    drawn = [said(*ask) for _ in range(12)]

    assert not drawn[0]["simulated_noise"]
    assert len({answer["hypothesis"]["answer"] for answer in drawn}) > 1
    assert said(*ask, "--seed", 1)["simulated_noise"]


def test_how_far_a_release_about_real_rows_is_off_is_not_told(table: Path) -> None:
    for name in RELEASES:
        assert said(name, "--data", table, "--label", "ill", "--column", "age", "--seed", 1)["error"] is None
    assert said("geometric", "--seed", 1)["error"] is not None


def test_where_the_theorem_is_about_larger_domains_there_is_no_bound(table: Path) -> None:
    ask = ["point", "--data", table, "--label", "ill", "--column", "age", "--seed", 1]

    assert said(*ask)["users_needed"] is None
    assert "no bound is proved here" in askance(*ask)


def test_the_list_names_all_in_the_order_of_the_texts() -> None:
    rows = said("list")["curator"]

    assert [row["name"] for row in rows] == [
        *RELEASES,
        "generic-parity",
        "generic-masked-parity",
        "generic-conjunction",
        "generic-point",
        "generic-interval",
        "sauer",
        "compression",
        "parity",
        "parity-retry",
        "parity-insist",
        "parity-train-test",
        "point",
        "interval",
        "label-private",
        "point-sanitizer",
        "interval-sanitizer",
        "sanitizer-learner",
    ]
    assert all(row["by"] and row["summary"] for row in rows)
    assert askance("list").count("\n") == len(rows)


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (["nothing"], "NAME"),
        (["interval", "--epsilon", "0"], "ε"),
        (["interval", "--epsilon", "-1"], "ε"),
        (["interval", "--delta", "0"], "delta"),
        (["interval", "--delta", "1"], "delta"),
        (["interval", "--delta", "many"], "--delta"),
        (["interval", "--alpha", "0.5"], "alpha"),
        (["interval", "--beta", "0"], "beta"),
        (["interval", "--label", "y"], "--label"),
        (["interval", "--column", "x"], "--column"),
        (["interval", "--positive", "y"], "--positive"),
        (["interval", "--schema", "people.json"], "--schema"),
        (["interval", "--missing", "0"], "--missing"),
        (["interval", "--low", "0"], "--low"),
        (["interval", "--high", "9", "--low", "10"], "--low"),
        (["generic-parity", "--d", "40", "--users", "10"], "d"),
        (["point", "--d", "2"], "dimension"),
        (["sauer", "--d", "20", "--users", "10"], "d"),
        (["interval", "--epsilon", "0.000001"], "--users"),
        (["sanitizer-learner", "--d", "8", "--users", "10"], "databases"),
    ],
)
def test_what_cannot_be_is_refused(options: list[object], where: str) -> None:
    with pytest.raises(AskanceError) as refused:
        CliRunner().invoke(app, ["curator", *map(str, options)], catch_exceptions=False)
    assert refused.value.where == where
    assert refused.value.remedy


@pytest.mark.parametrize(
    ("options", "where"),
    [
        (["interval"], "--label"),
        (["interval", "--label", "ill"], "--column"),
        (["interval", "--label", "ill", "--column", "age", "--users", "9"], "--users"),
        (["generic-masked-parity", "--label", "ill"], "--data"),
    ],
)
def test_a_table_that_does_not_fit_is_refused(table: Path, options: list[object], where: str) -> None:
    with pytest.raises(ProtocolError) as refused:
        CliRunner().invoke(app, ["curator", *map(str, options), "--data", str(table)], catch_exceptions=False)
    assert refused.value.where == where


@pytest.fixture(scope="module")
def gappy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """People whose age is not always known, and whose height is broken in one row; the schema is beside it."""
    path = tmp_path_factory.mktemp("gappy") / "people.csv"
    ages = ["" if user % 5 == 0 else str(18 + user % 70) for user in range(1000)]
    rows = [f"{age},{170 if user else 'broken'},{'ny'[bool(age) and int(age) < 40]}" for user, age in enumerate(ages)]
    path.write_text("\n".join(["age,height,ill", *rows]) + "\n")
    fields = [
        {"kind": "integer", "name": "age", "low": 0, "high": 127, "gap": True},
        {"kind": "integer", "name": "height", "low": 100, "high": 220},
        {"kind": "label", "name": "ill"},
    ]
    path.with_suffix(".json").write_text(json.dumps({"fields": fields}))
    return path


def test_of_ones_own_table_only_the_columns_that_are_asked_have_to_be_sound(gappy: Path) -> None:
    ask = ["generic-interval", "--data", gappy, "--schema", gappy.with_suffix(".json"), "--positive", "y"]
    found = said(*ask, "--column", "age", "--missing", "100")
    assert (found["epsilon"], found["not_private"], found["users"] + found["fresh"]) == (1, [], 1000)
    # The controls: the broken column is refused where it is asked, and a name that no column has.
    for column, what in (("height", "column 'height'"), ("weight", "'weight'")):
        with pytest.raises(AskanceError, match=what):
            CliRunner().invoke(app, ["curator", *map(str, ask), "--column", column], catch_exceptions=False)


def test_a_gap_of_a_number_is_refused_by_what_is_declared_and_not_by_whether_somebody_has_one(gappy: Path) -> None:
    """128 would be a number of one bit more: a refusal at the first gap would tell that there is one."""
    ask = ["curator", "generic-interval", "--data", str(gappy), "--schema", str(gappy.with_suffix(".json"))]
    whole = gappy.with_name("whole.csv")
    whole.write_text("\n".join(line for line in gappy.read_text().splitlines() if not line.startswith(",")) + "\n")
    for table in (gappy, whole):
        ask[3] = str(table)
        with pytest.raises(ProtocolError, match="may have gaps") as refused:
            CliRunner().invoke(app, [*ask, "--positive", "y", "--column", "age"], catch_exceptions=False)
        assert "--missing VALUE" in refused.value.remedy


def test_rows_that_are_left_out_for_their_gaps_cost_the_claim(gappy: Path) -> None:
    ask = ["geometric", "--data", gappy, "--schema", gappy.with_suffix(".json"), "--column", "age", "--positive", "y"]
    left = said(*ask, "--missing", "skip")
    assert left["users"] == 800
    assert left["epsilon"] is None
    assert ["gap" in reason for reason in left["not_private"]] == [True]
    # The control: nobody is left out, and ε is claimed.
    assert said(*ask, "--missing", "0")["epsilon"] == 1


def test_numbers_are_kept_within_a_range_that_is_said(gappy: Path) -> None:
    ask = ["generic-interval", "--data", gappy, "--schema", gappy.with_suffix(".json"), "--positive", "y"]
    bounded = said(*ask, "--column", "age", "--missing", "63", "--low", "0", "--high", "63")
    assert bounded["d"] == 6
    assert said(*ask, "--column", "age", "--missing", "63")["d"] == 7


def test_a_table_of_few_rows_is_refused(tmp_path: Path) -> None:
    (tmp_path / "few.csv").write_text("x,y\n1,a\n2,b\n")
    ask = ["curator", "interval", "--data", str(tmp_path / "few.csv"), "--label", "y"]

    with pytest.raises(ProtocolError, match="too few rows"):
        CliRunner().invoke(app, ask, catch_exceptions=False)


@pytest.mark.parametrize("name", ["choosing", "point-sanitizer", "parity-train-test"])
def test_too_few_users_for_privacy_have_an_exit_code_of_their_own(name: str) -> None:
    ended = CliRunner().invoke(app, ["curator", name, "--users", "50"])

    assert exit_of(ended) == Exit.TOO_FEW_USERS
    assert "at least" in str(ended.exception)


def exit_of(ended: Result) -> int:
    """The exit code that the command would end with: an error is told by its code, by the one table."""
    error = ended.exception
    return EXIT_OF[error.code] if isinstance(error, AskanceError) else ended.exit_code


@pytest.mark.parametrize("name", LEARNERS)
def test_a_few_contradictory_examples_are_no_crash(name: str) -> None:
    """Privacy holds on any database: so each learner has an answer, ⊥ or a refusal, whatever the labels."""
    answer = CliRunner().invoke(app, ["curator", name, "--users", "3", "--seed", "1", "--d", "8", "--json"])

    assert exit_of(answer) in (0, Exit.TOO_FEW_USERS), answer.exception


@pytest.mark.parametrize("name", MECHANISMS)
def test_made_up_users_are_as_many_as_asked_for(name: str) -> None:
    given = made_up(MECHANISMS[name], 4, 0.1, 20, 1)

    assert len(given.database) == 20
    assert given.fresh == 0


def test_targets_are_kept_to_the_digit() -> None:
    assert Targets(alpha=0.1).error == Fraction(1, 10)
