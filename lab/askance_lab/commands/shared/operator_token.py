"""Where a command finds the operator's token: in a file, in the environment, or beside a server of this machine."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from askance_lab.commands.shared.options import read_token, sound_token
from askance_lab.commands.shared.urls import is_loopback, read_url
from askance_protocol.errors import UsageError
from askance_server.auth import TokenFiles
from askance_server.settings import read_settings

_VARIABLE: Final = "ASKANCE_OPERATOR_TOKEN"


def operator_token(path: Path | None, server: str) -> str:
    """The operator's token: of the file that is named, of the environment, or of the data directory on this machine.

    The last is shown to a server on this machine alone: another one would have it from then on.
    """
    local = is_loopback(read_url(server).host)
    if path is None and (given := os.environ.get(_VARIABLE)):
        return sound_token(given, _VARIABLE, "operator token")
    if path is None and local:
        path = TokenFiles.of(read_settings().directory).operator
        path = path if path.exists() else None
    if path is None:
        near = ", or run this where the server's askance-data is" if local else ""
        remedy = f"give --operator-token FILE, or set {_VARIABLE}{near}"
        raise UsageError("has not been given", where="operator token", remedy=remedy)
    return read_token(path, "operator token")
