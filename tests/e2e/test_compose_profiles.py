"""The profiles of docker-compose.yml: what is promised of every service, and that their files speak of one another.

`make test-compose` brings all of it up; here each promise is read off the model, and a broken one is found.
"""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from askance_protocol.rounds import RoundState, StudyState
from askance_server.ledger import Verdict
from askance_server.metrics import Metrics
from tests.e2e.compose.panels import expressions, killed, sentences
from tests.e2e.compose_model import ROOT, command_of, dockerfile, resolved

DEPLOY = ROOT / "deploy"
DASHBOARD = DEPLOY / "grafana/dashboards/askance.json"
REPLICAS = ["replica-1", "replica-2", "replica-3"]
SCALE = {"postgres", *REPLICAS, "balancer", "scale-tokens", "crowd"}
OBS = {"prometheus", "grafana"}
PAGES = {"server": 8080, "balancer": 8081, "prometheus": 9090, "grafana": 3000}
TASKS = {"tokens", "scale-tokens", "demo", "crowd", *(f"client-{number}" for number in range(1, 5))}
"""Services that come to an end."""
TAG = re.compile(r"[a-z/-]+:v?\d+\.\d+(\.\d+)?(-[a-z]+)?")


@pytest.fixture(scope="module")
def model() -> dict[str, Any]:
    return resolved("*")


# -------------------------------------------------------------------------------------------------- what is promised


def loose(model: dict[str, Any]) -> list[str]:
    """What services can do that they need not, by service."""
    return [f"{name}: {fault}" for name, service in model["services"].items() for fault in faults(name, service)]


def faults(name: str, service: dict[str, Any]) -> Iterator[str]:
    user = service.get("user") or dockerfile(service)["USER"]
    if not re.fullmatch(r"[1-9][0-9]*:[0-9]+", user):
        yield f"runs as {user}"
    if service.get("read_only") is not True:
        yield "may write to its image"
    if service.get("cap_drop") != ["ALL"] or service.get("cap_add") or service.get("privileged"):
        yield "has capabilities"
    if service.get("security_opt") != ["no-new-privileges:true"]:
        yield "may gain rights"
    if {"pid", "ipc", "devices"} & service.keys() or service.get("network_mode", "none") != "none":
        yield "shares what is not its own"
    if not {"mem_limit", "cpus", "pids_limit"} <= service.keys():
        yield "has no limits"
    yield from ends_badly(name, service)
    yield from is_open(service)
    if "build" not in service and not TAG.fullmatch(service["image"]):
        yield f"is of no certain version: {service['image']}"


def ends_badly(name: str, service: dict[str, Any]) -> Iterator[str]:
    """A service that lasts is looked after."""
    if name not in TASKS and service.get("restart") not in {"always", "unless-stopped"}:
        yield "stays away"
    if name not in TASKS and "test" not in service.get("healthcheck", {}):
        yield "does not tell how it is"


def is_open(service: dict[str, Any]) -> Iterator[str]:
    """Who reaches it, and what of this machine it sees."""
    if any(port.get("host_ip") != "127.0.0.1" for port in service.get("ports", ())):
        yield "is reached from elsewhere"
    for volume in service.get("volumes", ()):
        inside = Path(volume["source"]).is_relative_to(ROOT)
        if volume["type"] != "volume" and not (inside and volume.get("read_only")):
            yield f"can write to this machine: {volume['source']}"
    secrets = re.compile(r"PASS|SECRET|TOKEN|_KEY", re.IGNORECASE)
    for variable, text in service.get("environment", {}).items():
        if secrets.search(variable) and not variable.endswith("_FILE"):
            yield f"has a credential: {variable}"
        if re.search(r"//[^/@]*:[^/@]*@", str(text)):
            yield f"has a password: {variable}"
    if any(re.search(r"//[^/@]*:[^/@]*@", word) for word in service.get("command") or ()):
        yield "has a password in its command"


def test_no_service_of_any_profile_can_do_more_than_it_needs(model: dict[str, Any]) -> None:
    assert loose(model) == []


@pytest.mark.parametrize(
    ("service", "planted", "found"),
    [
        ("balancer", {"user": "0:0"}, "balancer: runs as 0:0"),
        ("postgres", {"user": "root"}, "postgres: runs as root"),
        ("grafana", {"read_only": False}, "grafana: may write to its image"),
        ("replica-2", {"cap_add": ["SYS_ADMIN"]}, "replica-2: has capabilities"),
        ("crowd", {"cap_drop": []}, "crowd: has capabilities"),
        ("prometheus", {"security_opt": []}, "prometheus: may gain rights"),
        ("crowd", {"pid": "service:replica-3"}, "crowd: shares what is not its own"),
        ("balancer", {"network_mode": "host"}, "balancer: shares what is not its own"),
        ("postgres", {"restart": "no"}, "postgres: stays away"),
        ("grafana", {"healthcheck": {}}, "grafana: does not tell how it is"),
        ("grafana", {"ports": [{"published": "3000"}]}, "grafana: is reached from elsewhere"),
        ("balancer", {"image": "haproxy:latest"}, "balancer: is of no certain version: haproxy:latest"),
        ("balancer", {"image": "haproxy"}, "balancer: is of no certain version: haproxy"),
        ("grafana", {"environment": {"GF_SECURITY_ADMIN_PASSWORD": "x"}}, "grafana: has a credential: "),
        ("crowd", {"environment": {"ASKANCE_SERVER": "http://a:b@c"}}, "crowd: has a password: ASKANCE_SERVER"),
        ("replica-1", {"command": ["--database=postgresql://a:b@c/d"]}, "replica-1: has a password in its command"),
        (
            "balancer",
            {"volumes": [{"type": "bind", "source": "/var/run/docker.sock", "read_only": True}]},
            "balancer: can write to this machine: /var/run/docker.sock",
        ),
    ],
)
def test_control_a_service_that_can_do_more_is_found(
    model: dict[str, Any], service: str, planted: dict[str, Any], found: str
) -> None:
    broken = copy.deepcopy(model)
    broken["services"][service] |= planted
    [fault] = loose(broken)
    assert fault.startswith(found)


def test_control_a_service_without_a_limit_is_found(model: dict[str, Any]) -> None:
    broken = copy.deepcopy(model)
    del broken["services"]["postgres"]["mem_limit"]
    assert loose(broken) == ["postgres: has no limits"]


# ---------------------------------------------------------------------------------------------------- what comes up


def test_without_a_profile_it_is_the_demo_and_each_profile_brings_its_own(model: dict[str, Any]) -> None:
    demo = set(resolved()["services"])
    assert {"server", "demo"} < demo
    assert set(resolved("scale")["services"]) - demo == SCALE
    assert set(resolved("obs")["services"]) - demo == OBS
    assert set(model["services"]) == demo | SCALE | OBS


def test_each_page_has_a_port_of_its_own_which_a_variable_changes(model: dict[str, Any]) -> None:
    services = model["services"]
    assert {name: int(services[name]["ports"][0]["published"]) for name in PAGES} == PAGES
    names = {f"ASKANCE_{name}_PORT": "1" for name in ("DEMO", "SCALE", "BALANCER", "PROMETHEUS", "GRAFANA")}
    changed = resolved("*", **names)["services"]
    ports = [port["published"] for service in changed.values() for port in service.get("ports", ())]
    assert ports == ["1"] * 5
    text = (ROOT / "docker-compose.yml").read_text()
    assert set(names) == set(re.findall(r"ASKANCE_[A-Z]+_PORT", text))


def test_three_replicas_differ_in_nothing_but_that_one_is_killed(model: dict[str, Any]) -> None:
    replicas = [dict(model["services"][name]) for name in REPLICAS]
    entry = replicas[2].pop("entrypoint")
    assert [replicas[0].pop("entrypoint"), replicas[1].pop("entrypoint")] == [None, None]
    assert replicas[0] == replicas[1] == replicas[2]
    [askance] = json.loads(dockerfile(replicas[0])["ENTRYPOINT"])
    # What compose hands over has no variable of its own left, only those of the shell.
    assert [word.replace("$$", "$") for word in entry] == [
        "sh",
        "-c",
        f'sleep 4; exec timeout --signal=KILL "$0" {askance} "$@"',
        "30",
    ]
    assert replicas[0]["restart"] == "always"
    assert "--data-directory=/data" in command_of(replicas[0])
    # What each of them reaches the database by is the one thing that leads to it.
    assert model["services"]["postgres"]["network_mode"] == "none"
    with_socket = {
        name
        for name, service in model["services"].items()
        if any(volume["source"] == "scale-socket" for volume in service.get("volumes", ()))
    }
    assert with_socket == {"postgres", *REPLICAS}


def test_a_volume_that_a_profile_names_takes_its_owner_from_the_image(model: dict[str, Any]) -> None:
    for name in ("scale-tokens", "crowd"):
        service = model["services"][name]
        [made] = re.findall(r"install --directory .*", (ROOT / service["build"]["dockerfile"]).read_text())
        for volume in service["volumes"]:
            assert f" {volume['target']}" in made


def unlike(model: dict[str, Any], haproxy: str, prometheus: str) -> list[str]:
    """Servers that balancer or monitor know under another name, or not at all."""
    found: list[str] = []
    behind = re.findall(r"^\s+server (\S+) (\S+) check$", haproxy, re.MULTILINE)
    if behind != [(name, f"{name}:8080") for name in REPLICAS]:
        found.append(f"the balancer has {behind}")
    if "GET /readyz" not in haproxy:
        found.append("the balancer does not ask who is ready")
    [job] = yaml.safe_load(prometheus)["scrape_configs"]
    serving = [name for name, service in model["services"].items() if "serve" in (service.get("command") or ())]
    [watched] = job["dns_sd_configs"]
    if sorted(watched["names"]) != sorted(serving) or watched["port"] != 8080:
        found.append(f"Prometheus watches {watched['names']}")
    return found


def test_balancer_and_monitor_know_the_servers_that_there_are(model: dict[str, Any]) -> None:
    haproxy, prometheus = (DEPLOY / "haproxy.cfg").read_text(), (DEPLOY / "prometheus.yml").read_text()
    assert unlike(model, haproxy, prometheus) == []
    # The controls.
    assert unlike(model, haproxy.replace("replica-2:8080", "replica-1:8080"), prometheus)
    assert unlike(model, haproxy.replace("/readyz", "/healthz"), prometheus)
    assert unlike(model, haproxy, prometheus.replace("replica-3", "replica-4"))
    fewer = copy.deepcopy(model)
    del fewer["services"]["server"]
    assert unlike(fewer, haproxy, prometheus)


# -------------------------------------------------------------------------------------------------- what is watched


LABELS = {
    "verdict": {each.name.lower() for each in Verdict},
    "state": {each.value for each in (*RoundState, *StudyState)},
    "job": {"askance"},
}
SAMPLES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}


def told() -> set[str]:
    """Each metric that a server tells; and whether Prometheus reaches it."""
    families = Metrics().registry.collect()
    return {"up"} | {f"{family.name}{ending}" for family in families for ending in SAMPLES[family.type]}


def unknown(lines: Iterator[tuple[str, str]]) -> list[str]:
    """Panels that ask for what no server tells."""
    metrics, wrong = told(), list[str]()
    for title, query in lines:
        asked = set(re.findall(r"\baskance_\w+", query)) | set(re.findall(r"\w+(?=\{)", query))
        wrong += [f"{title}: {name}" for name in asked - metrics]
        labels = re.findall(r'(\w+)!?="(.*?)"', query)
        wrong += [f"{title}: {label} {value}" for label, value in labels if value not in LABELS.get(label, ())]
        if not asked:
            wrong.append(f"{title}: asks for nothing")
    return wrong


def test_each_panel_asks_for_what_a_server_tells(tmp_path: Path) -> None:
    assert unknown(expressions(DASHBOARD)) == []
    asked = " ".join(query for _, query in expressions(DASHBOARD))
    for name in ("up{", "accepted", "queue_depth", "commit_seconds_bucket", RoundState.OPEN.value, "over_budget"):
        assert name in asked
    assert Verdict.OVER_BUDGET.name.lower() in LABELS["verdict"]
    # The controls.
    for good, bad in (
        ("queue_depth", "queue_dept"),
        ("over_budget", "beyond_budget"),
        ("up{", "upp{"),
        ("state=", "stat="),
    ):
        planted = tmp_path / "planted.json"
        planted.write_text(DASHBOARD.read_text().replace(good, bad, 1))
        assert unknown(expressions(planted)) != []


def test_grafana_finds_its_dashboard_and_the_dashboard_prometheus(model: dict[str, Any]) -> None:
    services = model["services"]
    dashboard = json.loads(DASHBOARD.read_text())
    [source] = yaml.safe_load((DEPLOY / "grafana/datasources/askance.yml").read_text())["datasources"]
    assert {panel["datasource"]["uid"] for panel in dashboard["panels"]} == {source["uid"]}
    assert source["url"] == f"http://prometheus:{services['prometheus']['ports'][0]['target']}"
    [provider] = yaml.safe_load((DEPLOY / "grafana/dashboards/askance.yml").read_text())["providers"]
    [mounted] = services["grafana"]["volumes"]
    inside = Path(mounted["target"]) / DASHBOARD.relative_to(mounted["source"])
    assert str(inside.parent) == provider["options"]["path"]
    settings = services["grafana"]["environment"]
    assert settings["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"] == str(inside)
    assert settings["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    numbers = [panel["id"] for panel in dashboard["panels"]]
    assert len(numbers) == len(set(numbers))
    assert all(panel["title"] and panel["description"] for panel in dashboard["panels"])


def test_prometheus_reads_the_files_that_are_mounted(model: dict[str, Any]) -> None:
    service = model["services"]["prometheus"]
    places = {volume["target"]: volume["source"] for volume in service["volumes"] if volume["type"] == "bind"}
    assert places["/etc/askance/prometheus.yml"] == str(DEPLOY / "prometheus.yml")
    assert "--config.file=/etc/askance/prometheus.yml" in service["entrypoint"]
    [rules] = yaml.safe_load((DEPLOY / "prometheus.yml").read_text())["rule_files"]
    assert Path(rules).match("/etc/askance/operate/*.yml")
    assert places["/etc/askance/operate"] == str(ROOT / "docs/operate")
    assert Path("/etc/askance/operate/alerts.yml").match(rules)


# ------------------------------------------------------------------------------------------------ make test-compose


@pytest.mark.parametrize(
    ("log", "kills"),
    [
        ("", {}),
        ("Server servers/replica-3 is DOWN, reason: x\nServer servers/replica-3 is UP, reason: y", {"replica-3": 1}),
        ("Server servers/replica-3 is UP, reason: first", {}),
        ("Server servers/replica-3 is DOWN, reason: and stays", {}),
    ],
)
def test_a_kill_is_seen_in_what_the_balancer_says(log: str, kills: dict[str, int]) -> None:
    assert killed(log) == kills


def test_make_begins_the_real_run_and_what_it_imports_is_there(tmp_path: Path) -> None:
    """It was moved once, and its line in the Makefile began nothing any more."""
    makefile = (ROOT / "Makefile").read_text()

    def begins(line: str, here: Path = ROOT) -> bool:
        words = line.replace("$(BIN)/python", sys.executable).replace("$(COMPOSE)", "").split()
        run = subprocess.run([*words, "--help"], cwd=here, capture_output=True, text=True, check=False)
        return run.returncode == 0 and "--work" in run.stdout

    [line] = re.findall(r"^test-compose: install\n\t(.*)", makefile, re.MULTILINE)
    assert begins(line)
    # The controls.
    assert not begins("$(BIN)/python tests/e2e/compose/real.py")
    assert not begins(line, tmp_path)


def test_the_page_says_what_the_run_has_printed() -> None:
    page = (ROOT / "docs/compose.md").read_text("utf-8")
    printed = json.loads((ROOT / "docs/compose/tried.json").read_text("utf-8"))
    assert [each for each in sentences(printed) if each not in page] == []
    size = printed["megabytes"]
    assert max(size["server"], size["client"]) - size["base"] <= 200
    # The control: an image that has grown.
    size["server"] += 1
    assert [each for each in sentences(printed) if each not in page] != []
