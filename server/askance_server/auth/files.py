"""Key and token files: what a data directory holds of them, readable by their owner alone."""

from __future__ import annotations

import os
import re
import secrets
import stat
from collections.abc import Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from askance_protocol.errors import AskanceError, Code, ProtocolError
from askance_server.auth.keys import KEY_BYTES, MAX_TOKEN, Keys
from askance_server.auth.tokens import EnrolmentToken, OperatorToken
from askance_server.durable import make_directory, sync_names

KEY_FILE: Final = "server.key"


class KeyFileError(ProtocolError):
    """A key or token file that is not safe to use. Names the file and the command that repairs it."""

    code = Code.DATA
    most = AskanceError.most  # The path stands there whole.


@dataclass(frozen=True, slots=True)
class TokenFiles:
    """Paths of the tokens that the server writes on its first start."""

    operator: Path
    enrolment: Path

    @classmethod
    def of(cls, directory: Path) -> TokenFiles:
        """The files of a data directory."""
        return cls(directory / "operator.token", directory / "enrolment.token")


def open_keys(directory: Path, server_key: bytes | None = None) -> Keys:
    """The keys of a data directory: from the given server key, else from its key file, else new ones."""
    _make_directory(directory)
    return Keys(_key_of(directory / KEY_FILE) if server_key is None else server_key)


def write_tokens(directory: Path, keys: Keys, *, unlimited: bool = True) -> TokenFiles:
    """Write the operator's and the enrolment token to files; write them again after a change of key.

    Where enrolment is limited there is none for enrolment, and one of an earlier start goes.
    """
    files = TokenFiles.of(directory)
    _write_token(files.operator, keys.mint(OperatorToken("operator")))
    if unlimited:
        _write_token(files.enrolment, keys.mint(EnrolmentToken("enrolment")))
    else:
        files.enrolment.unlink(missing_ok=True)
    return files


def check_private(path: Path) -> None:
    """Refuse a file that anyone but its owner can read or write."""
    _check_mode(path, path.stat().st_mode)


def read_key(path: Path) -> bytes:
    """The server key in a key file: 64 hexadecimal digits, readable by its owner alone."""
    text = _read_private(path).strip()
    if re.fullmatch(r"[0-9a-fA-F]{64}", text, re.ASCII) is None:
        remedy = "restore it from a backup; or delete it, and every token that was ever given out is void"
        raise KeyFileError("does not hold 64 hexadecimal digits", where=str(path), remedy=remedy)
    return bytes.fromhex(text)


def _key_of(path: Path) -> bytes:
    if not path.exists():
        # Linked when it is whole: a process killed in between leaves no half key, and no other process meets one.
        # Another may be first: then its key counts.
        with _beside(path, secrets.token_hex(KEY_BYTES)) as fresh, suppress(FileExistsError):
            path.hardlink_to(fresh)
        sync_names(path.parent)  # Tokens that it signs are given out: it must not be gone after a power cut.
    return read_key(path)


def _make_directory(directory: Path) -> None:
    try:
        make_directory(directory)
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
    """Write a private file with this text under a name that no other process uses: in containers all pids are 1."""
    fresh = path.with_name(f"{path.name}.{secrets.token_hex(8)}")
    try:
        _create_private(fresh, text)
        yield fresh
    finally:
        fresh.unlink(missing_ok=True)


def _create_private(path: Path, text: str) -> None:
    try:
        descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
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
            return file.read(MAX_TOKEN)
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
