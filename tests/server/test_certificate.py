"""Certificates: refused in one line before anything is started, shown by a name that they are for, trusted alone."""

from __future__ import annotations

import http.server
import socket
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from askance_protocol.errors import Code
from askance_server.certificate import Certificate, read_certificate
from askance_server.settings import SettingsError
from tests.harness.certificates import Pair, made


def missing(folder: Path) -> Pair:
    return Pair(made(folder).certificate, folder / "none.pem")


def a_folder(folder: Path) -> Pair:
    return Pair(folder, made(folder).key)


def mixed(folder: Path) -> Pair:
    return Pair(made(folder).certificate, made(folder / "other").key)


def swapped(folder: Path) -> Pair:
    pair = made(folder)
    return Pair(pair.key, pair.certificate)


def no_key(folder: Path) -> Pair:
    pair = made(folder)
    pair.key.write_text("hello")
    return pair


def empty(folder: Path) -> Pair:
    pair = made(folder)
    pair.certificate.write_text("")
    return pair


REFUSED: Final[dict[str, tuple[Callable[[Path], Pair], str]]] = {
    "no such file": (missing, "none.pem: cannot be read: No such file or directory (name a file in PEM"),
    "a folder": (a_folder, ": cannot be read: Is a directory (name a file in PEM"),
    "another key": (mixed, "room-key.pem: is not the key of "),
    "the two the other way round": (swapped, "room-key.pem: is no certificate in PEM (name the certificate"),
    "no key": (no_key, "room-key.pem: is no private key in PEM (name the file that has"),
    "nothing in it": (empty, "room.pem: is no certificate in PEM (name the certificate"),
    "locked": (lambda folder: made(folder, password="secret"), "is locked with a password (open it once: openssl"),
    "expired": (lambda folder: made(folder, begins=-9), "room.pem: has expired on 20"),
    "not yet": (lambda folder: made(folder, begins=3), " UTC on (wait, or set the clock of this machine)"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_cannot_be_used_is_refused_with_the_file_and_what_to_do(what: str, tmp_path: Path) -> None:
    make, words = REFUSED[what]
    pair = make(tmp_path)
    with pytest.raises(SettingsError) as refused:
        read_certificate(pair.certificate, pair.key)

    assert words in str(refused.value)
    assert refused.value.code is Code.USAGE
    assert "\n" not in str(refused.value)
    assert refused.value.__cause__ is None


@pytest.mark.parametrize(("given", "missing"), [("certificate", "key"), ("key", "certificate")])
def test_one_without_the_other_is_refused(given: str, missing: str, tmp_path: Path) -> None:
    pair = made(tmp_path)
    files: dict[str, Any] = {"certificate": None, "key": None, given: getattr(pair, given)}
    with pytest.raises(SettingsError, match=f"^--{given}: is given without --{missing} "):
        read_certificate(**files)
    assert read_certificate(None, None) is None


def read(pair: Pair) -> Certificate:
    found = read_certificate(pair.certificate, pair.key)
    assert found is not None
    return found


LOOKED_UP: Final = {"room.example": "127.0.0.1", "elsewhere.example": "192.0.2.7"}


@pytest.mark.parametrize(
    ("names", "host"),
    [
        (["127.0.0.1", "room.example"], "127.0.0.1"),
        (["elsewhere.example", "room.example"], "room.example"),
        (["elsewhere.example", "*.example", "nowhere.example"], "127.0.0.1"),
        ([], "127.0.0.1"),
    ],
)
def test_the_address_is_one_that_the_certificate_is_for_if_there_is_one(
    names: list[str], host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def looked_up(name: str, _: object) -> list[tuple[Any, ...]]:
        if name not in LOOKED_UP:
            raise socket.gaierror
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (LOOKED_UP[name], 0))]

    certificate = read(made(tmp_path, *names))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        monkeypatch.setattr(socket, "getaddrinfo", looked_up)
        url = certificate.url(listener)

        assert url == f"https://{host}:{listener.getsockname()[1]}"
    said = list(certificate.warnings(host))
    assert [("and not for 127.0.0.1" in line) for line in said] == ([False] if host in names else [True, False])
    assert certificate.fingerprint in said[-1]


def test_an_address_of_version_6_is_written_in_brackets(tmp_path: Path) -> None:
    certificate = read(made(tmp_path, "::1"))
    with socket.create_server(("::1", 0), family=socket.AF_INET6) as listener:
        assert certificate.url(listener) == f"https://[::1]:{listener.getsockname()[1]}"


def test_of_one_that_somebody_else_has_signed_nothing_is_said(tmp_path: Path) -> None:
    assert list(read(made(tmp_path, "room.example", issuer="an authority")).warnings("room.example")) == []


@contextmanager
def shown(pair: Pair) -> Generator[str]:
    """A web server with this certificate; its address, which the certificate is not for."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
    server.socket = pair.serving.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}/no-such-file"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("issuer", ["room", "an authority"])
def test_who_has_the_file_trusts_this_certificate_at_any_address_and_no_other(tmp_path: Path, issuer: str) -> None:
    certificate = read(pair := made(tmp_path, "room.example", issuer=issuer))
    other = made(tmp_path / "other", "127.0.0.1", issuer=issuer)
    with shown(pair) as url:
        assert httpx.get(url, verify=certificate.trusted_alone(), trust_env=False).status_code == 404
    with shown(other) as url, pytest.raises(httpx.ConnectError, match="CERTIFICATE_VERIFY_FAILED"):
        httpx.get(url, verify=certificate.trusted_alone(), trust_env=False)
