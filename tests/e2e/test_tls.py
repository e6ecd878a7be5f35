"""TLS from end to end: every command that speaks to a server, and the page in a real browser, over https.

The server's certificate is signed by nobody but itself; `SSL_CERT_FILE` says that it is believed. The control is each
command without it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from tests.client.page.person import Person
from tests.e2e.test_room_page import Phone, finished, opened, received
from tests.harness import warm
from tests.harness.browser import Pages
from tests.harness.certificates import HERE, Pair, made
from tests.harness.marks import SECONDS
from tests.harness.servers import ServerProcess, serving
from tests.lab.commands.calls import COMMAND, token_options
from tests.lab.commands.two_faced import VALUE

pytestmark = pytest.mark.slow

ASKS: Final = """
ask Tea? --choices yes,no --until 1s --out answers {operator}
client --data me.csv --schema fields.json --yes --cap 1 --wallet my.wallet --wait 0 {enrolment}
fleet --users 3 --wait 0 {enrolment}
health
load --users 20 {operator} {enrolment}
run mean --users 100 {operator} {enrolment}
study create mean --users all {operator}
study list
users count {operator}
"""
"""Commands that speak to a server, as they are typed."""
ENDS: Final = {"ask": 7, "client": 2, "fleet": 2}
"""Exit codes of those whose question nobody answers, or who are asked none; the others end well."""


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return made(tmp_path, *HERE)


@pytest.fixture
def server(tmp_path: Path, pair: Pair) -> Iterator[ServerProcess]:
    with serving(tmp_path / "data", *pair.options, "--cap", "3", trust=pair.trusting) as process:
        yield process


def typed(server: ServerProcess, call: str) -> list[str]:
    """The words of a command."""
    _, operator, _, enrolment = token_options(server)
    words = call.format(operator=f"--operator-token {operator}", enrolment=f"--enrolment-token {enrolment}").split()
    return [*words, "--server", server.url]


def trusting(trusted: Path | None) -> dict[str, str]:
    """The environment of a person who was told of a certificate, or was not."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith(("ASKANCE_", "SSL_"))}
    return environ if trusted is None else environ | {"SSL_CERT_FILE": str(trusted)}


def started(server: ServerProcess, folder: Path, call: str, trusted: Path | None) -> subprocess.Popen[str]:
    """A command of a person who works in this folder."""
    pipe = subprocess.PIPE
    command = [*COMMAND, *typed(server, call)]
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, cwd=folder, env=trusting(trusted))


def ended(server: ServerProcess, folder: Path, call: str, trusted: Path | None) -> tuple[int, str, str]:
    """Its exit code, what it printed, and what it said."""
    run = warm.run(typed(server, call), cwd=folder, env=trusting(trusted))
    return run.returncode, run.stdout, run.stderr


def a_person(folder: Path) -> None:
    """Her example, and what it is made of."""
    (folder / "me.csv").write_text("value\n0.5\n")
    (folder / "fields.json").write_bytes(VALUE.to_bytes())


@pytest.mark.parametrize("call", ASKS.strip().splitlines())
def test_every_command_speaks_to_a_server_whose_certificate_it_was_told_and_to_no_other(
    server: ServerProcess, pair: Pair, tmp_path: Path, call: str
) -> None:
    assert server.url.startswith("https://127.0.0.1:")
    a_person(tmp_path)
    server.enrol(1)
    refused, printed, said = ended(server, tmp_path, call, None)
    code, out, err = ended(server, tmp_path, call, pair.certificate)

    assert (code, "Traceback" in out + err) == (ENDS.get(call.split(maxsplit=1)[0], 0), False), err
    assert (refused, printed, said.count("\n")) == (3, "", 1), said
    assert "shows a certificate that is not trusted: self-signed certificate (" in said
    assert "SSL_CERT_FILE=FILE" in said


@pytest.mark.parametrize("simulated", [True, False])
def test_a_fleet_and_a_person_answer_over_https(
    server: ServerProcess, pair: Pair, tmp_path: Path, *, simulated: bool
) -> None:
    a_person(tmp_path)
    person, crowd = ASKS.strip().splitlines()[1:3]
    call, users = (crowd, 3) if simulated else (person, 1)
    with started(
        server, tmp_path, call.replace("--wait 0", "--wait 60" if simulated else "--once"), pair.certificate
    ) as process:
        while f"askance_users {users}" not in server.get("/metrics").text:
            assert process.poll() is None
        study = server.study(simulated=simulated)
        told = process.communicate(timeout=SECONDS)

    assert process.returncode == 0, told
    assert finished(server, study["id"])["estimates"][0]["reports"] == users


def test_doctor_asks_a_server_of_its_settings_over_https(tmp_path: Path, pair: Pair) -> None:
    with serving(tmp_path / "data", *pair.options, trust=pair.trusting) as server:
        settings = f"port = {server.port}\ncertificate = '{pair.certificate}'\nkey = '{pair.key}'\ndatabase = 'data'\n"
        (tmp_path / "askance.toml").write_text(settings)
        command = [*COMMAND, "doctor", "--json"]
        run = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS, check=False)
        checks: dict[str, Any] = {each["name"]: each for each in json.loads(run.stdout)["checks"]}
        pair.key.write_text("")
        broken = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=SECONDS, check=False)

    assert run.returncode == 0, run.stdout
    assert checks["port"]["detail"] == f"an Askance server of this version answers at https://127.0.0.1:{server.port}"
    assert checks["certificate"]["outcome"] == "ok"
    assert broken.returncode == 6
    [failed] = [each for each in json.loads(broken.stdout)["checks"] if each["outcome"] == "failed"]
    assert (failed["name"], "is no private key in PEM" in failed["detail"]) == ("certificate", True)


def test_a_person_answers_on_the_page_over_https(pages: Pages, tmp_path: Path, pair: Pair) -> None:
    """As over plain HTTP, and with the browser's own cryptography; what is live stays live."""
    with serving(
        tmp_path / "data", *pair.options, "--cap", "3", "--enrolment", "limited", trust=pair.trusting
    ) as server:
        study, token = opened(server)
        watching = pages.context(ignore_https_errors=True).new_page()
        with watching.expect_request("**/wall/code") as asked:
            watching.goto(f"{server.url}/wall?study={study}#join={token}")
        watching.locator("#code svg").wait_for()
        context = pages.context(viewport={"width": 360, "height": 740}, ignore_https_errors=True)
        phone = Phone(context, json.loads(str(asked.value.post_data))["link"], "Yes")
        answer = watching.goto(f"{server.url}/studies/{study}")
        person: Person = phone.answers()
        received(person)
        watching.get_by_text(re.compile(r"\b1 of 12\b")).first.wait_for()
        secure = person.tab.evaluate("() => [location.protocol, isSecureContext, typeof crypto.subtle.digest]")
        stored, warned = person.wallet(), person.text
        person.tab.close()
        watching.close()
        count = server.get(f"/v1/studies/{study}").json()["rounds"][0]["received"]

    assert phone.link.startswith(f"{server.url}/t")
    assert secure == ["https:", True, "function"]
    assert (count, len(phone.bodies), len(stored["reports"])) == (1, 1, 1)
    assert "plain" not in warned.lower()
    assert answer is not None
    assert "strict-transport-security" not in answer.headers
    assert "default-src" in answer.headers["content-security-policy"]
    assert context.cookies() == []
