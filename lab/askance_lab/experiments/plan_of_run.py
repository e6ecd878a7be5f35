"""What a run had planned, and what its users can meet: beside its result, at little cost, and never in its way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from askance_lab.experiments.accuracy import FAILURE, MetAccuracy, UnmetValue, accuracy_parameter, accuracy_with
from askance_lab.experiments.planned_users import plan_enrolment
from askance_protocol.errors import AskanceError
from askance_protocol.parameters import Parameters
from askance_protocol.schema import Schema
from askance_protocol.text import counted
from askance_server.core import planning
from askance_server.core.strategy import Strategy

DEFAULT_FAILURE: Final = "0.05"


@dataclass(frozen=True, slots=True)
class PlanOfRun:
    """Users that the plan asks for, and those that there were."""

    enrol: int
    users: int
    meets: MetAccuracy | None
    """What these users can meet where they are too few; None: what was asked for, or nothing that can be said."""

    def to_json(self) -> dict[str, Any]:
        """For `run --json`."""
        meets = self.meets
        shown = None if meets is None or not meets.met else {"parameter": meets.parameter, "value": meets.value}
        return {"enrol": self.enrol, "enough": self.users >= self.enrol, "meets": shown}

    @property
    def sentence(self) -> str:
        """Empty where there were enough."""
        if self.users >= self.enrol:
            return ""
        planned = f"Planned for {counted(self.enrol, 'user')}"
        if self.meets is None:
            return f"{planned}: {self.users:,} are fewer."
        name = self.meets.parameter
        if not self.meets.met:
            return f"{planned}: {self.users:,} are below the {self.meets.enrol:,} that any {name} takes."
        return f"{planned}: {self.users:,} meet {name} = {self.meets.value}."


def plan_of_run(
    strategy: Strategy,
    parameters: Parameters,
    users: int,
    kind: str | None = None,
    example: Schema | None = None,
) -> PlanOfRun | None:
    """The plan of this run; None where it would take long, or where nothing can be planned.

    A strategy of several rounds that does not declare its longest run would have to be tried out: `askance plan` does.
    """
    if strategy.interactive and strategy.rounds > 1 and strategy.longest is None:
        return None
    try:
        enrol = plan_enrolment(strategy.name, parameters, kind, example)
        meets = None if users >= enrol else _meets(strategy, parameters, users, enrol, kind, example)
        return PlanOfRun(enrol, users, meets)
    except (AskanceError, ArithmeticError):
        # It has run; what was planned is told besides.
        return None


def _meets(
    strategy: Strategy, parameters: Parameters, users: int, enrol: int, kind: str | None, example: Schema | None
) -> MetAccuracy | None:
    """The accuracy, beyond what was asked for."""
    runs = strategy if example is None else strategy.on(example)
    name = accuracy_parameter(runs, planning.strategy_parameters(parameters))
    given = parameters.get(name, DEFAULT_FAILURE if name == FAILURE else None)
    beyond = None if given is None else UnmetValue(float(given), enrol)
    digits = 1 if name == FAILURE else 2
    return accuracy_with(strategy, parameters, users, kind, example, digits=digits, beyond=beyond)
