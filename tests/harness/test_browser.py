"""The browser's own tests: what must not happen on a page is found when it happens."""

from __future__ import annotations

import http.server
import threading
from collections.abc import Generator

import pytest

from tests.harness.browser import Pages

FAULTS = {
    "console error": "console.error('planted')",
    "error": "setTimeout(() => { throw new Error('planted') })",
    "request to another host": "fetch('http://192.0.2.1/planted').catch(() => {})",
}


@pytest.fixture
def address() -> Generator[str]:
    """A server of empty pages."""

    class Empty(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><link rel=icon href=data:,><title>Empty</title>")

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the library's own name for it
            """Nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Empty) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}/"
        server.shutdown()


@pytest.mark.parametrize("fault", FAULTS)
def test_what_goes_wrong_on_a_page_is_found(pages: Pages, address: str, fault: str) -> None:
    page = pages.open(address)
    assert pages.watched.left == [], "the control: nothing is wrong yet"

    page.evaluate(f"() => {{ {FAULTS[fault]} }}")
    page.wait_for_function("() => new Promise(done => setTimeout(() => done(true), 200))")

    assert [each for each in pages.watched.left if each.startswith(fault)]
    pages.watched.expect("planted|another host|ERR_")


def test_pages_of_two_contexts_share_nothing(pages: Pages, address: str) -> None:
    one, other = pages.open(address), pages.open(address)
    one.evaluate("() => sessionStorage.setItem('a', '1')")

    assert one.evaluate("() => sessionStorage.getItem('a')") == "1"
    assert other.evaluate("() => sessionStorage.getItem('a')") is None
