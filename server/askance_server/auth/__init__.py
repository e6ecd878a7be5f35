"""Who may do what: `tokens` are the roles, `keys` make and verify them, `files` keep them on disk."""

from askance_server.auth.files import (
    KEY_FILE,
    KeyFileError,
    TokenFiles,
    check_private,
    open_keys,
    read_key,
    write_tokens,
)
from askance_server.auth.keys import KEY_BYTES, Keys, bearer
from askance_server.auth.tokens import (
    MAX_EPOCH,
    ROLES,
    AuthError,
    EnrolmentOverError,
    EnrolmentToken,
    ForbiddenError,
    GatewayToken,
    OperatorToken,
    Token,
    UserToken,
)

__all__ = [
    "KEY_BYTES",
    "KEY_FILE",
    "MAX_EPOCH",
    "ROLES",
    "AuthError",
    "EnrolmentOverError",
    "EnrolmentToken",
    "ForbiddenError",
    "GatewayToken",
    "KeyFileError",
    "Keys",
    "OperatorToken",
    "Token",
    "TokenFiles",
    "UserToken",
    "bearer",
    "check_private",
    "open_keys",
    "read_key",
    "write_tokens",
]
