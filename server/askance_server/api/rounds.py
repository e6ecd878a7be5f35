"""`/v1/rounds`: a round, its tally and its end. What is reported to it, `reports` and `batches` take."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request
from starlette.responses import Response

from askance_protocol.rounds import SETTLED, RoundState
from askance_server.aggregator import Aggregator
from askance_server.api.dependencies import (
    DigestInPath,
    OperatorOnly,
    TheAggregator,
)
from askance_server.api.documents import answered, shown, written
from askance_server.api.gate import GatedRoute
from askance_server.api.models import RoundModel, TallyModel
from askance_server.core.estimators import Estimates, estimate_parts, kind_of
from askance_server.core.liars import shifts
from askance_server.core.strategy import LEVEL
from askance_server.problems import responses
from askance_server.public_answers import PublicAnswer, PublicQuestion

router = APIRouter(prefix="/v1", route_class=GatedRoute)

_COUNTED: Final = frozenset({RoundState.CLOSED, RoundState.ANSWERED})
"""States of a round whose counts are shown, and do not change."""


@router.get("/rounds/{round_}", response_model=RoundModel, responses=responses("not-found"))
async def get_round(round_: DigestInPath, aggregator: TheAggregator, request: Request) -> Response:
    """One round, as it was published."""
    question = ("round", round_)

    def look() -> PublicAnswer:
        state = aggregator.ledger.state(round_)
        return PublicAnswer.of(written(round_model(aggregator, round_, state)), final=state in SETTLED)

    if aggregator.answers.known(question) is None:
        await aggregator.caught_up((await aggregator.round(round_)).spec.study)
    return await shown(aggregator, request, question, look, needed=True)


@router.get("/rounds/{round_}/tally", response_model=TallyModel, responses=responses("not-found"))
async def get_tally(round_: DigestInPath, aggregator: TheAggregator, request: Request) -> Response:
    """The counts of a round that is closed; of an open one, those of whole steps where its study is live, or none."""
    state = RoundState.ANSWERED
    if aggregator.answers.known(_tally_question(round_, state)) is None:
        await aggregator.caught_up(await aggregator.show(lambda: aggregator.ledger.round(round_).spec.study))
        state = await aggregator.show(lambda: aggregator.ledger.state(round_))

    def look() -> PublicAnswer:
        # Where it stands by now may be elsewhere.
        now = aggregator.ledger.state(round_)
        return PublicAnswer.of(written(_tally_model(aggregator, round_, now)), final=now is state and now in _COUNTED)

    return await shown(aggregator, request, _tally_question(round_, state), look)


def _tally_question(round_: str, state: RoundState) -> PublicQuestion:
    return "tally", round_, state.value


def _tally_model(aggregator: Aggregator, round_: str, state: RoundState) -> TallyModel:
    """The counts of a round: all of them once it is closed, and before as its study says."""
    if state is RoundState.ANSWERED:
        counted = aggregator.driver.answered(round_)
    else:
        counted = aggregator.ledger.tallies(round_) if state in _COUNTED else aggregator.driver.live.of(round_)
    pairs = list(zip(aggregator.ledger.round(round_).parts, counted, strict=False))
    parts, tallies = [part for part, tally in pairs if tally.received], [tally for _, tally in pairs if tally.received]
    alike = {kind_of(part): part for part in parts}
    lies = {kind: [{"share": each.share, "shift": each.shift} for each in shifts(part)] for kind, part in alike.items()}
    estimates = zip(parts, estimate_parts(parts, tallies, LEVEL), strict=True)
    found = iter([_estimate(each, lies[kind_of(part)]) for part, each in estimates])
    # Not checked: it is made of numbers that were, and a large one takes longer to check than to write.
    return TallyModel.model_construct(
        round=round_,
        state=state.value,
        received=aggregator.ledger.received(round_),
        told=sum(tally.received for tally in counted),
        tallies=[tally.counts.tolist() for tally in counted],
        estimates=[next(found) if tally.received else None for _, tally in pairs],
    )


def _estimate(found: Estimates, liars: list[dict[str, float]]) -> dict[str, object]:
    """An `EstimateModel`, as it is written: a round may have thousands."""
    return {
        "values": found.values.tolist(),
        "low": found.low.tolist(),
        "high": found.high.tolist(),
        "confidence": found.confidence,
        "liars": liars,
    }


@router.post(
    "/rounds/{round_}/close",
    response_model=RoundModel,
    responses=responses("not-found", "unauthorized", "round-not-open"),
)
async def close_round(round_: DigestInPath, aggregator: TheAggregator, _: OperatorOnly) -> Response:
    """Close a round before its time; its study goes on with what came in."""
    await aggregator.close_round(round_)
    return await answered(aggregator, lambda: round_model(aggregator, round_))


def round_model(aggregator: Aggregator, round_: str, state: RoundState | None = None) -> RoundModel:
    """A round as it is shown: its specification, and where it stands. For a thread."""
    prepared = aggregator.ledger.round(round_)
    return RoundModel(
        id=round_,
        state=(state or aggregator.ledger.state(round_)).value,
        received=aggregator.ledger.received(round_),
        round=prepared.spec,
    )
