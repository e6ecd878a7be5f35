"""`make test-compose`: both images built and the demo brought up in real containers, twice over one ledger.

Where a Docker engine answers, it is that engine's. Where none does, and this is Debian and we are root, the engine is
podman behind Docker's own protocol, on a base image that debootstrap makes and packages that lie beside it: a build
reaches no package index there. The Dockerfiles and the compose file are used as they are in either case.

The figures go to standard output as JSON; what goes on, to standard error. Everything is taken away at the end, unless
`--work DIR` keeps base image and packages for the next time.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.e2e.compose_model import COMPOSE, ROOT, clean_environment, resolved

CLIENTS = [f"client-{number}" for number in range(1, 5)]
DEBIAN = ["podman", "runc", "netavark", "aardvark-dns", "iptables", "catatonit", "debootstrap"]
BASE_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
REQUIREMENTS = ["build-requirements.txt", "client/requirements.txt", "server/requirements.txt"]
SECONDS = 900

CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
[network]
network_backend = "netavark"
"""

Environment = dict[str, str]


def say(what: str) -> None:
    """What goes on."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def run(*command: str | Path, env: Mapping[str, str] | None = None, check: bool = True) -> str:
    """What a command says on standard output; the rest goes where ours goes."""
    done = subprocess.run(command, cwd=ROOT, env=env, stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout.strip()


# --------------------------------------------------------------------------------------------------------- an engine


@contextlib.contextmanager
def engine(work: Path) -> Generator[Environment]:
    """An environment in which compose finds an engine."""
    if (
        shutil.which("docker")
        and not subprocess.run(["docker", "version"], capture_output=True, check=False).returncode
    ):
        say("a Docker engine answers")
        yield clean_environment()
        return
    install()
    with podman(work) as env:
        import_base(work, env)
        yield env


def install() -> None:
    """Podman and what it needs."""
    programs = ("podman", "runc", "catatonit", "debootstrap", "iptables")
    if all(shutil.which(name) for name in programs):
        return
    if os.geteuid() or not shutil.which("apt-get"):
        raise SystemExit("there is no Docker engine: start one, or run this as root on Debian")
    say("installing podman")
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    run("apt-get", "update", "-q", env=env)
    run("apt-get", "install", "-q", "-y", "--no-install-recommends", *DEBIAN, env=env)


@contextlib.contextmanager
def podman(work: Path) -> Generator[Environment]:
    """Podman's service on a socket, with a store and a configuration of its own."""
    store = Path(tempfile.mkdtemp(prefix="store-", dir=work))
    (store / "containers.conf").write_text(CONTAINERS_CONF)
    lines = ["[storage]", f'driver = "{driver(store)}"', f'graphroot = "{store}/graph"', f'runroot = "{store}/run"', ""]
    (store / "storage.conf").write_text("\n".join(lines))
    files = {"CONTAINERS_CONF": store / "containers.conf", "CONTAINERS_STORAGE_CONF": store / "storage.conf"}
    # Podman 4 knows Docker's older builder.
    env = clean_environment(
        **{name: str(path) for name, path in files.items()},
        DOCKER_HOST=f"unix://{store}/podman.sock",
        DOCKER_BUILDKIT="0",
        COMPOSE_BAKE="false",
    )
    with (store / "service.log").open("w") as log:
        command = ["podman", "system", "service", "--time", "0", env["DOCKER_HOST"]]
        service = subprocess.Popen(command, env=env, stdout=log, stderr=log)
    stop = threading.Event()
    pulse = threading.Thread(target=feel_the_pulse, args=(env, stop))
    pulse.start()
    try:
        await_true((store / "podman.sock").exists, "podman's socket", 30)
        yield env
    finally:
        stop.set()
        pulse.join()
        run("podman", "rm", "--all", "--force", "--time", "5", env=env, check=False)
        service.terminate()
        service.wait()
        end_monitors(store)
        # The store's mounts have to go before its files can.
        run("podman", "system", "reset", "--force", env=env, check=False)
        shutil.rmtree(store, ignore_errors=True)


def end_monitors(store: Path) -> None:
    """The processes that watch containers of this store: they stay for minutes, and then write to it once more."""
    for words in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if "conmon" in words.read_text() and str(store) in words.read_text():
                os.kill(int(words.parent.name), signal.SIGKILL)


def driver(store: Path) -> str:
    """How layers are stored: vfs works everywhere, and copies all files for each instruction of a Dockerfile."""
    folders = [store / name for name in ("lower", "upper", "work", "merged")]
    for folder in folders:
        folder.mkdir()
    options = "lowerdir={},upperdir={},workdir={}".format(*folders)
    mount = ["mount", "-t", "overlay", "overlay", "-o", options, folders[-1]]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        return "vfs"
    run("umount", folders[-1])
    return "overlay"


def feel_the_pulse(env: Environment, stop: threading.Event) -> None:
    """Podman leaves it to systemd to run health checks, and here is none."""
    while not stop.wait(1):
        ids = run(
            "podman", "ps", "--quiet", "--filter", "label=com.docker.compose.service=server", env=env, check=False
        )
        for container in ids.split():
            command = ["podman", "healthcheck", "run", container]
            subprocess.run(command, env=env, capture_output=True, timeout=SECONDS, check=False)


def import_base(work: Path, env: Environment) -> None:
    """What stands in for the base image that the Dockerfiles name: Debian with its own Python, and the packages."""
    [tag] = {tag for path in ("client", "server") for tag in base_of(ROOT / path / "Dockerfile")}
    base = work / "base"
    if not (base / "complete").exists():
        shutil.rmtree(base, ignore_errors=True)
        debootstrap(base)
    archive = work / "base.tar"
    run("tar", "--directory", base, "--create", "--file", archive, "--exclude", "./proc/*", "--exclude", "./sys/*", ".")
    changes = ["ENV PIP_NO_INDEX=1", "ENV PIP_FIND_LINKS=/wheels", 'CMD ["python"]']
    options = [word for change in changes for word in ("--change", change)]
    run("podman", "import", *options, archive, f"docker.io/library/{tag}", env=env)
    archive.unlink()


def base_of(dockerfile: Path) -> set[str]:
    """The images that a Dockerfile begins with."""
    return set(re.findall(r"^FROM (\S+)", dockerfile.read_text(), re.MULTILINE))


def debootstrap(base: Path) -> None:
    """This machine's own Debian, small, from where this machine gets it."""
    targets = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)").splitlines()
    mirror, codename = next(line.split() for line in targets if "-" not in line.split()[1])
    say(f"a base image of Debian {codename}")
    run("debootstrap", "--variant=minbase", f"--include={BASE_PACKAGES}", codename, base, mirror)
    # Named as in the image that it stands in for.
    (base / "usr/local/bin/python").symlink_to("/usr/bin/python3")
    shutil.rmtree(base / "var/cache/apt", ignore_errors=True)
    shutil.rmtree(base / "var/lib/apt/lists", ignore_errors=True)
    wheels(base)
    (base / "complete").touch()


def wheels(base: Path) -> None:
    """The packages that the images install, by their hashes, for the Python that will run them."""
    [library] = base.glob("usr/lib/python3.*")
    here = f"python3.{sys.version_info.minor}"
    if library.name != here:
        raise SystemExit(f"the base image has {library.name}, and packages are fetched with {here}: use the former")
    say(f"packages for {here}")
    fetch = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"]
    for path in REQUIREMENTS:
        run(*fetch, "--requirement", ROOT / path, "--dest", base / "wheels")


# ---------------------------------------------------------------------------------------------------------- the demo


class Demo:
    """The project, under a name and a port of its own."""

    def __init__(self, env: Environment) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        variables = {"COMPOSE_PROJECT_NAME": f"askance-test-{os.getpid()}", "ASKANCE_DEMO_PORT": str(self.port)}
        self.env = {**env, **variables}

    def compose(self, *words: str, check: bool = True) -> str:
        """What compose says."""
        return run(COMPOSE, "--file", ROOT / "docker-compose.yml", *words, env=self.env, check=check)

    def build(self) -> None:
        """Both images; the other services have the same two."""
        print(self.compose("--progress", "plain", "build", "server", "demo"), file=sys.stderr)

    def up(self) -> dict[str, Any]:
        """Up, until conductor and clients have ended; how long that took, and what was printed."""
        begin = time.monotonic()
        self.compose("up", "--no-build", "--detach")
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
        say(f"ended: {', '.join(sorted(ended)) or 'none'}")
        return ended

    def inside(self, service: str, *command: str) -> tuple[int, str]:
        """Exit code and output of a command in a running container."""
        words = ["--file", ROOT / "docker-compose.yml", "exec", "--no-TTY", service, *command]
        done = subprocess.run([COMPOSE, *words], cwd=ROOT, env=self.env, capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + done.stderr).strip()

    def once(self, service: str, script: str) -> str:
        """What a script says in a new container of a service, beside the ones that run."""
        return self.compose("run", "--rm", "--no-deps", "--no-TTY", "--entrypoint", "sh", service, "-c", script)

    def metric(self, name: str) -> int:
        """One figure of the server, through the published port."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=30) as answer:
            lines = answer.read().decode().splitlines()
        return int(float(next(line.split()[-1] for line in lines if line.startswith(name + " "))))


def await_true(asked: Callable[[], bool], what: str, seconds: float) -> None:
    """Until it is so."""
    end = time.monotonic() + seconds
    while not asked():
        if time.monotonic() > end:
            raise SystemExit(f"waited {seconds:g} s for {what}")
        time.sleep(1)


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


def check_containers(demo: Demo) -> dict[str, Any]:
    """Who runs there, and what it can and cannot do."""
    expect(demo.inside("server", "askance", "health")[0] == 0, "the server is well, by its own command")
    uid = demo.inside("server", "id", "-u")[1]
    expect(uid == "10001", "the server is not root")
    status = demo.inside("server", "cat", "/proc/self/status")[1]
    expect(re.search(r"CapEff:\s+0+$", status, re.MULTILINE) is not None, "it has no capability")
    expect(re.search(r"NoNewPrivs:\s+1$", status, re.MULTILINE) is not None, "it cannot gain one")
    expect(demo.inside("server", "touch", "/opt/askance/x")[0] != 0, "it cannot write to its image")
    expect(demo.inside("server", "stat", "-c", "%a %u", "/data/server.key")[1] == "600 10001", "its key is its own")
    seen = demo.once("client-1", "id -u; ls /data /operator /enrolment 2>&1; askance serve 2>&1")
    expect(seen.startswith("10001"), "a client is not root")
    expect("enrolment.token" in seen and "server.key" not in seen, "a client sees its token and not the key")
    expect("operator.token" not in seen, "nor the operator's token")
    expect("not installed: fastapi" in seen, "a client's image has no server in it")
    return {"uid": uid}


def sizes(demo: Demo) -> dict[str, float]:
    """MB of the base and of each image: what `docker images` says."""
    [base] = base_of(ROOT / "server/Dockerfile")
    images = {"base": base, "server": "askance-server", "client": "askance-client"}
    tool = "podman" if "CONTAINERS_CONF" in demo.env else "docker"
    inspect = (tool, "image", "inspect", "--format", "{{.Size}}")
    return {name: round(int(run(*inspect, image, env=demo.env)) / 1e6, 1) for name, image in images.items()}


def try_it(env: Environment) -> dict[str, Any]:
    """Build, up, look, down, up again over the same ledger, down."""
    demo = Demo(env)
    try:
        say("build")
        begin = time.monotonic()
        demo.build()
        figures: dict[str, Any] = {"build_seconds": round(time.monotonic() - begin, 1), "megabytes": sizes(demo)}
        say("up")
        figures["first"] = demo.up()
        check_up(demo, figures["first"], 2)
        check_containers(demo)
        say("down, and up again over the same volumes")
        demo.compose("down")
        figures["second"] = demo.up()
        check_up(demo, figures["second"], 4)
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
    asked = parser.parse_args()
    resolved()
    # Also a run that is told to stop leaves nothing behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with contextlib.ExitStack() as stack:
        if asked.work is not None:
            asked.work.mkdir(parents=True, exist_ok=True)
        work = asked.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askance-compose-")))
        env = stack.enter_context(engine(work.resolve()))
        print(json.dumps(try_it(env), indent=2, ensure_ascii=False))


if __name__ == "__main__":
    main()
