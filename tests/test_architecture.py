"""docs/architecture.md is true: its tree, contracts, quotations, walk of a report, and examples."""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module, invalidate_caches
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from askance_client.simulation import population
from askance_client.simulation.population import kinds
from askance_lab import cli, curator, engines, oracles, theory
from askance_lab import commands as commands_folder
from askance_lab.curator.registry import mechanisms
from askance_lab.oracles.shared.registry import oracle_names
from askance_lab.theory.theorem import theorems
from askance_protocol import channels
from askance_server import strategies
from askance_server.strategies import registry

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "architecture.md").read_text("utf-8")
ROOMS = ("protocol/askance_protocol", "client/askance_client", "server/askance_server", "lab/askance_lab")


def section(title: str, page: str = PAGE) -> str:
    return page.split(f"\n## {title}\n")[1].split("\n## ", maxsplit=1)[0]


def blocks(language: str, text: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


# ---------------------------------------------------------------------------------------------------------- the tree


def named(tree: str) -> Iterator[str]:
    """The paths that a drawn tree names: names of one line, by their indentation, up to two blanks."""
    above = list[str]()
    for line in tree.splitlines():
        depth = (len(line) - len(line.lstrip())) // 2
        names = line.split("  ")[depth].split()
        above[depth:] = [names[0].rstrip("/")]
        yield from ("/".join([*above[:depth], name.rstrip("/")]) for name in names)


def there(root: Path) -> set[str]:
    """Every folder of the rooms that has code or schemas, and every module at the top of a room."""
    found = set[str](ROOMS)
    for room in ROOMS:
        files = [path for pattern in ("*.py", "*.sql") for path in (root / room).rglob(pattern)]
        found |= {str(path.relative_to(root)) for path in files if path.parent == root / room and path.name[0] != "_"}
        for folder in {above for path in files for above in path.relative_to(root / room).parents}:
            found.add(str(Path(room) / folder))
    return found


def faults(tree: str, root: Path) -> set[str]:
    """What is not named, and what is named and not there."""
    told = set(named(tree))
    return {path for path in told if not (root / path).exists()} | (there(root) - told)


def test_the_tree_is_the_real_one() -> None:
    [tree] = blocks("text", section("The rooms"))

    assert faults(tree, ROOT) == set()
    assert len(set(named(tree))) > 60


def test_a_folder_that_is_not_named_and_a_file_that_is_not_there_are_found() -> None:
    """The control."""
    [tree] = blocks("text", section("The rooms"))
    lines = tree.splitlines()
    without = "\n".join(line for line in lines if not line.lstrip().startswith("wallet/"))
    with_more = "\n".join([*lines, "  no_such_file.py  nothing"])

    assert faults(without, ROOT) == {"client/askance_client/wallet"}
    assert faults(with_more, ROOT) == {"lab/askance_lab/no_such_file.py"}


# ----------------------------------------------------------------------------------------------------- the contracts


def contracts() -> list[dict[str, Any]]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]


def contract_faults(text: str, real: Iterable[dict[str, Any]]) -> set[str]:
    """Contracts that are not quoted, rows that quote none, and layers that are drawn otherwise."""
    rows = {line.split("|")[1].strip() for line in text.splitlines() if line.startswith("| ")} - {"contract"}
    names = {each["name"] for each in real}
    layers = {"\n".join(each["layers"]) + "\n" for each in real if each["type"] == "layers"}
    return rows ^ names | layers ^ set(blocks("text", text))


def test_the_contracts_are_those_of_pyproject() -> None:
    assert contract_faults(section("What may import what"), contracts()) == set()


def test_a_contract_that_is_not_quoted_is_found() -> None:
    """The control."""
    more = [*contracts(), {"name": "A new one", "type": "forbidden"}, {"name": "x", "type": "layers", "layers": ["a"]}]

    assert contract_faults(section("What may import what"), more) == {"A new one", "x", "a\n"}


def drawn_otherwise(picture: str, real: Iterable[dict[str, Any]]) -> set[str]:
    """Rooms and layers of the contracts that the picture does not have, and boxes that are no room and no layer."""
    boxes = set(re.findall(r'class="(?:title|mid)"[^>]*>([^<]+)<', picture))
    layers = {layer for each in real if each["type"] == "layers" for layer in each["layers"]}
    return boxes ^ ({room for layer in layers for room in layer.split(" | ")})


def test_the_picture_has_the_rooms_and_layers_of_the_contracts() -> None:
    picture = (ROOT / "docs" / "architecture" / "rooms.svg").read_text("utf-8")

    assert drawn_otherwise(picture, contracts()) == set()
    # The control.
    assert drawn_otherwise(picture.replace(">theory<", ">practice<"), contracts()) == {"theory", "practice"}


# -------------------------------------------------------------------------------------------------- what is quoted


def test_what_is_quoted_of_run_study_is_there() -> None:
    quoted = blocks("py", PAGE)
    source = (ROOT / "lab" / "askance_lab" / "run_study.py").read_text("utf-8")

    assert [quote for quote in quoted if quote not in source] == []
    assert len(quoted) >= 4
    # The control: one changed letter.
    assert quoted[0].replace("Publish", "publish") not in source


def test_every_numbered_step_of_run_study_is_quoted() -> None:
    source = (ROOT / "lab" / "askance_lab" / "run_study.py").read_text("utf-8")
    steps = re.findall(r"# (\d\. \w+)\.", source)

    assert len(steps) == 8
    assert [step for step in steps if f"# {step}." not in PAGE] == []


def lost(walk: str, root: Path) -> list[str]:
    """Files and functions of a walk that are not there."""
    rows = re.findall(r"^\| \d+ \| `([^`]+)` \| ([^|]+) \|", walk, re.MULTILINE)
    missing = list[str]()
    for path, functions in rows:
        source = (root / path).read_text("utf-8") if (root / path).exists() else ""
        missing += [
            f"{path}: {name}"
            for name in re.findall(r"`(\w+)`", functions)
            if not re.search(rf"^ *(async )?(def|class) {name}\b", source, re.MULTILINE)
        ]
    return missing


def test_the_walk_of_a_report_names_functions_that_are_there() -> None:
    walk = section("The walk of one report")

    assert lost(walk, ROOT) == []
    assert walk.count("\n| ") > 15
    # The control.
    planted = "| 1 | `server/askance_server/core/study.py` | `step` `no_such_step` | nothing |"
    assert lost(planted, ROOT) == ["server/askance_server/core/study.py: no_such_step"]


FILE = re.compile(r"`((?:protocol|client|server|lab|tests|benchmarks)/[\w/.-]+)`")


def test_every_path_in_the_text_exists() -> None:
    examples = {example.path for example in EXAMPLES}

    paths = set(FILE.findall(PAGE)) - examples
    assert [path for path in sorted(paths) if not (ROOT / path).exists()] == []
    assert len(paths) > 20


# ------------------------------------------------------------------------------------------------------ the examples


@dataclass(frozen=True)
class NewFile:
    """A file that the page shows: where it goes, and what is in it."""

    path: str
    text: str

    def __str__(self) -> str:
        return Path(self.path).stem

    @property
    def module(self) -> str:
        return Path(self.path).stem


def shown(page: str) -> Iterator[NewFile]:
    for heading in re.split(r"^### ", section("Where a new part goes", page), flags=re.MULTILINE)[1:]:
        path = re.findall(r"`([^`]+)`", heading.splitlines()[0])[0]
        yield NewFile(path, blocks("python", heading)[0])


EXAMPLES = list(shown(PAGE))

FOLDERS: dict[str, tuple[ModuleType, Callable[[], Iterable[str]]]] = {
    "strategies": (strategies, lambda: list(registry.of_package()[0])),
    "oracles": (oracles, oracle_names),
    "channels": (channels, channels._found),
    "curator": (curator, mechanisms),
    "population": (population, kinds.found_kinds),
    "engines": (engines, engines.engine_names),
    "theory": (theory, theorems),
    "commands": (commands_folder, cli.CommandModules),
}
"""Of each kind of part: its folder, and the names that are found in it."""

NAMES = {"noisy_positives": "noisy-positives", "first_bit": "first-bit", "warner": "binary-response"}
"""By what name a part is found, where that is not its file's."""


def forget() -> None:
    registry.of_package.cache_clear()
    mechanisms.cache_clear()
    invalidate_caches()


def found_in(kind: str) -> set[str]:
    return set(FOLDERS[kind][1]())


@pytest.fixture
def drop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str, str], None]]:
    """Put a file into a package's folder, as far as Python and the command can tell."""
    before = set(sys.modules)

    def put(kind: str, module: str, text: str) -> None:
        package = FOLDERS[kind][0]
        (tmp_path / f"{module}.py").write_text(text, "utf-8")
        monkeypatch.setattr(package, "__path__", [*package.__path__, str(tmp_path)])
        if kind == "commands":
            monkeypatch.setattr(cli, "_DIRECTORY", tmp_path)
        forget()

    yield put
    for name in set(sys.modules) - before:
        parent, _, module = name.rpartition(".")
        if (tmp_path / f"{module}.py").exists():
            del sys.modules[name]
            if hasattr(sys.modules.get(parent), module):
                delattr(sys.modules[parent], module)
    forget()


def test_there_is_an_example_of_every_kind_of_part() -> None:
    assert sorted(Path(each.path).parent.name for each in EXAMPLES) == sorted(FOLDERS)
    assert [each.path for each in EXAMPLES if not (ROOT / each.path).parent.is_dir()] == []
    assert [each.path for each in EXAMPLES if (ROOT / each.path).exists()] == []


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_that_is_put_into_its_folder_is_found(
    example: NewFile, drop: Callable[[str, str, str], None]
) -> None:
    kind, name = Path(example.path).parent.name, NAMES.get(example.module, example.module)
    assert kind == "commands" or name not in found_in(kind)

    drop(kind, example.module, example.text)

    assert name in found_in(kind)
    import_module(f"{FOLDERS[kind][0].__name__}.{example.module}")


@pytest.mark.parametrize("kind", ["channels", "curator", "population", "theory"])
def test_a_file_without_its_record_is_not_found(kind: str, drop: Callable[[str, str, str], None]) -> None:
    """The control: in these folders other files support those that are found."""
    before = found_in(kind)
    drop(kind, "without_record", '"""Nothing at its end."""\n')

    assert found_in(kind) == before


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_an_example_is_short(example: NewFile) -> None:
    lines = [line for line in example.text.splitlines() if line and not line.startswith(("import ", "from "))]

    assert 5 <= len(lines) <= 20


# ------------------------------------------------------------------------------------------- links between documents

LINK = re.compile(r"\]\(([^)#\s]+\.md)(?:#([\w-]+))?\)")


def anchors(page: str) -> set[str]:
    """The anchors of its headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", page, re.MULTILINE)
    return {re.sub(r" ", "-", re.sub(r"[^\w\- ]", "", title.lower())) for title in titles}


def broken_links(document: Path, text: str) -> list[str]:
    broken = list[str]()
    for target, anchor in LINK.findall(text):
        page = document.parent / target
        if not page.exists() or (anchor and anchor not in anchors(page.read_text("utf-8"))):
            broken.append(f"{document.name}: {target}#{anchor}")
    return broken


def test_links_between_documents_lead_somewhere() -> None:
    documents = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]

    broken = [each for document in documents for each in broken_links(document, document.read_text("utf-8"))]
    assert broken == []
    # The control.
    assert broken_links(ROOT / "README.md", "[x](docs/nothing.md) [y](docs/server.md#nowhere)") == [
        "README.md: docs/nothing.md#",
        "README.md: docs/server.md#nowhere",
    ]
