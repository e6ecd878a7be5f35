"""What the pages say, without a browser: states, estimates, spending, refusals, and the separation."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from askance_lab.commands.shared.export_files import read_export, write_export
from askance_protocol.queries import RealQuery
from askance_protocol.queries.language import FieldValue
from askance_server.core.export import verify_files
from askance_server.core.strategy import Ask, Asking, Hypothesis, Parameters
from askance_server.dashboard import budget, download, separation, words
from askance_server.dashboard.budget import Bar, joined
from askance_server.dashboard.charts import Axis, band, line, ticks
from askance_server.dashboard.routes import router
from askance_server.dashboard.study import MOST_ROUNDS
from askance_server.ledger import Verdict
from askance_server.metrics import EVERY, AcceptanceRate, Refusals, in_steps
from askance_server.public_answers import PublicAnswers
from askance_server.strategies.registry import registry
from tests.harness.servers import Service, is_problem
from tests.server.dashboard import played
from tests.server.dashboard.test_base import BROWSER, is_page

FIRST_VIEW = 100_000
"""Bytes over the wire of a page with all that it loads."""
SRC = re.compile(r'(?:src|href)="(/assets/[^"]+)"')


@pytest.fixture
def service(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path / "ledger", cap=3_000_000) as made:
        yield made


def page(service: Service, path: str) -> str:
    return is_page(service.get(path, headers=BROWSER))


def test_a_server_without_studies_says_how_to_ask(service: Service) -> None:
    assert "askance demo" in page(service, "/")


def test_a_study_from_its_creation_to_its_result_and_one_that_was_cancelled(service: Service) -> None:
    played.enrol(service, 200)
    study = played.create(service, "Do you <come> by bus?")
    path = f"/studies/{study['id']}"

    assert "Do you &lt;come&gt; by bus?" in page(service, "/")
    asking = page(service, path)
    assert "Nothing is known yet" in asking
    assert "0 of 200 reports" in asking
    assert study["head"] in asking

    played.answer(service, study, study["gateway_token"])
    finished = page(service, path)
    result = service.get(f"/v1/studies/{study['id']}/result").json()
    assert f"Learned: {result['text']}" in finished
    assert "200 of 200 reports" in finished
    [estimate] = result["estimates"]
    low, high = words.outward(estimate["low"], estimate["high"], share=False)
    assert f"{low} to {high}" in finished
    assert service.get(f"/v1/studies/{study['id']}").json()["head"] in finished

    other = played.create(service, "Another")
    service.post(f"/v1/studies/{other['id']}/cancel", token=service.operator)
    assert "cancelled by the operator" in page(service, "/")
    assert "Cancelled" in page(service, f"/studies/{other['id']}")


def test_an_open_round_is_told_in_steps_where_its_study_said_so_and_else_not(service: Service) -> None:
    played.enrol(service, 200)
    for live in (10, None):
        asked = {"title": "A study", "strategy": "mean", "parameters": {"users": "all"}, "simulated": True}
        asked |= {} if live is None else {"live": live}
        study = service.post("/v1/studies", token=service.operator, json=asked).json()
        played.answer(service, study, study["gateway_token"], part=0.625)
        text = page(service, f"/studies/{study['id']}")

        assert ("told in steps of 10 reports" in text) is (live is not None)
        tallies = service.get(f"/v1/rounds/{study['rounds'][0]['id']}/tally").json()["tallies"]
        reports = sum(sum(row) for rows in tallies for row in rows)
        assert bool(reports) is (live is not None)
        assert reports % 10 == 0
        assert (f'quiet reports">{reports}<' in text) is (live is not None)
        assert ("not looked at before it closes" in text) is (live is None)


def rows_in(text: str, part: str) -> list[tuple[str, ...]]:
    """The rows of a table within a part of a page."""
    rows = re.findall(r"<tr>(.*?)</tr>", text.partition(f'id="{part}"')[2].partition("</tbody>")[0], re.DOTALL)
    return [tuple(re.findall(r"<td[^>]*>([^<]*)</td>", row)) for row in rows if "<td" in row]


def test_the_estimate_of_an_open_round_is_drawn_as_it_was_told_and_its_last_look_is_the_result_so_far(
    service: Service,
) -> None:
    played.enrol(service, 200)
    asked = {"title": "A study", "strategy": "mean", "parameters": {"users": "all"}, "simulated": True, "live": 10}
    study = service.post("/v1/studies", token=service.operator, json=asked).json()
    assert 'id="running"' not in page(service, f"/studies/{study['id']}"), "nothing is told yet"
    played.answer(service, study, study["gateway_token"], part=0.625)
    text = page(service, f"/studies/{study['id']}")
    rows = rows_in(text, "running-table")
    [now] = service.get(f"/v1/studies/{study['id']}/result").json()["live"]

    assert [int(row[0]) for row in rows] == [10, 20, 30, 40, 50, 60, 70, 80, 90, 110]
    assert rows[-1][1] == " to ".join(words.outward(now["low"], now["high"], share=False))
    assert 'id="narrowing"' not in text
    service.post(f"/v1/rounds/{study['rounds'][0]['id']}/close", token=service.operator)
    assert 'id="running"' not in page(service, f"/studies/{study['id']}")


def sixty_rounds(parameters: Parameters) -> Asking:
    """One question, sixty times."""
    del parameters
    for _ in range(60):
        yield [Ask(RealQuery(numerator=FieldValue(field="value"), denominator=1000), 0.9)]
    return Hypothesis("asked", {"mean": 0.0})


def test_of_many_rounds_the_last_are_shown_and_the_page_stays_small(service: Service) -> None:
    aggregator, known = service.app.state.aggregator, registry()
    sixty = replace(known["mean"], name="sixty", interactive=True, rounds=60, over=None, run=sixty_rounds)
    aggregator.strategies = aggregator.driver.strategies = {"sixty": sixty, **known}
    played.enrol(service, 2000)
    study = played.create(service, "In many rounds", "sixty", epsilon="0.01", deadline_seconds=900)
    for _ in range(40):
        played.answer(service, study, study["gateway_token"], part=0.5)
        opened = service.get(f"/v1/studies/{study['id']}").json()["rounds"][-1]["id"]
        service.post(f"/v1/rounds/{opened}/close", token=service.operator)
    text = page(service, f"/studies/{study['id']}")

    assert text.count('<li class="done">') + text.count('<li class="now"') == MOST_ROUNDS
    assert "33 rounds before these" in text
    assert "Rounds 42 to 60" in text
    assert len(text) < FIRST_VIEW


def test_a_study_that_has_ended_is_one_file_that_anybody_can_verify(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    played.enrol(service, 200)
    study = played.create(service, "A study")
    path = f"/studies/{study['id']}"
    assert "export.zip" not in page(service, path)
    is_problem(service.get(f"{path}/export.zip"), "not-found")
    played.answer(service, study, study["gateway_token"])
    assert f'href="{path}/export.zip"' in page(service, path)
    answer = service.get(f"{path}/export.zip")

    assert answer.headers["content-type"] == "application/zip"
    assert answer.headers["content-disposition"] == f'attachment; filename="askance-{study["id"][:12]}.zip"'
    (tmp_path / "got.zip").write_bytes(answer.content)
    files = {name: bytes(read(1 << 20)) for name, read in read_export(tmp_path / "got.zip").items()}
    assert verify_files(files, registry()).study.digest() == study["id"]
    # What `askance study export --out study.zip` writes.
    write_export(tmp_path / "written.zip", files)
    assert (tmp_path / "written.zip").read_bytes() == answer.content
    # A long one is exported by whoever wants it, on her own machine.
    monkeypatch.setattr(download, "LONGEST", 100)
    service.app.state.aggregator.answers = PublicAnswers(service.app.state.aggregator.answers.workers)
    assert "export.zip" not in page(service, path)
    is_problem(service.get(f"{path}/export.zip"), "not-found")


def test_every_page_that_anybody_may_see_says_no_user_and_no_token(service: Service) -> None:
    played.enrol(service, 40)
    study = played.create(service, "A study")
    for path in ("/", f"/studies/{study['id']}", "/budget", "/separation", "/new", "/sign-in"):
        text = page(service, path)
        assert study["gateway_token"] not in text
        assert service.operator not in text


def test_a_page_and_all_that_it_loads_is_small(service: Service) -> None:
    played.enrol(service, 200)
    study = played.create(service, "A study")
    for path in ("/", f"/studies/{study['id']}", "/budget", "/separation", "/new", "/sign-in"):
        text = page(service, path)
        loaded, waiting = dict[str, int](), SRC.findall(text)
        while waiting:
            address = waiting.pop()
            if address in loaded:
                continue
            body = service.get(address).text
            loaded[address] = len(body.encode())
            folder = address.rpartition("/")[0]
            waiting += [
                f"{folder}/{name}"
                for name in re.findall(r'from "\./([^"]+)"|import "\./([^"]+)"', body)
                for name in name
                if name
            ]
        assert len(text.encode()) + sum(loaded.values()) < FIRST_VIEW
        assert loaded


def test_pages_are_not_part_of_the_interface_for_programs(service: Service) -> None:
    paths = service.get("/openapi.json").json()["paths"]
    mine = {getattr(route, "path", "") for route in router.routes}

    assert mine
    assert not mine & paths.keys()


def test_a_page_that_is_unchanged_is_not_sent_again(service: Service) -> None:
    tag = service.get("/separation").headers["etag"]
    again = service.get("/separation", headers={"If-None-Match": tag})

    assert (again.status_code, again.content) == (304, b"")
    assert "content-security-policy" in again.headers


def test_a_long_list_is_cut_into_pages(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("askance_server.dashboard.studies.A_PAGE", 2)
    played.enrol(service, 40)
    for number in range(3):
        played.create(service, f"Study number {number}", epsilon="0.1")

    first, second = page(service, "/"), page(service, "/?page=2")
    assert [number for number in range(3) if f"Study number {number}" in first] == [1, 2]
    assert [number for number in range(3) if f"Study number {number}" in second] == [0]
    assert "3 to 3 of 3" in page(service, "/?page=9")


# ------------------------------------------------------------------------------------------------------------- budget


def test_what_is_left_is_counted_in_steps_and_few_users_stand_out_nowhere(service: Service) -> None:
    played.enrol(service, 103)
    study = played.create(service, "A study")
    played.answer(service, study, study["gateway_token"], part=0.5)
    counted = budget.budgets(service.app.state.aggregator.ledger, 3_000_000)

    assert sum(bar.users for bar in counted.bars) == counted.enrolled == 103
    assert [(bar.low, bar.users) for bar in counted.bars if bar.users] == [(1_500_000, 51), (3_000_000, 52)]
    text = page(service, "/budget")
    assert ">50<" in text
    assert "51" not in text.partition('id="refused"')[0], "the exact count is not told"


def test_bars_of_few_are_joined() -> None:
    bars = [Bar(0, 1, 3), Bar(1, 2, 0), Bar(2, 3, 40), Bar(3, None, 4)]

    assert joined(bars) == (Bar(0, None, 47),)
    assert joined([Bar(0, 1, 0), Bar(1, None, 9)]) == (Bar(0, 1, 0), Bar(1, None, 9)), "nobody is nobody"
    assert all(bar.users == 0 or bar.users >= budget.STEP for bar in joined([Bar(n, n + 1, 2) for n in range(9)]))
    assert [in_steps(count) for count in (0, 4, 5, 9, 10)] == [0, 0, 5, 5, 10]


def test_of_very_few_users_nothing_is_told(service: Service) -> None:
    played.enrol(service, 4)
    assert "Of so few nothing is told" in page(service, "/budget")


def test_users_are_not_counted_again_for_who_looks_again(service: Service) -> None:
    played.enrol(service, 40)
    before = page(service, "/budget")
    played.enrol(service, 40)

    assert page(service, "/budget") == before
    service.app.state.budgets = None
    assert page(service, "/budget") != before, "the control: later they are"


def test_refusals_are_told_by_reason_in_steps_and_alike_wherever_they_are_asked_for(service: Service) -> None:
    played.enrol(service, 40)
    assert "Fewer than 5 for any reason" in page(service, "/budget")
    study = played.create(service, "A study")
    round_ = study["rounds"][0]["id"]
    users, now = list(range(30)), [0.0]
    metrics = service.app.state.aggregator.metrics
    metrics.refusals = Refusals(lambda: now[0])
    service.batch(round_, study["gateway_token"], users, [0] * 30)
    service.batch(round_, study["gateway_token"], users[:7], [1] * 7)
    assert refusals(service) == {}, "one sentence"
    now[0] = EVERY

    assert refusals(service)["Conflict"] == "5"
    assert refusals(service)["Budget exceeded"] == "0"
    assert 'askance_reports_total{verdict="conflict"} 5.0' in service.get("/metrics").text
    assert 'askance_reports_total{verdict="accepted"} 30.0' in service.get("/metrics").text


def refusals(service: Service) -> dict[str, str]:
    """The refusals that the page of the budget tells."""
    found = re.findall(r'<th scope="row">([^<]+)<br>.*?<td class="num">(.*?)</td>', page(service, "/budget"))
    return {reason: "0" if "fewer than 5" in count else count for reason, count in found}


Counting = Callable[[], tuple[Callable[[int, Verdict], None], Callable[[Verdict], int], list[float]]]
"""Something that counts one user's verdict, and something that tells how many there were, by a clock."""


def counting() -> Any:
    """As it is done."""
    now = [0.0]
    counts = Refusals(lambda: now[0])

    def add(user: int, verdict: Verdict) -> None:
        counts.add(np.array([user], np.uint64), np.array([verdict], np.uint8))

    return add, counts.told, now


def counting_in_steps() -> Any:
    """A control: in steps, at once, whoever they are of. Who sends four of her own sees the next one."""
    counts = [0] * len(Verdict)

    def add(user: int, verdict: Verdict) -> None:
        del user
        counts[verdict] += 1

    return add, lambda verdict: in_steps(counts[verdict]), [0.0]


def counting_by_the_minute() -> Any:
    """A control: when a minute is over, whoever they are of."""
    now, counts = [0.0], Counter[tuple[int, Verdict]]()

    def add(user: int, verdict: Verdict) -> None:
        del user
        counts[int(now[0] // EVERY), verdict] += 1

    def told(verdict: Verdict) -> int:
        return in_steps(sum(n for (at, of), n in counts.items() if of is verdict and at < now[0] // EVERY))

    return add, told, now


def seen(how: Counting) -> list[str]:
    """Whose refusal somebody sees who looks after each report, and sends refused ones of her own in between."""
    found = list[str]()
    for watched in (Verdict.OVER_BUDGET, Verdict.CONFLICT, Verdict.REPEATED):
        for own in range(12):
            for minutes in (0, 1):
                told = list[int]()
                for is_refused in (False, True):
                    add, tell, now = how()
                    for _ in range(own):
                        add(0, watched)
                    now[0] += minutes * EVERY
                    if is_refused:
                        add(1, watched)
                    told.append(tell(watched))
                    now[0] += EVERY
                    told.append(tell(watched))
                if told[:2] != told[2:]:
                    found.append(f"{watched.name} after {own}, {minutes} minutes later: {told}")
    return found


def test_nobody_sees_the_refusal_of_one_person() -> None:
    assert seen(counting) == []


@pytest.mark.parametrize("how", [counting_in_steps, counting_by_the_minute])
def test_control_counts_that_show_one_persons_refusal_are_found(how: Counting) -> None:
    assert seen(how) != []


def test_in_the_end_all_refusals_are_told() -> None:
    now = [0.0]
    counts = Refusals(lambda: now[0])
    for minute in range(3):
        now[0] = minute * EVERY
        # Of four users nothing is told, of five all that waits.
        users = np.repeat(np.arange(4 if minute == 0 else 5, dtype=np.uint64), 10)
        counts.add(users, np.full(len(users), Verdict.CONFLICT, np.uint8))
        assert counts.told(Verdict.CONFLICT) == (0, 0, 90)[minute]
    assert counts.told(Verdict.OUTSIDE) == 0


def test_the_pace_is_counted_by_ten_seconds() -> None:
    now = [1000.0]
    pace = AcceptanceRate(lambda: now[0])
    for seconds, count in ((1, 20), (5, 10), (12, 40), (35, 0)):
        now[0] = 1000.0 + seconds
        pace.add(count)

    assert pace.seconds() == [(30, 3.0), (20, 4.0), (10, 0.0)]
    now[0] += 10_000
    assert len(pace.seconds()) == 60
    assert {rate for _, rate in pace.seconds()} == {0.0}


# --------------------------------------------------------------------------------------------------------- separation


def circles(text: str) -> list[tuple[float, float]]:
    return [(float(x), float(y)) for x, y in re.findall(r'<circle class="point" cx="([^"]+)" cy="([^"]+)"', text)]


def table(text: str, learner: str) -> list[tuple[int, float]]:
    rows = re.findall(rf'<td class="num">([\d,]+)</td><td>{learner}</td><td class="num">([\d.]+)</td>', text)
    return [(int(users.replace(",", "")), float(error)) for users, error in rows]


def test_the_separation_is_drawn_where_its_table_says(service: Service) -> None:
    text = page(service, "/separation?d=32")
    drawn, told_ = circles(text), table(text, "● masked-parity-pooled, [2-6] rounds")

    assert len(drawn) == len(told_) > 4
    assert off(text, drawn, told_) < 1
    # The control: three units to one side are found.
    assert off(text, [(x + 3, y) for x, y in drawn], told_) > 1
    assert off(text, [(x, y + 3) for x, y in drawn], told_) > 1


def off(text: str, drawn: list[tuple[float, float]], told_: list[tuple[int, float]]) -> float:
    """How far points are from where a table puts them, by the marks of the axes."""
    up = [(float(says), float(y) - 5) for y, says in re.findall(r'class="q end" x="42" y="([^"]+)">([\d.]+)<', text)]
    marks = re.findall(r'class="q middle" x="([^"]+)" y="406">([\d,]+)<', text)
    across = [(np.log(float(says.replace(",", ""))), float(x)) for x, says in marks]
    columns = [(across, [(np.log(users), x) for (users, _), (x, _) in zip(told_, drawn, strict=True)])]
    columns.append((up, [(error, y) for (_, error), (_, y) in zip(told_, drawn, strict=True)]))
    return max(_off(marks, points) for marks, points in columns)


def _off(marks: list[tuple[float, float]], points: list[tuple[float, float]]) -> float:
    (low, start), (high, end) = marks[0], marks[-1]
    return max(abs(start + (value - low) / (high - low) * (end - start) - at) for value, at in points)


def test_each_number_of_users_says_of_which_kind_it_is(service: Service) -> None:
    text = page(service, "/separation")
    shipped, _ = separation.results(service.directory)

    assert [each.d for each in shipped.limits] == [8, 16, 32, 64]
    for each in shipped.limits:
        assert each.measured is not None
        cells = f'<td class="num">{each.d}</td><td class="num">{users(each.at_once_proved)}</td>'
        measured = f"{each.measured.users:,} <span"
        assert each.two_rounds is not None
        assert f"{each.two_rounds.users:,} <span" in text
        assert f"(up to {each.measured.rounds} rounds, " in text
        assert cells in text
        assert measured in text
    assert "proved, nothing assumed" in text
    assert "exactly 2 rounds" in text
    assert "orthogonal design" in text


def users(number: int) -> str:
    return f"{number:,}" if number < 10**7 else words.large(number)


def test_an_operators_own_measurement_is_shown_and_a_broken_one_is_not(service: Service) -> None:
    shipped, own = separation.results(service.directory)
    assert not own
    assert {point.d for point in shipped.points} == {16, 32}
    assert {(point.learner, point.rounds) for point in shipped.points} >= {
        ("masked-parity-two-rounds", 2),
        ("masked-parity-noninteractive", 1),
    }
    point = shipped.points[0].model_dump() | {"d": 8, "users": 5}
    there = service.directory / separation.OWN
    there.parent.mkdir()
    there.write_text(json.dumps({"points": [point, point | {"users": 50}]}))

    assert "d = 8" in page(service, "/separation")
    assert "Measured by the operator" in page(service, "/separation")
    # A file of version 1.0 does not say how many rounds a learner took, and nor does the page.
    there.write_text(json.dumps({"points": [point | {"rounds": None}, point | {"users": 50, "rounds": None}]}))
    assert "masked-parity-pooled, rounds not recorded" in page(service, "/separation")
    assert "● in rounds</text>" in page(service, "/separation")
    there.write_text("{")
    assert "Measured when this program was made" in page(service, "/separation")


# -------------------------------------------------------------------------------------------------- words and numbers


@pytest.mark.parametrize(
    ("low", "high", "share", "said"),
    [
        (0.38123, 0.46999, True, ("38 %", "47 %")),
        (0.3812, 0.4001, True, ("38.1 %", "40.1 %")),
        (0.4, 0.5, True, ("40 %", "50 %")),
        (-0.0613, 0.2151, False, ("-0.07", "0.22")),
        (12.0, 31.3, False, ("12", "32")),
    ],
)
def test_intervals_are_rounded_outward(low: float, high: float, share: bool, said: tuple[str, str]) -> None:
    assert words.outward(low, high, share=share) == said


def test_large_numbers_are_told_by_their_power() -> None:
    assert words.large(482_001_800_166) == "4.8 × 10¹¹"
    assert words.large(2 * 10**21) == "2.0 × 10²¹"


def test_axes_and_ticks() -> None:
    axis = Axis(1, 100, 0, 200, logarithmic=True)

    assert [axis.at(each) for each in (0.5, 1, 10, 100, 200)] == [0, 0, 100, 200, 200]
    assert Axis(0, 4, 10, 20).at(1) == 12.5
    assert ticks(0, 0.6, 6) == [0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6]
    assert ticks(-1, 1, 4) == [-1, -0.5, 0, 0.5, 1]
    assert line([(0, 1), (2, 3.5)]) == "M0 1L2 3.5"
    assert band([(0, 1)], [(0, 0)]) == "M0 1L0 0Z"


# ---------------------------------------------------------------------------------------------------------- a new study


def planned(service: Service, **form: object) -> str:
    given = {"title": "Do you come by bus?", "strategy": "question", "epsilon": "1", "users": "all", **form}
    return is_page(service.post("/new/plan", token=service.operator, json=given))


def test_a_plan_is_shown_before_a_study_is_started_and_it_is_that_of_the_study(service: Service) -> None:
    played.enrol(service, 400)
    text = planned(service, simulated=True)
    assert "It would wait for 400 reports" in text
    assert "share(answer = &#39;yes&#39;)" in text
    new = json.loads(html.unescape(re.findall(r'data-study="([^"]+)"', text)[0]))
    study = service.post("/v1/studies", token=service.operator, json=new).json()

    assert study["rounds"][0]["round"]["target"] == 400
    assert study["study"]["simulated"] is True
    # No plan is published.
    assert len(service.get("/v1/studies").json()) == 1


def test_a_plan_of_any_strategy_and_of_too_few_users(service: Service) -> None:
    played.enrol(service, 30)
    assert "d=4" not in planned(service, strategy="masked-parity", parameters="d = 4\n", simulated=True)
    few = planned(service, strategy="mean", users="needed", simulated=True)
    assert "Too few users: 30 can pay" in few
    assert " disabled>" in few


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"parameters": "d"}, "line 1: write name = value"),
        ({"strategy": "no-such"}, "no-such"),
        ({"strategy": "mean", "parameters": "no_such = 1"}, "no_such"),
    ],
)
def test_what_cannot_be_planned_is_said_in_its_place(service: Service, form: dict[str, str], said: str) -> None:
    text = planned(service, **form)
    assert "This cannot be started" in text
    assert said in text


def test_only_an_operator_has_anything_planned(service: Service) -> None:
    form = {"title": "x", "strategy": "mean", "epsilon": "1", "users": "all"}
    is_problem(service.post("/new/plan", json=form), "unauthorized")
    is_problem(service.post("/new/plan", token=service.enrolment, json=form), "forbidden")
