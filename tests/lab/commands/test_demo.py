"""`askance demo`: it ends by itself, with a row for each learner and concept, whose error is that of the definition."""

from __future__ import annotations

import json
import re
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from askance_lab.cli import app
from askance_lab.commands.demo import DemoOptions, DemoResult, Shown
from askance_lab.commands.shared.exit_codes import Exit
from askance_lab.evaluation.exact import exact_error
from askance_lab.experiments import second_round
from askance_lab.experiments.second_round import ConceptResult, ConceptTask, truth_of
from askance_lab.remote.study_client import StudyResult, TooFewUsersThereError
from askance_protocol.rounds import Cause, StudyState
from askance_server.strategies.masked_parity import MASKED_PARITY
from tests.lab.commands.calls import COMMAND, at_home
from tests.snapshots.outputs import lost

LEARNERS = ["masked-parity-two-rounds", "masked-parity-noninteractive"]
ROUNDS = {"masked-parity-two-rounds": 2, "masked-parity-noninteractive": 1}
LIVE = ["masked-parity-pooled", "masked-parity-noninteractive"]


@pytest.mark.slow
def test_the_demo_ends_by_itself_with_a_row_of_each_learner_on_each_concept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))

    options = ("--users", 600, "--d", 4, "--clients", 3, "--concepts", 4, "--port", 0, "--json")
    command = [*COMMAND, "demo", *map(str, options)]
    # Five processes start: on a machine that is busy that alone takes minutes.
    run = subprocess.run(command, capture_output=True, text=True, timeout=550, check=False)
    assert run.returncode == 0, run.stderr
    shown = json.loads(run.stdout)

    assert [(row["concept"], row["learner"]) for row in shown["learners"]] == [
        (concept, learner) for concept in (1, 2, 3, 4) for learner in (LIVE if concept == 4 else LEARNERS)
    ]
    for row in shown["learners"]:
        live = row["concept"] == 4
        assert (row["over"], row["refusals"]) == (("http", 0) if live else ("process", None))
        assert row["strategy"] == row["learner"]
        assert row["rounds"] == ROUNDS.get(row["strategy"]) or 2 <= row["rounds"] <= 6
        assert (row["rounds"] == 1) == (row["strategy"] == "masked-parity-noninteractive")
        assert row["users"] <= 600
        assert row["max_spent_micro_epsilon"] == 1_000_000
        assert row["state"] == "finished"
        assert 0 <= row["error"] <= 0.75
        # The server is gone: no address is one.
        assert row["url"] is None
    assert shown["server"] is None
    assert shown["truth"] == shown["learners"][-1]["truth"]
    assert "masked-parity-two-rounds (2 rounds) learned" in shown["conclusion"]
    assert " of 3 concepts, masked-parity-noninteractive (1 round) " in shown["conclusion"]
    assert "(d = 4, 600 users; " in shown["conclusion"]
    assert shown["live"].keys() == {"d", "users", "contradicts", "studies", "studies_that_contradict"}
    assert [each["d"] for each in shown["limit"]["higher"]] == [16, 32, 64]
    assert list(tmp_path.iterdir()) == [], "nothing is left behind"
    assert lost("demo", shown) == []


@pytest.mark.parametrize(
    ("options", "named", "why"),
    [
        (["--epsilon", "50"], "--epsilon", "50 is more than channels are certified for"),
        (["--epsilon", "0"], "--epsilon", "below one micro-ε"),
        (["--epsilon", "-1"], "--epsilon", "is not a positive decimal number"),
        (["--epsilon", "nan"], "--epsilon", "is not a positive decimal number"),
        (["--epsilon", "0.000001"], "--epsilon", "is less than clients answer"),
        (["--d", "7"], "--d", "is not a power of two"),
        (["--d", "128"], "--d", "64"),
        (["--users", "10"], "--users", "100"),
        (["--users", "10000000"], "--users", "1000000"),
        (["--clients", "0"], "--clients", "1"),
        (["--concepts", "0"], "--concepts", "1"),
        (["--port", "99999"], "--port", "65535"),
        (["--seed", "-1"], "--seed", "0"),
        (["--export", "/"], "--export", "is there already"),
        (["--export", "/proc/x"], "--export", "cannot be made"),
    ],
)
def test_what_cannot_be_shown_is_refused_before_anything_starts(
    options: list[str], named: str, why: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def started(*_: object, **__: object) -> Any:
        raise AssertionError("something was started")

    monkeypatch.setattr("askance_lab.commands.demo.scratch_folder", started)

    code, printed, said = at_home(capsys, "demo", *options)

    assert (code, printed) == (Exit.USAGE, "")
    assert named in said
    assert why in said
    assert "Traceback" not in said


def test_the_control_would_have_started(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """The same call without a wrong option comes as far as its folder."""
    begun: list[str] = []

    def started(kind: str) -> Any:
        begun.append(kind)
        raise OSError("no folder")

    monkeypatch.setattr("askance_lab.commands.demo.scratch_folder", started)

    at_home(capsys, "demo")

    assert begun == ["demo"]


def test_errors_of_masked_parity_are_those_of_the_definition() -> None:
    """KLNRS11, §5.3, by going through all examples of d = 2."""
    truth = {"r": "01", "a": 1}

    def label(concept: dict[str, Any], x: tuple[int, int], i: int, b: int) -> int:
        r = [int(bit) for bit in concept["r"]]
        return (-1) ** r[i] if b else (-1) ** (r[0] * x[0] + r[1] * x[1] + concept["a"])

    domain = [((x0, x1), i, b) for x0 in (0, 1) for x1 in (0, 1) for i in (0, 1) for b in (0, 1)]
    for r in ("00", "01", "10", "11"):
        for a in (0, 1):
            learned = {"r": r, "a": a}
            wrong = sum(label(learned, *example) != label(truth, *example) for example in domain)
            assert exact_error(MASKED_PARITY, learned, truth) == wrong / len(domain)


def demo(live: ConceptTask, concepts: int = 4) -> Shown:
    """A demo that has learned its concepts in process, where two rounds win, and waits for its live one."""
    options = DemoOptions(ConceptTask(16, "1", 40_000), live, concepts, 1, 4, False, time.monotonic())
    return Shown(options, "http://127.0.0.1:8080", own=False)


def ends(shown: Shown, right: tuple[bool, bool], users: int) -> None:
    """The end of a demo whose live studies came out so."""
    task = shown.asked.live
    truth = dict(truth_of(task, 1))
    for learner, rounds, good in zip(LIVE, ((users - 500, 300, 200), (users,)), right, strict=True):
        learned = truth if good else truth | {"a": 1 - truth["a"]}
        interactive = len(rounds) > 1
        end = StudyResult(
            StudyState.FINISHED, Cause.LEARNED, "", learned, "", interactive, len(rounds), rounds, 1_000_000
        )
        shown.add_live(learner, "0" * 64, end)
    assert shown.end({learner: Counter(answered=users) for learner in LIVE}) is Exit.OK


def wins(shown: Shown) -> None:
    """Concepts in process on which two rounds were right and one round was wrong: what follows from them is clear."""
    truth = dict(truth_of(shown.asked.task, 2))
    for concept in range(1, 31):
        for learner in LEARNERS:
            learned = truth if learner == LEARNERS[0] or concept % 2 else truth | {"a": 1 - truth["a"]}
            found = ConceptResult(concept, concept, learner, truth, learned, 40_000, ROUNDS[learner], "")
            shown.results.append(DemoResult(found, 0))


@pytest.mark.parametrize(
    ("right", "contradicts"), [((True, False), False), ((True, True), False), ((False, True), True)]
)
def test_a_live_concept_that_contradicts_the_conclusion_says_how_often_that_happens(
    right: tuple[bool, bool],
    contradicts: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """D = 4 and 150 users: all learners are wrong at times, so it happens."""
    monkeypatch.setattr(second_round, "STUDIES", 40)
    shown = demo(ConceptTask(4, "1", 150), 31)
    wins(shown)
    ends(shown, right, 150)

    out = capsys.readouterr().out
    printed = " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 80
    assert "A second round is worth it: masked-parity-two-rounds (2 rounds) learned 30 of 30 concepts" in printed
    assert "masked-parity-noninteractive (1 round) 15 of 30 (d = 16, 40,000 users; " in printed
    assert ("The live concept says the opposite" in printed) == contradicts
    if contradicts:
        found = re.search(r"of 40 such studies in this process \(d = 4, 150 users\) (\d+) said so too", printed)
        assert found is not None
        assert 1 <= int(found[1]) <= 20


def test_what_is_written_is_for_all_concepts_and_the_defaults_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[DemoOptions] = []

    def kept(asked: DemoOptions, _: int) -> Exit:
        seen.append(asked)
        return Exit.OK

    monkeypatch.setattr("askance_lab.commands.demo._with_own_server", kept)
    for options in ([], ["--users", "3000", "--d", "8"], ["--d", "4"], ["--live-users", "500"]):
        CliRunner().invoke(app, ["demo", *options])

    assert [((each.task.d, each.task.users), (each.live.d, each.live.users)) for each in seen] == [
        ((16, 40_000), (8, 3000)),
        ((8, 3000), (8, 3000)),
        ((4, 40_000), (4, 3000)),
        ((16, 40_000), (8, 500)),
    ]


@pytest.mark.parametrize(("answered", "counted"), [(3000, "3,000 users"), (87, "87 users")])
def test_a_live_concept_alone_is_told_with_the_users_who_answered(
    answered: int, counted: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some have spent their ε. With one concept there is nothing else to conclude from."""
    shown = demo(ConceptTask(4, "1", 3000), 1)
    ends(shown, (True, False), answered)

    printed = " ".join(capsys.readouterr().out.split())
    assert "No difference is shown: masked-parity-pooled (3 rounds) learned 1 of 1 concepts" in printed
    assert f"(d = 4, {counted}; " in printed


def test_the_live_part_says_what_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    demo(ConceptTask(8, "1", 3000)).begin_live()

    printed = " ".join(capsys.readouterr().out.split())
    assert "concept 4, live: a server and the fleets d = 8, 3,000 users with a wallet each" in printed
    assert "masked-parity-pooled: it takes as many as it needs, up to six" in printed
    assert "shows the protocol at work, and not the difference between learners" in printed


def test_a_learner_that_the_server_refused_is_told_with_what_to_do(capsys: pytest.CaptureFixture[str]) -> None:
    task = ConceptTask(8, "1", 3000)
    shown = Shown(DemoOptions(task, task, 2, 1, 4, False, time.monotonic()), "", own=False)
    shown.learn_in_process()
    for learner in LIVE:
        shown.refuse(learner, TooFewUsersThereError("needs 1 user who can still pay ε = 1, and 0 are left"))

    assert shown.end({}) is Exit.TOO_FEW_USERS
    said = capsys.readouterr()
    assert "nothing learned: needs 1 user who can still pay ε = 1, and 0 are left" in " ".join(said.out.split())
    assert "of 1 concepts" in " ".join(said.out.split()), "what was learned is shown"
    assert "have spent their ε" in said.err
    assert "docker compose down --volumes" in said.err
