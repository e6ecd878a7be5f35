"""A strategy as a study runs it: what the study's parameters change of its questions, in one place."""

from __future__ import annotations

from askance_protocol.rounds import StudySpec
from askance_server.core import planning
from askance_server.core.converse import simulated
from askance_server.core.label_noise import corrected
from askance_server.core.strategy import Strategy


def adapted(strategy: Strategy, study: StudySpec) -> Strategy:
    """The strategy over the study's examples, with as many rounds as it takes, as the study's parameters ask it."""
    strategy = strategy.on(study.example, planning.reports_in(study.parameters))
    return reasked(strategy.planned(planning.strategy_parameters(study.parameters)), study)


def reasked(strategy: Strategy, study: StudySpec) -> Strategy:
    """The same of a strategy that is over the study's examples already: for oracles that are no study."""
    terms = planning.terms_of(study.parameters)
    if terms.simulated_reports:
        # Inside of what sets labels right: reports are made up about right labels.
        strategy = simulated(strategy, study, terms.simulated_reports)
    return corrected(strategy, terms.eta, study.example)
