"""A server on the loopback that keeps one study, and says in its lists and documents whatever a test plants there."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx

from askance_protocol.budget import MICRO
from askance_protocol.queries import BooleanQuery, RealQuery
from askance_protocol.queries.language import Bit, FieldValue
from askance_protocol.rounds import BinarySpec, Part
from askance_protocol.rounds.spec import VERSION
from askance_protocol.schema import BitsField, RealField, Schema
from tests.client.liar import HOST, Liar
from tests.protocol.studies import study

VALUE = Schema(fields=(RealField(name="value", low=-1, high=1, denominator=1000),))
SECRET = Schema(fields=(BitsField(name="secret", width=1),))
ASKS_VALUE = Part(
    query=RealQuery(numerator=FieldValue(field="value"), denominator=1000),
    channel=BinarySpec(micro_epsilon=MICRO),
    charge=MICRO,
)
ASKS_SECRET = ASKS_VALUE.model_copy(update={"query": BooleanQuery(test=Bit(field="secret", index=0))})


def keeps(schema: Schema, asked: Part, **members: Any) -> Liar:
    """A study of real users, with one open round."""
    liar = Liar.of(study(**({"simulated": False, "example": schema, "cap": MICRO} | members)))
    liar.ask(asked)
    return liar


@contextmanager
def serving_liar(
    liar: Liar,
    listed: Liar | list[Any] | None = None,
    paused: Callable[[], str | None] = lambda: None,
    rounds: Callable[[], list[dict[str, Any]]] = list,
) -> Generator[str]:
    """Its URL, while a `with` block runs. Of whatever study it is asked, it tells the one that it keeps.

    Another one may stand in its list, or none. `paused` and `rounds`: what its document says of these.
    """

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            content = self.rfile.read(int(self.headers.get("content-length") or 0))
            path = self.path.partition("?")[0]
            told = listed if isinstance(listed, Liar) else liar
            document = {"id": told.id, "study": told.study, "state": "running", "rounds": []}
            if path == "/healthz":
                answer = httpx.Response(200, json={"status": "alive", "version": "0", "protocol": VERSION})
            elif path == "/v1/studies":
                answer = httpx.Response(200, json=[] if isinstance(listed, list) else [document])
            elif path.startswith("/v1/studies/") and path.count("/") == 3:
                answer = httpx.Response(200, json={**document, "paused": paused(), "rounds": rounds()})
            else:
                url = f"http://{HOST}{self.path}"
                answer = liar.handle(httpx.Request(self.command, url, headers=dict(self.headers), content=content))
            self.send_response(answer.status_code)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(answer.content)))
            self.end_headers()
            self.wfile.write(answer.content)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    with _serving(Handler) as url:
        yield url


@contextmanager
def serving_page(body: bytes) -> Generator[str]:
    """The URL of a server that gives the same answer to everything, while a `with` block runs."""

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        do_GET = do_POST = _answer

        def log_message(self, format: str, *_: object) -> None:  # noqa: A002 - its name there
            """Say nothing."""

    with _serving(Handler) as url:
        yield url


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Generator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
