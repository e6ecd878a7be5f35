"""Keys: every token is made and verified under one server key.

Theory of operation
-------------------
A token is `<role>.<payload>.<tag>`, payload and tag in base64url without padding. The tag is HMAC-SHA256 of
everything before it, under a key that is itself derived from the server key for this one role. So the server keeps no
table of tokens: only a holder of the key can make a genuine one, or tell it from a forged one.

The tag is compared in its written form, in constant time, and before the payload is looked at: there is exactly one
text for one token, and nothing that the server did not write is ever parsed.

A missing, malformed, forged or revoked token gets one message for all. A genuine one at the wrong endpoint is told so:
its holder learns nothing new.

A user's tokens are revoked by raising her epoch in the ledger. Enrolment tokens can be limited in time, which they say
themselves, and in number, which the ledger counts. The others live as long as the server key.
"""

from __future__ import annotations

import hmac
import re
import time
from binascii import a2b_base64, b2a_base64
from functools import lru_cache
from typing import Final

from askance_protocol.errors import ProtocolError
from askance_server.auth.tokens import (
    ROLES,
    AuthError,
    EnrolmentOverError,
    EnrolmentToken,
    ForbiddenError,
    GatewayToken,
    T,
    Token,
    UserToken,
)

KEY_BYTES: Final = 32
MAX_TOKEN: Final = 1024
"""Characters of the longest token that is looked at."""

_GATEWAYS: Final = 64
"""Gateways whose tokens are remembered: the last that were shown."""

_DERIVATION: Final = b"askance token 1 "
_FINGERPRINT: Final = b"askance key fingerprint 1"
_URL_SAFE: Final = bytes.maketrans(b"+/", b"-_")
_PLAIN: Final = bytes.maketrans(b"-_", b"+/")
_BEARER: Final = re.compile(rb"bearer +([!-~]{1,%d})" % MAX_TOKEN, re.IGNORECASE)

# The one length that the header of a user's token has: 12 bytes of payload are 16 digits, 32 of tag are 43.
_SCHEME: Final = b"Bearer "
_SIGNED: Final = len(_SCHEME)
_PAYLOAD: Final = len(_SCHEME + b"user.")
_TAG: Final = _PAYLOAD + 16
_USER_HEADER: Final = _TAG + 1 + 43


class Keys:
    """The keys of all roles: they make and verify tokens. They are the server's only secrets, and are never shown."""

    __slots__ = ("_macs", "_user_mac", "fingerprint", "gateway_token")

    def __init__(self, server_key: bytes) -> None:
        if len(server_key) != KEY_BYTES:
            raise ProtocolError(f"has {len(server_key)} bytes, not {KEY_BYTES}", where="server key")
        # Keyed once here, copied for each token: setting up the key is half the cost of a tag.
        self._macs = {
            role: hmac.new(hmac.digest(server_key, _DERIVATION + role.encode(), "sha256"), digestmod="sha256")
            for role in ROLES
        }
        self._user_mac = self._macs[UserToken.role]
        self.gateway_token = lru_cache(_GATEWAYS)(self._gateway_token)
        """The gateway that an Authorization header names. Thousands of batches come with one token, which says the same
        each time: it neither expires nor is revoked. What is refused is not remembered."""
        self.fingerprint = hmac.digest(server_key, _FINGERPRINT, "sha256").hex()
        """Tells this key from another one, and nothing else: no token can be made with it."""

    def __repr__(self) -> str:
        return "Keys(…)"

    def mint(self, token: Token) -> str:
        """The text of a token: a secret of its holder."""
        payload = b2a_base64(token.pack(), newline=False).translate(_URL_SAFE).rstrip(b"=")
        signed = token.role.encode() + b"." + payload
        return (signed + _tag(self._macs[token.role], signed)).decode()

    def read(self, text: str, *kinds: type[T], now: float | None = None) -> T:
        """The token in `text`, if it is genuine, of one of these kinds and not expired."""
        token = self._genuine(text)
        if not isinstance(token, kinds):
            wanted = " or ".join(kind.role for kind in kinds)
            raise ForbiddenError(f"this takes a token of the role {wanted}, and this one is of the role {token.role}")
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

    def _gateway_token(self, authorization: bytes | None) -> GatewayToken:
        return self.read(bearer(authorization), GatewayToken)

    def _genuine(self, text: str) -> Token:
        """The token, of any role, that this server wrote as `text`."""
        if len(text) > MAX_TOKEN or not text.isascii():
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
    """Tag of `signed` in its written form, with the dot before it."""
    mac = mac.copy()
    mac.update(signed)
    return b"." + b2a_base64(mac.digest(), newline=False).translate(_URL_SAFE, b"=")


def _require_fresh(expires: int, now: float) -> None:
    if now >= expires:
        raise EnrolmentOverError("the enrolment token has expired")
