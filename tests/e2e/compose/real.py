"""`make test-compose`: both images built and every profile brought up in real containers.

The demo comes up twice over one ledger. Of `scale`, one of three servers is killed again and again while a fleet
reports, and one is drained; everything is watched by `obs` meanwhile. Each long-running container is asked what it can
do. `engine` says what the containers run on, and what stands in place of images that cannot be had.

The figures go to standard output as JSON; what goes on, to standard error. Everything is taken away at the end, unless
`--work DIR` keeps base image and packages for the next time. `--only demo` or `--only scale` tries a part.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.e2e.compose.engine import NOT_HERE, SECONDS, Environment, await_true, base_of, engine, run, say
from tests.e2e.compose.panels import expressions, killed, typed
from tests.e2e.compose_model import COMPOSE, ROOT, resolved

CLIENTS = [f"client-{number}" for number in range(1, 5)]
REPLICAS = [f"replica-{number}" for number in range(1, 4)]
PORTS = ["DEMO", "SCALE", "BALANCER", "PROMETHEUS", "GRAFANA"]
MEGABYTES = 200
"""What an image may have beyond its base."""
USERS = 2400
RATE = 40
KILL_AFTER = 25
"""Users of profile scale, how many of them report in a second, and seconds after which a server is killed."""

FILE = ("--file", str(ROOT / "docker-compose.yml"), "--profile", "*")
"""With a profile that is not asked for, `down` and `logs` would leave its containers out."""


# ---------------------------------------------------------------------------------------------------------- the demo


class Demo:
    """The project, under a name and a port of its own."""

    def __init__(self, env: Environment) -> None:
        self.ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
        self.port = self.ports["DEMO"]
        ports = {f"ASKANCE_{name}_PORT": str(port) for name, port in self.ports.items()}
        scale = {"USERS": USERS, "RATE": RATE, "KILL_AFTER": KILL_AFTER}
        more = {f"ASKANCE_SCALE_{name}": str(number) for name, number in scale.items()}
        self.seen = set[str]()
        self.env = {**env, "COMPOSE_PROJECT_NAME": f"askance-test-{os.getpid()}", **ports, **more}

    def compose(self, *words: str, check: bool = True) -> str:
        """What compose says."""
        return run(COMPOSE, *FILE, *words, env=self.env, check=check)

    def build(self) -> None:
        """Both images; the other services have the same two."""
        print(self.compose("--progress", "plain", "build", "server", "demo"), file=sys.stderr)

    def up(self) -> dict[str, Any]:
        """Up, until conductor and clients have ended; how long that took, and what was printed."""
        begin = time.monotonic()
        run(COMPOSE, *FILE[:2], "up", "--no-build", "--detach", env=self.env)
        started = time.monotonic()
        await_true(lambda: self.ended() >= {"demo", *CLIENTS}, "conductor and clients", SECONDS)
        codes = {service: code for service, (state, code) in self.states().items() if state == "exited"}
        return {
            "exit_codes": codes,
            "seconds_to_start": round(started - begin, 1),
            "seconds_in_all": round(time.monotonic() - begin, 1),
            "table": self.compose("logs", "--no-log-prefix", "--no-color", "demo"),
        }

    def states(self) -> dict[str, tuple[str, int]]:
        """State and exit code of each service's container."""
        said = self.compose("ps", "--all", "--format", "json")
        rows = [json.loads(line) for line in said.splitlines()]
        return {row["Service"]: (row["State"], row["ExitCode"]) for row in rows}

    def ended(self) -> set[str]:
        """The services that have come to an end."""
        ended = {service for service, (state, _) in self.states().items() if state == "exited"}
        if ended != self.seen:
            say(f"ended: {', '.join(sorted(ended)) or 'none'}")
        self.seen = ended
        return ended

    def inside(self, service: str, *command: str) -> tuple[int, str]:
        """Exit code and output of a command in a running container."""
        words = [*FILE, "exec", "--no-TTY", service, *command]
        done = subprocess.run([COMPOSE, *words], cwd=ROOT, env=self.env, capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + done.stderr).strip()

    def once(self, service: str, script: str) -> str:
        """What a script says in a new container of a service, beside the ones that run."""
        return self.compose("run", "--rm", "--no-deps", "--no-TTY", "--entrypoint", "sh", service, "-c", script)

    def get(self, name: str, path: str) -> str:
        """What a published port answers to whoever asks from outside."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.ports[name]}{path}", timeout=30) as answer:
            return answer.read().decode()

    def metric(self, name: str, of: str = "DEMO") -> int:
        """One figure of a server, through the published port."""
        lines = self.get(of, "/metrics").splitlines()
        return int(float(next(line.split()[-1] for line in lines if line.startswith(name + " "))))


def free_ports(count: int) -> list[int]:
    """Ports of the loopback that nobody has."""
    with contextlib.ExitStack() as stack:
        free = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in free:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in free]


def expect(holds: bool, what: str) -> None:
    """One promise."""
    say(f"{'ok' if holds else 'FAILED'}: {what}")
    if not holds:
        raise SystemExit(f"not so: {what}")


def check_up(demo: Demo, came: Mapping[str, Any], studies: int) -> None:
    """What has to be so after each `up`."""
    print(came["table"], file=sys.stderr)
    expect(came["exit_codes"] == dict.fromkeys(["tokens", "demo", *CLIENTS], 0), f"all end well: {came['exit_codes']}")
    expect(demo.metric("askance_users") == 3000, "3000 users are enrolled")
    expect(demo.metric('askance_studies{state="finished"}') == studies, f"{studies} studies are finished")
    expect(f"http://127.0.0.1:{demo.port}/docs" in came["table"], "the table names a URL of this machine")
    expect(came["table"].startswith(f"in a browser: http://127.0.0.1:{demo.port}/"), "and first of all its page")
    page = demo.get("DEMO", "/")
    expect("<html" in page and page.count("masked-parity") >= studies, "which shows the studies")


def check_hardened(demo: Demo, service: str, user: str) -> None:
    """Who a container runs as, and what it can and cannot do."""
    expect(demo.inside(service, "id", "-u")[1] == user, f"{service} is not root, but {user}")
    status = demo.inside(service, "cat", "/proc/self/status")[1]
    expect(re.search(r"CapEff:\s+0+$", status, re.MULTILINE) is not None, "it has no capability")
    expect(re.search(r"NoNewPrivs:\s+1$", status, re.MULTILINE) is not None, "it cannot gain one")
    expect("Read-only" in demo.inside(service, "touch", "/x")[1], "it cannot write to its image")


def check_containers(demo: Demo) -> None:
    """Who runs there, and what it can and cannot do."""
    expect(demo.inside("server", "askance", "health")[0] == 0, "the server is well, by its own command")
    check_hardened(demo, "server", "10001")
    expect(demo.inside("server", "stat", "-c", "%a %u", "/data/server.key")[1] == "600 10001", "its key is its own")
    seen = demo.once("client-1", "id -u; ls /data /operator /enrolment 2>&1; askance serve 2>&1")
    expect(seen.startswith("10001"), "a client is not root")
    expect("enrolment.token" in seen and "server.key" not in seen, "a client sees its token and not the key")
    expect("operator.token" not in seen, "nor the operator's token")
    expect(re.search(r"uvicorn: is not installed", seen) is not None, "a client's image has no server in it")
    for image in ("server", "demo"):
        told = json.loads(demo.once(image, "cat /opt/askance/sbom.cdx.json"))
        names = {each["name"] for each in told["components"]}
        expect({"numpy", "httpx"} < names and told["bomFormat"] == "CycloneDX", f"{image} lists its {len(names)} parts")


def sizes(demo: Demo) -> dict[str, float]:
    """MB of the base and of each image: what `docker images` says."""
    [base] = base_of(ROOT / "server/Dockerfile")
    images = {"base": base, "server": "askance-server", "client": "askance-client"}
    tool = "podman" if "CONTAINERS_CONF" in demo.env else "docker"
    if tool == "docker":
        run(tool, "pull", "--quiet", base)  # A build may use a base without keeping it under its name.
    inspect = (tool, "image", "inspect", "--format", "{{.Size}}")
    return {name: round(int(run(*inspect, image, env=demo.env)) / 1e6, 1) for name, image in images.items()}


def try_demo(demo: Demo) -> dict[str, Any]:
    """Up, look, down, up again over the same ledger, down."""
    say("up")
    first = demo.up()
    check_up(demo, first, 2)
    check_containers(demo)
    say("down, and up again over the same volumes")
    demo.compose("down")
    second = demo.up()
    check_up(demo, second, 4)
    demo.compose("down", "--volumes")
    return {
        name: {each: came[each] for each in came if each != "table"}
        for name, came in (("first", first), ("second", second))
    }


# -------------------------------------------------------------------------------------------------- scale, and obs


def try_scale(demo: Demo) -> dict[str, Any]:
    """A fleet reports through the balancer while one server is killed again and again, and is watched."""
    obs = sorted({"prometheus", "grafana"} - (NOT_HERE if "CONTAINERS_CONF" in demo.env else set()))
    say(f"profile scale, with {' and '.join(obs)}")
    begin = time.monotonic()
    demo.compose("up", "--no-build", "--detach", "crowd", *obs)
    await_true(lambda: demo.metric("askance_users", "SCALE") >= USERS, "the fleet to enrol", 120)
    before = kills_of(demo)
    check_watched(demo)
    await_true(lambda: "crowd" in demo.ended(), "the fleet", SECONDS)
    told = demo.compose("logs", "--no-log-prefix", "--no-color", "crowd")
    print(told, file=sys.stderr)
    expect(demo.states()["crowd"] == ("exited", 0), "the fleet ends well")
    expect(f"accepted {USERS:,}" in told, f"each of {USERS:,} users has a receipt, whatever broke")
    expect(f"the server's tally: {USERS:,}" in told, "and each is in the tally, once")
    kills = kills_of(demo) - before
    expect(kills["replica-3"] >= 1, f"meanwhile the balancer has seen replica-3 go and come back: {dict(kills)}")
    check_ledger(demo)
    check_by_hand(demo)
    users = {"balancer": "99", "postgres": "70", "replica-1": "10001", "prometheus": "65534", "grafana": "472"}
    for service, user in users.items():
        if service not in {"prometheus", "grafana"} or service in obs:
            check_hardened(demo, service, user)
    return {"kills": kills, "told": told.splitlines()[-4:], "seconds_in_all": round(time.monotonic() - begin, 1)}


def kills_of(demo: Demo) -> Counter[str]:
    """How often each server was gone so far."""
    return killed(demo.compose("logs", "--no-log-prefix", "--no-color", "balancer"))


def check_watched(demo: Demo) -> None:
    """What a person sees while it runs: the balancer's page, the servers' own through it, and every panel."""
    page = demo.get("BALANCER", "/")
    expect(all(name in page for name in REPLICAS), "the balancer's page has all three servers")
    expect("<html" in demo.get("SCALE", "/"), "the studies' page is there, through the balancer")

    def up() -> bool:
        found = json.loads(demo.get("PROMETHEUS", "/api/v1/targets"))["data"]["activeTargets"]
        return {each["labels"]["instance"] for each in found if each["health"] == "up"} >= set(REPLICAS)

    await_true(up, "Prometheus to reach all three servers", 60)
    for title, expression in expressions(ROOT / "deploy/grafana/dashboards/askance.json"):

        def shown(asked: str = expression) -> bool:
            query = urllib.parse.urlencode({"query": asked})
            answer = json.loads(demo.get("PROMETHEUS", f"/api/v1/query?{query}"))
            return answer["status"] == "success" and bool(answer["data"]["result"])

        await_true(shown, f"the panel {title!r} to have something to show: {expression}", 60)
    say("ok: every panel has something to show")
    if (ROOT / "docs/operate/alerts.yml").exists():
        groups = json.loads(demo.get("PROMETHEUS", "/api/v1/rules"))["data"]["groups"]
        expect(any(each["rules"] for each in groups), "the alerts are loaded")
    if "CONTAINERS_CONF" not in demo.env:
        found = json.loads(demo.get("GRAFANA", "/api/search"))
        expect([each["uid"] for each in found] == ["askance"], "Grafana shows the dashboard to anybody")


def check_ledger(demo: Demo) -> None:
    """Everything that the database holds, compared with what was written; and that no network leads to it."""
    database = "postgresql:///postgres?host=/run/postgresql&user=askance"
    code, told = demo.inside("replica-1", "askance", "doctor", "--deep", "--database", database)
    expect("everything is as it was written" in told, f"the ledger is sound ({code})")
    devices = demo.inside("postgres", "cat", "/proc/net/dev")[1]
    expect(set(re.findall(r"^\s*(\w+):", devices, re.MULTILINE)) == {"lo"}, "PostgreSQL has no network")


def check_by_hand(demo: Demo) -> None:
    """A server that is killed, and one that is drained, by what docs/compose.md says to type."""
    docker = f'docker() {{ shift; {COMPOSE} --file {ROOT}/docker-compose.yml "$@"; }}; '
    blocks = typed((ROOT / "docs/compose.md").read_text("utf-8"))
    expect(len(blocks) == 2, "the page says how to kill a server, and how to drain one")
    for first, *rest in blocks:
        await_true(lambda: state_of(demo, "replica-1").startswith("UP"), "replica-1", 60)
        run("bash", "-c", docker + first, env=demo.env)
        await_true(lambda: not state_of(demo, "replica-1").startswith("UP"), first, 30)
        if " kill " in first:
            # Its name is gone with it, so it is not down: `for` of the rule is the only thing that is not waited for.
            await_true(lambda: "replica-1" in missed(demo), "replica-1 to be missed", 60)
        for line in rest:
            run("bash", "-c", docker + line, env=demo.env)
        await_true(lambda: state_of(demo, "replica-1").startswith("UP"), rest[-1], 60)
        say(f"ok: replica-1 was taken out and is back: {first}")


def missed(demo: Demo) -> set[str]:
    """The servers for which the alert AskanceGone has begun."""
    found = json.loads(demo.get("PROMETHEUS", "/api/v1/alerts"))["data"]["alerts"]
    return {each["labels"].get("instance", "") for each in found if each["labels"]["alertname"] == "AskanceGone"}


def state_of(demo: Demo, server: str) -> str:
    """What the balancer says of a server."""
    rows = csv.DictReader(demo.get("BALANCER", "/;csv").removeprefix("# ").splitlines())
    return next(row["status"] for row in rows if row["svname"] == server)


def try_it(env: Environment, only: str) -> dict[str, Any]:
    """Build, and try one profile after the other."""
    demo = Demo(env)
    try:
        say("build")
        begin = time.monotonic()
        demo.build()
        figures: dict[str, Any] = {"build_seconds": round(time.monotonic() - begin, 1), "megabytes": sizes(demo)}
        for image in ("server", "client"):
            over = figures["megabytes"][image] - figures["megabytes"]["base"]
            expect(over <= MEGABYTES, f"the {image}'s image is {over:.0f} MB over its base")
        if only != "scale":
            figures["demo"] = try_demo(demo)
        if only != "demo":
            figures["scale"] = try_scale(demo)
    except BaseException:
        print(demo.compose("logs", "--no-color", "--tail", "20", check=False), file=sys.stderr)
        raise
    finally:
        say("down")
        demo.compose("down", "--volumes", "--rmi", "local", "--timeout", "20", check=False)
    return figures


def main() -> None:
    """From nothing to figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, help="a directory that keeps base image and packages")
    parser.add_argument("--only", choices=("demo", "scale"), default="", help="one part")
    asked = parser.parse_args()
    resolved()
    # Also a run that is told to stop leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as stack:
        if asked.work is not None:
            asked.work.mkdir(parents=True, exist_ok=True)
        work = asked.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askance-compose-")))
        env = stack.enter_context(engine(work.resolve()))
        print(json.dumps(try_it(env, asked.only), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
