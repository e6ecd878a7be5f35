"""`/v1/rounds`: a round, its tally, its end, and batches of reports. Single reports are answered in `reports`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
from fastapi import APIRouter, Depends, Request
from starlette.responses import Response

from askance_protocol.arrays import Truths
from askance_protocol.reports import ReportBatch, decode_columns, decode_raw
from askance_protocol.rounds import SETTLED, PreparedPart, PreparedRound, RoundState
from askance_protocol.tally import Tally
from askance_server.aggregator import Aggregator
from askance_server.api.dependencies import (
    JSON,
    DigestInPath,
    GatewayOnly,
    OperatorOnly,
    TheAggregator,
    media_type,
)
from askance_server.api.description import BATCH_BODY
from askance_server.api.documents import answered, shown, written
from askance_server.api.gate import BodyLimit, GatedRoute
from askance_server.api.models import BatchVerdicts, EstimateModel, LiarsModel, RoundModel, TallyModel
from askance_server.auth import ForbiddenError, GatewayToken
from askance_server.core.estimators import estimate
from askance_server.core.liars import shifts
from askance_server.ledger import Ledger, UserKind, Users, Verdict, Verdicts
from askance_server.problems import OF_VERDICT, ProblemError, responses
from askance_server.public_answers import PublicAnswer, PublicQuestion

router = APIRouter(prefix="/v1", route_class=GatedRoute)

_DECODED: Final[Mapping[str, Callable[[bytes], ReportBatch]]] = {
    JSON: decode_columns,
    "application/octet-stream": decode_raw,
}
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
    return await shown(aggregator, request, question, look)


@router.get("/rounds/{round_}/tally", response_model=TallyModel, responses=responses("not-found"))
async def get_tally(round_: DigestInPath, aggregator: TheAggregator, request: Request) -> Response:
    """The counts of a round that is closed; of an open one, those of whole steps where its study is live, or none."""
    state = RoundState.ANSWERED
    if aggregator.answers.known(_tally_question(round_, state)) is None:
        await aggregator.caught_up((await aggregator.round(round_)).spec.study)
        state = await aggregator.ask(lambda: aggregator.ledger.state(round_))

    def look() -> PublicAnswer:
        # Where it stands by now may be elsewhere.
        now = aggregator.ledger.state(round_)
        return PublicAnswer.of(written(_tally_model(aggregator, round_, now)), final=now is state and now in _COUNTED)

    return await shown(aggregator, request, _tally_question(round_, state), look)


def _tally_question(round_: str, state: RoundState) -> PublicQuestion:
    return "tally", round_, state.value


def _tally_model(aggregator: Aggregator, round_: str, state: RoundState) -> TallyModel:
    """The counts of a round: all of them once it is closed, and before as its study says."""
    counted = aggregator.ledger.tallies(round_) if state in _COUNTED else aggregator.driver.live.of(round_)
    return TallyModel(
        round=round_,
        state=state.value,
        received=aggregator.ledger.received(round_),
        told=sum(tally.received for tally in counted),
        tallies=[[list(row) for row in tally.to_rows()] for tally in counted],
        estimates=[_estimate(*each) for each in zip(aggregator.ledger.round(round_).parts, counted, strict=False)],
    )


def _estimate(part: PreparedPart, tally: Tally) -> EstimateModel | None:
    if not tally.received:
        return None
    found = estimate(part, tally)
    return EstimateModel(
        values=found.values.tolist(),
        low=found.low.tolist(),
        high=found.high.tolist(),
        confidence=found.confidence,
        liars=[LiarsModel(share=each.share, shift=each.shift) for each in shifts(part)],
    )


@router.post(
    "/rounds/{round_}/close",
    response_model=RoundModel,
    responses=responses("not-found", "unauthorized", "round-not-open"),
)
async def close_round(round_: DigestInPath, aggregator: TheAggregator, _: OperatorOnly) -> Response:
    """Close a round before its time; its study goes on with what came in."""
    await aggregator.close_round(round_)
    return await answered(aggregator, lambda: round_model(aggregator, round_))


@router.post(
    "/rounds/{round_}/batches",
    responses=responses("not-found", "unauthorized", "forbidden", "invalid-request", "unsupported-media-type"),
    openapi_extra=BATCH_BODY,
    dependencies=[Depends(BodyLimit(None))],
)
async def post_batch(
    round_: DigestInPath, request: Request, aggregator: TheAggregator, token: GatewayOnly
) -> BatchVerdicts:
    """Reports of many simulated users, from a gateway that speaks for them; for a real user none does."""
    prepared = await aggregator.round(round_)
    nobody = np.zeros(0, np.uint64)
    token.require(prepared.spec.study, simulated=prepared.study.simulated, users=nobody)
    kind, body = media_type(request), await request.body()
    if kind not in _DECODED:
        raise ProblemError("unsupported-media-type", "send application/json or application/octet-stream")

    def read() -> tuple[ReportBatch, Truths]:
        batch = _DECODED[kind](body)
        return batch, _spoken_for(aggregator.ledger, token, prepared, batch.users)

    # In one go: each change of threads takes a tenth of what a batch does.
    batch, known = await aggregator.ask(read)
    if known.all():
        return _batch_verdicts(await aggregator.committer.submit_batch(round_, batch.users, batch.outcomes))
    # Who is not enrolled by now is not asked about again: she may come in between, and be a real user.
    verdicts = np.full(len(batch), Verdict.UNKNOWN_USER, np.uint8)
    some = aggregator.committer.submit_batch(round_, batch.users[known], batch.outcomes[known])
    verdicts[known] = await some
    aggregator.metrics.decided(batch.users[~known], verdicts[~known])
    return _batch_verdicts(verdicts)


def _spoken_for(ledger: Ledger, token: GatewayToken, round_: PreparedRound, users: Users) -> Truths:
    """Truths for these users: whether each is enrolled. ForbiddenError if the gateway may not speak for one who is."""
    known = users < ledger.enrolled()
    there = users if known.all() else users[known]
    token.require(round_.spec.study, simulated=round_.study.simulated, users=there)
    real = ledger.kinds().are(there, {UserKind.REAL})
    if real.any():
        first = int(there[real.argmax()])
        raise ForbiddenError(f"user {first} is a real user, who reports for herself: no gateway speaks for her")
    return known


def _batch_verdicts(verdicts: Verdicts) -> BatchVerdicts:
    counts = np.bincount(verdicts, minlength=len(Verdict)).tolist()
    refused = {verdict: counts[verdict] for verdict in Verdict if counts[verdict] and verdict > Verdict.REPEATED}
    return BatchVerdicts(
        accepted=counts[Verdict.ACCEPTED],
        repeated=counts[Verdict.REPEATED],
        refused={OF_VERDICT[verdict]: count for verdict, count in refused.items()},
        first_refused={OF_VERDICT[verdict]: int((verdicts == verdict).argmax()) for verdict in refused},
    )


def round_model(aggregator: Aggregator, round_: str, state: RoundState | None = None) -> RoundModel:
    """A round as it is shown: its specification, and where it stands. For a thread."""
    prepared = aggregator.ledger.round(round_)
    return RoundModel(
        id=round_,
        state=(state or aggregator.ledger.state(round_)).value,
        received=aggregator.ledger.received(round_),
        round=prepared.spec,
    )
