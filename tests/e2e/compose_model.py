"""docker-compose.yml as compose itself reads it, and its services as processes of this machine.

There is no Docker engine here. What a container would change is what is mapped: a volume is a folder, the name of the
server is the loopback, its port is a free one. Commands, environment, health check and order are those of the file.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
SECONDS = 300
"""What takes longer is stuck, even on a slow machine with much else to do."""

# The console script of the package drops exit codes: this is the program itself.
COMPOSE = Path(sysconfig.get_path("platlib")) / "compose" / "docker-compose"

Service = dict[str, Any]


def clean_environment(**variables: str) -> dict[str, str]:
    """This process's environment, less what compose or the command would read."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(("ASKANCE_", "COMPOSE_", "DOCKER_"))}
    return {**kept, **variables}


def resolved(*profiles: str, **variables: str) -> dict[str, Any]:
    """The file with these profiles, `*` for all of them, and every anchor and variable resolved."""
    chosen = [word for profile in profiles for word in ("--profile", profile)]
    command = [COMPOSE, "--file", ROOT / "docker-compose.yml", *chosen, "config", "--format", "json"]
    environment = clean_environment(**variables)
    run = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if run.returncode or run.stderr:
        raise ValueError(run.stderr)
    return json.loads(run.stdout)


def dockerfile(service: Service) -> dict[str, str]:
    """The last word of each instruction in the last stage of a service's image."""
    text = (Path(service["build"]["context"]) / service["build"]["dockerfile"]).read_text()
    lines = re.sub(r"\\\n", " ", text).splitlines()
    begin = max(number for number, line in enumerate(lines) if line.startswith("FROM "))
    words = (line.partition(" ") for line in lines[begin:] if re.match(r"[A-Z]+ ", line))
    return {instruction: rest.strip() for instruction, _, rest in words}


def command_of(service: Service) -> list[str]:
    """What runs in a container: entry point and command of the service, else of its image."""
    image = dockerfile(service)
    entrypoint = service.get("entrypoint") or json.loads(image["ENTRYPOINT"])
    command = service.get("command") or ([] if service.get("entrypoint") else json.loads(image["CMD"]))
    return [*entrypoint, *command]


@dataclass
class StandIn:
    """The services as processes. Volumes stay in the folder from one `up` to the next."""

    folder: Path
    port: int
    variables: Mapping[str, str] = field(default_factory=dict)
    processes: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    model: dict[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.model = resolved(ASKANCE_DEMO_PORT=str(self.port), **self.variables)

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self, but: Collection[str] = ()) -> None:
        """Start every service but some, and those that run, when those that it waits for are as it wants them."""
        skipped, held = {*self.processes, *but}, set[tuple[str, str]]()
        waiting = {name: service for name, service in self.model["services"].items() if name not in skipped}
        while waiting:
            ready = [name for name, service in waiting.items() if not set(service.get("depends_on", {})) & set(waiting)]
            assert ready, f"{sorted(waiting)} wait for one another"
            for name in ready:
                service = waiting.pop(name)
                wishes = {(other, wish["condition"]) for other, wish in service.get("depends_on", {}).items()}
                # What has held for one holds for all: to ask is to start the command.
                for other, condition in sorted(wishes - held):
                    self._await(other, condition)
                held |= wishes
                self.processes[name] = self._start(name, service)

    def _await(self, name: str, condition: str) -> None:
        if condition == "service_healthy":
            self._await_health(name)
        elif condition == "service_completed_successfully":
            assert self.ended(name) == 0, f"{name}: {self.errors(name)}"
        else:
            assert condition == "service_started"

    def _await_health(self, name: str) -> None:
        service = self.model["services"][name]
        kind, *test = service["healthcheck"]["test"]
        assert kind == "CMD"
        end = time.monotonic() + SECONDS
        environment = self._environment(service)
        # The one thing that the mapping takes from it: that the port is the command's own default.
        environment["ASKANCE_SERVER"] = f"http://127.0.0.1:{self.port}"
        while subprocess.run(test, env=environment, capture_output=True, timeout=SECONDS, check=False).returncode:
            assert self.processes[name].poll() is None, f"{name} is gone: {self.errors(name)}"
            assert time.monotonic() < end, f"{name} is not well: {self.errors(name)}"

    def _start(self, name: str, service: Service) -> subprocess.Popen[str]:
        command = [self._local(service, word) for word in command_of(service)]
        folder = self.folder / "services" / name
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / "stdout").open("w") as out, (folder / "stderr").open("w") as errors:
            environment = self._environment(service)
            return subprocess.Popen(command, cwd=folder, env=environment, stdout=out, stderr=errors, text=True)

    def _environment(self, service: Service) -> dict[str, str]:
        given = {name: self._local(service, text) for name, text in service.get("environment", {}).items()}
        # The command of this very tree, as an image has it first in its path.
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        return clean_environment(**given, PATH=path)

    def _local(self, service: Service, text: str) -> str:
        """A word of a service as it is here: /data is a folder, server:8080 the loopback, 8080 a free port."""
        for volume in service.get("volumes", []):
            text = re.sub(rf"(?<![\w./-]){volume['target']}(?![\w.-])", shlex.quote(str(self.volume(volume))), text)
        text = text.replace("//server:8080", f"//127.0.0.1:{self.port}").replace("0.0.0.0", "127.0.0.1")
        return str(self.port) if text == "8080" else text

    def volume(self, volume: Mapping[str, Any]) -> Path:
        """The folder of a volume; it is there before a service is, as in Docker."""
        assert volume["source"] in self.model["volumes"]
        folder = self.folder / "volumes" / volume["source"]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return folder

    def ended(self, name: str, seconds: float = SECONDS) -> int:
        """The exit code of a service that ends by itself."""
        try:
            return self.processes[name].wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"{name} goes on: {self.errors(name)}") from None

    def output(self, name: str) -> str:
        """What it said on standard output."""
        return (self.folder / "services" / name / "stdout").read_text()

    def errors(self, name: str) -> str:
        """What it said on standard error."""
        return (self.folder / "services" / name / "stderr").read_text()

    def stop(self) -> None:
        """End everything as `docker compose stop` and Ctrl-C do: all at once, but first those that wait for others."""
        services = self.model["services"]
        while self.processes:
            needed = {other for name in self.processes for other in services[name].get("depends_on", {})}
            last = [self.processes.pop(name) for name in set(self.processes) - needed]
            for process in last:
                process.terminate()
            for process in last:
                try:
                    process.wait(20)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()

    def down(self) -> None:
        """End everything, and forget it: `docker compose down --volumes`."""
        self.stop()
        shutil.rmtree(self.folder)
