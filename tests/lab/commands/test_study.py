"""`askance study` on a real server: what an operator sees, what she can do, and how each way to end is told."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
import zipfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any, Literal

import httpx
import pytest
from rich.color import Color
from rich.console import Console
from rich.progress_bar import ProgressBar as DrawnBar

from askance_client import Server, UnreachableError
from askance_client.tables import written_schema
from askance_client.transport.patience import PATIENCE, Patience
from askance_lab.commands import study as study_command
from askance_lab.commands.shared import study_text
from askance_lab.commands.shared.durations import seconds_of
from askance_lab.commands.shared.estimates_text import most_estimates
from askance_lab.commands.shared.exit_codes import EXIT_OF, Exit
from askance_lab.remote import management
from askance_lab.remote.management import NoSuchStudyError, NotOpenThereError, NotOverError, follow_study
from askance_lab.remote.study_client import RemoteError, StrategyFailsThereError, TooFewUsersThereError
from askance_protocol.errors import AskanceError, DataError, UsageError
from askance_protocol.schema import BitsField, CategoryField, IntegerField, LabelField, Schema
from askance_server.core.estimates import MOST_ESTIMATES
from askance_server.core.verification import VerificationError
from askance_server.strategies.registry import registry
from tests.harness.marks import SECONDS
from tests.harness.servers import Json, ServerProcess, serving
from tests.lab.commands.calls import COMMAND, askance, at_home, invoke


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with serving(tmp_path_factory.mktemp("studies") / "data", "--cap", "100") as process:
        yield process


@pytest.fixture(scope="module")
def tokens(shared: ServerProcess) -> list[str]:
    """Six real users."""
    enrolled = shared.post("/v1/enrolment-tokens", token=shared.operator, json={"users": 6, "seconds": 600}).json()
    found: list[str] = shared.post("/v1/enrolments", token=enrolled["token"], json={"users": 6}).json()["tokens"]
    return found


@pytest.fixture(autouse=True)
def there(shared: ServerProcess, tokens: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ASKANCE_SERVER", shared.url)
    monkeypatch.setenv("ASKANCE_DATABASE", str(shared.directory))


def created(*more: object) -> Json:
    made: Json = json.loads(invoke("study", "create", "mean", "--epsilon", "0.5", *more, "--json"))
    return made


def report(server: ServerProcess, study: Json, tokens: list[str]) -> None:
    for token in tokens:
        assert server.report(study["rounds"][0]["id"], token).status_code == 200


def over(server: ServerProcess, study: Json) -> None:
    """Wait for the end of a study that has all its reports: the last is acknowledged before its round is closed."""
    end = time.monotonic() + SECONDS
    while server.get(f"/v1/studies/{study['id']}").json()["state"] != "finished":
        assert time.monotonic() < end, "the study does not end"
        time.sleep(0.05)


def test_a_study_goes_from_creation_to_its_result(shared: ServerProcess, tokens: list[str]) -> None:
    made = created("--title", "Sleep", "--deadline", "2h")
    name = made["id"][:8]
    begun = time.time()

    assert (made["state"], made["title"], made["target"], made["received"]) == ("sealed", "Sleep", 6, 0)
    assert 7000 < made["rounds"][0]["deadline"] - begun < 7400
    assert any(line.startswith(name) and "0/6" in line for line in invoke("study", "list").splitlines())
    with pytest.raises(NotOverError, match=r"0 of 6 reports, 1 hour left .*askance study close"):
        invoke("study", "result", name)
    assert askance("study", "result", name).returncode == Exit.TOO_FEW_USERS

    report(shared, made, tokens[:3])
    assert "open, 3 of 6 reports" in invoke("study", "show", name)
    assert json.loads(invoke("study", "show", name, "--json"))["rounds"][0]["received"] == 3
    report(shared, made, tokens[3:])
    over(shared, made)

    told = json.loads(invoke("study", "result", name, "--json"))
    assert (told["study"], told["state"], told["cause"]) == (made["id"], "finished", "learned")
    assert "mean" in told["hypothesis"]
    assert told["text"] in invoke("study", "result", name)
    shown = invoke("study", "show", name)
    assert "answered, 6 of 6 reports" in shown
    assert json.loads(invoke("study", "show", name, "--json"))["head"] in shown


def test_only_the_fields_that_are_asked_are_published(shared: ServerProcess, tmp_path: Path) -> None:
    declared = Schema(
        fields=(
            IntegerField(name="minutes", low=0, high=120, gap=True),
            CategoryField(name="diagnosis", values=("a", "b")),
            BitsField(name="dark", width=1),
            LabelField(name="ill"),
        )
    )
    (tmp_path / "s.json").write_text(written_schema(declared))

    def published(*options: str) -> list[str]:
        options = (*options, "--schema", str(tmp_path / "s.json"), "--json")
        made = json.loads(invoke("study", "create", *options))
        example = shared.get(f"/v1/studies/{made['id']}").json()["study"]["example"]
        invoke("study", "cancel", made["id"], "--yes")
        return [field["name"] for field in example["fields"]]

    assert published("survey", "--ask", "share(dark)", "--ask", "mean(minutes)") == ["minutes", "dark"]
    assert published("survey", "--ask", "share(ill)") == ["ill"]
    assert published("mean", "--set", "column=minutes") == ["minutes"]
    # The control: a question about what is not declared is refused by the server, which says what is.
    with pytest.raises(AskanceError, match="the fields are minutes, diagnosis, dark, ill"):
        published("survey", "--ask", "share(bright)")


def test_a_round_is_closed_early_and_its_study_goes_on_with_what_came(shared: ServerProcess, tokens: list[str]) -> None:
    made = created()
    report(shared, made, tokens[:2])
    closed = json.loads(invoke("study", "close", made["id"], "--json"))

    assert (closed["state"], closed["rounds"][0]["received"], closed["cause"]) == ("finished", 2, "learned")
    assert "fewer reports than planned: round 1 had 2 of 6" in closed["reason"]
    with pytest.raises(NotOpenThereError, match="has no open round: it is finished"):
        invoke("study", "close", made["id"])


def test_a_round_that_is_closed_without_a_report_says_what_became_of_it() -> None:
    made = created()

    assert "1 of its 1 part had none" in invoke("study", "close", made["id"])
    assert "had none" in invoke("study", "result", made["id"], code=Exit.TOO_FEW_USERS)


def test_a_study_is_cancelled_for_good_and_only_by_who_says_so() -> None:
    made = created()
    with pytest.raises(UsageError, match="--yes"):
        invoke("study", "cancel", made["id"])
    assert json.loads(invoke("study", "show", made["id"], "--json"))["state"] == "sealed"

    assert json.loads(invoke("study", "cancel", made["id"], "--yes", "--json"))["state"] == "cancelled"
    assert "cancelled by the operator" in invoke("study", "result", made["id"], code=Exit.CHECK_FAILED)
    with pytest.raises(RemoteError, match="study-over"):
        invoke("study", "cancel", made["id"], "--yes")
    running = [line for line in invoke("study", "list", "--running").splitlines() if line.startswith(made["id"][:8])]
    assert running == []


def test_the_newest_study_is_meant_where_none_is_named() -> None:
    made = created()

    assert made["id"] in invoke("study", "show")


# ------------------------------------------------------------------------------------------------------ what is refused


def test_a_study_that_would_fail_at_once_is_refused_with_the_reason_and_the_exit_code() -> None:
    before = invoke("study", "list")
    with pytest.raises(TooFewUsersThereError, match=r"needs 7,228 users who can still pay ε = 1, and 6 are left"):
        invoke("study", "create", "mean", "--users", "needed")

    run = askance("study", "create", "mean", "--users", "needed")
    assert (run.returncode, run.stderr.count("\n")) == (Exit.TOO_FEW_USERS, 1)
    assert EXIT_OF[StrategyFailsThereError.code] is Exit.CHECK_FAILED
    assert invoke("study", "list") == before


SILLY: list[tuple[list[object], str, Exit]] = [
    (["create", "no-such-learner"], "there is no 'no-such-learner' here", Exit.USAGE),
    (["create", "No Name"], "strategy", Exit.USAGE),
    (["create", "mean", "--epsilon", "much"], "--epsilon", Exit.USAGE),
    (["create", "mean", "--epsilon", "1000"], "--epsilon", Exit.USAGE),
    (["create", "mean", "--tolerance", "7"], "--tolerance", Exit.USAGE),
    (["create", "mean", "--d", "4"], "--d", Exit.USAGE),
    (["create", "mean", "--set", "cells=4"], "--set cells", Exit.USAGE),
    (["create", "mean", "--set", "cells"], "--set", Exit.USAGE),
    (["create", "mean", "--users", "some"], "users", Exit.USAGE),
    (["create", "mean", "--deadline", "tomorrow"], "--deadline", Exit.USAGE),
    (["create", "mean", "--deadline", "0"], "--deadline", Exit.USAGE),
    (["create", "mean", "--title", ""], "title", Exit.USAGE),
    (["create", "mean", "--gateway-token", "g"], "--gateway-token", Exit.USAGE),
    (["create", "mean", "--watch", "--json"], "--watch", Exit.USAGE),
    (["show", "xyz"], "is no name of a study", Exit.USAGE),
    (["show", "abc"], "is no name of a study", Exit.USAGE),
    (["show", "0" * 64], "404 not-found", Exit.USAGE),
    (["watch", "0000aaaa"], "no study there begins with 0000aaaa", Exit.USAGE),
    (["close", "\x1b[2Jabcd"], "is no name of a study", Exit.USAGE),
    (["cancel", "0000aaaa", "--yes"], "no study there begins with", Exit.USAGE),
    (["list", "--server", "ftp://x"], "is not an http or https URL", Exit.USAGE),
    (["list", "--server", "http://127.0.0.1:9"], "askance serve", Exit.UNREACHABLE),
    (["create", "mean", "--server", "http://askance.invalid"], "--operator-token", Exit.USAGE),
]


@pytest.mark.parametrize(("arguments", "said", "code"), SILLY)
def test_what_cannot_be_meant_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], arguments: list[object], said: str, code: Exit
) -> None:
    ended, printed, errors = at_home(capsys, "study", *arguments)

    assert ended == code, errors
    assert said in errors
    assert errors.startswith("askance: ")
    assert errors.count("\n") == 1
    assert "\x1b" not in errors
    assert printed == ""
    assert list(Path().iterdir()) == []


def test_a_server_that_is_away_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASKANCE_SERVER", "http://127.0.0.1:9")
    with pytest.raises(UnreachableError):
        invoke("study", "create", "mean")


ASKING: list[list[object]] = [
    ["study", "list"],
    ["study", "show"],
    ["study", "result"],
    ["study", "watch"],
    ["study", "create", "mean"],
    ["study", "close", "abcd"],
    ["study", "cancel", "abcd", "--yes"],
    ["study", "export", "abcd", "--out", "new"],
    ["users", "count"],
    ["users", "enrol", "5-6"],
    ["users", "renew", "3"],
]
AT_ONCE = [["study", "create", "mean"], ["users", "renew", "3"]]
"""Of these the first request is one that is never repeated."""


@pytest.mark.parametrize("arguments", ASKING)
@pytest.mark.parametrize("greets", [True, False], ids=["as it is", "control"])
def test_a_server_that_is_away_is_not_waited_for_long(
    arguments: list[object], greets: bool, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A person waits, who may have mistyped its address. The control asks at once, with a client's patience."""
    attempts = 0

    async def lost(*_: object) -> None:
        nonlocal attempts
        attempts += 1
        raise httpx.ConnectError("away")

    async def does_not_greet(_: Server) -> None:
        """Ask nothing before."""

    monkeypatch.setattr(Server, "_exchange", lost)
    monkeypatch.setattr(Patience, "pause", lambda *_: 0.0)
    if not greets:
        monkeypatch.setattr(Server, "check", does_not_greet)
    code, printed, errors = at_home(capsys, *arguments)

    assert (code, printed) == (Exit.UNREACHABLE, ""), errors
    few = attempts < PATIENCE.attempts
    assert few == (greets or arguments in AT_ONCE)


def test_names_that_several_studies_have_are_told_apart() -> None:
    class Stub:
        url = "http://there"

        async def studies(self) -> list[Json]:
            return [{"id": "abcd" + "0" * 60}, {"id": "abcd" + "1" * 60}]

    server: Any = Stub()
    with pytest.raises(NoSuchStudyError, match=r"2 studies begin so \(give more digits: abcd00000000, abcd11111111"):
        asyncio.run(management.find_study(server, "abcd"))
    assert asyncio.run(management.find_study(server, "abcd1"))["id"] == "abcd" + "1" * 60


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("30min", 1800), ("2h", 7200), ("7d", 604_800)])
def test_a_length_of_time_is_read(text: str, seconds: int) -> None:
    assert seconds_of(text, "--deadline") == seconds


# ------------------------------------------------------------------------------------------------------------ watching


def test_off_a_terminal_each_change_is_a_line_of_json_and_the_exit_code_tells_the_end(
    shared: ServerProcess, tokens: list[str]
) -> None:
    made = created()
    watching = subprocess.Popen([*COMMAND, "study", "watch", made["id"][:12]], stdout=subprocess.PIPE, text=True)
    try:
        assert watching.stdout is not None
        first = json.loads(watching.stdout.readline())
        report(shared, made, tokens)
        rest = [json.loads(line) for line in watching.stdout]
        assert watching.wait(SECONDS) == Exit.OK
    finally:
        watching.kill()
        watching.wait()
        watching.stdout.close() if watching.stdout else None

    assert (first["event"], first["rounds"][0]["received"], first["id"]) == ("progress", 0, made["id"])
    assert (rest[-1]["event"], rest[-1]["state"], rest[-1]["cause"]) == ("ended", "finished", "learned")
    assert rest[-1]["rounds"][0]["received"] == 6
    assert rest[-1]["text"]


INTERRUPTIBLE = """
import signal
from askance_lab.cli import main
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what runs in the background
main()
"""


def test_an_interruption_ends_a_watch_with_130() -> None:
    made = created()
    watching = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTIBLE, "study", "watch", made["id"]],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert watching.stdout is not None
        watching.stdout.readline()
        watching.send_signal(signal.SIGINT)
        printed, errors = watching.communicate(timeout=SECONDS)
    finally:
        watching.kill()
        watching.communicate()

    assert (watching.returncode, errors) == (Exit.INTERRUPTED, "")
    assert "Traceback" not in printed


def test_a_watch_goes_on_by_a_timer_where_the_stream_breaks_off(
    shared: ServerProcess, tokens: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stream says when to look, and nothing else: without it everything is seen all the same, a little later."""
    made = created()
    opened: list[str] = []

    async def broken(_: Server, path: str) -> AsyncIterator[None]:
        opened.append(path)
        return
        yield

    monkeypatch.setattr(Server, "stirrings", broken)

    async def seen() -> list[int]:
        async with Server(shared.url) as server:
            counts: list[int] = []
            async for now in follow_study(server, made["id"]):
                counts.append(now.study["rounds"][0]["received"])
                if counts == [0]:
                    await asyncio.to_thread(report, shared, made, tokens)
            return counts

    counts = asyncio.run(seen())
    assert (counts[0], counts[-1]) == (0, 6)
    assert opened


def test_the_stream_of_a_running_study_stirs_at_once(shared: ServerProcess) -> None:
    made = created()

    async def first() -> bool:
        async with Server(shared.url) as server:
            async for _ in server.stirrings(f"/v1/studies/{made['id']}/events"):
                return True
            return False

    assert asyncio.run(first())

    async def nothing() -> list[None]:
        async with Server(shared.url) as server:
            return [each async for each in server.stirrings("/v1/studies/none/events")]

    # The control: what is no stream says nothing.
    assert asyncio.run(nothing()) == []


ESTIMATES = [
    {"name": f"share(town = '{number}')", "estimate": 0.25, "low": 0.2, "high": 0.3, "level": 0.95, "reports": 5000}
    for number in range(20)
]


def drawn(
    study: Json, result: Json, width: int = 80, height: int = 40, color: Literal["truecolor"] | None = None
) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, height=height, force_terminal=True, color_system=color)
    console.print(study_text.StudyScreen(study, result, lambda: 0.0))
    return out.getvalue()


def running(rounds: int = 2, title: str = "Sleep") -> Json:
    """A study whose last round is open."""
    before = [
        {"state": "answered", "received": 123_456, "round": {"number": number, "target": 123_456, "deadline": 10}}
        for number in range(1, rounds)
    ]
    now = {"state": "open", "received": 7, "round": {"number": rounds, "target": 9_999_999, "deadline": 7300}}
    spec = {"title": title, "strategy": "masked-parity"}
    return {"id": "a" * 64, "state": "running", "study": spec, "rounds": [*before, now]}


def described() -> Json:
    """All of it that a description tells."""
    spec = {"parameters": {"d": 8}, "simulated": True, "interactive": False, "cap": 1_000_000}
    study = running()
    return {**study, "study": {**study["study"], **spec}, "length": 4, "head": "b" * 64}


RESULT: Json = {"text": None, "reason": "", "estimates": ESTIMATES, "estimates_left_out": 3}


@pytest.mark.parametrize("title", ["Sleep", "x" * 200, "\x1b[31mred\u202e"])
def test_a_screen_holds_a_study_in_eighty_columns(title: str) -> None:
    screen = drawn(running(title=title), RESULT)

    assert max(map(len, screen.splitlines())) <= 80
    for said in ("123,456/123,456", "7/9,999,999", "2 hours left", "share(town = '0')", "and 11 more"):
        assert said in screen
    assert "[31m" not in screen.replace("\\x1b[31m", "")
    assert "\u202e" not in screen
    told = study_text.outcome(RESULT)
    assert re.search(r"share\(town = '0'\) +0\.250 +0\.200 +0\.300 +5,000$", told, re.MULTILINE)
    assert "and 3 more, in the tallies" in told


@pytest.mark.parametrize("cells", [3, 4, 5, 6, 260])
def test_a_result_shows_some_cells_of_a_learner_and_says_where_the_others_are(cells: int) -> None:
    """As `askance run` does. The control shows them all."""
    every = [{**ESTIMATES[0], "name": f"share(cell = {number})"} for number in range(cells)]
    result = {"text": "r = 01", "reason": "r = 01", "estimates": every}
    most = most_estimates(registry()["masked-parity-pooled"])

    for shown in (study_text.outcome(result, most), study_text.description(described(), result, 0.0, most)):
        assert shown.count("share(cell") == (cells if cells <= most + 1 else most)
        assert (f"{cells - most:,} more: --json has them" in shown) == (cells > most + 1)
    assert study_text.outcome(result, 1000).count("share(cell") == cells


def test_a_study_of_a_strategy_that_is_not_installed_is_shown_and_a_survey_whole() -> None:
    assert most_estimates(registry().get("nobody")) == 12
    assert most_estimates(registry()["survey"]) == MOST_ESTIMATES


@pytest.mark.parametrize("width", [40, 60, 80, 120, 200])
@pytest.mark.parametrize(("height", "rounds"), [(24, 2), (24, 40), (60, 40)])
def test_a_screen_fits_its_window_and_cuts_no_number(width: int, height: int, rounds: int) -> None:
    """What is higher than its window would leave a copy of itself above whenever it is drawn again."""
    lines = [line.rstrip() for line in drawn(running(rounds), RESULT, width, height).splitlines()]

    assert len(lines) < height
    assert max(map(len, lines)) <= min(width, 120)
    [now] = [line for line in lines if "7/9,999,999" in line]
    assert now.endswith("2 hours left")
    assert ("open" in now) == (width > 40)
    assert any(re.fullmatch(r"share.*  +0\.250*  +0\.20*  +0\.30*(  +5,000)?", line) for line in lines)
    if rounds == 40 and height == 60:
        assert not any(re.match(r" +1  ", line) for line in lines), "the first rounds make room for the last"


def test_no_colour_of_a_screen_is_lost_on_a_light_window_or_on_a_dark_one() -> None:
    """Each has to differ from black and from white; the rest of a bar, by rich's own choice, is nearly black."""

    def shades(screen: str) -> list[float]:
        own = [tuple(map(int, each)) for each in re.findall(r"38;2;(\d+);(\d+);(\d+)", screen)]
        named = [Color.from_ansi(int(each)).get_truecolor() for each in re.findall(r"38;5;(\d+)", screen)]
        assert "48;" not in screen, "no background is set"
        assert "\x1b[2m" not in screen, "nothing is dim"
        return [(0.3 * int(red) + 0.59 * int(green) + 0.11 * int(blue)) / 255 for red, green, blue in (*own, *named)]

    assert all(0.25 < shade < 0.75 for shade in shades(drawn(running(), RESULT, color="truecolor")))
    # The control: the bar as rich would draw it.
    out = io.StringIO()
    Console(file=out, force_terminal=True, color_system="truecolor").print(DrawnBar(100, 30, width=20))
    assert not all(0.25 < shade < 0.75 for shade in shades(out.getvalue()))


# ------------------------------------------------------------------------------------------------ taking away, checking

OFFLINE = """
import socket
def away(*_):
    raise AssertionError("the network was asked")
socket.socket.connect = socket.create_connection = away
from askance_lab.cli import main
main()
"""
"""The command on a machine without a network."""


@pytest.fixture(scope="module")
def ended(shared: ServerProcess, tokens: list[str]) -> str:
    """A study that has learned."""
    made = shared.study("mean", {"users": "all", "epsilon": "0.5"})
    report(shared, made, tokens)
    over(shared, made)
    name: str = made["id"]
    return name


def site(folder: Path) -> Path:
    """The packages as a wheel has them, and nothing else of the repository."""
    root = Path(__file__).parents[3]
    for package in ("protocol/askance_protocol", "client/askance_client", "server/askance_server", "lab/askance_lab"):
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(root / package, folder / Path(package).name, ignore=ignored)
    return folder


def test_a_survey_whose_users_answer_several_questions_in_one_report_has_a_result_and_is_verified(
    shared: ServerProcess, tokens: list[str], tmp_path: Path
) -> None:
    declared = Schema(fields=(BitsField(name="dark", width=2), CategoryField(name="plan", values=("free", "pro"))))
    (tmp_path / "s.json").write_text(written_schema(declared))
    asks = ("share(dark[0])", "share(plan)", "share(dark[1] or plan = 'pro')")
    options = [each for ask in asks for each in ("--ask", ask)]
    made = json.loads(
        invoke("study", "create", "survey", *options, "--epsilon", "4", "--schema", tmp_path / "s.json", "--json")
    )
    [round_] = shared.get(f"/v1/studies/{made['id']}").json()["rounds"]
    published = shared.get(f"/v1/rounds/{round_['id']}").json()["round"]
    assert [(part["channel"]["kind"], part["charge"]) for part in published["parts"]] == [("kary", 4_000_000)]
    for token, outcome in zip(tokens, (0, 1, 2, 5, 6, 7), strict=True):
        assert shared.report(round_["id"], token, outcome).status_code == 200
    over(shared, made)

    names = [asks[0], "share(plan): 'free'", "share(plan): 'pro'", asks[2]]
    told = json.loads(invoke("study", "result", made["id"], "--json"))
    assert [row["name"] for row in told["estimates"]] == names
    assert [row["name"] for row in told["hypothesis"]["answers"]] == names
    assert {row["reports"] for row in told["estimates"]} == {6}
    taken = json.loads(invoke("study", "export", made["id"], "--out", "survey", "--json"))
    assert (taken["verified"], taken["reports"]) == (True, 6)
    assert made["id"] in invoke("study", "verify", "survey")
    # The control: one count of the joint tally.
    file = Path("survey/bulletin.jsonl")
    file.write_text(file.read_text().replace('"tallies":[[[', '"tallies":[[[1', 1))
    with pytest.raises(AskanceError, match="tallies: add up to"):
        invoke("study", "verify", "survey")


@pytest.mark.parametrize("name", ["taken", "taken.zip"])
def test_an_export_is_verified_in_an_empty_folder_with_the_wheels_code_and_without_a_network(
    ended: str, tmp_path: Path, name: str
) -> None:
    told = json.loads(invoke("study", "export", ended, "--out", name, "--json"))
    assert (told["verified"], told["study"], told["reports"]) == (True, ended, 6)

    empty, packages = tmp_path / "empty", site(tmp_path / "site")
    empty.mkdir()

    def verify(*more: object) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", OFFLINE, "study", "verify", tmp_path / name, *more]
        environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(packages), "PYTHONDONTWRITEBYTECODE": "1"}
        return subprocess.run(
            list(map(str, command)), cwd=empty, env=environment, capture_output=True, text=True, check=False
        )

    run = verify("--head", told["head"], "--study", ended)
    assert run.returncode == Exit.OK, run.stderr
    assert f"{ended} {told['length']} {told['head']}" in run.stdout
    assert list(empty.iterdir()) == []
    # The control: one count of one tally, and the command says where.
    if name == "taken":
        file = tmp_path / name / "bulletin.jsonl"
        file.write_text(file.read_text().replace('"tallies":[[[', '"tallies":[[[1', 1))
        run = verify()
        assert (run.returncode, run.stdout, run.stderr.count("\n")) == (Exit.CHECK_FAILED, "", 1)
        assert "entry 3 (answers): tallies: add up to" in run.stderr
    else:
        run = verify("--head", "ab" * 32)
        assert (run.returncode, run.stderr.count("\n")) == (Exit.CHECK_FAILED, 1)
        assert "another history" in run.stderr


def test_an_export_is_written_to_new_places_only_and_a_running_study_has_one_too(ended: str) -> None:
    Path("there").mkdir()
    for place in ("there", "there/more/new"):
        if place == "there":
            with pytest.raises(DataError, match="is there already"):
                invoke("study", "export", ended, "--out", place)
        else:
            invoke("study", "export", ended, "--out", place)
    made = created()
    assert "2 entries, 1 round, 0 reports, sealed" in invoke("study", "export", made["id"], "--out", "running")
    assert "sealed" in invoke("study", "verify", "running")
    assert "finished" in invoke("study", "verify", "there/more/new/bulletin.jsonl")
    assert sorted(path.name for path in Path("running").iterdir()) == [
        "bulletin.jsonl",
        "manifest.json",
        "result.json",
        "tallies.json",
    ]


def damaged_zip(whole: bytes) -> dict[str, tuple[bytes, str]]:
    out = io.BytesIO()
    with warnings.catch_warnings(), zipfile.ZipFile(out, "w") as twice:
        warnings.simplefilter("ignore")
        twice.writestr("result.json", "{}")
        twice.writestr("result.json", "{}")
    middle = len(whole) // 3
    return {
        "cut.zip": (whole[:-40], "is no export"),
        "half.zip": (whole[: len(whole) // 2], "is no export"),
        "bit.zip": (whole[:middle] + bytes([whole[middle] ^ 255]) + whole[middle + 1 :], ""),
        "twice.zip": (out.getvalue(), "is no export"),
        "empty.zip": (b"", "is no export"),
        "text.txt": (b"hello", "is no export"),
        "empty.jsonl": (b"", "has no entry"),
    }


def test_what_is_damaged_or_no_export_is_refused_in_one_line(ended: str, capsys: pytest.CaptureFixture[str]) -> None:
    invoke("study", "export", ended, "--out", "whole.zip")
    for name, (data, said) in damaged_zip(Path("whole.zip").read_bytes()).items():
        Path(name).write_bytes(data)
        code, printed, errors = at_home(capsys, "study", "verify", name)
        assert (code, printed, errors.count("\n")) == (Exit.CHECK_FAILED, "", 1), (name, errors)
        assert said in errors
    for arguments in (["nowhere"], ["whole.zip", "--head", "12"], ["whole.zip", "--study", "x"]):
        code, _, errors = at_home(capsys, "study", "verify", *arguments)
        assert (code, errors.count("\n")) == (Exit.USAGE, 1), errors
    # The control: undamaged, it is verified.
    assert at_home(capsys, "study", "verify", "whole.zip")[0] == Exit.OK


def test_a_server_whose_result_is_not_its_bulletins_is_found_out(ended: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def lying(server: Server, study: Json) -> Json:
        return {**await management.result_of(server, study), "text": "the mean is 7"}

    monkeypatch.setattr(study_command, "result_of", lying)
    with pytest.raises(VerificationError, match="something else was learned than its bulletin"):
        invoke("study", "export", ended, "--out", "lie")
    assert not Path("lie").exists()
