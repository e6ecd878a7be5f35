"""Each surface, read off the code: REST, commands, Python, settings, the ends of a command, and the files on a disk."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
import importlib
import inspect
import json
import re
import types
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final, Literal, get_args, get_origin

from pydantic import BaseModel

from askance_client.wallet import layout
from askance_lab.cli import CommandModules
from askance_lab.commands.shared.exit_codes import EXIT_OF, Exit
from askance_server import create_app
from askance_server.problems import PROBLEMS
from askance_server.settings import CONFIG_FILE, PREFIX, Settings
from tests.harness.tree import ROOT

Json = dict[str, Any]
Lines = dict[str, list[str]]

MODULES: Final = (
    "askance_protocol",
    "askance_protocol.parameters",
    "askance_protocol.queries",
    "askance_protocol.queries.language",  # LANGUAGE
    "askance_client",
    "askance_server",
    "askance_server.strategies",
)
"""Modules whose `__all__` is promised. docs/stable.md names the same."""
LANGUAGE: Final = "askance_protocol.queries.language"
"""Its classes are what questions are written with: how they are made is promised, not what evaluates them."""

KEEPERS: Final = ("postgres", "sqlite")

# ---------------------------------------------------------------------------------------------------------------- REST


def rest() -> Lines:
    """Each endpoint of the service with what it asks and answers, and each document that these name."""
    with TemporaryDirectory() as folder:
        return described(create_app(Settings(database=folder)).openapi())


def described(api: Json) -> Lines:
    """The lines of a description in OpenAPI."""
    documents = api["components"]["schemas"]
    lines = {f"{verb.upper()} {path}": list(_operation(each)) for path, verb, each in _operations(api)}
    asked = _reached([each.get("requestBody", {}) for _, _, each in _operations(api)], documents)
    answered = _reached([each["responses"] for _, _, each in _operations(api)], documents)
    for name in asked | answered:
        lines[f"document {name}"] = list(_document(documents[name], asks=name in asked))
    return lines


def _operations(api: Json) -> Iterator[tuple[str, str, Json]]:
    for path, verbs in api["paths"].items():
        yield from ((path, verb, each) for verb, each in verbs.items())


def _operation(operation: Json) -> Iterator[str]:
    for each in operation.get("parameters", []):
        yield f"{each['in']} {each['name']}{', required' if each.get('required') else ''}"
    for media, body in operation.get("requestBody", {}).get("content", {}).items():
        yield f"asks {media}: {_kind(body.get('schema', {}))}"
    for status, answer in operation["responses"].items():
        for media, body in answer.get("content", {"": {}}).items():
            if "problem" not in media:  # `ends` has them all
                yield f"answers {status} {media}: {_kind(body.get('schema', {}))}"
    for each in operation.get("security", []):
        yield f"token {' and '.join(each)}"


def _reached(roots: list[Json], documents: Json) -> set[str]:
    """The documents that some parts of a description name, and those that these name."""
    found, left = set[str](), list[Any](roots)
    while left:
        match left.pop():
            case {"$ref": str(path)} if (name := path.rpartition("/")[2]) not in found:
                found.add(name)
                left.append(documents[name])
            case dict() as part:
                left += [each for key, each in part.items() if key not in {"example", "examples"}]
            case list() as parts:
                left += parts
            case _:
                pass
    return found


def _document(schema: Json, *, asks: bool) -> Iterator[str]:
    """A document's fields. What has to be given matters where it is asked, what is always there where it is read."""
    for value in schema.get("enum", []):
        yield json.dumps(value)
    for alternative in schema.get("oneOf", schema.get("anyOf", [])):
        yield _kind(alternative)
    for name, field in schema.get("properties", {}).items():
        given = name in schema.get("required", [])
        if asks:
            yield name + (", required" if given else ", may be left out")
        else:
            yield name + (", always" if given else ", may be missing")
        for alternative in field.get("oneOf", field.get("anyOf", [field])):
            yield f"{name}: {_kind(alternative)}"


def _kind(schema: Json) -> str:
    match schema:
        case {"$ref": str(path)}:
            return path.rpartition("/")[2]
        case {"const": value}:
            return json.dumps(value)
        case {"enum": values}:
            return " | ".join(map(json.dumps, values))
        case {"oneOf": parts} | {"anyOf": parts}:
            return " | ".join(map(_kind, parts))
        case {"type": "array", "items": dict() as inner} | {"type": "object", "additionalProperties": dict() as inner}:
            return f"{'list' if schema['type'] == 'array' else 'map'} of {_kind(inner)}"
        case _:
            return str(schema.get("type", "anything"))


# ------------------------------------------------------------------------------------------------------------ commands


def commands() -> Lines:
    """Each command with its arguments and options, as its help has them; the words of a help are free."""
    modules = CommandModules()
    lines = dict[str, list[str]]()
    for name in modules:
        command = modules[name]
        for word, inner in (getattr(command, "commands", None) or {"": command}).items():
            lines[f"askance {name} {word}".rstrip()] = [line for each in inner.params for line in _parameter(each)]
    return lines


def _parameter(parameter: Any) -> Iterator[str]:
    """Not the bounds of a number: tests of each command hold them."""
    is_option = parameter.param_type_name == "option"
    name = ", ".join([*parameter.opts, *parameter.secondary_opts]) if is_option else f"argument {parameter.name}"
    is_flag, annotation = getattr(parameter, "is_flag", False), parameter.type_descriptor.annotation
    choices = get_args(annotation) if get_origin(annotation) is Literal else ()
    yield from (f"{name}: {choice}" for choice in choices)
    kind = "flag" if is_flag else "one of these" if choices else _takes(annotation)
    many = ", more than once" if parameter.multiple or parameter.nargs != 1 else ""
    yield f"{name}: {kind}{many}{', required' if parameter.required else ''}"
    if not is_flag and parameter.default is not None and not callable(parameter.default):
        yield f"{name}, default {json.dumps(parameter.default, default=str, ensure_ascii=False)}"
    variables = parameter.envvar or []
    yield from (f"{name}, or {each}" for each in ([variables] if isinstance(variables, str) else variables))


def _takes(annotation: object) -> str:
    if get_origin(annotation) is list:
        return _takes(get_args(annotation)[0])
    return {"str": "text", "int": "whole number", "float": "number", "Path": "file"}.get(
        getattr(annotation, "__name__", ""), str(annotation)
    )


# -------------------------------------------------------------------------------------------------------------- Python


def python() -> Lines:
    """Each public name with its parameters, methods and values. Types are not compared: a wider one breaks nothing."""
    lines, seen = dict[str, list[str]](), set[int]()
    for module in MODULES:
        loaded = importlib.import_module(module)
        names: list[str] = loaded.__all__
        lines[module] = list(names)
        for name in names:
            value = getattr(loaded, name)
            if id(value) not in seen:  # else it is told where it came first
                lines |= _named(f"{module}.{name}", value)
            seen.add(id(value))
    return lines


def _named(name: str, value: object) -> Lines:
    match value:
        case type() if issubclass(value, enum.Enum):
            return {name: [f"{each.name} = {each.value!r}" for each in value]}
        case type() if name.startswith(LANGUAGE):
            return {name: [f"made with {line}" for line in _parameters(value)]}
        case type():
            return {name: list(_fields(value)), **_methods(name, value)}
        case types.FunctionType():
            return {f"{name}()": list(_parameters(value))}
        case _:
            return {}


def _ours(value: type) -> list[type]:
    return [each for each in value.__mro__ if each.__module__.startswith("askance_")]


def _fields(value: type) -> Iterator[str]:
    """How a class is made, where it says so; of a frozen value these are its fields, too. And what else it has."""
    made = any({"__init__", "__new__"} & vars(each).keys() for each in _ours(value))
    fields = set[str]()
    if dataclasses.is_dataclass(value) or issubclass(value, BaseModel):
        made, fields = True, set(inspect.signature(value).parameters)
    if made:
        yield from (f"made with {line}" for line in _parameters(value))
    for each in _ours(value):
        names = {name for name, member in vars(each).items() if name[0] != "_" and not _is_method(member, name)}
        yield from (f".{name}" for name in names - fields)


def _is_method(member: object, name: str) -> bool:
    return isinstance(member, types.FunctionType | classmethod | staticmethod) or name.startswith("model_")


def _methods(name: str, value: type) -> Lines:
    found = {method for each in _ours(value) for method, member in vars(each).items() if _is_method(member, method)}
    public = sorted(method for method in found if not method.startswith(("_", "model_")))
    return {f"{name}.{method}()": list(_parameters(getattr(value, method))) for method in public}


def _parameters(value: Any) -> Iterator[str]:
    """What a call takes: by place, or by name alone."""
    place = 0
    for each in inspect.signature(value).parameters.values():
        if each.name == "self":
            continue
        needed = ", required" if each.default is each.empty else ""
        if each.kind in {each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD}:
            place += 1
            yield f"{place} {each.name}{needed}"
        elif each.kind is each.KEYWORD_ONLY:
            yield f"{each.name}={needed}"
        else:
            yield ("*" if each.kind is each.VAR_POSITIONAL else "**") + each.name


# ------------------------------------------------------------------------------------- settings, ends, problems, files


def settings() -> Lines:
    """What a server is told by a flag, a variable or a file, and what it does without."""
    fields = Settings.model_fields.items()
    known = [f"{name} = {_default(each.default)}" for name, each in fields]
    return {CONFIG_FILE: known, "environment": [PREFIX + name.upper() for name, _ in fields]}


def _default(value: object) -> str:
    return "" if value is None else str(value)


def ends() -> Lines:
    """Exit codes, the codes of errors with theirs, and the problems of the REST interface with their status."""
    return {
        "exit codes": [f"{each.value} {each.name.lower()}" for each in Exit],
        "errors": [f"{code} ends with {EXIT_OF[code].value}" for code in EXIT_OF],
        "problems": [f"{each.type} {each.status}" for each in PROBLEMS.values()],
    }


FORMER_WALLETS: Final[tuple[str, ...]] = ()
"""Lines of `wallet` for versions before this one, which still can be opened: a new version moves its line here."""


def files() -> Lines:
    """Schemas of ledgers and wallets: a file of a version that was released is never changed, the next one is new."""
    folder = ROOT / "server" / "askance_server" / "ledger" / "migrations"
    wallet = Path(layout.__file__).with_name("schema.sql")
    ledgers = {f"ledger, {kind}": [_digest(path) for path in (folder / kind).glob("*.sql")] for kind in KEEPERS}
    return {**ledgers, "wallet": [*FORMER_WALLETS, f"version {layout.SCHEMA_VERSION}: {_digest(wallet)}"]}


def _digest(path: Path) -> str:
    """A file by what it says to a database: comments and spaces are free."""
    bare = " ".join(re.sub(r"--.*", "", path.read_text("utf-8")).split())
    return f"{path.name} {hashlib.sha256(bare.encode()).hexdigest()[:16]}"


SURFACES: Final = {
    "rest": rest,
    "commands": commands,
    "python": python,
    "settings": settings,
    "ends": ends,
    "files": files,
}
"""All but what commands print, which takes a server: see `outputs`."""
