"""Tokens: who may do what, all derived from one server key.

Theory of operation
-------------------
A token is `<role>.<payload>.<tag>`, payload and tag in base64url without padding. The tag is HMAC-SHA256 of
everything before it, under a key that is itself derived from the server key for this one role. So the server keeps no
table of tokens: whoever holds the key can tell a genuine one, and only it can make one.

The tag is compared in its written form, in constant time, and before the payload is looked at: there is exactly one
text for one token, and nothing that the server did not write is ever parsed.

Roles are types, and each door asks for one: a user reports for herself, a gateway for a range of simulated users in
one study, an operator runs studies, an enrolment token makes users. None stands for another. A missing, malformed,
forged or revoked token gets one message for all. A genuine one at the wrong door is told so: its holder learns
nothing that she does not know.

A user's tokens are revoked by raising her epoch in the ledger. The others live as long as the server key.
"""

from __future__ import annotations

import hmac
import json
import os
import re
import secrets
import stat
import time
from binascii import a2b_base64, b2a_base64
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar, Final, Literal, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from askance_protocol import canonical
from askance_protocol.coins import MAX_USER
from askance_protocol.errors import ProtocolError

KEY_BYTES: Final = 32
KEY_FILE: Final = "server.key"
MAX_EPOCH: Final = 1 << 48

_MAX_TOKEN: Final = 1024
_DERIVATION: Final = b"askance token 1 "
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_PLAIN: Final = bytes.maketrans(b"-_", b"+/")

_BEARER: Final = re.compile(rb"bearer +([!-~]{1,%d})" % _MAX_TOKEN, re.IGNORECASE)
_LABEL: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._-]{0,63}", re.ASCII)

# The one length that the header of a user's token has: 12 bytes of payload are 16 digits, 32 of tag are 43.
_SCHEME: Final = b"Bearer "
_SIGNED: Final = len(_SCHEME)
_PAYLOAD: Final = len(_SCHEME + b"user.")
_TAG: Final = _PAYLOAD + 16
_USER_HEADER: Final = _TAG + 1 + 43


class AuthError(Exception):
    """Whoever asks did not show who she is. What is wrong with the token is not told."""

    problem: ClassVar[Literal["unauthorized", "forbidden"]] = "unauthorized"

    def __init__(self, detail: str = "there is no valid token in the Authorization header") -> None:
        super().__init__(detail)


class ForbiddenError(AuthError):
    """A genuine token, but not for this."""

    problem = "forbidden"


class KeyFileError(ProtocolError):
    """A key or token on disk that is not safe to use. Names the file and the command that repairs it."""


@dataclass(frozen=True, slots=True)
class UserToken:
    """One user, and the epoch of her tokens."""

    user: int
    epoch: int

    role: ClassVar[str] = "user"

    def __post_init__(self) -> None:
        if not (0 <= self.user < MAX_USER and 0 <= self.epoch < MAX_EPOCH):
            raise ProtocolError(f"is not below {MAX_USER}", where="user or epoch")

    def pack(self) -> bytes:
        """Six bytes each, big-endian: a fixed length makes the hot path a few slices."""
        return (self.user << 48 | self.epoch).to_bytes(12, "big")

    @classmethod
    def unpack(cls, payload: bytes) -> UserToken:
        """The inverse of `pack`."""
        both = int.from_bytes(payload, "big")
        return cls(both >> 48, both & (MAX_EPOCH - 1))

    def require_epoch(self, current: int) -> None:
        """Refuse a token of another epoch than the ledger's: it was revoked."""
        if self.epoch != current:
            raise AuthError


class _Document:
    """A token whose payload is canonical JSON."""

    __slots__ = ()

    def pack(self) -> bytes:
        """The members, less those that are absent."""
        members: dict[str, canonical.Json] = asdict(self)  # pyright: ignore[reportArgumentType] - the heirs are dataclasses
        return canonical.dumps({name: value for name, value in members.items() if value is not None})


@dataclass(frozen=True, slots=True)
class EnrolmentToken(_Document):
    """Whoever holds it may enrol users, until it expires (seconds since 1970) if it does."""

    label: str
    expires: int | None = None

    role: ClassVar[str] = "enrolment"

    def __post_init__(self) -> None:
        _check_label(self.label)
        if self.expires is not None:
            _check_whole("expires", self.expires, canonical.MAX_SAFE_INTEGER)

    @classmethod
    def unpack(cls, payload: bytes) -> EnrolmentToken:
        """The inverse of `pack`."""
        return cls(**json.loads(payload))


@dataclass(frozen=True, slots=True)
class OperatorToken(_Document):
    """Whoever holds it may open, close and cancel studies. It reports for no one."""

    label: str

    role: ClassVar[str] = "operator"

    def __post_init__(self) -> None:
        _check_label(self.label)

    @classmethod
    def unpack(cls, payload: bytes) -> OperatorToken:
        """The inverse of `pack`."""
        return cls(**json.loads(payload))


@dataclass(frozen=True, slots=True)
class GatewayToken(_Document):
    """Whoever holds it may report for the users first .. first + count − 1 of one simulated study."""

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
        """The inverse of `pack`."""
        return cls(**json.loads(payload))

    def require(self, study: str, *, simulated: bool, users: NDArray[np.uint64]) -> None:
        """Refuse reports to another study, to one of real users, or for a user outside the range."""
        if not simulated:
            raise ForbiddenError("a gateway reports only in simulated studies: here, each user reports for herself")
        if study != self.study:
            raise ForbiddenError("this gateway token is for another study")
        if len(users) and not (self.first <= int(users.min()) and int(users.max()) < self.first + self.count):
            raise ForbiddenError(
                f"this gateway token is for users {self.first} .. {self.first + self.count - 1}, and no others"
            )


Token: TypeAlias = UserToken | EnrolmentToken | OperatorToken | GatewayToken
T = TypeVar("T", UserToken, EnrolmentToken, OperatorToken, GatewayToken)

ROLES: Final[Mapping[str, type[Token]]] = {
    kind.role: kind for kind in (UserToken, EnrolmentToken, OperatorToken, GatewayToken)
}


class Keys:
    """Makes tokens and tells genuine ones. Holds the only secrets of the server, and shows none."""

    __slots__ = ("_macs", "_user_mac")

    def __init__(self, server_key: bytes) -> None:
        if len(server_key) != KEY_BYTES:
            raise ProtocolError(f"has {len(server_key)} bytes, not {KEY_BYTES}", where="server key")
        # Keyed once here, copied for each token: setting up the key is half the cost of a tag.
        self._macs = {
            role: hmac.new(hmac.digest(server_key, _DERIVATION + role.encode(), "sha256"), digestmod="sha256")
            for role in ROLES
        }
        self._user_mac = self._macs[UserToken.role]

    def __repr__(self) -> str:
        return "Keys(…)"

    def mint(self, token: Token) -> str:
        """The text of a token: a secret of whoever gets it."""
        payload = b2a_base64(token.pack(), newline=False).translate(_URL_SAFE).rstrip(b"=")
        signed = token.role.encode() + b"." + payload
        return (signed + _tag(self._macs[token.role], signed)).decode()

    def read(self, text: str, kind: type[T], *, now: float | None = None) -> T:
        """The token that `text` is, if it is genuine, of this kind and not expired."""
        token = self._genuine(text)
        if not isinstance(token, kind):
            raise ForbiddenError(
                f"this takes a token of the role {kind.role}, and this one is of the role {token.role}"
            )
        if isinstance(token, EnrolmentToken) and token.expires is not None:
            _require_fresh(token.expires, time.time() if now is None else now)
        return token

    def user_token(self, authorization: bytes | None) -> UserToken:
        """The user that an Authorization header names. The hot path: one tag and a few slices."""
        if (
            authorization is None
            or len(authorization) != _USER_HEADER
            or not authorization.startswith(b"Bearer user.")
            or not hmac.compare_digest(_tag(self._user_mac, authorization[_SIGNED:_TAG]), authorization[_TAG:])
        ):
            # Another spelling of the scheme, or a token that is refused: nothing here is in a hurry.
            return self.read(bearer(authorization), UserToken)
        return UserToken.unpack(a2b_base64(authorization[_PAYLOAD:_TAG].translate(_PLAIN)))

    def _genuine(self, text: str) -> Token:
        """The token, of whatever role, that this server once wrote as `text`."""
        if len(text) > _MAX_TOKEN or not text.isascii():
            raise AuthError
        signed, _, tag = text.encode().rpartition(b".")
        role, _, payload = signed.partition(b".")
        kind = ROLES.get(role.decode())
        if kind is None or not hmac.compare_digest(_tag(self._macs[kind.role], signed), b"." + tag):
            raise AuthError
        try:
            return kind.unpack(a2b_base64(payload.translate(_PLAIN) + b"=" * (-len(payload) % 4)))
        except (TypeError, ValueError):
            # Written under this key, but by a version that knew other members.
            raise AuthError from None


def bearer(authorization: bytes | None) -> str:
    """The token in an Authorization header."""
    match = _BEARER.fullmatch(authorization or b"")
    if match is None:
        raise AuthError
    return match[1].decode()


def _tag(mac: hmac.HMAC, signed: bytes) -> bytes:
    """The tag of `signed`, as it is written, with the dot before it."""
    mac = mac.copy()
    mac.update(signed)
    return b"." + b2a_base64(mac.digest(), newline=False).translate(_URL_SAFE, b"=")


def _require_fresh(expires: int, now: float) -> None:
    if now >= expires:
        raise AuthError("the enrolment token has expired: ask the operator for a new one")


def _check_label(label: object) -> None:
    if type(label) is not str or _LABEL.fullmatch(label) is None:
        raise ProtocolError("is not a label", where="label", remedy="use up to 64 letters, digits, blanks, . _ -")


def _check_whole(name: str, value: object, most: int) -> None:
    if type(value) is not int or not 0 <= value <= most:
        raise ProtocolError(f"is not a whole number of 0 .. {most}", where=name)


# ------------------------------------------------------------------------------------------------- keys on disk


@dataclass(frozen=True, slots=True)
class TokenFiles:
    """Where the tokens lie that the server writes on its first start."""

    operator: Path
    enrolment: Path

    @classmethod
    def of(cls, directory: Path) -> TokenFiles:
        """The files of a data directory."""
        return cls(directory / "operator.token", directory / "enrolment.token")


def open_keys(directory: Path, server_key: bytes | None = None) -> Keys:
    """The keys of a data directory: from the setting, else from its key file, else new ones."""
    _make_directory(directory)
    return Keys(_key_of(directory / KEY_FILE) if server_key is None else server_key)


def write_tokens(directory: Path, keys: Keys) -> TokenFiles:
    """Write the operator's and the enrolment token for people to pick up; write them anew after a change of key."""
    files = TokenFiles.of(directory)
    _write_token(files.operator, keys.mint(OperatorToken("operator")))
    _write_token(files.enrolment, keys.mint(EnrolmentToken("enrolment")))
    return files


def check_private(path: Path) -> None:
    """Refuse a file that anyone but its owner can read or write."""
    _check_mode(path, path.stat().st_mode)


def read_key(path: Path) -> bytes:
    """The server key in a key file: 64 hexadecimal digits, for its owner's eyes only."""
    text = _read_private(path).strip()
    if re.fullmatch(r"[0-9a-fA-F]{64}", text, re.ASCII) is None:
        remedy = "restore it from a backup; or delete it, and every token that was ever given out is void"
        raise KeyFileError("does not hold 64 hexadecimal digits", where=str(path), remedy=remedy)
    return bytes.fromhex(text)


def _key_of(path: Path) -> bytes:
    if not path.exists():
        # Linked when it is whole: whoever is killed in between leaves no half key, and no other process meets one.
        # Another may be first: then its key counts.
        with _beside(path, secrets.token_hex(KEY_BYTES)) as fresh, suppress(FileExistsError):
            path.hardlink_to(fresh)
    return read_key(path)


def _make_directory(directory: Path) -> None:
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        remedy = "choose another place with --database, or make this one writable"
        raise KeyFileError(f"cannot be made: {error.strerror}", where=str(directory), remedy=remedy) from None


def _write_token(path: Path, token: str) -> None:
    if path.exists() and _read_private(path).strip() == token:
        return
    # Beside it first, then in its place: a reader never meets half a token.
    with _beside(path, token) as fresh:
        fresh.replace(path)


@contextmanager
def _beside(path: Path, text: str) -> Generator[Path]:
    """A private file with this text, on disk, under a name that no other process uses: in containers all are 1."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        _create_private(fresh, text)
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)


def _create_private(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    except FileExistsError:
        raise
    except OSError as error:
        remedy = "make its directory writable"
        raise KeyFileError(f"cannot be written: {error.strerror}", where=str(path), remedy=remedy) from None
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text + "\n")
        file.flush()
        os.fsync(descriptor)


def _read_private(path: Path) -> str:
    try:
        with path.open(encoding="ascii", errors="replace") as file:
            _check_mode(path, os.fstat(file.fileno()).st_mode)
            return file.read(_MAX_TOKEN)
    except OSError as error:
        remedy = "run as the user who owns it"
        raise KeyFileError(f"cannot be read: {error.strerror}", where=str(path), remedy=remedy) from None


def _check_mode(path: Path, mode: int) -> None:
    if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
        raise KeyFileError(
            f"others can read it or write it: its mode is {stat.S_IMODE(mode):04o}",
            where=str(path),
            remedy=f"chmod 600 {path}",
        )
