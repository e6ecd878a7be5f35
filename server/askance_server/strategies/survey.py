"""A survey: many questions about mixed columns in one round, as telemetry asks them; the answer is a table.

    mean(minutes, 0, 120)      share(country)      histogram(version)      share(plan = 'pro' and minutes > 30)

Theory of operation
-------------------
*Splitting users or splitting ε.* m questions can be asked of n users in two ways. Each user answers one, chosen by the
public coin, at her whole ε; or all of them, each at ε/m. With C(ε) = (e^ε + 1)/(e^ε − 1), an answer to one question is
estimated with variance (m/n)·C(ε)² in the first way and C(ε/m)²/n in the second, but for terms that the reports share.
For small ε that is 4m/(nε²) against 4m²/(nε²): to split the users is m times as exact. Two questions a user win only
where 2·C(ε)² > C(ε/2)², from ε = 3.06 on (`gain`). So the users are split.

For large ε it is better still to split neither: one report, at the whole ε, on the cell of several shares at once.
`survey_groups` says which, from ε = 1.75 on: those for which each variance is lower together. So a survey asks `at` ε.

*The deal.* Every question has the same number of users, so that none does worse than it would of a cohort of its own;
what several ask, as `share(country)` and `histogram(country)` do, is asked once, of the users of all. With `width` they
are dealt so that the intervals of all come out about equally wide, of a mean measured against its range. Cells are
asked through whichever channel estimates them best (`Ask.channel`), shares and means by one bit.

*The mean of a field with gaps* is the quotient N/D of the mean of the value, which counts 0 for a gap on [−1, 1], and
the share D of users who have one: two questions. Its interval, from the least to the greatest quotient of what theirs
hold, holds whenever both do. N's may fail with two thirds of the probability, and has five sixths of the users.

*At once.* `simultaneous` shares the probability of failure evenly among all numbers of the table, so that all intervals
hold together (by the union bound, whatever depends on what).
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from askance_protocol import parameters as read
from askance_protocol.schema import BitsField, CategoryField, IntegerField, Schema
from askance_server.core.strategy import Asking, Estimate, Estimating, Parameters, Reports, Strategy, estimates_in
from askance_server.strategies.shared.survey_answers import answers_by_query, estimates_table, hypothesis_of
from askance_server.strategies.shared.survey_asks import asks_of, row_failure
from askance_server.strategies.shared.survey_groups import groups_of
from askance_server.strategies.shared.survey_questions import ASK, fields, is_simultaneous, questions, width_of

COLUMNS: Final = Schema(
    fields=(
        CategoryField(name="country", values=("at", "ch", "de", "es", "fr", "it", "nl", "pl")),
        CategoryField(name="plan", values=("free", "pro", "team"), gap=True),
        CategoryField(name="version", values=("1.8", "1.9", "2.0", "2.1", "2.2"), gap=True),
        IntegerField(name="minutes", low=0, high=120, gap=True),
        IntegerField(name="crashes", low=0, high=9),
        BitsField(name="dark", width=1),
    )
)
"""What it asks about where nobody says what there is: six columns of an app's telemetry, three of them with gaps."""


def over(example: Schema, reports: Reports | None = None) -> Strategy:
    """The survey over these examples, as it asks where reports tell so much; None: each question apart."""

    def schema(parameters: Parameters) -> Schema:
        read.only(parameters, *filter(ASK.fullmatch, parameters), "width", "simultaneous")
        width_of(parameters)
        is_simultaneous(parameters)
        questions(parameters, example)
        return example

    def run(parameters: Parameters) -> Asking:
        asked = questions(parameters, example)
        groups = groups_of(asked, example, reports)
        given = yield asks_of(asked, groups, width_of(parameters), simultaneous=is_simultaneous(parameters))
        sure = partial(estimates, parameters, partial(estimates_in, given)) if estimates_in(given) else None
        return hypothesis_of(asked, answers_by_query(groups, given), sure)

    def estimates(parameters: Parameters, estimating: Estimating) -> Sequence[Estimate]:
        asked = questions(parameters, example)
        failure = row_failure(asked, simultaneous=is_simultaneous(parameters))
        return list(estimates_table(asked, groups_of(asked, example, reports), estimating, failure))

    return Strategy(
        name="survey",
        summary="Many questions about mixed columns, answered in a table",
        interactive=False,
        rounds=1,
        schema=schema,
        run=run,
        over=partial(over, reports=reports),
        at=partial(over, example),
        fields=fields,
        estimates=estimates,
        examples="telemetry",
        small={
            "ask1": "mean(minutes, 0, 120)",
            "ask2": "histogram(plan)",
            "ask3": "share(plan = 'pro' and minutes > 30)",
        },
    )


SURVEY: Final = over(COLUMNS)
