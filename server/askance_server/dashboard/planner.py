"""What a new study would take, before it is started: users, width of intervals, and who can still pay."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Final

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

from askance_protocol.budget import charge_from_text
from askance_protocol.channels.binary import BinaryResponse
from askance_protocol.errors import AskanceError
from askance_protocol.queries.notation import questions
from askance_protocol.rounds import StudyPublished, StudyState
from askance_protocol.schema import CategoryField, Schema
from askance_server.aggregator import Aggregator
from askance_server.api.models import NewStudy
from askance_server.core import planning
from askance_server.core.replay import Replay
from askance_server.core.strategy import Hypothesis
from askance_server.core.study import asked, check_answerable, study_of
from askance_server.dashboard.study import drawable, width_of
from askance_server.dashboard.templates import rendered
from askance_server.problems import ProblemError

MOST_PARAMETERS: Final = 64
_EPSILONS: Final = ("0.25", "0.5", "1", "2")
QUESTION: Final = "question"
"""The choice of the form that is no strategy's name: one question to people, yes or no."""
_YES_OR_NO: Final = Schema(fields=(CategoryField(name="answer", values=("yes", "no")),))
_CHUNK: Final = 1 << 20


class Form(BaseModel):
    """The form as it was filled in."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)
    title: Annotated[str, Field(min_length=1, max_length=200)]
    strategy: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
    epsilon: Annotated[str, Field(max_length=20)]
    users: Annotated[str, Field(pattern=r"^(all|needed)$")]
    parameters: Annotated[str, Field(max_length=4000)] = ""
    """A line for each: `d = 8`."""
    simulated: bool = False

    def study(self) -> NewStudy:
        """What it asks for; ProblemError names the line that says nothing."""
        given: dict[str, int | bool | str] = {"epsilon": self.epsilon, "users": self.users}
        lines = [line.strip() for line in self.parameters.splitlines() if line.strip()]
        if len(lines) > MOST_PARAMETERS:
            raise ProblemError("invalid-request", f"parameters: more than {MOST_PARAMETERS} lines")
        for number, line in enumerate(lines, 1):
            name, sign, value = (each.strip() for each in line.partition("="))
            if not sign or not name:
                raise ProblemError("invalid-request", f"parameters, line {number}: write name = value")
            given[name] = _value(value)
        example = None
        if self.strategy == QUESTION:
            given, example = given | {"ask1": "share(answer = 'yes')"}, _YES_OR_NO
        name = "survey" if self.strategy == QUESTION else self.strategy
        return NewStudy.model_validate(
            {"title": self.title, "strategy": name, "parameters": given, "simulated": self.simulated}
            | ({} if example is None else {"example": example.to_json()})
        )


@dataclass(frozen=True, slots=True)
class Planned:
    """What the first round of a study would take."""

    name: str
    """Its first question."""
    more: int
    target: int
    """Reports that the study's promise takes."""
    asks: int
    """Reports that it would wait for."""
    can_pay: int
    charge: int
    rounds: int
    widths: tuple[tuple[int, float], ...]
    """For so many reports the width of the interval, at worst, as part of what the answer could be."""

    @property
    def enough(self) -> bool:
        """Whether as many can pay as it asks for."""
        return self.can_pay >= self.asks > 0


def plan_of(aggregator: Aggregator, new: NewStudy) -> Planned:
    """Plan the first round, as the server would on publication. For a thread: it takes up to seconds."""
    ledger, strategies = aggregator.ledger, aggregator.strategies
    spec = study_of(
        strategies,
        strategy=new.strategy,
        parameters=new.parameters,
        title=new.title,
        nonce="0" * 32,
        simulated=new.simulated,
        example=new.example,
    )
    check_answerable(spec, strategies)
    replay = Replay(spec, strategies[new.strategy], ledger.round)
    replay.hear([StudyPublished(study=spec)])
    output = replay.output
    if isinstance(output, Hypothesis):
        raise ProblemError("strategy-failed", "it asks nothing")
    rounds = strategies[new.strategy].rounds
    demand, parts = asked(replay, StudyState.CREATED, output), planning.prepared_parts(spec, output, rounds)
    enrolled = ledger.enrolled()
    kinds = ledger.kinds().waited_for(enrolled, simulated=spec.simulated)
    starts = range(0, enrolled, _CHUNK)
    can_pay = sum(
        int(np.count_nonzero(ledger.affording(range(at, min(at + _CHUNK, enrolled)), demand.charge, kinds)))
        for at in starts
    )
    asks = demand.target if planning.terms_of(spec.parameters).users == "needed" else max(1, can_pay // rounds)
    one = parts[0]
    counts = sorted({max(20, asks * each // 4) for each in (1, 2, 4, 8, 16)})
    share = demand.parts[0].share / sum(part.share for part in demand.parts)
    return Planned(
        name=questions(one.query).name(0),
        more=len(parts) - 1,
        target=demand.target,
        asks=asks,
        can_pay=can_pay,
        charge=demand.charge,
        rounds=rounds,
        widths=tuple((count, width_of(one, max(2, int(count * share)))) for count in counts) if drawable(one) else (),
    )


def new_page(aggregator: Aggregator) -> bytes:
    """The form. For a thread."""
    strategies = sorted((name, each.summary) for name, each in aggregator.strategies.items())
    channels = {epsilon: BinaryResponse(micro_epsilon=charge_from_text(epsilon)) for epsilon in _EPSILONS}
    truths = [(epsilon, f"{100 * float(channel.probability(1, 1)):.0f}") for epsilon, channel in channels.items()]
    return rendered("new.html", strategies=strategies, truths=truths)


def planned_part(aggregator: Aggregator, form: Form) -> bytes:
    """The planner's part of the page. For a thread. What cannot be planned is said in its place."""
    try:
        new = form.study()
        return rendered("planned.html", planned=plan_of(aggregator, new), new=new.model_dump_json(exclude_none=True))
    except AskanceError as error:
        return rendered("planned.html", planned=None, problem=str(error))
    except ProblemError as error:
        return rendered("planned.html", planned=None, problem=error.detail)
    except ValueError:
        return rendered("planned.html", planned=None, problem="the form is not valid: see its fields")


def _value(text: str) -> int | bool | str:
    """A parameter's value: a whole number, true or false, or text."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 16 else text
