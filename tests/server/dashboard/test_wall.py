"""The wall: the interval first, in steps, nobody's answer; and the code by which a room joins."""

from __future__ import annotations

import math
import re
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest

from askance_protocol.schema import IntegerField, Schema
from askance_server.core.strategy import Estimate
from askance_server.dashboard.wall import mean_of, not_told_apart, rows_of, together
from tests.harness import barriers
from tests.harness.browser import Pages
from tests.harness.servers import Api, Service, serving

HOMEWORK = "Have you ever copied homework?"
SCALE = Schema(fields=(IntegerField(name="answer", low=1, high=10, gap=True),))


def estimate(name: str, at: float, low: float, high: float) -> Estimate:
    return Estimate(name, at, low, high, 0.95, 100)


def test_ends_are_rounded_outward_and_a_wide_interval_has_no_number() -> None:
    [narrow] = rows_of([estimate("share(answer = 'yes')", 0.372, 0.174, 0.5701)], SCALE)
    [wide] = rows_of([estimate("share(answer = 'yes')", 0.372, 0.1201, 0.62)], SCALE)

    assert (narrow.label, narrow.number, narrow.least, narrow.most) == ("yes", "37\u00a0%", "17\u00a0%", "58\u00a0%")
    assert narrow.is_narrow
    # 12 to 62: fifty points, and less than fifty are asked for.
    assert not wide.is_narrow


def test_of_two_choices_one_is_told_and_of_a_mean_it_is_told_in_its_own_units() -> None:
    [first] = rows_of([estimate("share(a = 'x')", 0.3, 0.1, 0.5), estimate("share(a = 'y')", 0.7, 0.5, 0.9)], SCALE)
    [mean] = rows_of([estimate("mean(answer)", 5.5, 4.13, 7.02)], SCALE)

    assert first.label == "x"
    assert (mean.number, mean.least, mean.most) == ("5.5", "4.1", "7.1")
    assert mean.low == pytest.approx((4.13 - 1) / 9)


def test_a_choice_is_called_as_it_was_written() -> None:
    named = {
        "share(answer = 'it''s')": "it's",
        "histogram(answer): 'never'": "never",
        'histogram(answer): "don\'t know"': "don't know",
        "histogram(answer): '\"\\'>'": "\"'>",
        "histogram(answer): 'missing'": "missing",
        "histogram(answer): missing": "will not say",
        "histogram(answer): 7": "7",
    }
    rows = rows_of([estimate(name, 0.3, 0.1, 0.5) for name in named], SCALE)

    assert [row.label for row in rows] == list(named.values())


def test_of_a_scale_the_share_of_each_number_is_told_and_its_mean_beside_them() -> None:
    asked = [estimate("mean(answer)", 5.5, 4.13, 7.02), estimate("histogram(answer): 1", 0.1, 0, 0.3)]
    asked.append(estimate("histogram(answer): missing", 0.2, 0.1, 0.4))
    mean = mean_of(asked, SCALE)

    assert mean is not None
    assert (mean.number, mean.least, mean.most, mean.percent) == ("5.5", "4.1", "7.1", 95)
    assert [(row.label, row.most) for row in rows_of(asked, SCALE)] == [
        ("1", "30\u00a0%"),
        ("will not say", "40\u00a0%"),
    ]
    # Too many numbers for shares: the mean is all there is. Of choices there is no mean.
    assert mean_of(asked[:1], SCALE) is None
    assert mean_of(asked[1:], SCALE) is None


def test_several_choices_hold_together_and_those_that_overlap_are_named() -> None:
    shares = [("never", 0.5, 0.2, 0.8), ("sometimes", 0.3, 0.1, 0.6), ("mostly", 0.1, 0.0, 0.15)]
    rows = rows_of([estimate(f"histogram(answer): '{name}'", *each) for name, *each in shares], SCALE)

    assert together(rows) == math.floor(100 * (1 - 3 * 0.05))
    assert not_told_apart(rows) == ("never", "sometimes")
    # The control.
    assert not_told_apart(rows[1:]) == ("sometimes", "mostly")
    assert not_told_apart([rows[0], rows[2]]) is None


# ------------------------------------------------------------------------------------------------ as it is served


def opened(service: Api, **more: Any) -> Any:
    """A study for people, of whom so many have to answer."""
    study = service.post(
        "/v1/studies",
        token=service.operator,
        json={
            "title": HOMEWORK,
            "strategy": "poll",
            "parameters": {"ask": HOMEWORK, "users": 40, "epsilon": "1"},
            "example": {"fields": [{"kind": "category", "name": "answer", "values": ["yes", "no"], "gap": True}]},
            "live": 4,
            **more,
        },
    )
    assert study.status_code == 201, study.text
    return study.json()


@pytest.fixture
def service(tmp_path: Path) -> Generator[Service]:
    with Service(tmp_path) as made:
        yield made


def seen(service: Api, study: Any) -> str:
    """The words of the wall."""
    text = service.get(f"/wall?study={study['id']}").text
    return re.sub(r"\s+", " ", re.sub("<[^>]*>", " ", text)).replace("\u00a0", " ")


def test_the_wall_moves_in_steps_and_not_with_a_single_report(service: Service) -> None:
    study = opened(service)
    round_ = study["rounds"][0]["id"]
    assert "Scan the code" in seen(service, study)
    # The count is public at once; what is told of the answers changes with whole steps alone.
    now = list[str]()
    for outcome, token in zip([1, 0, 1, 1, 0, 1, 1, 1, 1, 0, 1, 1], service.enrol(12), strict=True):
        assert service.report(round_, token, outcome).status_code == 200
        told = re.search("([0-9]+) of [0-9]+ answers counted|phones? ha(?:s|ve) answered", seen(service, study))
        assert told is not None
        now.append(told[1] or "0")

    assert now == ["0"] * 7 + ["4"] * 4 + ["8"]


ROW = re.compile(
    r'<th scope="row" dir="auto">(?P<label>[^<]*)</th><td class="num"><b>(?P<share>[^<]*)</b></td>'
    r'<td class="num quiet">(?P<low>\d+)–(?P<high>\d+)\s%</td>.*?'
    r'class="span-now" x1="(?P<x1>[0-9.]+)" x2="(?P<x2>[0-9.]+)".*?</svg>(?P<end></td></tr>)'
)


def faults_of_shares(text: str, labels: list[str]) -> list[str]:
    """Rows whose bar is not their interval, or whose share stands alone though it is fifty points wide, or does not."""
    rows, wrong = list(ROW.finditer(text)), list[str]()
    if [row["label"] for row in rows] != labels:
        return [f"rows are {[row['label'] for row in rows]}"]
    for row in rows:
        low, high = int(row["low"]), int(row["high"])
        drawn = [(float(row[end]) - 8) / 3.04 for end in ("x1", "x2")]
        if drawn != pytest.approx([low, high], abs=0.05):
            wrong.append(f"{row['label']}: drawn from {drawn}, told {low} to {high}")
        dots, shown = row[0].count('class="dot"'), row["share"] != "–"
        if (shown, dots) != ((True, 1) if high - low < 50 else (False, 0)):
            wrong.append(f"{row['label']}: {high - low} points wide, {row['share']} and {dots} dots are shown")
    return wrong


MANY = ["never", "once a month", "once a week", "every day", "all the time"]
LISTS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "scale": ({"kind": "integer", "low": 1, "high": 10}, [*map(str, range(1, 11)), "will not say"]),
    "choices": ({"kind": "category", "values": MANY}, [*MANY, "will not say"]),
}


@pytest.mark.parametrize("name", LISTS)
def test_of_a_scale_and_of_many_choices_each_share_has_its_interval_drawn_and_told(tmp_path: Path, name: str) -> None:
    """The interval first; the share once that is narrower than fifty points; the table is the chart."""
    field, labels = LISTS[name]
    text = ""
    with Service(tmp_path, cap="6") as service:
        tokens = service.enrol(200)
        # Of sixty answers at ε = 0.1 nothing is narrow; of two hundred at ε = 4, which two questions share, much is.
        for epsilon, answers in (("0.1", 60), ("4", 200)):
            parameters = {"ask": name, "users": 300, "epsilon": epsilon}
            study = opened(
                service, example={"fields": [{**field, "name": "answer", "gap": True}]}, parameters=parameters
            )
            for number, token in enumerate(tokens[:answers]):
                assert service.report(study["rounds"][0]["id"], token, number % 2).status_code == 200
            text = service.get(f"/wall?study={study['id']}").text

            assert faults_of_shares(text, labels) == []
            assert (re.search(r"<b>\d+\s%</b>", text) is not None) == (answers == 200)
            assert ("On average" in text) == (name == "scale")
    # The controls: an end that is drawn elsewhere, another name, and a share that is not to be told.
    assert faults_of_shares(re.sub(r'(span-now" x1=")[0-9.]+', r"\g<1>99", text, count=1), labels)
    assert faults_of_shares(text.replace(f">{labels[0]}</th>", ">other</th>"), labels)
    assert faults_of_shares(re.sub(r"<b>\d+\s%</b>", "<b>–</b>", text, count=1), labels)


def test_what_a_turned_bit_means_is_said_with_the_probability_of_the_channel(service: Service) -> None:
    said = seen(service, opened(service))

    assert "each phone turns its own answer with 27 %. Any bit here may be a turned one; only the phone that" in said
    assert "ε = 1 · moves every 4 answers" in said


def drawn_chance(page: str) -> float:
    """How much of the coin is drawn as turning an answer."""
    [(large, x, y)] = re.findall(r'class="turn" d="M330 120L330 70A50 50 0 ([01]) 1 ([0-9.]+) ([0-9.]+)Z"', page)
    turn = math.atan2(float(x) - 330, 120 - float(y)) / (2 * math.pi)
    assert (turn % 1 > 0.5) == (large == "1")
    return turn % 1


@pytest.mark.parametrize(("epsilon", "turned"), [("1", 0.2689), ("2", 0.1192), ("0.1", 0.475)])
def test_the_coin_is_drawn_as_it_falls(service: Service, epsilon: str, turned: float) -> None:
    study = opened(service, parameters={"ask": HOMEWORK, "users": 40, "epsilon": epsilon})
    page = service.get(f"/wall?study={study['id']}").text

    assert drawn_chance(page) == pytest.approx(turned, abs=0.005)
    # The control: the coin of another question, beside this one's words.
    if epsilon == "2":
        assert drawn_chance(re.sub(r"1 [0-9.]+ [0-9.]+Z", "1 379.6 125.9Z", page)) == pytest.approx(0.2689, abs=0.005)


def test_a_title_is_text(service: Service) -> None:
    study = opened(service, title="<script>alert(1)</script>")

    assert "<script>alert" not in service.get(f"/wall?study={study['id']}").text


def test_without_a_name_the_newest_study_for_people_is_shown(service: Service) -> None:
    assert service.get("/wall").status_code == 404
    opened(service)
    study = opened(service, title="The second")

    assert "The second" in service.get("/wall").text
    assert service.get(f"/wall?study={'0' * 64}").status_code == 404
    assert service.get("/wall?study=nonsense").status_code == 404
    assert study["id"] in service.get("/wall").text


def test_a_code_is_a_picture_of_its_link_and_is_not_stored(service: Service) -> None:
    link = f"http://askance.test/t#study={opened(service)['id']}"
    answer = service.post("/wall/code", json={"link": f"{link}&join=secret"})
    other = service.post("/wall/code", json={"link": f"{link}&join=secreT"})

    assert answer.headers["content-type"] == "image/svg+xml"
    assert answer.headers["cache-control"] == "no-store"
    assert 'class="qr"' in answer.text
    assert "secret" not in answer.text
    assert answer.text != other.text
    for bad in (
        {"link": "javascript:alert(1)"},
        {"link": f"{link}&join={'a' * 400}"},
        {"link": "http://a/b"},
        {},
        {"link": 1},
    ):
        assert service.post("/wall/code", json=bad).status_code == 422
    assert service.post("/wall/code", json={"link": f"http://askance.test/t#study={'0' * 64}"}).status_code == 404


@pytest.mark.slow
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_the_wall_follows_a_room(pages: Pages, tmp_path: Path, *, dark: bool) -> None:
    pages.watched.expect("Failed to load resource|ERR_|EventSource|MIME")
    with serving(tmp_path / "data", "--cap", "1") as server:
        study = opened(server)
        tokens = server.enrol(16)
        wall = pages.open(f"{server.url}/wall?study={study['id']}#join=kelp-otter-27", dark=dark)
        wall.get_by_text("kelp-otter-27").wait_for()
        wall.locator("#code svg").wait_for()
        for token in tokens:
            server.report(study["rounds"][0]["id"], token, 1)
        wall.get_by_text("12 of 16 answers counted").wait_for()
        for width, height in ((1280, 720), (360, 740)):
            wall.set_viewport_size({"width": width, "height": height})
            found = barriers.violations(wall)
            assert [each["id"] for each in found] == []
        wall.close()
