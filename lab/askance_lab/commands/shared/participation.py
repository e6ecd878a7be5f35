"""What `askance fleet` and `askance client` share: which study to take part in, with which examples, how fast.

A study is known by its name alone, which is the digest of its document. What a server says of a study elsewhere, in a
list for instance, is a hint where to look: what is shown, asked and answered is what the bulletin of that name says.
"""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
import time
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from askance_client import BulletinReader, RemoteError, Server, StudyNews
from askance_client.consent import undeclared_fields
from askance_client.history import History
from askance_client.population import Population
from askance_client.transport import Polling
from askance_lab.commands.shared.exit_codes import Exit, exit_of_cause, say
from askance_lab.commands.shared.options import DEFAULT_SERVER
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.table_options import TableOptions
from askance_lab.data.made_up import made_up
from askance_lab.remote.management import find_study
from askance_lab.remote.study_client import last_notice, raise_refused, unwrap
from askance_protocol.errors import AskanceError, Code, UsageError
from askance_protocol.rounds import ENDED, StudyEnded, StudySpec, StudyState
from askance_protocol.schema import Schema
from askance_protocol.text import printable
from askance_server.core.study import strategy_named
from askance_server.strategies.registry import registry

_POLL: Final = 0.2
"""Seconds between two looks for a study at first, at most; 32 times as many where none comes."""
WHOLE_NAME: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_DIGITS: Final = re.compile(r"[0-9a-f]{4,64}", re.ASCII)


class StudyOverThereError(AskanceError):
    """The study that was named takes no reports any more."""

    code = Code.STUDY_OVER


def study_digits(text: str) -> str:
    """The digits by which an option names a study: all of them, or the first."""
    if _DIGITS.fullmatch(text) is None:
        remedy = "give the first digits of its id, four or more: askance study list"
        raise UsageError("is no name of a study", where="--study", remedy=remedy)
    return text


def study_name(text: str) -> str:
    """A study's name, as an option gives it."""
    if WHOLE_NAME.fullmatch(text) is None:
        raise UsageError("is no name of a study", where="--study", remedy="give the 64 digits that the study has as id")
    return text


async def whole_name(server: Server, name: str) -> str:
    """The whole name of the study whose name begins so; a whole one stays, whatever the server says of it."""
    found = str((await find_study(server, name))["id"])
    return study_name(name if len(name) == len(found) else found)


async def next_study(url: str, done: Set[str], wait: float) -> str:
    """Name of the oldest study that takes reports and is not among those done; says so, and waits, until there is one.

    It looks less and less often. The first look is at once, however short the wait.
    """
    end, polling = time.monotonic() + wait, Polling(_POLL)
    async with Server(url) as server:
        if (found := await running_study(server, done)) is not None:
            return found
        if wait:
            say(f"waits {wait:g} s at most for a study of {server.url} (its operator opens one: askance study create)")
        while time.monotonic() < end:
            await asyncio.sleep(min(polling.pause(news=False), max(end - time.monotonic(), 0)))
            if (found := await running_study(server, done)) is not None:
                return found
    remedy = "open one, askance study create, or wait longer"
    raise UsageError(f"no study appeared in {wait:g} s", where="--wait", remedy=remedy)


async def running_study(server: Server, done: Set[str]) -> str | None:
    """Name of the oldest study that takes reports and is not among those done, if there is one now."""
    for study in unwrap(await server.studies()):
        if study["state"] in {"running", "sealed"} and study["id"] not in done:
            if not isinstance(study["id"], str) or WHOLE_NAME.fullmatch(study["id"]) is None:
                raise RemoteError("lists a study without a name", where="server", remedy="is it another one?")
            return study["id"]
    return None


async def published_history(url: str, name: str) -> History:
    """The study of this name, from its bulletin. Its digest is the name, whatever the server says beside it."""
    async with Server(url) as server:
        reader = BulletinReader(server, name)
        raise_refused(await reader.refresh())
        return reader.history


def population_for(study: StudySpec, seed: int, table: TableOptions, declared: Schema | None = None) -> Population:
    """The users of a study: the rows of a file, in which it gets to declared fields alone, or as its strategy wants."""
    undeclared = undeclared_fields(study.example, declared)
    if undeclared:
        what = f"study {study.digest()[:8]} asks about {', '.join(undeclared)}, which is not declared"
        raise UsageError(what, where="--schema", remedy="nothing was answered: choose another study with --study")
    if table.data is not None:
        with ProgressBar("reading", quiet=True) as bar:
            return table.rows_for(study.example, bar.tell)
    return made_up(strategy_named(registry(), study.strategy), study.parameters, seed)


@dataclass(slots=True)
class NewsTeller:
    """Says on standard error what one is too late for and what the study waits for: once, and again if it changes."""

    closing: str
    """Who closes the open round before its time, and by which command."""
    _late: set[str] = field(default_factory=set[str])
    _last: StudyNews = field(default_factory=StudyNews)

    def __call__(self, news: StudyNews) -> None:
        """Hear how the study stands."""
        late = [line for line in news.lateness() if line not in self._late]
        answered = [] if news.answered == self._last.answered else [*news.progress()]
        paused = [] if news.paused == self._last.paused else [*news.pause()]
        short = [] if news.short == self._last.short else [*news.waiting(time.time())]
        for line in (*late, *answered, *paused, *(f"{each}; {self.closing}" for each in short)):
            say(line)
        self._late.update(late)
        self._last = news


def close_command(server: str, study: str, operator: Path | None) -> str:
    """The command that closes the open round of a study, as it can be typed here."""
    words = ["askance", "study", "close", study[:8]]
    words += [] if server == DEFAULT_SERVER else ["--server", server]
    words += [] if operator is None else ["--operator-token", str(operator)]
    return shlex.join(words)


def typed_again(*more: str) -> str:
    """The command that was typed, to be typed again with these words behind it."""
    return shlex.join(["askance", *sys.argv[1:], *more])


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
