"""The proxy of docs/server.md, as it stands there: TLS for people in front of servers without, and who is not ready."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.harness.certificates import HERE, Pair, made
from tests.harness.haproxy import balancing, refused
from tests.harness.marks import SECONDS
from tests.harness.ports import lasting_port
from tests.harness.servers import Api, ServerProcess, bearer, serving
from tests.harness.tree import ROOT
from tests.lab.commands.calls import COMMAND

pytest_plugins = ("tests.harness.haproxy",)
pytestmark = pytest.mark.slow

PEM = "/etc/haproxy/askance.pem"


def documented() -> str:
    """The configuration of the page."""
    page = (ROOT / "docs/server.md").read_text("utf-8")
    [text] = [block for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL) if "frontend askance" in block]
    return text


def here(text: str, port: int, server: int, pair: Pair) -> str:
    """The same on this machine: one server is there, and at the other two ports is nobody."""
    both = pair.certificate.with_name("both.pem")
    both.write_bytes(pair.certificate.read_bytes() + pair.key.read_bytes())
    text = text.replace("bind :443", f"bind 127.0.0.1:{port}").replace(PEM, str(both))
    return text.replace("192.0.2.1:8080", f"127.0.0.1:{server}").replace("192.0.2.", "127.0.0.")


class Through(Api):
    """The endpoints of a server, as people reach them by the proxy."""

    def __init__(self, server: ServerProcess, url: str, pair: Pair) -> None:
        self.directory = server.directory
        self.client = httpx.Client(base_url=url, verify=pair.trusting, trust_env=False, timeout=SECONDS)

    def __enter__(self) -> Through:
        return self

    def __exit__(self, *_: object) -> None:
        self.client.close()

    def request(self, method: str, path: str, *, token: str | None = None, **more: Any) -> httpx.Response:
        return self.client.request(method, path, headers=bearer(token), **more)

    def well(self) -> bool:
        """Whether a server answers behind it."""
        try:
            return self.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False


def until(happens: Callable[[], bool]) -> None:
    """Wait for it; a hang fails."""
    end = time.monotonic() + SECONDS
    while not happens():
        assert time.monotonic() < end
        time.sleep(0.05)


def health(url: str, trusted: Path) -> tuple[int, str]:
    """Exit code and words of `askance health`."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ASKANCE_", "SSL_"))}
    environ["SSL_CERT_FILE"] = str(trusted)
    command = [*COMMAND, "health", "--server", url]
    run = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=SECONDS, check=False)
    return run.returncode, run.stdout + run.stderr


def test_people_speak_tls_to_the_documented_proxy_and_it_to_whoever_is_ready(haproxy: str, tmp_path: Path) -> None:
    port, pair = lasting_port(), made(tmp_path / "tls", *HERE)
    with serving(tmp_path / "data", "--cap", "3") as server:
        config, url = here(documented(), port, server.port, pair), f"https://localhost:{port}"
        assert refused(haproxy, config, tmp_path) == ""
        # The control: a word that is none.
        assert "leastcon" in refused(haproxy, config.replace("leastconn", "leastcon"), tmp_path)
        with balancing(haproxy, config, port, tmp_path) as log, Through(server, url, pair) as proxy:
            until(proxy.well)
            tokens = proxy.enrol(3)
            study = proxy.study()
            assert {proxy.report(study["rounds"][0]["id"], token).status_code for token in tokens} == {200}
            # A stream begins at once, though it never ends.
            with proxy.client.stream("GET", f"/v1/studies/{study['id']}/events") as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                assert next(answer.iter_lines())
            assert health(url, pair.certificate) == (0, f"{url}: alive and ready\n")
            # Whoever does not know the certificate, or speaks no TLS, gets nowhere.
            for stranger in (url, f"http://localhost:{port}"):
                with pytest.raises(httpx.TransportError):
                    httpx.get(f"{stranger}/readyz", trust_env=False)
            server.stop()
            until(lambda: "Server servers/one is DOWN" in log.read_text())
            assert not proxy.well()
            told = log.read_text()
    assert not re.search(r"127\.0\.0\.1:|GET|POST", told), "who came, and when, is nobody's business"


def test_control_a_proxy_without_tls_is_found(haproxy: str, tmp_path: Path) -> None:
    port, pair = lasting_port(), made(tmp_path / "tls", *HERE)
    with serving(tmp_path / "data", "--cap", "3") as server:
        config = re.sub(r" ssl crt .*", "", here(documented(), port, server.port, pair))
        plain, secure = (Through(server, f"{scheme}://localhost:{port}", pair) for scheme in ("http", "https"))
        with balancing(haproxy, config, port, tmp_path), plain, secure:
            until(plain.well)
            assert not secure.well()
