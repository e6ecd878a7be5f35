"""A strategy as a study runs it: what the study's parameters change of its questions, in one place."""

from __future__ import annotations

from askance_protocol.rounds import StudySpec
from askance_server.core import planning
from askance_server.core.bounded_noise import chosen
from askance_server.core.converse import simulated
from askance_server.core.label_noise import corrected
from askance_server.core.questions_each import together
from askance_server.core.strategy import Strategy


def adapted(strategy: Strategy, study: StudySpec) -> Strategy:
    """The strategy over the study's examples, with as many rounds as it takes, as the study's parameters ask it."""
    terms = planning.terms_of(study.parameters)
    strategy = strategy.on(study.example, planning.reports_in(study.parameters))
    strategy = reasked(strategy.planned(planning.strategy_parameters(study.parameters)), study)
    strategy = corrected(strategy, terms.eta, study.example)
    return strategy if terms.questions_each == 1 else together(strategy, study, terms.questions_each)


def reasked(strategy: Strategy, study: StudySpec) -> Strategy:
    """What of this is not about reports, and so is for every oracle: of a strategy over the study's examples."""
    terms = planning.terms_of(study.parameters)
    if terms.simulated_reports:
        strategy = simulated(strategy, study, terms.simulated_reports)
    return chosen(strategy, terms.eta_most, study.example)


def interactive(strategy: Strategy, terms: planning.PlanTerms) -> bool:
    """Whether a study of the strategy asks again after it was answered."""
    return strategy.interactive or bool(terms.eta_most)
