"""How wide the intervals of a survey come out with a number of users.

The estimates are those of a study in which every part has exactly the reports that are expected of its share of the
users, from a population that stands for the real one: made up, or uniform over a schema. An interval is the widest for
a share of one half; for another population it is a little wider or narrower, and so it is for who is dealt which
question. Widths are told as parts of what an answer may range over: of a share that is 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from askance_client.population import Population
from askance_client.simulation.population.over_schema import over_schema
from askance_lab.data.made_up import made_up, split_parameters
from askance_protocol.arrays import Floats
from askance_protocol.errors import UsageError
from askance_protocol.parameters import Parameters
from askance_protocol.rounds import Cohort, PreparedPart, PreparedRound, RoundSpec, StudySpec, prepare_round
from askance_protocol.schema import Schema
from askance_protocol.tally import Tally
from askance_protocol.text import counted
from askance_server.core import planning
from askance_server.core.estimates import study_estimates
from askance_server.core.run import Run
from askance_server.core.strategy import Estimate, Hypothesis, Strategy
from askance_server.core.study import study_of
from askance_server.strategies.shared.survey_groups import groups_of, ratios, shares_of_users
from askance_server.strategies.shared.survey_questions import questions
from askance_server.strategies.survey import SURVEY

_SAMPLE: Final = 20_000
_SEED: Final = 1


@dataclass(frozen=True)
class ExpectedSurvey:
    """A survey, and how likely each report is from the users who stand for the real ones."""

    study: StudySpec
    strategy: Strategy
    round: PreparedRound
    likely: tuple[Floats, ...]
    """Of each part, by row and outcome."""

    @classmethod
    def of(cls, parameters: Parameters, kind: str | None = None, example: Schema | None = None) -> ExpectedSurvey:
        """Plan a survey over made-up users, or over the schema of a table that nobody has looked into."""
        asked, population = dict(parameters), None if example is None else over_schema(example, _SEED)
        if population is None:
            asked, own = split_parameters(SURVEY, parameters, kind)
            population = made_up(SURVEY, asked, _SEED, own, kind)
        strategy = SURVEY.on(population.schema, planning.reports_in(asked))
        study = study_of(
            {strategy.name: strategy},
            strategy=strategy.name,
            parameters=asked,
            title="A plan",
            nonce="0" * 32,
            simulated=True,
            example=population.schema,
        )
        asks = Run(strategy, planning.strategy_parameters(study.parameters)).step(None)
        assert not isinstance(asks, Hypothesis)  # noqa: S101 - told the type checker: a survey asks first
        parts = planning.demand(study, asks, strategy.rounds).parts
        draft = RoundSpec(study=study.digest(), number=1, parts=parts, cohort=Cohort(users=1), target=1, deadline=0)
        round_ = prepare_round(study, draft)
        return cls(study, strategy, round_, tuple(_likely(part, population) for part in round_.parts))

    @cached_property
    def ranges(self) -> Mapping[str, float]:
        """What the answer to each question ranges over."""
        own = planning.strategy_parameters(self.study.parameters)
        asked = questions(own, self.study.example)
        return {name: float(question.high - question.low) for question in asked for name in question.names}

    @cached_property
    def together(self) -> list[dict[str, list[str] | list[float]]]:
        """Questions that one report answers, and the variance of each against what it would be apart."""
        asked = questions(planning.strategy_parameters(self.study.parameters), self.study.example)
        shares, reports = shares_of_users(asked), planning.reports_in(self.study.parameters)
        return [
            {
                "questions": [each.text for each in asked if set(each.queries) & set(group.members)],
                "variance": ratios(group.members, shares, reports),
            }
            for group in groups_of(asked, self.study.example, reports)
            if group.sums
        ]

    @property
    def micro_epsilon(self) -> int:
        """ε of one report, in micro-ε."""
        return planning.terms_of(self.study.parameters).epsilon

    def estimates(self, users: int) -> list[Estimate]:
        """The table, if exactly what is expected is reported."""
        total = sum(part.part.share for part in self.round.parts)
        tallies = [
            _rounded(likely, users * part.part.share // total)
            for part, likely in zip(self.round.parts, self.likely, strict=True)
        ]
        if not all(tally.received for tally in tallies):
            raise UsageError(
                f"are too few for {counted(len(tallies), 'question')}", where="users", remedy="ask more users"
            )
        return study_estimates(self.study, self.strategy, [(self.round, tallies)])

    def widest(self, users: int) -> float:
        """The widest interval, against what its answer ranges over."""
        return max((row.high - row.low) / self.ranges[row.name] for row in self.estimates(users))


def _likely(part: PreparedPart, population: Population) -> Floats:
    """How likely each row and outcome is, of a user of this population."""
    answers, counts = np.unique(part.query.answers(population.columns(range(_SAMPLE))), return_counts=True)
    found = np.zeros((part.rows, part.channel.outcomes))
    for row in part.dealt_rows:
        given = part.encode_all(answers, np.full(len(answers), row, np.uint16))
        weights = np.array([part.channel.weights(int(one)) for one in given], np.float64) / 2.0**64
        found[row] = counts @ weights / (_SAMPLE * len(part.dealt_rows))
    return found


def _rounded(likely: Floats, reports: int) -> Tally:
    """So many reports, dealt as they are expected: what rounding leaves goes where most of it was cut off."""
    exact = likely * reports
    counts = np.floor(exact).astype(np.int64)
    rest = reports - int(counts.sum())
    first = np.argsort((counts - exact).ravel(), kind="stable")[:rest]
    counts.ravel()[first] += 1
    return Tally(counts)
