"""What `askance fleet` and `askance client` share: which study to take part in, with which examples, how fast.

A study is known by its name alone, which is the digest of its document. What a server says of a study elsewhere, in a
list for instance, is a hint where to look: what is shown, asked and answered is what the bulletin of that name says.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import numpy as np

from askance_client import BulletinReader, RemoteError, Server
from askance_client.consent import undeclared_fields
from askance_client.population import Population
from askance_lab.commands.shared.exit_codes import Exit, exit_of_cause, say
from askance_lab.commands.shared.table_options import TableOptions
from askance_lab.data.made_up import made_up
from askance_lab.remote.study_client import last_notice, raise_refused, unwrap
from askance_protocol.errors import UsageError
from askance_protocol.rounds import ENDED, StudyEnded, StudySpec, StudyState
from askance_protocol.schema import Schema
from askance_protocol.text import printable
from askance_server.core.study import strategy_named
from askance_server.strategies.registry import registry

_POLL: Final = 0.2
_NAME: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def study_name(text: str) -> str:
    """A study's name, as an option gives it."""
    if _NAME.fullmatch(text) is None:
        raise UsageError("is no name of a study", where="--study", remedy="give the 64 digits that the study has as id")
    return text


async def next_study(url: str, done: Set[str], wait: float) -> str:
    """Name of the oldest study that takes reports and is not among those done; waits until there is one."""
    end = time.monotonic() + wait
    async with Server(url) as server:
        while time.monotonic() < end:
            for study in unwrap(await server.studies()):
                if study["state"] in {"running", "sealed"} and study["id"] not in done:
                    if not isinstance(study["id"], str) or _NAME.fullmatch(study["id"]) is None:
                        raise RemoteError("lists a study without a name", where="server", remedy="is it another one?")
                    return study["id"]
            await asyncio.sleep(_POLL)
    raise UsageError(f"no study appeared in {wait:g} s", where="--wait", remedy="open one: askance demo --server URL")


async def published_study(url: str, name: str) -> StudySpec:
    """The study of this name, from its bulletin. Its digest is the name, whatever the server says beside it."""
    async with Server(url) as server:
        reader = BulletinReader(server, name)
        raise_refused(await reader.refresh())
        return reader.history.study


def population_for(study: StudySpec, seed: int, table: TableOptions, declared: Schema | None = None) -> Population:
    """The users of a study: the rows of a file, in which it gets to declared fields alone, or as its strategy wants."""
    undeclared = undeclared_fields(study.example, declared)
    if undeclared:
        what = f"study {study.digest()[:8]} asks about {', '.join(undeclared)}, which is not declared"
        raise UsageError(what, where="--schema", remedy="nothing was answered: choose another study with --study")
    if table.data is not None:
        return table.rows_for(study.example)
    return made_up(strategy_named(registry(), study.strategy), study.parameters, seed)


@dataclass(slots=True)
class PauseTeller:
    """Says on standard error that, and why, a server has paused a study: once, until it goes on."""

    _told: bool = False

    def __call__(self, reason: str) -> None:
        """Hear why it is paused; an empty text if it is not."""
        if reason and not self._told:
            say(f"the server has paused the study, and may go on later: {reason}")
        self._told = bool(reason)


async def told_ending(reader: BulletinReader) -> Exit:
    """Say on standard error why a study has ended without a hypothesis, if it has; the exit code for it."""
    if reader.refusal is not None or reader.history.bulletin.state not in ENDED:
        return Exit.OK
    if reader.history.bulletin.state is StudyState.FINISHED:
        return Exit.OK
    reason, cause = "the server does not say why", None
    with suppress(RemoteError):  # What was answered is shown all the same.
        last = await last_notice(reader)
        reason, cause = (last.reason, last.cause) if isinstance(last, StudyEnded) else (reason, cause)
    words = "been cancelled" if reader.history.bulletin.state is StudyState.CANCELLED else "failed"
    say(f"study {reader.study[:8]} has {words}: {printable(reason, 500)}")
    return exit_of_cause(cause, finished=False)


async def told_ending_of(url: str, name: str) -> Exit:
    """The same of the study of this name, from its bulletin."""
    async with Server(url) as server:
        reader = BulletinReader(server, name)
        await reader.refresh()
        return await told_ending(reader)


def percentiles(seconds: Sequence[float]) -> dict[str, float]:
    """Milliseconds within which 50, 90, 99 and 100 % of the reports were acknowledged."""
    if not seconds:
        return {}
    shares = (50, 90, 99, 100)
    values = np.percentile(np.array(seconds) * 1000, shares).round(2).tolist()
    return {f"p{share}_milliseconds": value for share, value in zip(shares, values, strict=True)}
