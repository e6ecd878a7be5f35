"""A study goes on with the form of its strategy that it began with; what neither form asks is paused, and refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace

import pytest

from askance_client.simulation.population import synthetic
from askance_lab.run_study import run_study
from askance_protocol.rounds import Entry, RoundPublished, StudyEnded, read_entry
from askance_server.core.in_memory import StudyInMemory
from askance_server.core.run import guarded
from askance_server.core.strategy import Asking, Hypothesis, Parameters, Strategy
from askance_server.core.study import Paused, Waiting, step, study_of
from askance_server.core.verification import VerificationError, verify_bulletin
from askance_server.strategies.former.kmeans import FORMER
from askance_server.strategies.kmeans import KMEANS
from askance_server.strategies.registry import registry
from tests.server.ledger.upgrading import Told


def idle(_: Parameters) -> Asking:
    """Ask nothing at all."""
    return Hypothesis("nothing", {})
    yield  # a generator


FORGETFUL = replace(KMEANS, former=None)
"""The control: nothing is known of how it was."""
TWICE = replace(KMEANS, run=idle, at=None, rounds=1, portions=(), former=KMEANS)
"""Changed again: its former form has a former form."""


def entries(form: Strategy) -> Sequence[Entry]:
    """A whole study of users in two clusters, by one form."""
    asked: Parameters = {"d": 2, "k": 2, "tolerance": "0.3", "users": "all"}
    spec = study_of({"kmeans": form}, strategy="kmeans", parameters=asked, title="A", nonce="00" * 16, simulated=True)
    people = synthetic("clusters", {"d": 2, "k": 2}, seed=1)
    return run_study(spec, form, people, 4_000, 1).entries


def gone_on(told: Sequence[Entry], strategy: Strategy) -> StudyInMemory:
    """A study in the middle of its second round, as somebody finds it whose strategy is another one."""
    view = StudyInMemory(verify_bulletin(told[:1], registry()).study, strategy, 4_000)
    for entry in told[:5]:
        view.append(entry.notice)
    assert isinstance(told[4].notice, RoundPublished)
    return view


def test_the_registry_gives_the_present_form_and_knows_the_former_one() -> None:
    assert registry()["kmeans"] is KMEANS
    assert KMEANS.former is FORMER
    assert guarded(TWICE).former is not None


@pytest.mark.parametrize("now", [KMEANS, TWICE, guarded(KMEANS)])
@pytest.mark.parametrize("began", [FORMER, KMEANS])
def test_a_study_is_verified_by_the_form_that_it_began_with(began: Strategy, now: Strategy) -> None:
    told = entries(began)
    end = told[-1].notice

    assert isinstance(end, StudyEnded)
    assert end.hypothesis is not None
    assert len(told) == 2 + 3 * began.rounds
    for length in range(1, len(told) + 1):
        verify_bulletin(told[:length], {"kmeans": now})


def test_one_of_a_form_that_is_not_known_is_refused() -> None:
    verify_bulletin(entries(KMEANS), {"kmeans": FORGETFUL})
    with pytest.raises(VerificationError, match="entry 1"):
        verify_bulletin(entries(FORMER), {"kmeans": FORGETFUL})
    with pytest.raises(VerificationError, match="entry 1"):
        verify_bulletin(entries(KMEANS), {"kmeans": FORMER})


def test_a_study_that_is_running_goes_on_with_its_form_and_is_paused_without_it() -> None:
    told = entries(FORMER)
    for strategy in (KMEANS, TWICE):
        view = gone_on(told, strategy)
        assert isinstance(step(view), Waiting)
        assert view.replay.difference is None
        assert view.replay.strategy.rounds == FORMER.rounds
        for at in range(5, len(told) - 1):
            view.append(told[at].notice)
        assert step(view) == told[-1].notice

    view = gone_on(told, FORGETFUL)
    assert "asks something else in round 1" in str(view.replay.difference)
    for at in (5, 6):
        view.append(told[at].notice)
    assert isinstance(step(view), Paused)


@pytest.mark.parametrize("told", ["ledger_of_0_1.json", "ledger_of_0_1.sql.json"])
def test_what_version_0_1_published_is_verified_and_is_not_without_the_former_form(told: str) -> None:
    _, running = Told.of(told).told["bulletins"]
    published = [read_entry(json.dumps(entry)) for entry in running["entries"]]

    assert verify_bulletin(published, registry()).bulletin.head == running["head"]
    with pytest.raises(VerificationError, match="entry 1"):
        verify_bulletin(published, {"kmeans": FORGETFUL})
