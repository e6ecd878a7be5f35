"""What is published: a study, and a round of it. Both are named by the digest of their canonical form.

A round asks every user of its cohort one question. It has several parts where a study is noninteractive and
publishes everything at once, or where one round asks several queries of disjoint users; the public coin deals
each user one part, in proportion to the parts' shares.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import Field, model_validator

from askance_protocol import canonical
from askance_protocol.channels import ChannelSpec
from askance_protocol.coins import MAX_CHOICES, MAX_USER
from askance_protocol.queries import Query
from askance_protocol.schema import Schema
from askance_protocol.values import WHOLE, Digest, MicroEpsilon, Name, SafeInteger, Value, read_exactly

VERSION: Final = 1
Version: TypeAlias = Annotated[Literal[1], WHOLE]
MAX_PARTS: Final = 4096
MAX_DOCUMENT: Final = 1 << 22
"""Characters of a study or round."""
LEAST_STEP: Final = 2
"""Number of reports of which counts may be told together: of a single one, they would be that report."""


class Part(Value):
    """One question of a round."""

    query: Query
    channel: ChannelSpec
    charge: MicroEpsilon
    """What a user who answers pays. Never less than the channel's certified ε."""
    share: Annotated[int, Field(ge=1, le=MAX_CHOICES)] = 1


class Cohort(Value):
    """Who is asked: users of a run of numbers whose slot, by the study's coin, is in a run of slots."""

    first_user: Annotated[int, Field(ge=0, lt=MAX_USER)] = 0
    users: Annotated[int, Field(ge=1, le=MAX_USER)]
    slots: Annotated[int, Field(ge=1, le=MAX_CHOICES)] = 1
    first_slot: Annotated[int, Field(ge=0)] = 0
    slot_count: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _inside(self) -> Cohort:
        if self.first_user + self.users > MAX_USER:
            raise ValueError("the users go beyond the largest user number")
        if self.first_slot + self.slot_count > self.slots:
            raise ValueError("the slots go beyond the last slot")
        return self


class StudySpec(Value):
    """What users are asked to take part in, before any of them answers."""

    form: Literal["askance.study"] = "askance.study"
    version: Version = VERSION
    title: Annotated[str, Field(min_length=1, max_length=200)]
    nonce: Annotated[str, Field(pattern=r"^[0-9a-f]{32}\z")]
    """Two studies of the same content are two studies."""
    example: Schema
    strategy: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{0,63}\z")]
    parameters: Mapping[Name, SafeInteger | bool | Annotated[str, Field(max_length=200)]] = {}
    interactive: bool
    """False: everything is published before the first report, and no round follows."""
    simulated: bool
    """True: the users are simulated, and gateways may report in batches."""
    cap: MicroEpsilon
    """The most that this study charges one user, over all its rounds."""
    live: Annotated[int, Field(ge=LEAST_STEP, le=MAX_USER)] | None = None
    """Counts of an open round are told in steps of so many reports; absent: not before the round is closed."""


class RoundSpec(Value):
    """One round of a study."""

    form: Literal["askance.round"] = "askance.round"
    version: Version = VERSION
    study: Digest
    number: Annotated[int, Field(ge=1, le=1_000_000)]
    parts: Annotated[tuple[Part, ...], Field(min_length=1, max_length=MAX_PARTS)]
    cohort: Cohort
    target: Annotated[int, Field(ge=1, le=MAX_USER)]
    """The round closes when this many reports are in."""
    deadline: Annotated[int, Field(ge=0, le=canonical.MAX_SAFE_INTEGER)]
    """Or at this time, in seconds since 1970."""

    @model_validator(mode="after")
    def _dealt(self) -> RoundSpec:
        if sum(part.share for part in self.parts) > MAX_CHOICES:
            raise ValueError(f"the shares of all parts add up to more than {MAX_CHOICES}")
        return self


def read_study(data: bytes | str) -> StudySpec:
    """Read a study from its published form."""
    return read_exactly(StudySpec, data, limit=MAX_DOCUMENT)


def read_round(data: bytes | str) -> RoundSpec:
    """Read a round from its published form."""
    return read_exactly(RoundSpec, data, limit=MAX_DOCUMENT)
