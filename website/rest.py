"""The page of REST: every endpoint and every document of the service's own description, /openapi.json."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, TypeAlias

from askance_server import create_app
from website.text import cell, code, escaped, table

Json: TypeAlias = dict[str, Any]
_HEADERS: Final = {"askance-protocol", "authorization"}
"""Parameters that the head of the page, and the line on tokens, speak of."""


def page() -> str:
    """The page."""
    schema: Json = create_app().openapi()
    operations = [(method, path, each) for path, methods in schema["paths"].items() for method, each in methods.items()]
    listed = table(
        ["endpoint", "what it does"],
        (
            [f"[`{method.upper()} {path}`](#{_anchor(method, path)})", cell(_first(each))]
            for method, path, each in operations
        ),
    )
    endpoints = "".join(part for operation in operations for part in _endpoint(*operation))
    documents = "".join(_document(name, each) for name, each in sorted(schema["components"]["schemas"].items()))
    return f"{listed}{_problems(operations)}## Endpoints\n\n{endpoints}## Documents\n\n{documents}"


def _anchor(method: str, path: str) -> str:
    """An id that does not depend on how a heading is spelled."""
    return f"{method}-{path.strip('/').replace('/', '-').translate(str.maketrans('', '', '{}'))}"


def _first(operation: Json) -> str:
    text: str = operation.get("description", operation.get("summary", ""))
    return text.split("\n\n", maxsplit=1)[0]


def _endpoint(method: str, path: str, operation: Json) -> Iterator[str]:
    yield f'<a id="{_anchor(method, path)}"></a>\n\n### {method.upper()} {escaped(path)}\n\n'
    yield f"{escaped(operation.get('description', operation.get('summary', '')))}\n\n"
    yield "Takes a token.\n\n" if operation.get("security") else "Takes no token.\n\n"
    yield table(
        ["parameter", "where", "what it is"],
        (
            [f"`{each['name']}`", each["in"], f"{_type(each['schema'])}{_note(each)}"]
            for each in operation.get("parameters", ())
            if each["name"] not in _HEADERS
        ),
    )
    if body := operation.get("requestBody"):
        kinds = " or ".join(f"`{kind}`: {_type(each['schema'])}" for kind, each in body["content"].items())
        yield f"Body: {kinds}.\n\n"
    yield table(
        ["status", "answer"], ([status, _answer(each)] for status, each in sorted(operation["responses"].items()))
    )


def _note(parameter: Json) -> str:
    return f". {cell(parameter['description'])}" if "description" in parameter else ""


def _answer(response: Json) -> str:
    """What comes back: a document, or the problems by their names."""
    found = list[str]()
    for kind, content in response.get("content", {}).items():
        named = ", ".join(f"[`{name}`](#problems)" for name in content.get("examples", ()))
        found.append(named if kind == "application/problem+json" and named else _type(content.get("schema", {})))
    said = "" if response["description"] == "Successful Response" else cell(response["description"])
    return ": ".join(filter(None, [said, " or ".join(filter(None, found))]))


def _problems(operations: list[tuple[str, str, Json]]) -> str:
    """Every problem that some endpoint answers with, once."""
    found = dict[str, Json]()
    for _, _, operation in operations:
        for response in operation["responses"].values():
            examples = response.get("content", {}).get("application/problem+json", {}).get("examples", {})
            found |= {name: each["value"] for name, each in examples.items() if "value" in each}
    rows = (
        [f"`{name}`", str(each["status"]), cell(each["title"]), cell(each["next"])]
        for name, each in sorted(found.items())
    )
    return "## Problems\n\n" + table(["problem", "status", "what is wrong", "what to do next"], rows)


def _document(name: str, schema: Json) -> str:
    required = set(schema.get("required", ()))
    members: Mapping[str, Json] = schema.get("properties", {})
    rows = (
        [f"`{member}`", _type(each), "yes" if member in required else "no", cell(each.get("description", ""))]
        for member, each in members.items()
    )
    said = f"{escaped(schema['description'])}\n\n" if "description" in schema else ""
    return f"### {name}\n\n{said}{table(['member', 'type', 'required', 'what it is'], rows)}"


def _type(schema: Json) -> str:
    """A type in a few words, with links to documents."""
    if "$ref" in schema:
        name = schema["$ref"].rsplit("/", 1)[1]
        return f"[{name}](#{name.lower()})"
    for several in ("anyOf", "oneOf", "allOf"):
        if several in schema:
            return " or ".join(dict.fromkeys(_type(each) for each in schema[several]))
    if "const" in schema:
        return code(repr(schema["const"]).replace("'", '"'))
    if "enum" in schema and len(schema["enum"]) <= 8:
        return ", ".join(f"`{each}`" for each in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {_type(schema.get('items', {}))}"
    return f"{schema.get('type', '')}{_limits(schema)}"


def _limits(schema: Json) -> str:
    low, high = schema.get("minimum"), schema.get("maximum")
    if low is None and high is None:
        return ""
    said = [f"{bound:.16g}" if isinstance(bound, float) else f"{bound}" for bound in (low, high) if bound is not None]
    return f", {said[0]} to {said[1]}" if len(said) == 2 else f", from {said[0]}" if high is None else f", to {said[0]}"
