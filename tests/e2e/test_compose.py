"""`docker compose up`: what compose makes of the file, what is promised of its images, and the demo that it is."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from askance_lab.commands.shared.exit_codes import Exit
from tests.e2e.compose_model import COMPOSE, ROOT, SECONDS, StandIn, clean_environment, command_of, dockerfile, resolved
from tests.harness.ports import lasting_port

CLIENTS = [f"client-{number}" for number in range(1, 5)]
DOCKERFILES = ["server/Dockerfile", "client/Dockerfile"]
ROOMS = ["client", "server"]
SPENT = "the users of this server have spent their ε"


# ------------------------------------------------------------------------------------------------- what compose reads


@pytest.fixture(scope="module")
def model() -> dict[str, Any]:
    return resolved()


def volumes(service: dict[str, Any]) -> dict[str, tuple[str, bool]]:
    """Each mount point: which volume, and whether it can be written."""
    return {
        each["target"]: (each["source"], not each.get("read_only", False))
        for each in service.get("volumes", [])
        if each["type"] == "volume"
    }


def test_compose_takes_the_file_without_a_word_and_a_broken_one_it_does_not(tmp_path: Path) -> None:
    quiet = [COMPOSE, "--file", ROOT / "docker-compose.yml", "config", "--quiet"]
    run = subprocess.run(quiet, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=False)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")

    broken = tmp_path / "docker-compose.yml"
    broken.write_text((ROOT / "docker-compose.yml").read_text().replace("restart: unless-stopped", "restrat: always"))
    run = subprocess.run([COMPOSE, "--file", broken, "config", "--quiet"], capture_output=True, text=True, check=False)
    assert run.returncode != 0, "the control is refused"
    assert "restrat" in run.stderr


def test_there_are_a_server_four_clients_and_who_conducts_them(model: dict[str, Any]) -> None:
    assert sorted(model["services"]) == sorted(["server", "tokens", "demo", *CLIENTS])
    shares = [command_of(model["services"][name])[-1] for name in CLIENTS]
    assert shares == ["--share=1/4", "--share=2/4", "--share=3/4", "--share=4/4"]
    assert len({tuple(command_of(model["services"][name])[:-1]) for name in CLIENTS}) == 1


def test_the_server_says_how_it_is_by_the_command_itself(model: dict[str, Any]) -> None:
    """Slim images have no curl."""
    assert model["services"]["server"]["healthcheck"]["test"] == ["CMD", "askance", "health"]


@pytest.mark.parametrize("name", [*CLIENTS, "demo"])
def test_clients_wait_for_a_server_that_is_well_and_for_its_tokens(model: dict[str, Any], name: str) -> None:
    waits = {other: wish["condition"] for other, wish in model["services"][name]["depends_on"].items()}
    assert waits == {"server": "service_healthy", "tokens": "service_completed_successfully"}
    assert model["services"]["tokens"]["depends_on"]["server"]["condition"] == "service_healthy"


def test_only_the_server_is_reached_and_only_from_this_machine(model: dict[str, Any]) -> None:
    published = {name: service.get("ports", []) for name, service in model["services"].items()}
    [port] = published.pop("server")
    assert (port["host_ip"], port["published"], port["target"]) == ("127.0.0.1", "8080", 8080)
    assert not any(published.values())


def test_ledger_and_wallets_are_kept_each_where_only_its_owner_looks(model: dict[str, Any]) -> None:
    services = model["services"]
    assert volumes(services["server"]) == {"/data": ("data", True)}
    for number, name in enumerate(CLIENTS, 1):
        # The data directory holds the key that every token is made with: no client sees it.
        wanted = {"/enrolment": ("enrolment", False), "/wallets": (f"wallets-{number}", True)}
        assert volumes(services[name]) == wanted
    assert volumes(services["demo"]) == {"/operator": ("operator", False)}
    used = {source for service in services.values() for source, _ in volumes(service).values()}
    assert used == set(model["volumes"])


def test_nothing_runs_as_root_or_writes_elsewhere(model: dict[str, Any]) -> None:
    for name, service in model["services"].items():
        user = service.get("user") or dockerfile(service)["USER"]
        assert re.fullmatch(r"[1-9][0-9]{3,}:[1-9][0-9]{3,}", user), name
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["init"] is True, name
        assert not service.get("privileged")
        assert not service.get("cap_add")


def test_what_ends_stays_ended_and_what_fails_begins_again(model: dict[str, Any]) -> None:
    wanted = {"server": "unless-stopped", "tokens": "no", "demo": "no"} | dict.fromkeys(CLIENTS, "on-failure:3")
    assert {name: service["restart"] for name, service in model["services"].items()} == wanted


def test_variables_change_users_budget_and_port_everywhere() -> None:
    services = resolved(ASKANCE_DEMO_USERS="400", ASKANCE_DEMO_CAP="6", ASKANCE_DEMO_PORT="9090")["services"]
    for name in CLIENTS:
        assert "--users=400" in command_of(services[name])
    assert "--live-users=400" in command_of(services["demo"])
    assert {service["environment"]["ASKANCE_CAP"] for name, service in services.items() if name == "server"} == {"6"}
    assert all("--cap=6" in command_of(services[name]) for name in CLIENTS)
    assert services["server"]["ports"][0]["published"] == "9090"
    assert services["demo"]["environment"]["ASKANCE_PUBLIC_URL"] == "http://127.0.0.1:9090"


# --------------------------------------------------------------------------------------------------------- the images


def hadolint(*paths: str | Path) -> subprocess.CompletedProcess[str]:
    program = Path(sys.executable).parent / "hadolint"
    return subprocess.run([program, "--no-color", *paths], cwd=ROOT, capture_output=True, text=True, check=False)


def test_hadolint_has_nothing_to_say(tmp_path: Path) -> None:
    run = hadolint(*DOCKERFILES)
    assert (run.returncode, run.stdout) == (0, "")

    planted = tmp_path / "Dockerfile"
    planted.write_text((ROOT / DOCKERFILES[0]).read_text().replace(":3.12.12-slim-bookworm", ""))
    assert hadolint(planted).returncode == 1, "the control is found"


@pytest.mark.parametrize("path", DOCKERFILES)
def test_what_is_served_by_default_is_what_compose_says(model: dict[str, Any], path: str) -> None:
    services = [each for each in model["services"].values() if each["build"]["dockerfile"] == path]
    assert services
    image = dockerfile(services[0])
    assert json.loads(image["ENTRYPOINT"]) == ["askance"]
    if path == "server/Dockerfile":
        assert json.loads(image["CMD"]) == model["services"]["server"]["command"]
    text = (ROOT / path).read_text()
    bases = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(set(bases)) == 1, "the packages are built for the Python that runs them"
    assert text.count("--require-hashes") == 2
    for target in {target for service in services for target in volumes(service)}:
        assert f" {target}" in re.findall(r"install --directory .*", text)[0], "a new volume takes its owner from here"


def pins(path: str) -> dict[str, set[str]]:
    """Each locked requirement with its marker, and its hashes."""
    pieces = re.split(r"\n(?=[a-z0-9])", (ROOT / path).read_text())
    found = ((piece.partition(" \\")[0], set(re.findall(r"sha256:[0-9a-f]{64}", piece))) for piece in pieces)
    return {re.sub(r"\s*;.*", "", line): hashes for line, hashes in found}


@pytest.mark.parametrize(
    "path", ["build-requirements.txt", "client/requirements.txt", "demo-requirements.txt", "server/requirements.txt"]
)
def test_what_an_image_or_the_demo_installs_is_a_part_of_the_lock(path: str) -> None:
    locked, here = pins("constraints.txt"), pins(path)
    assert here
    for requirement, hashes in here.items():
        assert hashes, requirement
        assert hashes == locked.get(requirement), f"{requirement} in {path}: run make lock"


def test_the_images_install_all_that_they_need_and_the_client_no_server() -> None:
    """What the lock says is needed, of what the project asks for."""
    client, server = ({name.partition("==")[0] for name in pins(f"{room}/requirements.txt")} for room in ROOMS)
    assert {"cryptography", "httpx", "numpy", "pydantic", "sniffio", "typer"} <= client < server
    assert {"fastapi", "httptools", "prometheus-client", "psycopg-binary", "uvicorn", "uvloop"} <= server
    assert not client & {"fastapi", "starlette", "uvicorn", "psycopg", "pyarrow"}
    assert not server & {"scipy", "pytest", "ruff", "hypothesis", "dask", "pyarrow", "hatchling"}


def test_a_client_without_the_extras_can_do_what_its_containers_do(tmp_path: Path) -> None:
    """Every module that a fleet and its conductor need, where no package can be found but a device's."""
    program = """
import sys
from importlib.abc import MetaPathFinder

EXTRAS = {"dask", "fastapi", "prometheus_client", "psycopg", "pyarrow", "scipy", "uvicorn"}

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in EXTRAS:
            raise ModuleNotFoundError(name)

sys.meta_path.insert(0, Absent())
import askance_lab.commands.client, askance_lab.commands.fleet, askance_lab.commands.demo
from askance_lab.experiments.second_round import ConceptTask, conclude, learn_in_process
from askance_lab.experiments.second_round import LEARNERS
learned = [learn_in_process(ConceptTask(8, "1", 100), learner, 1, 1) for learner in LEARNERS]
shown = conclude(ConceptTask(8, "1", 100), learned)
assert learned[0].truth and shown.needed.at_once_limit and shown.higher[0].measured
"""
    run = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


# ------------------------------------------------------------------------------------------------------- the stand-in


@pytest.fixture
def stand_in(tmp_path: Path) -> Iterator[StandIn]:
    # A budget for two demos, each ε = 2.
    with StandIn(
        tmp_path / "compose",
        lasting_port(),
        {"ASKANCE_DEMO_USERS": "1000", "ASKANCE_DEMO_CAP": "4", "ASKANCE_DEMO_CONCEPTS": "6"},
    ) as services:
        yield services


def metric(services: StandIn, name: str) -> int:
    with urllib.request.urlopen(f"http://127.0.0.1:{services.port}/metrics", timeout=SECONDS) as answer:
        text = answer.read().decode()
    return int(float(next(line.split()[-1] for line in text.splitlines() if line.startswith(name + " "))))


def finished(services: StandIn) -> int:
    return metric(services, 'askance_studies{state="finished"}')


def reach(condition: Callable[[], bool]) -> None:
    """Wait for it; what takes longer is stuck."""
    end = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@contextmanager
def frozen(services: StandIn, name: str) -> Iterator[None]:
    """A service that stands still for a while."""
    services.processes[name].send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        services.processes[name].send_signal(signal.SIGCONT)


@pytest.mark.slow
def test_the_demo_goes_on_after_an_interruption_and_comes_up_again_until_the_budget_is_spent(stand_in: StandIn) -> None:
    """`up` over one ledger: with an interruption, again, and once too often."""
    # No study begins before all users are there, and none ends while those of one client are still to come. She stops
    # once their numbers are in her wallets: else they would be lost, and waited for in vain.
    stand_in.up(but=("demo",))
    reach(lambda: all("250 users are enrolled" in stand_in.errors(name) for name in CLIENTS))
    assert metric(stand_in, "askance_users") == 1000
    with frozen(stand_in, "client-4"):
        stand_in.up()
        reach(lambda: metric(stand_in, 'askance_reports_total{verdict="accepted"}') > 0)
        assert finished(stand_in) == 0
    stand_in.stop()

    # What was interrupted goes on and is not begun a second time; then the same users are asked in two studies more.
    for studies in (2, 4):
        stand_in.up()
        assert stand_in.ended("demo") == 0, stand_in.errors("demo")
        assert [stand_in.ended(name) for name in CLIENTS] == [0] * 4
        assert (metric(stand_in, "askance_users"), finished(stand_in)) == (1000, studies)
        stand_in.stop()
    table = stand_in.output("demo")
    for name in ("more rounds", "one round"):
        row = rf"^{name} +(right|wrong, error [.0-9]+) +[0-9,]+ users, [1-6] rounds? +r = [01]{{8}}, a = [01]$"
        assert re.search(row, table, re.MULTILINE), table
    assert table.startswith(f"in a browser: http://127.0.0.1:{stand_in.port}/"), "the first address is a page"
    assert f"every endpoint: http://127.0.0.1:{stand_in.port}/docs" in table
    assert "of 5 concepts" in " ".join(table.split()), "six concepts, of which one was asked over HTTP"
    assert "answered 250" in stand_in.output("client-4")

    # A learner that is sure early leaves users who can still pay: the next `up` asks them, and them alone.
    refused = 0
    for _ in range(4):
        stand_in.up()
        code, refused = stand_in.ended("demo"), stand_in.errors("demo").count(SPENT)
        assert metric(stand_in, "askance_users") == 1000
        if refused:
            assert code == Exit.TOO_FEW_USERS
            break
        stand_in.stop()
    assert refused
    shown = " ".join(stand_in.output("demo").split())
    assert "nothing learned: needs 1 user who can still pay ε = 1, and 0 are left" in shown, shown
    assert "of 5 concepts" in shown, "what was learned in its own process is shown all the same"
