"""What the page draws, counted: against the channel's table, and on the wire against the ε that it is certified for.

Browsers draw from the operating system, so each test may fail by chance: with 10⁻⁶ at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import pytest
from playwright.sync_api import Page as Tab
from scipy.stats import chisquare

from askance_client.page.page import page_modules
from askance_lab.experiments.audit import AuditVerdict, audit_counts
from askance_protocol import canonical, javascript
from askance_protocol.budget import MICRO
from askance_protocol.examples import Example
from askance_protocol.rounds import Cohort, Part, StudySpec, open_round
from tests.client.liar import Liar
from tests.client.page.hosted import PageHost
from tests.client.page.questions import asking, one_of, scale, yes_or_no
from tests.harness.browser import Pages
from tests.harness.tree import ROOT

pytestmark = pytest.mark.slow

DRAWS: Final = 1_000_000
EPSILON: Final = 2 * MICRO
USERS: Final = 800
"""Enough: that fresh noise is not found has a probability below 10⁻⁶, at 5 standard deviations of its bound."""
RARELY: Final = 1e-6

QUESTIONS: Final[dict[str, tuple[tuple[StudySpec, Part], list[Any]]]] = {
    "yes or no": (yes_or_no(), ["yes", "no", None]),
    "one of three": (one_of(["never", "sometimes", "mostly"]), ["never", "mostly"]),
    "one of three, pooled": (one_of(["never", "sometimes", "mostly"], pooled=True), ["never", "mostly"]),
    "a scale": (scale(), [1, 7, 10]),
}


@pytest.fixture
def tab(pages: Pages, host: PageHost) -> Tab:
    """A tab with the page's modules, and no page."""
    places = ("tests/client/page/audited.mjs", "tests/protocol/web/drawing.mjs")
    modules = {**page_modules(), **{place: (ROOT / place).read_text("utf-8") for place in places}}
    script = javascript.bundled(modules, places[0])
    tab = pages.open(f"{host.url}/page.css")
    tab.set_default_timeout(300_000)
    tab.evaluate(f"() => {{ {script} }}")
    return tab


def told(liar: Liar, **more: Any) -> dict[str, Any]:
    """What the double in the browser is to say."""
    bulletin = {"head": liar.head, "length": len(liar.entries), "entries": liar.entries}
    charge = liar.entries[-1]["notice"]["round"]["parts"][0]["charge"]
    said = {"study": liar.id, "bulletin": canonical.dumps(bulletin).decode(), "round": liar.round_id}
    return {**said, "charge": charge, "cap": 10 * MICRO, **more}


def table(asked: tuple[StudySpec, Part], liar: Liar, value: Any) -> np.ndarray[Any, Any]:
    """The channel's row for an answer, by the Python package: as probabilities."""
    round_ = open_round(asked[0], liar.round(asked[1], number=1))
    question, part = round_.question(0), round_.part_of(0)
    given = part.encode(part.query.value(Example.of(asked[0].example, {"answer": value})), question.row)
    return np.array([weight / 2**64 for weight in part.channel.weights(given)])


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_million_draws_follow_the_channels_table(tab: Tab, name: str) -> None:
    asked, values = QUESTIONS[name]
    liar = asking(asked)
    rows = []
    for value in values:
        counts = tab.evaluate("drawn", told(liar, values={"answer": value}, draws=DRAWS))
        expected = DRAWS * table(asked, liar, value)
        rows.append(expected)
        tail = chisquare(counts, expected).pvalue
        print(f"{name}, {value}: {counts} of {DRAWS:,}, p = {tail:.3f}")

        assert sum(counts) == DRAWS
        assert tail > RARELY
        # The control: the same counts against a table that is one thousandth off.
        off = expected + DRAWS / 200 * np.array([1.0, -1.0, *[0.0] * (len(expected) - 2)])
        assert chisquare(counts, off).pvalue < RARELY
    assert len(rows) == len(values)


def views(bodies: list[list[str]]) -> np.ndarray[Any, Any]:
    """Count what was seen of each: her outcome, or both outcomes if she sent twice."""
    once, twice = np.zeros(2, np.int64), np.zeros((2, 2), np.int64)
    for seen in bodies:
        outcomes = [int(canonical.loads(body)["outcome"]) for body in seen]  # type: ignore[index, call-overload]
        if len(outcomes) == 1:
            once[outcomes[0]] += 1
        else:
            twice[outcomes[0], outcomes[1]] += 1
    return np.concatenate([once, twice.ravel()])


def seen_of(tab: Tab, values: Mapping[str, Any], **how: Any) -> np.ndarray[Any, Any]:
    """What was seen of people who all answer this, on the whole way: wallet, draw, store, send."""
    liar = asking(yes_or_no(EPSILON), cohort=Cohort(users=1 << 20))
    return views(tab.evaluate("audited", told(liar, values=values, users=USERS, name="audit", **how)))


def test_what_is_seen_on_the_wire_tells_no_more_than_is_certified(tab: Tab) -> None:
    here, there = (seen_of(tab, {"answer": value}, losing=5) for value in ("yes", "no"))
    audit = audit_counts(here, there)
    print(f"the wire: ε ≥ {audit.epsilon_lower_bound:.3f} of {audit.samples}, at {audit.event}")

    assert audit.verdict(EPSILON) is AuditVerdict.CONSISTENT
    # Not by blindness; and who sent twice sent the same.
    assert audit.epsilon_lower_bound > 0.35 * EPSILON / MICRO
    assert here[3] == here[4] == there[3] == there[4] == 0


def test_a_page_that_draws_anew_for_each_attempt_is_caught(tab: Tab) -> None:
    """The control."""
    here, there = (seen_of(tab, {"answer": value}, losing=1, drawsAnew=True) for value in ("yes", "no"))
    audit = audit_counts(here, there)
    print(f"fresh noise: ε ≥ {audit.epsilon_lower_bound:.3f} of {audit.samples}, at {audit.event}")

    assert audit.verdict(EPSILON) is AuditVerdict.VIOLATED
