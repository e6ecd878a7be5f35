"""The documents of requests and answers. Requests are strict: nothing is coerced, unknown members are refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainSerializer

from askance_protocol import canonical
from askance_protocol.coins import MAX_USER
from askance_protocol.rounds import RoundSpec, StudySpec
from askance_protocol.rounds.bulletin import Entry
from askance_protocol.rounds.spec import LEAST_STEP
from askance_protocol.schema import Schema
from askance_protocol.values import SafeInteger, read

CANONICAL: Final = PlainSerializer(lambda value: value.to_json())
"""Writes a document that has a digest as it was digested: absent members stay absent, where pydantic writes null."""
Parameter = SafeInteger | bool | Annotated[str, Field(max_length=200)]


class Request(BaseModel):
    """A request's body."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)


class UserRange(Request):
    """Users of consecutive numbers; all from the first on, also who enrols later, unless it is said how many."""

    first_user: Annotated[int, Field(ge=0, lt=MAX_USER)] = 0
    users: Annotated[int, Field(ge=1, le=MAX_USER)] = MAX_USER

    @property
    def count(self) -> int:
        """Number of users in the range."""
        return min(self.users, MAX_USER - self.first_user)


class NewStudy(Request):
    """What an operator says of a study; the server adds the rest."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    strategy: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}$")]
    parameters: dict[Annotated[str, Field(pattern=r"^[a-z][a-z0-9_]{0,63}$")], Parameter] = {}
    example: Annotated[Schema, BeforeValidator(lambda given: read(Schema, canonical.dumps(given)))] | None = None
    """What examples are made of, for a strategy that asks about whatever fields there are."""
    simulated: bool = False
    live: Annotated[int, Field(ge=LEAST_STEP, le=MAX_USER)] | None = None
    """Counts of open rounds are told in steps of so many reports; without it not before a round is closed."""
    gateway: UserRange | None = None
    """For whom the gateway of a simulated study may speak: unless it is said, the simulated users there are now."""


class NewUsers(Request):
    """How many users enrol at once. Tokens are minted for a few; a simulation's users need none."""

    users: Annotated[int, Field(ge=1, le=10_000_000)] = 1
    simulated: bool | None = None
    """Whether they are made up. Who does not say is taken for a person where she comes alone."""
    key: Annotated[str, Field(pattern=r"^[0-9a-f]{32}$")] | None = None
    """A random number of the client's own. To the same key the same users are given, however often it comes: who did
    not get to store the answer asks again, and nobody is enrolled twice. It is as secret as these users' tokens."""


class NewEnrolmentToken(Request):
    """The limits of an enrolment token."""

    users: Annotated[int, Field(ge=1, le=10_000_000)]
    """Number of users that it lets in, in all."""
    seconds: Annotated[int, Field(ge=1, le=10 * 366 * 86_400)]
    """For how long it does."""
    simulated: bool = False
    """Whether it is for simulated users; else it is for real ones."""


class NewCodes(Request):
    """How many one-time codes, and for how long each lets somebody in."""

    codes: Annotated[int, Field(ge=1, le=10_000)]
    seconds: Annotated[int, Field(ge=1, le=10 * 366 * 86_400)]
    simulated: bool = False
    """Whether they are for simulated users; else they are for real ones."""


class Codes(BaseModel):
    """Enrolment tokens, each of which lets in one user, once."""

    codes: list[str]
    expires: int
    """Seconds since 1970."""
    simulated: bool


class NewToken(BaseModel):
    """An enrolment token, and its limits."""

    token: str
    id: str
    users: int
    expires: int
    """Seconds since 1970."""
    simulated: bool


class KindCounts(BaseModel):
    """Number of users of each kind."""

    real: int
    simulated: int
    unknown: int
    """Users of version 0.1, and such as enrolled several at once without a word."""


class UserCounts(BaseModel):
    """How many users there are."""

    users: int
    kinds: KindCounts


class Enrolment(BaseModel):
    """The numbers of new users, and the tokens of each where they are few."""

    user: int
    users: int
    cap_micro_epsilon: int
    token: str | None
    tokens: list[str]


class RenewedToken(BaseModel):
    """The one token of a user that is valid."""

    user: int
    token: str


class ChargeModel(BaseModel):
    """What one round cost."""

    round: str
    micro_epsilon: int


class Me(BaseModel):
    """One user's account."""

    user: int
    cap_micro_epsilon: int
    spent_micro_epsilon: int
    remaining_micro_epsilon: int
    charges: list[ChargeModel]


class RoundModel(BaseModel):
    """A round and where it stands."""

    id: str
    state: str
    received: int
    round: Annotated[RoundSpec, CANONICAL]


class StudyModel(BaseModel):
    """A study and where it stands."""

    id: str
    state: str
    head: str
    length: int
    study: Annotated[StudySpec, CANONICAL]
    paused: str | None = None
    """Why the study cannot go on with the strategies of this server; its open round takes reports all the same."""
    rounds: list[RoundModel]
    gateway_token: str | None = None
    """For gateways of a simulated study; shown only to the operator who created it."""


class BulletinModel(BaseModel):
    """Entries of a bulletin, and its head."""

    head: str
    length: int
    entries: list[Annotated[Entry, CANONICAL]]


class NamedEstimateModel(BaseModel):
    """What reports say of one question: a number, and an interval that holds with probability `level` at least."""

    name: str
    """The question as it was asked."""
    estimate: float
    low: float
    high: float
    level: float
    reports: int


class ResultModel(BaseModel):
    """What a study has come to."""

    state: str
    reason: str
    hypothesis: Mapping[str, Any] | None
    text: str | None
    estimates: list[NamedEstimateModel]
    """All that was asked and answered so far, question by question and cell by cell."""
    estimates_left_out: int
    """Number of further estimates, where there are thousands: the tallies of the rounds have them all."""
    live: list[NamedEstimateModel]
    """The same of the open round of a study that is live, of the reports that are told by now. Each interval holds at
    one look, and not at every look."""


class LiarsModel(BaseModel):
    """How far this share of reports that are lies could shift any of the values."""

    share: float
    shift: float


class EstimateModel(BaseModel):
    """What the reports of one part say: a value, or one a cell, each with an interval that holds with `confidence`."""

    values: list[float]
    low: list[float]
    high: list[float]
    confidence: float
    liars: list[LiarsModel]
    """The interval is for users who all answer as the protocol says. Lies come on top of it."""


class TallyModel(BaseModel):
    """Counts of each part: for each public row, how often each outcome was reported; and what follows from them."""

    round: str
    state: str
    received: int
    told: int
    """How many of the reports stand in the tallies: of an open round whole steps of a live study, or none."""
    tallies: list[list[list[int]]]
    estimates: list[EstimateModel | None]
    """None for a part that nobody has answered."""


class BatchVerdicts(BaseModel):
    """What became of a batch."""

    accepted: int
    repeated: int
    refused: dict[str, int]
    """How many reports met which problem."""
    first_refused: dict[str, int]
    """Where in the batch each problem was met first."""


class Status(BaseModel):
    """That the server is there, and whether its ledger can be written."""

    status: str
    version: str
    protocol: int
