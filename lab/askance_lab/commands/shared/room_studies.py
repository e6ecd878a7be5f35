"""What a room has been asked before: who starts `askance ask` again with a question that is open goes on with it.

A command that was killed has left a study on its server's ledger, and people who have paid for it. To open the same
question anew would ask them twice, and they could not pay. So a question is looked for, by all that an answer depends
on: its words, what can be answered, and ε. When it ends was fixed when it was opened, and stays.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from askance_lab.commands.shared.room_questions import RoomQuestion
from askance_lab.remote.management import ServerDocument, is_over
from askance_protocol.rounds import read_study
from askance_server.ledger.base import LedgerBusyError
from askance_server.ledger.sqlite.opening import lock

STRATEGY: Final = "poll"
_FREE: Final = 5.0
"""Seconds for which the server of a command before this one may still be at its end."""


def asked_before(studies: Sequence[ServerDocument], question: RoomQuestion) -> ServerDocument | None:
    """The study that asks this very question: one that is open, else the last one."""
    same = [study for study in studies if _asks(study["study"], question)]
    return next((study for study in reversed(same) if not is_over(study)), same[-1] if same else None)


def _asks(document: Any, question: RoomQuestion) -> bool:
    if (document["strategy"], document["title"]) != (STRATEGY, question.words):
        return False
    study = read_study(json.dumps(document))
    asked = study.parameters.get("epsilon"), study.example, study.simulated
    return asked == (question.epsilon, question.example, False)


def wait_until_free(directory: Path) -> None:
    """Wait for the end of a server that is at this ledger: its port is free then, and phones find the next one there.

    One that stays is told by the start of the next.
    """
    end = time.monotonic() + _FREE
    while directory.is_dir() and time.monotonic() < end:
        try:
            os.close(lock(directory))
        except LedgerBusyError:
            time.sleep(0.05)
        else:
            return
