"""A chart says what its table says: marks in a real browser, mapped through the axes that are drawn, are its numbers.

A reading is a mark's place in pixels, the number that stands for it in the table, and two ticks of the axis between
which it is found: what each says, and where it is. The pages are rendered by the service before the browser starts.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import pytest
from playwright.sync_api import Page, Route

from askance_server.dashboard.assets import assets, media_type
from askance_server.dashboard.responses import POLICY
from askance_server.metrics import EVERY, AcceptanceRate, Refusals
from tests.harness.browser import Pages
from tests.harness.servers import Service
from tests.server.dashboard import played
from tests.server.dashboard.test_base import BROWSER
from tests.server.dashboard.test_hostile_words import answered, room

pytestmark = pytest.mark.slow

HOST: Final = "http://127.0.0.1:9"

TOOLS: Final = """
const number = (text) => Number(text.replace('−', '-').replace(/[^0-9.+-]/g, ''));
const rect = (mark) => mark.getBoundingClientRect();
const across = (mark) => rect(mark).left + rect(mark).width / 2;
const down = (mark) => rect(mark).top + rect(mark).height / 2;
const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const cells = (row) => [...row.cells].map((cell) => cell.textContent.trim());
const rows = (selector) => all(`${selector} tbody tr`).map(cells);
const ends = (text) => text.split(/ to |–(?=\\d)/).map(number);
// The corners of a path, in pixels.
const corners = (path) => path.getAttribute('d').replace('Z', '').slice(1).split('L').map((pair) => {
  const [x, y] = pair.split(' ').map(Number);
  return new DOMPoint(x, y).matrixTransform(path.getScreenCTM());
});
const ticks = (labels, places) => {
  const told = labels.map((label) => [number(label.textContent), places(label)]).sort(([a], [b]) => a - b);
  return [told[0], told[told.length - 1]];
};
// A label beside a line of the grid stands at its height.
const up = (chart) => {
  const lines = all('line.grid', chart), labels = all('text.q.end', chart).slice(0, lines.length);
  return ticks(labels, (label) => down(lines[labels.indexOf(label)]));
};
"""
"""What the readings are made with. Lines have no height, so their rectangle is where they are."""

READINGS: Final = {
    "estimates": """
      const found = [];
      for (const row of all('#estimates tbody tr')) {
        const [, , interval, value] = cells(row);
        const [left, right] = [all('line.grid', row)[0], all('line.grid', row)[1]].map(across);
        const scale = [[RANGE[0], left], [RANGE[1], right]];
        const line = row.querySelector('line.span'), dot = row.querySelector('circle');
        ends(interval).forEach((end, at) => found.push([at ? rect(line).right : rect(line).left, end, scale]));
        if (dot) found.push([across(dot), number(value), scale]);
      }
      return found;""",
    "narrowing": """
      const chart = document.querySelector('#narrowing svg'), table = rows('#narrowing-table');
      const [upper, lower] = all('path.line', chart).map(corners);
      const [xs, ys] = [ticks(all('text.q.middle', chart).slice(0, -1), across), up(chart)];
      return table.flatMap(([count, width], at) => [
        [upper[at].x, number(count), xs], [upper[at].y, number(width), ys], [lower[at].y, -number(width), ys]]);""",
    "running": """
      const chart = document.querySelector('#running svg'), table = rows('#running-table');
      const lines = all('line.span, line.span-past', chart), dots = all('circle', chart);
      const [xs, ys] = [ticks(all('text.q.middle', chart).slice(0, -1), across), up(chart)];
      return table.flatMap(([count, interval, value], at) => {
        const [low, high] = ends(interval), line = lines[at], places = [[across(line), number(count), xs]];
        places.push([rect(line).bottom, low, ys], [rect(line).top, high, ys]);
        if (/\\d/.test(value)) places.push([down(dots.shift()), number(value), ys]);
        return places;
      });""",
    "separation": """
      const chart = document.querySelector('svg.chart'), table = rows('#points');
      const [xs, ys] = [ticks(all('text.q.middle', chart).slice(0, -1), across), up(chart)];
      const logarithms = xs.map(([said, at]) => [Math.log(said), at]);
      const found = [];
      for (const [sign, of] of [['●', ''], ['◆', '-two'], ['■', '-once']]) {
        const [kind, area] = [`.point${of}`, `.band${of}`];
        const around = corners(chart.querySelector(`path${area}`));
        const mine = table.filter((row) => row[1].startsWith(sign));
        all(kind, chart).forEach((mark, at) => {
          const [low, high] = mine[at][3].split('–').map(number);
          found.push([across(mark), Math.log(number(mine[at][0])), logarithms], [down(mark), number(mine[at][2]), ys]);
          found.push([around[at].y, high, ys], [around[around.length - 1 - at].y, low, ys]);
        });
      }
      return found;""",
    "spending": """
      const bars = all('#spending rect.bar'), counts = rows('#spending-table').map(([, count]) => number(count));
      const most = Math.max(...counts), ground = down(document.querySelector('#spending line.axis'));
      const scale = [[0, ground], [most, rect(bars[counts.indexOf(most)]).top]];
      return bars.flatMap((bar, at) => [[rect(bar).top, counts[at], scale], [rect(bar).bottom, 0, scale]]);""",
    "refused": """
      const drawn = all('#refused tbody tr').map((row) => [row.querySelector('rect'), number(cells(row)[1])]);
      const most = Math.max(...drawn.map(([, count]) => count)), widest = drawn.find(([, count]) => count === most)[0];
      return drawn.filter(([bar]) => rect(bar).width > 0)
        .map(([bar, count]) => [rect(bar).right, count, [[0, rect(widest).left], [most, rect(widest).right]]]);""",
    "pace": """
      const chart = document.querySelector('#pace svg'), table = rows('#pace-table');
      const drawn = corners(chart.querySelector('path.line')), ys = up(chart);
      const [since, now] = all('text.q', chart).filter((label) => /ago|now/.test(label.textContent));
      const seconds = (text) => -(60 * Number(text.match(/(\\d+) min/)[1]) + Number(text.match(/(\\d+) s/)[1]));
      const xs = [[seconds(since.textContent), rect(since).left], [0, rect(now).right]];
      return table.flatMap(([ago, rate], at) => [[drawn[at].x, seconds(ago), xs], [drawn[at].y, number(rate), ys]]);""",
    "wall": """
      const chart = document.querySelector('#now svg'), scale = ticks(all('text.q.middle', chart), across);
      const said = chart.getAttribute('aria-label').split('. ').filter(Boolean);
      const lines = all('line.span-past, line.span-now', chart);
      return said.flatMap((words, at) => {
        const [, low, high] = words.match(/\\d+(\\.\\d+)?/g).map(Number);
        return [[rect(lines[at]).left, low, scale], [rect(lines[at]).right, high, scale]];
      });""",
    "choices": """
      return all('#now tbody tr').flatMap((row) => {
        const grid = all('line.grid', row), scale = [[0, across(grid[0])], [100, across(grid[4])]];
        const line = row.querySelector('line.span-now'), [low, high] = ends(row.cells[2].textContent);
        const dot = row.querySelector('circle');
        const found = [[rect(line).left, low, scale], [rect(line).right, high, scale]];
        if (dot) found.push([across(dot), number(row.cells[1].textContent), scale]);
        return found;
      });""",
}

MARKS: Final = {
    "estimates": "#estimates line.span",
    "narrowing": "#narrowing path.line",
    "running": "#running line.span",
    "separation": "circle.point",
    "spending": "#spending rect.bar",
    "refused": "#refused tr:nth-child(2) rect.bar",
    "pace": "#pace path.line",
    "wall": "#now line.span-now",
    "choices": "#now tbody line.span-now",
}
"""What the controls move: the first of each; of bars whose longest is the axis, the second."""

Reading = Sequence[Any]


@dataclass(frozen=True)
class Chart:
    """A chart, where it is, and what its lines can mean where the table does not say it."""

    name: str
    path: str
    least: int
    """Readings at least."""
    range: tuple[float, float] = (0, 100)


@dataclass
class Site:
    """Pages as they were rendered, and their charts. Not frozen: Playwright notes its own things at who answers."""

    bodies: dict[str, str]
    charts: list[Chart]

    def answer(self, route: Route) -> None:
        """What a browser gets."""
        path = route.request.url.removeprefix(HOST)
        if path in self.bodies:
            headers = {"content-type": "text/html; charset=utf-8", "content-security-policy": POLICY}
            route.fulfill(body=self.bodies[path], headers=headers)
            return
        name = path.split("/", 3)[-1]
        if path.startswith("/assets/") and name in assets().files:
            route.fulfill(body=assets().files[name], headers={"content-type": media_type(name)})
        else:
            route.fulfill(status=204)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A server with something in every chart."""
    with Service(tmp_path_factory.mktemp("site"), cap=10_000_000) as service:
        return _rendered(service)


def _rendered(service: Service) -> Site:
    played.enrol(service, 210)
    clock, metrics = [10_000.0], service.app.state.aggregator.metrics
    metrics.pace, metrics.refusals = AcceptanceRate(lambda: clock[0]), Refusals(lambda: clock[0])
    spent = played.create(service, "A part pays more", epsilon="4")
    played.answer(service, spent, spent["gateway_token"], part=0.4)
    clock[0] += 20
    parity = played.create(service, "Which of sixteen?", "masked-parity", d=4)
    played.answer(service, parity, parity["gateway_token"])
    # Open, and all users are its only round's: a later round of parity has too few for a curve.
    shares = played.create(service, "Which bits hold?", "conjunction", d=4)
    clock[0] += 10
    done = played.create(service, "Do you come by bus?", tolerance="0.3")
    played.answer(service, done, done["gateway_token"])
    users = list(range(80))
    again = spent["rounds"][0]["id"]
    service.batch(again, spent["gateway_token"], users[:30], [1 - each for each in played.outcomes(_numbers(30), 0.4)])
    service.batch(again, spent["gateway_token"], list(range(150, 162)), [7] * 12)
    clock[0] += 20
    two = room(service, "Have you ever copied homework?", ["yes", "no"])
    answered(service, two, 80)
    few = room(service, "How often?", ["never", "sometimes", "mostly"])
    answered(service, few, 88)
    clock[0] += EVERY
    named = {"parity": parity, "shares": shares, "done": done, "two": two}
    studies = {name: f"/studies/{study['id']}" for name, study in named.items()}
    walls = {name: f"/wall?study={study['id']}" for name, study in {"two": two, "few": few}.items()}
    charts = [
        Chart("estimates", studies["parity"], 8),
        Chart("estimates", studies["done"], 3, (-1, 1)),
        Chart("estimates", studies["two"], 6),
        Chart("narrowing", studies["shares"], 20),
        Chart("narrowing", studies["done"], 20),
        Chart("running", studies["two"], 25),
        Chart("separation", "/separation?d=16", 45),
        Chart("separation", "/separation?d=32", 45),
        Chart("spending", "/budget", 8),
        Chart("refused", "/budget", 2),
        Chart("pace", "/budget", 12),
        Chart("wall", walls["two"], 10),
        Chart("choices", walls["few"], 8),
    ]
    return Site({each.path: service.get(each.path, headers=BROWSER).text for each in charts}, charts)


def _numbers(count: int) -> Any:
    return played.np.arange(count, dtype=played.np.uint64)


@pytest.fixture
def page(site: Site, pages: Pages) -> Page:
    """A page whose server is what was rendered. Without its scripts: they would take away the control's fault."""
    context = pages.context(viewport={"width": 1280, "height": 800}, java_script_enabled=False)
    context.route("**/*", site.answer)
    return context.new_page()


def readings(page: Page, chart: Chart) -> list[Reading]:
    """All of one chart, with all tables opened, as they stand in the page."""
    program = f"() => {{ const RANGE = {list(chart.range)}; {TOOLS} {READINGS[chart.name]} }}"
    found: list[Reading] = page.evaluate(program)
    return found


def off(found: Sequence[Reading]) -> float:
    """By how many pixels the marks are off, at most."""
    return max(abs(place - _mapped(said, *scale)) for place, said, scale in found)


def _mapped(said: float, start: Sequence[float], end: Sequence[float]) -> float:
    return start[1] + (said - start[0]) / (end[0] - start[0]) * (end[1] - start[1])


def opened(page: Page, chart: Chart) -> None:
    """The page of a chart; its table has to be there for who does not see."""
    page.goto(HOST + chart.path)
    page.evaluate("() => document.querySelectorAll('details').forEach((each) => { each.open = true })")


def test_every_mark_of_every_chart_is_where_its_table_says(page: Page, site: Site) -> None:
    wrong = dict[str, Any]()
    for number, chart in enumerate(site.charts):
        opened(page, chart)
        found = readings(page, chart)
        if len(found) < chart.least or not (apart := off(found)) < 1:
            wrong[f"{number} {chart.name}"] = (len(found), found and off(found))
            continue
        # The control: one mark that is moved by three pixels is found.
        page.evaluate(
            """(marks) => {
              const mark = document.querySelector(marks), scale = 3 / mark.getScreenCTM().a;
              if (mark.hasAttribute('d')) {
                const moved = (_, x, y) => `M${x} ${Number(y) + scale}`;
                mark.setAttribute('d', mark.getAttribute('d').replace(/^M([\\d.]+) ([\\d.]+)/, moved));
              } else for (const name of ['x', 'x1', 'x2', 'cx', 'y', 'y1', 'y2', 'cy'])
                if (mark.hasAttribute(name) || (name === 'x' && mark.matches('rect')))
                  mark.setAttribute(name, Number(mark.getAttribute(name)) + scale);
            }""",
            MARKS[chart.name],
        )
        if not off(readings(page, chart)) > apart + 1:
            wrong[f"{number} {chart.name}, control"] = off(readings(page, chart))
    assert wrong == {}


# --------------------------------------------------------------------------------------------------------------- pixels

PIXELS: Final = """async ([text, places]) => {
  const bytes = Uint8Array.from(atob(text), (each) => each.charCodeAt(0));
  const image = await createImageBitmap(new Blob([bytes]));
  const drawn = new OffscreenCanvas(image.width, image.height).getContext('2d', { willReadFrequently: true });
  drawn.drawImage(image, 0, 0);
  return places.map(([x, y]) => [...drawn.getImageData(Math.floor(x), Math.floor(y), 1, 1).data].slice(0, 3));
}"""


def painted(page: Page, places: Sequence[tuple[float, float]]) -> list[tuple[int, ...]]:
    """The colours that are seen at these places."""
    picture = base64.b64encode(page.screenshot(full_page=True)).decode()
    return [tuple(each) for each in page.evaluate(PIXELS, [picture, list(places)])]


PAPER: Final = (250, 250, 248)
ACCENT: Final = (0x23, 0x45, 0xD3)


def test_what_is_painted_is_where_the_table_says(page: Page, site: Site) -> None:
    """The points of a chart have its colour, and an interval is painted from one end to the other and no further."""
    chart = next(each for each in site.charts if each.name == "separation")
    opened(page, chart)
    points = [(at[0], down[0]) for at, down in _pairs(readings(page, chart))]
    rounds = points[: len(points) // 3]
    # A line through the points has their colour.
    page.evaluate("() => document.querySelectorAll('path').forEach((each) => each.remove())")
    assert painted(page, rounds) == [ACCENT] * len(rounds)
    # The control: a point whose mark is somewhere else.
    page.evaluate("() => document.querySelector('circle.point').setAttribute('cx', 600)")
    assert painted(page, rounds[:1]) != [ACCENT]

    chart = next(each for each in site.charts if each.name == "wall")
    opened(page, chart)
    lines = page.evaluate("""() => [...document.querySelectorAll('#now line.span-now')].map((each) => {
      const at = each.getBoundingClientRect(); return at.top + at.height / 2; })""")
    low, high = (place for place, _, _ in readings(page, chart)[-2:])
    inside = painted(page, [(low + 2, lines[0] + 2), (high - 2, lines[0] + 2)])
    outside = painted(page, [(low - 2, lines[0] + 2), (high + 2, lines[0] + 2)])
    assert outside == [PAPER] * 2
    assert all(math.dist(each, PAPER) > 60 for each in inside)
    # The control: an interval with round ends is painted beyond them.
    page.evaluate("() => { document.querySelector('line.span-now').style.strokeLinecap = 'round' }")
    assert painted(page, [(low - 2, lines[0] + 2)]) != [PAPER]


def _pairs(found: Sequence[Reading]) -> Sequence[tuple[Reading, Reading]]:
    return list(zip(found[::4], found[1::4], strict=True))
