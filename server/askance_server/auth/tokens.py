"""Tokens as values: what each role may do, and the bytes that a token carries.

Roles are types, and each endpoint asks for one: a user reports for herself, a gateway for a range of simulated users in
one study, an operator runs studies, an enrolment token makes users. None stands for another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import ClassVar, Final, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_protocol import canonical
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import AskanceError, Code, ProtocolError

MAX_EPOCH: Final = 1 << 48

_TICKET: Final = re.compile(r"[0-9a-f]{32}", re.ASCII)
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}", re.ASCII)


class AuthError(AskanceError):
    """The request carries no valid token; the message does not say what is wrong with it."""

    code = Code.UNAUTHORIZED

    def __init__(
        self, what: str = "there is no valid token in the Authorization header", *, where: str = "", remedy: str = ""
    ) -> None:
        super().__init__(what, where=where, remedy=remedy)


class ForbiddenError(AuthError):
    """A valid token that does not permit this request."""

    code = Code.FORBIDDEN


class EnrolmentOverError(ForbiddenError):
    """An enrolment token that has expired, or that this server takes no more."""

    code = Code.ENROLMENT_OVER


@dataclass(frozen=True, slots=True)
class UserToken:
    """The token of one user, of one epoch of her tokens. It reports for her and reads her account."""

    user: int
    epoch: int

    role: ClassVar[str] = "user"

    def __post_init__(self) -> None:
        if not (0 <= self.user < MAX_USER and 0 <= self.epoch < MAX_EPOCH):
            raise ProtocolError(f"is not below {MAX_USER}", where="user or epoch")

    def pack(self) -> bytes:
        """Number and epoch, six bytes each, big-endian: a fixed length makes the hot path a few slices."""
        return (self.user << 48 | self.epoch).to_bytes(12, "big")

    @classmethod
    def unpack(cls, payload: bytes) -> UserToken:
        """The token whose `pack` this is."""
        both = int.from_bytes(payload, "big")
        return cls(both >> 48, both & (MAX_EPOCH - 1))

    def require_epoch(self, current: int) -> None:
        """Refuse a token of another epoch than the ledger's: it was revoked."""
        if self.epoch != current:
            raise AuthError


class _JsonPayload:
    """A token whose payload is canonical JSON."""

    __slots__ = ()

    def pack(self) -> bytes:
        """The members as canonical JSON, without those that are None."""
        members: dict[str, canonical.Json] = asdict(self)  # pyright: ignore[reportArgumentType] - its subclasses are dataclasses
        return canonical.dumps({name: value for name, value in members.items() if value is not None})


@dataclass(frozen=True, slots=True)
class EnrolmentToken(_JsonPayload):
    """A token to enrol users, until it expires (seconds since 1970) if it does.

    One that is limited in number has an id, under which the ledger counts its use, and says for users of which kind it
    is. One without a number enrols users of either kind, up to the server's limit.
    """

    label: str
    expires: int | None = None
    id: str | None = None
    users: int | None = None
    simulated: bool | None = None

    role: ClassVar[str] = "enrolment"

    def __post_init__(self) -> None:
        _check_label(self.label)
        if self.expires is not None:
            _check_whole("expires", self.expires, canonical.MAX_SAFE_INTEGER)
        limits = (self.id, self.users, self.simulated)
        if any(limit is None for limit in limits) and limits != (None, None, None):
            raise ProtocolError("come together or not at all", where="id, users and simulated")
        if self.id is not None and (type(self.id) is not str or _TICKET.fullmatch(self.id) is None):
            raise ProtocolError("is not 32 hexadecimal digits", where="id")
        if self.users is not None:
            _check_whole("users", self.users, MAX_USER)
        if type(self.simulated) not in {bool, type(None)}:
            raise ProtocolError("is neither true nor false", where="simulated")

    @classmethod
    def unpack(cls, payload: bytes) -> EnrolmentToken:
        """The token whose `pack` this is."""
        return cls(**json.loads(payload))


@dataclass(frozen=True, slots=True)
class OperatorToken(_JsonPayload):
    """A token to open, close and cancel studies. It reports for no one."""

    label: str

    role: ClassVar[str] = "operator"

    def __post_init__(self) -> None:
        _check_label(self.label)

    @classmethod
    def unpack(cls, payload: bytes) -> OperatorToken:
        """The token whose `pack` this is."""
        return cls(**json.loads(payload))


@dataclass(frozen=True, slots=True)
class GatewayToken(_JsonPayload):
    """A token to report for the users first .. first + count − 1 of one simulated study."""

    study: str
    first: int
    count: int

    role: ClassVar[str] = "gateway"

    def __post_init__(self) -> None:
        if type(self.study) is not str or canonical.DIGEST.fullmatch(self.study) is None:
            raise ProtocolError("is not 64 hexadecimal digits", where="study", remedy="give the id of the study")
        _check_whole("first", self.first, MAX_USER - 1)
        _check_whole("count", self.count, MAX_USER - self.first)

    @classmethod
    def unpack(cls, payload: bytes) -> GatewayToken:
        """The token whose `pack` this is."""
        return cls(**json.loads(payload))

    def require(self, study: str, *, simulated: bool, users: NDArray[np.uint64]) -> None:
        """Refuse reports to another study, to one of real users, or for a user outside the range.

        That nobody in the range is a real user, only the ledger knows.
        """
        if not simulated:
            raise ForbiddenError("a gateway reports only in simulated studies: here, each user reports for herself")
        if study != self.study:
            raise ForbiddenError("this gateway token is for another study")
        if len(users) and not (self.first <= int(users.min()) and int(users.max()) < self.first + self.count):
            raise ForbiddenError(
                f"this gateway token is for users {self.first} .. {self.first + self.count - 1}, and no others"
            )


Token: TypeAlias = UserToken | EnrolmentToken | OperatorToken | GatewayToken
T = TypeVar("T", bound=Token)

ROLES: Final[Mapping[str, type[Token]]] = {
    kind.role: kind for kind in (UserToken, EnrolmentToken, OperatorToken, GatewayToken)
}


def _check_label(label: object) -> None:
    if type(label) is not str or _LABEL.fullmatch(label) is None:
        raise ProtocolError("is not a label", where="label", remedy="use up to 64 letters, digits, blanks, . _ -")


def _check_whole(name: str, value: object, most: int) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise ProtocolError(f"is not a whole number of 0 .. {most}", where=name)
