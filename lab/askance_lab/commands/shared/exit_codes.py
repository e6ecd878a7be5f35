"""What an exit code of the command means."""

from __future__ import annotations

from enum import IntEnum


class Exit(IntEnum):
    """One for each way to end."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    UNREACHABLE = 3
    VERSION_MISMATCH = 4
    BUDGET_REFUSED = 5
    CHECK_FAILED = 6
    TOO_FEW_USERS = 7
    INTERRUPTED = 130
