"""The service's own description: OpenAPI with every error as an example."""

from __future__ import annotations

import json
from functools import cache
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI, Request
from starlette.responses import Response
from starlette.routing import compile_path

from askance_protocol.coins import MAX_USER
from askance_protocol.reports import MAX_OUTCOME
from askance_protocol.rounds.spec import VERSION as PROTOCOL_VERSION
from askance_server.problems import MEDIA_TYPE, examples, responses
from askance_server.public_answers import PublicAnswer, tagged

VERSION: Final = version("askance")
DIGEST: Final = "^[0-9a-f]{64}$"

BATCH_BODY: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {
            "application/json": {
                "schema": {
                    "type": "object",
                    "properties": {
                        "users": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": MAX_USER - 1}},
                        "outcomes": {
                            "type": "array",
                            "items": {"type": "integer", "minimum": 0, "maximum": MAX_OUTCOME - 1},
                        },
                    },
                    "required": ["users", "outcomes"],
                    "additionalProperties": False,
                },
                "example": {"users": [0, 1], "outcomes": [1, 0]},
            },
            "application/octet-stream": {
                "schema": {"type": "string", "format": "binary", "description": "Raw columns; see docs/protocol.md."}
            },
        },
    }
}
"""The body of a batch, as `decode_columns` and `decode_raw` read it."""

_VERSION_HEADER: Final[dict[str, Any]] = {
    "name": "askance-protocol",
    "in": "header",
    "required": False,
    "description": "The version that the client speaks. Without it, the server's.",
    "schema": {"type": "string", "enum": [str(PROTOCOL_VERSION)]},
}
_EVERYWHERE: Final = ("version-mismatch", "malformed-request", "request-timeout", "head-too-large", "body-too-large")
"""Problems that a request meets before anybody knows what it asks for."""
_SOURCES: Final = (("/v1/studies", "post", "201"), ("/v1/studies/{study}", "get", "200"))
_FOUND_IN_STUDY: Final = {"study": "$response.body#/id", "round_": "$response.body#/rounds/0/id"}
"""Where a study's document has the ids that other paths ask for; a study may have no round."""

_BEARER: Final[dict[str, Any]] = {
    "type": "http",
    "scheme": "bearer",
    "description": "A token of the role that the operation asks for: user, gateway, operator or enrolment.",
}

_REPORT: Final[dict[str, Any]] = {
    "post": {
        "summary": "Report",
        "description": "One user's report: the index of an outcome. The user is that of the token. The same report"
        " again gets the same receipt; a different one is refused.",
        "operationId": "post_report",
        "parameters": [
            {"name": "round_", "in": "path", "required": True, "schema": {"type": "string", "pattern": DIGEST}},
            {"name": "authorization", "in": "header", "required": False, "schema": {"type": "string"}},
        ],
        "requestBody": {
            "required": True,
            "content": {
                "application/json": {
                    "schema": {
                        "type": "object",
                        "properties": {"outcome": {"type": "integer", "minimum": 0, "maximum": MAX_OUTCOME - 1}},
                        "required": ["outcome"],
                        "additionalProperties": False,
                    },
                    "example": {"outcome": 1},
                }
            },
        },
        "responses": {
            "200": {
                "description": "The report is on disk.",
                "content": {
                    "application/json": {
                        "schema": {
                            "type": "object",
                            "properties": {
                                "charged": {"type": "integer"},
                                "round": {"type": "string"},
                                "user": {"type": "integer"},
                            },
                            "required": ["charged", "round", "user"],
                        }
                    }
                },
            },
        },
    }
}


def describe(app: FastAPI) -> None:
    """Complete the application's OpenAPI document by the path that `ReportPath` answers."""
    plain = app.openapi

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            schema = plain()
            schema["paths"]["/v1/rounds/{round_}/reports"] = _report_path()
            _complete(schema)
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = openapi

    # Worked out once: to write the document takes milliseconds, and anybody may ask for it.
    document = cache(
        lambda: PublicAnswer.of(json.dumps(app.openapi(), ensure_ascii=False, separators=(",", ":")).encode())
    )

    @app.get("/openapi.json", include_in_schema=False)
    async def describing(request: Request) -> Response:  # pyright: ignore[reportUnusedFunction] - registered by the decorator
        return tagged(request, document())


def methods_of(app: FastAPI, path: str) -> list[str]:
    """The methods that the description gives a path."""
    for template, operations in app.openapi()["paths"].items():
        if compile_path(template)[0].fullmatch(path):
            return sorted(method.upper() for method in operations)
    return []


def _complete(schema: dict[str, Any]) -> None:
    """Add to every operation what the framework does not know: its token, the version, its problems."""
    components = schema["components"]
    components["securitySchemes"] = {"bearer": _BEARER}
    components["examples"] = examples()
    for name in ("HTTPValidationError", "ValidationError"):
        components["schemas"].pop(name, None)
    for path, operations in schema["paths"].items():
        for operation in operations.values():
            _complete_operation(path, operation)
    links = _links(schema["paths"])
    for path, method, status in _SOURCES:
        schema["paths"][path][method]["responses"][status]["links"] = links


def _links(paths: dict[str, Any]) -> dict[str, Any]:
    """Links to what may be asked next of a study or its first round: each operation with such an id in its path."""
    return {
        operation["operationId"]: {
            "operationId": operation["operationId"],
            "parameters": {name: _FOUND_IN_STUDY[name] for name in names},
        }
        for path, operations in paths.items()
        if (names := compile_path(path)[2].keys()) and names <= _FOUND_IN_STUDY.keys()
        for operation in operations.values()
    }


def _complete_operation(path: str, operation: dict[str, Any]) -> None:
    names: list[str] = [*_EVERYWHERE, "internal"]
    given = operation.get("parameters", [])
    parameters = [each for each in given if each["name"] != "authorization"]
    if len(parameters) < len(given):
        # OpenAPI ignores a parameter of this name: it wants a security scheme.
        operation["security"] = [{"bearer": []}]
        names += ["unauthorized", "forbidden"]
    # The framework's own 422: what is wrong in a path is not found here, and a text passes in any header.
    if "application/json" in operation["responses"].get("422", {"content": {}})["content"]:
        del operation["responses"]["422"]
    if any(each["in"] == "query" for each in parameters):
        names.append("invalid-request")
    if path != "/healthz":
        names.append("not-ready")
    for response in operation["responses"].values():
        # This version of OpenAPI has no word yet for the events of a stream.
        response.get("content", {}).get("text/event-stream", {}).clear()
    operation["parameters"] = [*parameters, _VERSION_HEADER]
    _add(operation["responses"], names)


def _add(described: dict[str, Any], names: list[str]) -> None:
    """Add problems to the responses of an operation, beside those of the same status."""
    for status, response in responses(*names).items():
        there = described.setdefault(str(status), response)
        added = response["content"][MEDIA_TYPE]["examples"]
        kept = there["content"][MEDIA_TYPE]["examples"] | added
        there["content"][MEDIA_TYPE]["examples"] = kept
        there["description"] = "; ".join(example["summary"] for example in kept.values())


def _report_path() -> dict[str, Any]:
    refusals = responses(
        "invalid-report",
        "unauthorized",
        "forbidden",
        "not-found",
        "conflict",
        "budget-exceeded",
        "round-not-open",
        "not-in-cohort",
        "unsupported-media-type",
        *_EVERYWHERE,
        "queue-full",
        "not-ready",
    )
    path: dict[str, Any] = json.loads(json.dumps(_REPORT))
    path["post"]["responses"] |= {str(status): response for status, response in refusals.items()}
    return path
