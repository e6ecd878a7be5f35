"""make mutants: change a module in one place, run its tests, and see whether one of them fails.

No file of the tree is touched. This process has imported what the tests need but nothing of the project. For each
mutant it forks; the child puts an importer in front that gives the changed module, runs pytest in its own process, and
its exit code is the verdict. So a mutant costs the tests and no start of an interpreter. (Tests that start processes
of their own see the module as it is: what only they would notice survives here.)

A module in JavaScript is changed likewise: Node is given a loader (`swapped.mjs`) that puts the changed text in
place of the file, whichever test starts it. Pages in a browser are not reached by that.

Which tests concern which modules: `groups.toml`. What survives and why: `survivors/`, a file a group. Mutants are drawn
by a digest of what they change, so a sample stays the same while other code changes.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
import tomllib
import traceback
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import pytest

from tests.mutation import javascript, operators
from tests.mutation.operators import Change, Mutant, edited

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
INSTALLED = (sys.prefix, sys.base_prefix)  # what is under these is not the project
SHARE = 0.95
FAULTY = 70  # exit code: the tool itself is at fault, no test has spoken
MEMORY = 8 << 30  # a changed bound may ask for all there is


class Verdict(Enum):
    KILLED = "killed"
    HUNG = "hung"
    SURVIVED = "survived"


# ------------------------------------------------------------------------------------------------------- in the child


class ChangedModule(importlib.abc.MetaPathFinder, importlib.machinery.SourceFileLoader):
    """Gives one module's changed code; all else about it is as it was."""

    def __init__(self, module: str, path: str, code: CodeType) -> None:
        super().__init__(module, path)
        self.code = code

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        return importlib.util.spec_from_file_location(fullname, self.path, loader=self)

    def get_code(self, fullname: str) -> CodeType:
        return self.code


class Quickest:
    """What has taken least comes first, and how long each test took."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self.known, self.seconds = seconds, defaultdict[str, float](float)

    def pytest_configure(self) -> None:
        # pytest's own importer is in front by now: it takes a module named *_test.py for a test, and reads the file.
        sys.meta_path.sort(key=lambda finder: not isinstance(finder, ChangedModule))

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        items.sort(key=lambda item: self.known.get(item.nodeid, 0.0))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.seconds[report.nodeid] += report.duration


def run_tests(tests: Sequence[str], folder: Path, seconds: dict[str, float]) -> int:
    """Run the tests in this process; what they took, and what they imported, is left in the folder."""
    plugin = Quickest(seconds)
    arguments = ["-x", "-q", "-n0", "-m", "not slow", "--rootdir", str(ROOT), f"--basetemp={folder / 'tmp'}"]
    arguments += ["-W", "ignore::pytest.PytestAssertRewriteWarning"]  # plugins are here already: that is the point
    code = int(pytest.main([*arguments, *tests], plugins=[plugin]))
    modules = [n for n, module in sys.modules.items() if str(getattr(module, "__file__", None)).startswith(INSTALLED)]
    (folder / "ran.json").write_text(json.dumps({"seconds": plugin.seconds, "modules": modules}), "utf-8")
    return code


def forked(work: Callable[[], int], folder: Path) -> int:
    """Start the work in a child with a session of its own; its id."""
    sys.stdout.flush()
    sys.stderr.flush()
    if child := os.fork():
        return child
    code = FAULTY
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = str(folder / "hypothesis")
        output = os.open(folder / "output", os.O_CREAT | os.O_WRONLY)
        for descriptor in (1, 2):
            os.dup2(output, descriptor)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = work()
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


# ------------------------------------------------------------------------------------------------------ in the parent


@dataclass
class Job:
    """A child that runs."""

    folder: Path
    started: float

    def output(self) -> str:
        return (self.folder / "output").read_text("utf-8", "replace")[-3000:]


def source_of(module: str) -> Path:
    """The file of a module, found without importing it."""
    if module.endswith(".mjs"):
        return ROOT / module
    package, *below = module.split(".")
    spec = importlib.util.find_spec(package)
    assert spec is not None
    origin = Path(str(spec.origin))
    if not below:
        return origin
    path = origin.parent.joinpath(*below)
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


class Source:
    """A module in Python."""

    def __init__(self, module: str) -> None:
        self.module, self.path = module, source_of(module)
        self.tree, found = operators.mutants_of(module, self.path.read_text("utf-8"))
        self.mutants: Sequence[Change] = found

    def diff(self, mutant: Change) -> str:
        """What a mutant changes, for people."""
        assert isinstance(mutant, Mutant)
        return operators.diff(mutant)

    def put(self, mutant: Change | None, folder: Path) -> Callable[[], None]:
        """What puts the changed module in place, in the child."""
        with edited(mutant) if isinstance(mutant, Mutant) else contextlib.nullcontext():
            code = compile(ast.fix_missing_locations(self.tree), str(self.path), "exec", dont_inherit=True)
        return lambda: sys.meta_path.insert(0, ChangedModule(self.module, str(self.path), code))


class ScriptSource(Source):
    """A module in JavaScript."""

    def __init__(self, module: str) -> None:
        self.module, self.path = module, source_of(module)
        self.text = self.path.read_text("utf-8")
        self.mutants = javascript.mutants_of(module, self.text)

    def diff(self, mutant: Change) -> str:
        assert isinstance(mutant, javascript.TextMutant)
        return javascript.diff(mutant, self.text)

    def put(self, mutant: Change | None, folder: Path) -> Callable[[], None]:
        changed = mutant.applied(self.text) if isinstance(mutant, javascript.TextMutant) else self.text
        (folder / "changed.mjs").write_text(changed, "utf-8")
        given = {"MUTANT_URL": self.path.as_uri(), "MUTANT_TEXT": str(folder / "changed.mjs")}
        return lambda: os.environ.update(given, NODE_OPTIONS=f"--import={(HERE / 'swapped.mjs').as_uri()}")


def source(module: str) -> Source:
    """A module, by its name or by its path."""
    return ScriptSource(module) if module.endswith(".mjs") else Source(module)


class Target:
    """A module and the tests that concern it; how long they take as it stands."""

    def __init__(self, module: str, tests: Sequence[str], work: Path) -> None:
        self.source = source(module)
        self.module, self.tests, self.work = module, [_absolute(test) for test in tests], work
        self.seconds = dict[str, float]()
        self.limit = 600.0

    def start(self, mutant: Change | None) -> tuple[int, Job]:
        folder = Path(tempfile.mkdtemp(dir=self.work))
        put = self.source.put(mutant, folder)

        def work() -> int:
            put()
            return run_tests(self.tests, folder, self.seconds)

        return forked(work, folder), Job(folder, time.monotonic())

    def stands(self, patience: float, known: dict[tuple[str, ...], Target]) -> str | None:
        """Run the tests on the module as it is, import what they import; what is wrong, if anything."""
        if same := known.get(tuple(self.tests)):
            self.seconds, self.limit = same.seconds, same.limit
            return None
        child, job = self.start(None)
        if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]):
            return f"{self.module}: its tests fail without a change\n{job.output()}"
        self.limit = patience + 6 * (time.monotonic() - job.started)
        ran = json.loads((job.folder / "ran.json").read_text("utf-8"))
        known[tuple(self.tests)] = self
        self.seconds = ran["seconds"]
        for name in ran["modules"]:
            with contextlib.suppress(ImportError):
                importlib.import_module(name)
        return None


def _absolute(test: str) -> str:
    """Tests of this repository are named by their path in it."""
    return str(ROOT / test)


def verdicts(targets: Sequence[tuple[Target, Change]], jobs: int, say: Callable[[str], None]) -> dict[Change, Verdict]:
    """Run the tests of each mutant's module against it, some at a time."""
    waiting, running, found = list(reversed(targets)), dict[int, tuple[Target, Change, Job]](), dict[Change, Verdict]()
    while waiting or running:
        while waiting and len(running) < jobs:
            target, mutant = waiting.pop()
            child, job = target.start(mutant)
            running[child] = target, mutant, job
        for child, (target, mutant, job) in list(running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            hung = not ended and time.monotonic() - job.started > target.limit
            if not (ended or hung):
                continue
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # also what its tests have started
            if hung:
                os.waitpid(child, 0)
            code = 0 if hung else os.waitstatus_to_exitcode(status)
            if code == FAULTY:
                raise SystemExit(f"{mutant.key}: the tool failed\n{job.output()}")
            found[mutant] = Verdict.HUNG if hung else Verdict.KILLED if code else Verdict.SURVIVED
            say(f"{found[mutant].value:9}{time.monotonic() - job.started:7.1f} s  {' · '.join(mutant.key[:3])}")
            shutil.rmtree(job.folder, ignore_errors=True)
            del running[child]
        time.sleep(0.01)
    return found


def listed(folder: Path, group: str) -> dict[tuple[str, str, str, str], dict[str, Any]]:
    """The survivors that are known, by their key."""
    path = folder / f"{group}.toml"
    entries = tomllib.loads(path.read_text("utf-8")).get("survivor", []) if path.exists() else []
    for entry in entries:
        if not entry["why"].strip() or not isinstance(entry["equivalent"], bool):
            raise SystemExit(f"{path}: each survivor says whether it is equivalent, and why: {entry}")
    return {(entry["module"], entry["function"], entry["line"], entry["change"]): entry for entry in entries}


def as_entry(mutant: Change) -> str:
    """A survivor as it is to be listed once somebody knows why it survives."""
    names = ("module", "function", "line", "change")
    values = "\n".join(
        f"{name} = {json.dumps(text, ensure_ascii=False)}" for name, text in zip(names, mutant.key, strict=True)
    )
    return f'[[survivor]]\n{values}\nequivalent = false\nwhy = ""\n'


def main() -> int:
    """Print each survivor and the table; 1 if one is not listed, or too few are killed."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=main.__doc__)
    parser.add_argument("only", nargs="*", help="groups, or modules; all groups without")
    parser.add_argument("--all", action="store_true", help="every mutant, not a sample")
    parser.add_argument("--sample", type=int, help="mutants a module")
    parser.add_argument("--draw", type=int, help="mutants a group, drawn from all of its modules together")
    parser.add_argument("--seed", default="", help="another drawing")
    parser.add_argument("--change", help="only mutants whose change has this")
    parser.add_argument("--function", help="only mutants in functions whose name has this")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--groups", type=Path, default=HERE / "groups.toml")
    parser.add_argument("--survivors", type=Path, default=HERE / "survivors")
    parser.add_argument("--patience", type=float, default=20, help="seconds beyond what the tests take until they hang")
    parser.add_argument("--list", action="store_true", help="print the mutants and run nothing")
    options = parser.parse_args()
    groups = tomllib.loads(options.groups.read_text("utf-8"))
    failed, table, known = False, list[str](), dict[tuple[str, ...], Target]()
    with tempfile.TemporaryDirectory() as work:
        for name, group in groups.items():
            modules = {
                module: tests
                for module, tests in group["modules"].items()
                if not options.only or name in options.only or module in options.only
            }
            drawn = list[tuple[Target, Change]]()
            for module, tests in modules.items():
                target = Target(module, tests, Path(work))
                chosen = [
                    mutant
                    for mutant in target.source.mutants
                    if (options.function or "") in mutant.function and (options.change or "") in mutant.change
                ]
                chosen.sort(key=lambda mutant: mutant.lot(options.seed))
                whole = options.all or options.draw
                drawn += [(target, m) for m in (chosen if whole else chosen[: options.sample or group["sample"]])]
            if options.draw:
                drawn = sorted(drawn, key=lambda each: each[1].lot(options.seed))[: options.draw]
                drawn.sort(key=lambda each: each[1].module)
            if options.list:
                print("\n".join(target.source.diff(mutant) for target, mutant in drawn))
                continue
            for target in {target.module: target for target, _ in drawn}.values():
                if fault := target.stands(options.patience, known):
                    raise SystemExit(fault)
            if drawn:
                found = verdicts(drawn, options.jobs, lambda line: print(line, file=sys.stderr, flush=True))
                shown = {mutant: target.source.diff(mutant) for target, mutant in drawn}
                line, fine = judge(name, found, listed(options.survivors, name), shown)
                table.append(line)
                failed = failed or not fine
    print(f"{'group':12}{'mutants':>9}{'killed':>9}{'hung':>7}{'survived':>10}{'equivalent':>12}{'share':>8}")
    print("\n".join(table))
    return int(failed)


def judge(
    name: str,
    found: Mapping[Change, Verdict],
    known: dict[tuple[str, str, str, str], dict[str, Any]],
    shown: Mapping[Change, str],
) -> tuple[str, bool]:
    """A group's line of the table; whether every survivor is listed and few are not equivalent."""
    survivors = [mutant for mutant, verdict in found.items() if verdict is Verdict.SURVIVED]
    strangers = [mutant for mutant in survivors if mutant.key not in known]
    for mutant in strangers:
        print(f"{shown[mutant]}\n{as_entry(mutant)}")
    for mutant, verdict in found.items():
        if verdict is not Verdict.SURVIVED and mutant.key in known:
            print(f"listed, but {verdict.value} now: {' · '.join(mutant.key)}")
    equivalent = sum(mutant.key in known and known[mutant.key]["equivalent"] for mutant in survivors)
    hung = sum(verdict is Verdict.HUNG for verdict in found.values())
    dead = len(found) - len(survivors)
    share = dead / (len(found) - equivalent) if len(found) > equivalent else 1.0
    line = f"{name:12}{len(found):9}{dead - hung:9}{hung:7}{len(survivors):10}{equivalent:12}{share:8.1%}"
    return line, not strangers and share >= SHARE


if __name__ == "__main__":
    sys.exit(main())
