"""`askance demo`: what a second round is worth, shown on many concepts; one more live, over HTTP.

Two learners of MASKED-PARITY ask the same users, each at ε = 1: A_MP in exactly two rounds, and the strongest strategy
here that asks everything in one (KLNRS11, §5.3). One concept shows little, as a guess is right half of the time. So all
concepts but one are learned in this process, by the server's own plans and the users' own channels, where two rounds
win: d = 16, 40,000 users. For the last there is a server, and client processes in which each user has a wallet. It is
smaller, because each of its users is real work: so small that a learner needs more than two rounds to be better than
one in one. It shows the protocol. With `--server` the demo conducts clients that run elsewhere.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Final, TypeVar

import httpx
import typer
from rich.console import Console
from rich.text import Text

from askance_client import BulletinReader, RemoteError, Server, UnreachableError
from askance_lab.commands.shared.exit_codes import Exit, exit_of_cause, say
from askance_lab.commands.shared.export_files import write_export
from askance_lab.commands.shared.operator_token import operator_token
from askance_lab.commands.shared.options import (
    DEFAULT_SERVER,
    EpsilonOption,
    JsonOption,
    OperatorOption,
    examples,
)
from askance_lab.commands.shared.progress import ProgressBar
from askance_lab.commands.shared.scratch import ScratchFolder, ended_in_order, scratch_folder
from askance_lab.commands.shared.second_round_text import (
    concept_text,
    conclusion,
    contradiction_text,
    error_grid,
    introduction,
    learner_lines,
    live_text,
    mean_bars,
    quarter_note,
)
from askance_lab.commands.shared.window import NARROW
from askance_lab.evaluation.proportion import Proportion
from askance_lab.experiments.second_round import (
    FAILURE,
    LEARNERS,
    LIVE_LEARNERS,
    ConceptResult,
    ConceptTask,
    SecondRound,
    check_task,
    conclude,
    contradicts,
    how_often,
    learn_in_process,
    name_by_rounds,
    truth_of,
)
from askance_lab.remote.child import COMMAND
from askance_lab.remote.local_server import LocalServer, how, local_server
from askance_lab.remote.management import entries_of
from askance_lab.remote.study_client import (
    StudyResult,
    TooFewUsersThereError,
    check_server,
    create,
    ended,
    unwrap,
)
from askance_protocol.budget import charge_from_text, to_text
from askance_protocol.errors import AskanceError, UsageError
from askance_protocol.rounds import StudyState
from askance_server.core.export import export_files
from askance_server.strategies.registry import registry

SCHEMA_VERSION: Final = 1
IN_PROCESS: Final = (16, 40_000)
"""d and users where two rounds win: `askance separation --table` has what they need."""
_SECONDS: Final = 600
_POLL: Final = 0.2
_COMMAND: Final = (*COMMAND, "fleet", "--json")
_ENDS: Final = frozenset({Exit.OK, Exit.CHECK_FAILED, Exit.TOO_FEW_USERS})
"""How a fleet ends that has done its work: a study that failed is told of by the study."""

T = TypeVar("T")

app = typer.Typer()


@dataclass(frozen=True, slots=True)
class DemoOptions:
    """Options of the command line."""

    task: ConceptTask
    """Of the concepts that are learned in this process."""
    live: ConceptTask
    """Of the one that is learned over HTTP."""
    concepts: int
    seed: int
    clients: int
    as_json: bool
    begun: float
    export: Path | None = None
    """Folder for what the two live studies have published."""


@dataclass(frozen=True, slots=True)
class DemoResult:
    """What one learner came to on one concept, and how its study ended."""

    learned: ConceptResult
    seconds: float
    study: str = ""
    """Of the server that was asked; nothing where a study ran in this process, or was refused."""
    end: StudyResult | None = None
    refused: str = ""
    """Why the server would not open the study."""


@app.command(
    epilog=examples(
        "askance demo",
        "askance demo --users 8000 --d 8 --concepts 100",
        "askance demo --server http://127.0.0.1:8080 --operator-token askance-data/operator.token --json",
    )
)
def demo(
    context: typer.Context,
    users: Annotated[
        int,
        typer.Option(
            "--users",
            min=100,
            max=1_000_000,
            help="Number of users of each concept.  [default: 40000, of the live one 3000]",
            show_default=False,
        ),
    ] = 3000,
    d: Annotated[
        int,
        typer.Option(
            "--d",
            min=2,
            max=64,
            help="Number of bits of an example, a power of two.  [default: 16, of the live concept 8]",
            show_default=False,
        ),
    ] = 8,
    live_users: Annotated[
        int | None,
        typer.Option("--live-users", min=100, max=1_000_000, help="Number of users of the live concept alone."),
    ] = None,
    epsilon: EpsilonOption = "1",
    concepts: Annotated[
        int, typer.Option("--concepts", min=1, max=1000, help="Number of concepts that both learners learn.")
    ] = 40,
    seed: Annotated[
        int, typer.Option("--seed", min=0, help="Seed of the simulated population: its examples and its truth.")
    ] = 1,
    clients: Annotated[
        int, typer.Option("--clients", min=1, max=16, help="Number of client processes that share the users.")
    ] = 4,
    port: Annotated[
        int,
        typer.Option(
            "--port", min=0, max=65535, help="Port of the server; the next free one if it is taken, 0 for any."
        ),
    ] = 8080,
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            envvar="ASKANCE_SERVER",
            help="Use this server and the fleets that are connected to it, instead of starting some.",
        ),
    ] = None,
    operator: OperatorOption = None,
    public: Annotated[
        str | None,
        typer.Option(
            "--public-url",
            metavar="URL",
            envvar="ASKANCE_PUBLIC_URL",
            help="Address of --server to print for readers, if they reach it by another.",
        ),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="DIR",
            help="Write both live studies to this new folder, for askance study verify DIR/LEARNER.",
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Show what a second round is worth: two learners, many concepts, the same users.

    masked-parity-two-rounds asks in two rounds, masked-parity-noninteractive in one round. You see the errors of both
    on each concept, what follows from them, and the number of users that no learner in one round can do without. The
    last concept is live: a small one, over a server and its clients, learned by masked-parity-pooled in up to six
    rounds, beside masked-parity-noninteractive in one round.
    """
    own_d, own_users = (
        given if _is_given(context, name) else own
        for name, given, own in (("d", d, IN_PROCESS[0]), ("users", users, IN_PROCESS[1]))
    )
    task, live = ConceptTask(own_d, epsilon, own_users), ConceptTask(d, epsilon, live_users or users)
    asked = DemoOptions(task, live, concepts, seed, clients, as_json, time.monotonic(), export)
    for each in (asked.task, asked.live):
        check_task(each)
    if export is not None:
        _make_export(export)
    with ended_in_order():
        if server is None:
            code = _with_own_server(asked, port)
        else:
            code = _with_server(asked, server.rstrip("/"), (public or server).rstrip("/"), operator)
    raise typer.Exit(code)


def _is_given(context: typer.Context, name: str) -> bool:
    """Whether an option was written, and is not at its default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name != "DEFAULT"


def _make_export(folder: Path) -> None:
    """Make the folder now: where that is impossible, nothing has been computed in vain."""
    try:
        folder.mkdir(parents=True)
    except FileExistsError:
        raise UsageError("is there already", where="--export", remedy="name a new folder") from None
    except OSError as error:
        remedy = "name a folder that you can write to"
        raise UsageError(f"{folder} cannot be made: {error.strerror}", where="--export", remedy=remedy) from None


def _with_own_server(asked: DemoOptions, port: int) -> Exit:
    """The demo with a server and clients of its own; both end with it, and leave nothing behind."""
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(scratch_folder("demo"))
        found = stack.enter_context(local_server(folder.path / "server", _cap(asked), port, keep=folder.descriptors))
        if port and httpx.URL(found.url).port != port:
            say(f"port {port} is taken: the demo's server has port {httpx.URL(found.url).port}")
        fleet = stack.enter_context(_clients(asked, found, folder))
        # The server ends with this command, unless somebody at a terminal says when.
        stays = not asked.as_json and sys.stdin.isatty() and sys.stdout.isatty()
        shown = Shown(asked, found.url if stays else "")
        shown.begin()
        shown.learn_in_process()
        try:
            _while_alive(_conduct(shown, found.url, found.operator, {}), lambda: _check_alive(found, fleet))
        except UnreachableError:
            _check_alive(found, fleet)
            raise
        code = shown.end(_results(fleet))
        if stays:
            typer.echo("\nThe server runs until you press Enter.")
            sys.stdin.readline()
    return code


def _with_server(asked: DemoOptions, url: str, public: str, operator: Path | None) -> Exit:
    """The demo on a server that somebody else has started, with the fleets that are connected to it."""
    token = operator_token(operator, url)
    shown = Shown(asked, public, own=False)
    # Before anything is learned here: meanwhile the users may go on with what was interrupted, to its end.
    going = asyncio.run(_going(url))
    shown.begin(url)
    shown.learn_in_process()
    asyncio.run(_conduct(shown, url, token, going))
    return shown.end({})


def _cap(asked: DemoOptions) -> str:
    """A lifetime's budget: one report to each learner."""
    return to_text(len(LIVE_LEARNERS) * charge_from_text(asked.task.epsilon))


# ---------------------------------------------------------------------------------------------------------- clients


@contextlib.contextmanager
def _clients(asked: DemoOptions, found: LocalServer, folder: ScratchFolder) -> Generator[list[subprocess.Popen[str]]]:
    """The client processes, each with its share of the users, and a log of its own."""
    fleet: list[subprocess.Popen[str]] = []
    with contextlib.ExitStack() as stack:
        try:
            for number in range(asked.clients):
                begin, end = (asked.live.users * k // asked.clients for k in (number, number + 1))
                options = _options(asked, found, folder.path / f"client-{number}", range(begin, end))
                log = stack.enter_context((_log_of(folder.path, number)).open("w"))
                fleet.append(
                    subprocess.Popen(  # noqa: S603 - our own command
                        options,
                        stdout=subprocess.PIPE,
                        stderr=log,
                        text=True,
                        env=_environment(),
                        pass_fds=folder.descriptors,
                    )
                )
            yield fleet
        finally:
            for process in fleet:
                process.terminate()
            for process in fleet:
                _make_end(process)


def _make_end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _log_of(folder: Path, number: int) -> Path:
    return folder / f"client-{number}.log"


def _options(asked: DemoOptions, found: LocalServer, wallets: Path, rows: range) -> list[str]:
    options = {
        "--server": found.url,
        "--enrolment-token": str(found.directory / "enrolment.token"),
        "--wallets": str(wallets),
        "--users": str(len(rows)),
        "--first": str(rows.start),
        "--seed": str(asked.seed),
        "--cap": _cap(asked),
        "--studies": str(len(LIVE_LEARNERS)),
    }
    return [*_COMMAND, *(text for pair in options.items() for text in pair)]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ASKANCE_")}


def _check_alive(found: LocalServer, fleet: Sequence[subprocess.Popen[str]]) -> None:
    """Raise an error if the server or a client has ended before its time: what it was to do will not be done."""
    remedy = "run askance demo again"
    if (what := found.end) is not None:
        raise UnreachableError(what, where="the demo's server", remedy=remedy)
    for number, process in enumerate(fleet):
        if process.poll() not in {None, *_ENDS}:
            log = _log_of(found.directory.parent, number)
            lines = log.read_text("utf-8", "replace").splitlines() or ["its log is empty"]
            what = f"has ended {how(process.returncode)}, its users answer no more: {lines[-1]}"
            raise RemoteError(what, where=f"client {number + 1} of {len(fleet)}", remedy=remedy)


def _while_alive(work: Coroutine[Any, Any, T], check: Callable[[], None]) -> T:
    """Run this to its end; `check` is called a few times a second, and may raise an error."""

    async def watched() -> T:
        task = asyncio.create_task(work)
        try:
            while not (await asyncio.wait({task}, timeout=_POLL))[0]:
                check()
            return task.result()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return asyncio.run(watched())


def _results(fleet: Sequence[subprocess.Popen[str]]) -> dict[str, Counter[str]]:
    """What the clients say of each learner."""
    counted: dict[str, Counter[str]] = {learner: Counter() for learner in LIVE_LEARNERS}
    for process in fleet:
        printed, _ = process.communicate(timeout=_SECONDS)
        if process.returncode and not printed:  # A study that has failed is told of below.
            raise RemoteError(f"ended with exit code {process.returncode}", where="client", remedy="run askance fleet")
        for study in json.loads(printed)["studies"]:
            counted[study["strategy"]].update(study["results"])
    return counted


# -------------------------------------------------------------------------------------------------------- conducting


async def _conduct(shown: Shown, url: str, token: str, going: Mapping[str, str]) -> None:
    """Wait for the users, then open one study after the other, but those that go on; as it ends each is shown."""
    asked = shown.asked
    async with Server(url) as server:
        await _enrolled(server, asked.live.users)
        shown.begin_live()
        for learner in LIVE_LEARNERS:
            try:
                study = going.get(learner) or (await _opened(server, token, asked, learner))
            except TooFewUsersThereError as error:
                shown.refuse(learner, error)
                continue
            with _bar(f"{name_by_rounds(learner)}: reports", asked.live.users) as bar:
                end = await ended(BulletinReader(server, study), bar.at)
                bar.at(sum(end.received))
                bar.end()
            if asked.export is not None:
                write_export(asked.export / learner, export_files(await entries_of(server, study), registry()))
            shown.add_live(learner, study, end)


async def _opened(server: Server, token: str, asked: DemoOptions, learner: str) -> str:
    return (await create(server, token, learner, asked.live.parameters, _title(learner))).id


def _title(learner: str) -> str:
    return f"Demo: {learner}"


async def _going(url: str) -> dict[str, str]:
    """The studies of a demo that was interrupted, by learner: the users go on with them, so it does too."""
    await check_server(url)
    async with Server(url) as server:
        studies = unwrap(await server.studies())
    found = [(each["study"], each) for each in studies if each["state"] in {"running", "sealed"}]
    return {spec["strategy"]: each["id"] for spec, each in found if spec["title"] == _title(spec["strategy"])}


async def _enrolled(server: Server, users: int) -> None:
    """Wait until as many users are enrolled."""
    end = time.monotonic() + _SECONDS
    with _bar("enrolment", users) as bar:
        while (there := await server.metric("askance_users")) < users:
            if time.monotonic() > end:
                what = f"{there} of {users} users have enrolled in {_SECONDS} s"
                raise RemoteError(what, where="clients", remedy="see their logs: askance fleet")
            bar.at(there)
            await asyncio.sleep(_POLL)
        bar.at(users)
        bar.end()


def _bar(label: str, total: int) -> ProgressBar:
    """A bar that is gone when its work is done, as the result stands in its place; elsewhere lines, which stay."""
    return ProgressBar(label, total, quiet=sys.stderr.isatty())


# ------------------------------------------------------------------------------------------------------- what is shown


class Shown:
    """What was learned so far. As text it is printed as it comes; as JSON, at the end."""

    def __init__(self, asked: DemoOptions, url: str, *, own: bool = True) -> None:
        self.asked = asked
        self.url = url
        """Of the server, for readers; nothing if it ends with this command."""
        self.own = own
        self.results = list[DemoResult]()
        self._console = Console(highlight=False, soft_wrap=True)
        self._width = max(NARROW, self._console.width) if self._console.is_terminal else NARROW

    def _print(self, *lines: Text | str) -> None:
        if not self.asked.as_json:
            for line in lines:
                self._console.print(line, markup=False)
            sys.stdout.flush()

    @property
    def _live(self) -> int:
        """Number of the concept that is learned over HTTP."""
        return self.asked.concepts

    def begin(self, reached: str = "") -> None:
        """Say what will be seen, and where to look meanwhile."""
        if self.url and not self.asked.as_json:
            self._print(f"in a browser: {self.url}{first_page(reached or self.url)}", "")
        self._print(*introduction(self.asked.task, self.asked.concepts, self._width))

    def learn_in_process(self) -> None:
        """Let both learners learn all concepts but the last; seeds are those after the last one's."""
        asked, several = self.asked, range(1, self._live)
        if not several:
            return
        with _bar("concepts", len(several)) as bar:
            for concept in several:
                for learner in LEARNERS:
                    learned = learn_in_process(asked.task, learner, concept, asked.seed + concept)
                    self.results.append(DemoResult(learned, self._seconds()))
                bar.at(concept)
            bar.end()
        which = f"concepts 1 to {len(several)}" if len(several) > 1 else "concept 1"
        self._print("", Text(f"error on {which}, learned in this process (0: exactly right)", "bold"))
        self._print(*error_grid([each.learned for each in self.results], self._width))

    def begin_live(self) -> None:
        """Say whose answers are waited for now."""
        number = self.asked.clients
        where = f"{number} client process{'es' if number > 1 else ''}" if self.own else "the fleets"
        self._print("", Text(f"concept {self._live}, live: a server and {where}", "bold"))
        self._print(*live_text(self.asked.live, self._width))

    def refuse(self, learner: str, error: AskanceError) -> None:
        """Note that the server opened no study, as too few users can pay."""
        # What the server advises an analyst is no help here: what to do is said at the end.
        learned = self._learned(learner, {}, 0, 0, error.what.partition(" (")[0])
        self.results.append(DemoResult(learned, self._seconds(), refused=str(error)))
        self._print(*learner_lines(learned, self._width))

    def add_live(self, learner: str, study: str, end: StudyResult) -> None:
        """Note how a study on the server has ended."""
        learned = self._learned(learner, end.hypothesis, sum(end.received), end.rounds, end.reason)
        self.results.append(DemoResult(learned, self._seconds(), study, end))
        self._print(*learner_lines(learned, self._width))

    def _learned(
        self, learner: str, hypothesis: Mapping[str, Any], users: int, rounds: int, reason: str
    ) -> ConceptResult:
        seed, truth = self.asked.seed, truth_of(self.asked.live, self.asked.seed)
        return ConceptResult(self._live, seed, learner, truth, dict(hypothesis), users, rounds, reason)

    def _seconds(self) -> float:
        return time.monotonic() - self.asked.begun

    def end(self, clients: Mapping[str, Counter[str]]) -> Exit:
        """Say what follows from all of it; the exit code."""
        live = [each for each in self.results if each.learned.concept == self._live]
        several = [each.learned for each in self.results if each.learned.concept != self._live]
        # One live concept is all that there is where one was asked for; else its users are others.
        shown = (
            conclude(self.asked.task, several)
            if several
            else conclude(self._answered(live), _learned(live), LIVE_LEARNERS)
        )
        often = self._often(live, shown) if several else None
        if self.asked.as_json:
            typer.echo(json.dumps(self._document(shown, clients, often)))
        else:
            self._print(f"{'':11}the truth: {concept_text(truth_of(self.asked.live, self.asked.seed))}")
            self._print(*_spent(live, clients))
            if shown is not None:
                if often is not None:
                    self._print("", *contradiction_text(self._answered(live), often, self._width))
                which = f"concepts 1 to {len(several) // 2}" if several else f"concept {self._live}"
                self._print("", Text(f"what follows from {which}", "bold"))
                self._print(*mean_bars(shown), *quarter_note(shown, self._width))
                self._print("", *conclusion(shown, self._width))
            self._print(*self._addresses(live))
        if any(each.refused for each in live):
            say(
                "the users of this server have spent their ε, or too few are left who can pay: enrol new ones, or "
                "begin with a new server; in containers: docker compose down --volumes"
            )
            return Exit.TOO_FEW_USERS
        ends = [each.end for each in live if each.end is not None and each.end.state is not StudyState.FINISHED]
        return exit_of_cause(ends[0].cause, finished=False) if ends else Exit.OK

    def _answered(self, live: Sequence[DemoResult]) -> ConceptTask:
        """The live task with the users who answered: some had no ε remaining, or more are there than were named."""
        users = [each.learned.users for each in live if each.end is not None]
        return replace(self.asked.live, users=max(users, default=self.asked.live.users))

    def _often(self, live: Sequence[DemoResult], shown: SecondRound | None) -> Proportion | None:
        """How often one such concept contradicts the conclusion; None where this one does not."""
        if shown is None or not contradicts(_learned(live), shown):
            return None
        return how_often(self._answered(live), shown, self.asked.seed)

    def _addresses(self, live: Sequence[DemoResult]) -> list[str]:
        """Where to look at it: nowhere, if the server is gone when somebody reads this."""
        opened = [each for each in live if each.study]
        if not self.url or not opened:
            return []
        server = "" if self.url == DEFAULT_SERVER else f" --server {self.url}"
        shows = [
            f"  askance study show {each.study[:12]}{server}  ({name_by_rounds(each.learned.learner)})"
            for each in opened
        ]
        return [
            "",
            f"every endpoint: {self.url}/docs",
            "the live studies, as long as the server runs:",
            *shows,
            "take one along, and check it without the server:",
            f"  askance study export {opened[0].study[:12]}{server} --out demo",
            "  askance study verify demo",
        ]

    def _document(
        self, shown: SecondRound | None, clients: Mapping[str, Counter[str]], often: Proportion | None
    ) -> dict[str, Any]:
        asked = self.asked
        return {
            "schema_version": SCHEMA_VERSION,
            "server": self.url or None,
            "d": asked.task.d,
            "epsilon": asked.task.epsilon,
            "users": asked.task.users,
            "concepts": asked.concepts,
            "truth": dict(truth_of(asked.live, asked.seed)),
            "learners": [self._row(each, clients) for each in self.results],
            "conclusion": None if shown is None else shown.sentence,
            "live": {
                "d": asked.live.d,
                "users": asked.live.users,
                "contradicts": often is not None,
                "studies": None if often is None else often.total,
                "studies_that_contradict": None if often is None else often.count,
            },
            "separation": None if shown is None else _separation(shown),
            "limit": None if shown is None else _limit(shown),
        }

    def _row(self, result: DemoResult, clients: Mapping[str, Counter[str]]) -> dict[str, Any]:
        learned, end = result.learned, result.end
        live = learned.concept == self._live
        counted = clients.get(learned.learner) if live else None
        finished = learned.error is not None
        state = end.state.value if end is not None else "finished" if finished else "failed"
        charge = charge_from_text(self.asked.task.epsilon) if learned.users else 0
        return {
            "concept": learned.concept,
            "learner": learned.learner,
            "strategy": learned.learner,
            "d": (self.asked.live if live else self.asked.task).d,
            "over": "http" if live else "process",
            "seed": learned.seed,
            "truth": dict(learned.truth),
            "rounds": learned.rounds,
            "users": learned.users,
            "hypothesis": dict(learned.hypothesis),
            "error": learned.error,
            "max_spent_micro_epsilon": charge if end is None else end.charge,
            "refusals": None if counted is None else counted.total() - counted["answered"],
            "state": state,
            "reason": result.refused or learned.text,
            "seconds_since_the_start": round(result.seconds, 1),
            "study": result.study or None,
            "url": f"{self.url}/v1/studies/{result.study}" if self.url and result.study else None,
        }


def first_page(url: str) -> str:
    """Path of the first page that a browser can open on this server: its own, or else that of its endpoints."""
    with contextlib.suppress(httpx.HTTPError):
        found = httpx.get(f"{url}/", headers={"accept": "text/html"}, timeout=5)
        if found.is_success and found.headers.get("content-type", "").startswith("text/html"):
            return "/"
    return "/docs"


def _learned(results: Sequence[DemoResult]) -> list[ConceptResult]:
    return [each.learned for each in results]


def _spent(live: Sequence[DemoResult], clients: Mapping[str, Counter[str]]) -> list[str]:
    """What a user paid for it, and whether a wallet refused."""
    charge = max((each.end.charge for each in live if each.end is not None), default=0)
    if not charge:
        return []
    refused = sum(counted.total() - counted["answered"] for counted in clients.values())
    told = f"; refusals by wallets: {refused:,}" if clients else ""
    return [f"{'':11}ε = {to_text(charge)} at most paid to a learner{told}"]


def _separation(shown: SecondRound) -> dict[str, Any]:
    many, once = shown.right
    return {
        "in_rounds": shown.in_rounds.learner,
        "most_rounds": max(shown.in_rounds.rounds),
        "at_once": shown.at_once.learner,
        "right_in_rounds": many.with_interval,
        "right_at_once": once.with_interval,
        "concepts": many.total,
        "difference": shown.difference,
        "mean_error_in_rounds": shown.in_rounds.error,
        "mean_error_at_once": shown.at_once.error,
        "level": many.confidence,
    }


def _limit(shown: SecondRound) -> dict[str, Any]:
    return {
        "kind": "lower limit for every learner in one round, one report of each user; proved, and nothing assumed",
        "theorem": "at-once-proved",
        "success": 1 - FAILURE,
        "at_once": shown.needed.at_once_limit,
        "asked_in_rounds": {"mean": sum(shown.asked) / len(shown.asked), "most": max(shown.asked)},
        "higher": [
            {"d": each.d, "at_once": each.at_once_limit, "in_rounds": each.in_rounds, "measured": each.measured}
            for each in shown.higher
        ],
    }
