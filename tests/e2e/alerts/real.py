"""`make test-alerts`: the rules of docs/operate/alerts.yml in Prometheus itself.

promtool reads them, and runs each over series with its cause and without (`cases`). As controls each rule is replaced
by one that always fires, and by one that never does: both have to be found. Then a Prometheus watches two servers on
the loopback, by the rules as they are: the certificate of one expires soon; the other is killed, and later its name
goes. What fires is exactly what should, and before nothing else does.

Prometheus is Debian's package; where it is not installed it is unpacked into a folder that goes at the end, or into
that of `--work DIR`, which stays. What goes on is said on standard error.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from tests.e2e.alerts.cases import document, uncovered
from tests.harness.certificates import made
from tests.harness.ports import lasting_port
from tests.harness.servers import ServerProcess

ROOT: Final = Path(__file__).parents[3]
RULES: Final = ROOT / "docs" / "operate" / "alerts.yml"
SECONDS: Final = 240
ALWAYS, NEVER = "vector(1)", "vector(0) > 1"


def say(what: str) -> None:
    """What goes on."""
    print(f"{time.strftime('%H:%M:%S')} {what}", file=sys.stderr, flush=True)


def expect(holds: bool, what: str) -> None:
    """One promise."""
    say(f"{'ok' if holds else 'FAILED'}: {what}")
    if not holds:
        raise SystemExit(f"not so: {what}")


# -------------------------------------------------------------------------------------------------------- the programs


@dataclass(frozen=True, slots=True)
class Programs:
    """Where Prometheus's two programs are."""

    prometheus: str
    promtool: str


def programs(work: Path) -> Programs:
    """Those of this machine, or those of Debian's package, unpacked here."""
    found = [shutil.which(name) for name in ("prometheus", "promtool")]
    if all(found):
        return Programs(*map(str, found))
    if not (work / "usr/bin/promtool").exists():
        if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
            raise SystemExit("there is no promtool: install Prometheus, or run this on Debian")
        say("unpacking Debian's package prometheus")
        subprocess.run(["apt-get", "download", "-q", "prometheus"], cwd=work, check=True, stdout=sys.stderr)
        [package] = work.glob("prometheus_*.deb")
        subprocess.run(["dpkg", "-x", str(package), str(work)], check=True)
    return Programs(*(str(work / "usr/bin" / name) for name in ("prometheus", "promtool")))


# ----------------------------------------------------------------------------------------------------------- the rules


def rules_of(text: str) -> list[dict[str, Any]]:
    """The rules of all groups."""
    return [rule for group in yaml.safe_load(text)["groups"] for rule in group["rules"]]


def promtool(tools: Programs, *words: str | Path) -> tuple[bool, str]:
    """Whether promtool finds nothing wrong, and what it says."""
    done = subprocess.run([tools.promtool, *map(str, words)], capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr


def tried(tools: Programs, folder: Path, rules: str, only: str = "") -> tuple[bool, str]:
    """Run all cases, or those of one alert, over these rules."""
    (folder / "alerts.yml").write_text(rules, "utf-8")
    cases = document(folder / "alerts.yml", rules_of(RULES.read_text("utf-8")), only)
    (folder / "cases.yml").write_text(yaml.safe_dump(cases), "utf-8")
    return promtool(tools, "test", "rules", folder / "cases.yml")


def planted(text: str) -> Iterator[tuple[str, str, str]]:
    """Each alert with an expression that is none: it always fires, or it never does."""
    for number, rule in enumerate(rules_of(text)):
        for expression in (ALWAYS, NEVER):
            whole = yaml.safe_load(text)
            [group] = whole["groups"]
            group["rules"][number]["expr"] = expression
            yield rule["alert"], expression, yaml.safe_dump(whole)


def check_rules(tools: Programs, folder: Path) -> None:
    """Everything that needs no server."""
    text = RULES.read_text("utf-8")
    well, told = promtool(tools, "check", "rules", RULES)
    expect(well, f"promtool reads {len(rules_of(text))} rules{'' if well else chr(10) + told}")
    well, told = promtool(tools, "check", "config", "--syntax-only", ROOT / "deploy" / "prometheus.yml")
    expect(well, f"and what Compose's Prometheus watches{'' if well else chr(10) + told}")
    expect(not list(uncovered(rules_of(text))), "each alert has a case in which it fires, and one in which it does not")
    well, told = tried(tools, folder, text)
    expect(well, f"each fires when it should, and only then{'' if well else chr(10) + told}")
    for name, expression, other in planted(text):
        well, told = tried(tools, folder, other, name)
        expect(not well and "FAILED" in told, f"control: {name} as {expression} is found")


# ------------------------------------------------------------------------------------------------------------ for real


class Watch:
    """A Prometheus on the loopback, and the files that it reads."""

    def __init__(self, tools: Programs, folder: Path) -> None:
        self._tools, self._folder, self._port = tools, folder, lasting_port()
        self.targets = folder / "targets.json"

    @contextlib.contextmanager
    def running(self, ca: Path) -> Generator[None]:
        """Started; it asks each second, and reads again whom to ask when that file changes."""
        config = {
            "global": {"scrape_interval": "1s", "scrape_timeout": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(RULES)],
            "scrape_configs": [
                {
                    "job_name": "askance",
                    "tls_config": {"ca_file": str(ca), "server_name": "localhost"},
                    "file_sd_configs": [{"files": [str(self.targets)], "refresh_interval": "1s"}],
                    "relabel_configs": [{"source_labels": ["name"], "target_label": "instance"}],
                }
            ],
        }
        (self._folder / "prometheus.yml").write_text(yaml.safe_dump(config))
        words = [
            f"--config.file={self._folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={self._folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{self._port}",
        ]
        with (self._folder / "prometheus.log").open("w") as log:
            process = subprocess.Popen([self._tools.prometheus, *words], stdout=log, stderr=log)
            try:
                await_true(lambda: self.get("/-/ready") is not None, "Prometheus", self._folder)
                yield
            finally:
                process.terminate()
                process.wait()

    def watch(self, **servers: str) -> None:
        """Whom to ask, by name: URLs."""
        found = [
            {
                "targets": [url.partition("://")[2]],
                "labels": {"name": name, "__scheme__": url.partition(":")[0]},
            }
            for name, url in servers.items()
        ]
        fresh = self.targets.with_suffix(".new")
        fresh.write_text(json.dumps(found))
        fresh.replace(self.targets)

    def get(self, path: str) -> str | None:
        """An answer, or None."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=5) as answer:
                return str(answer.read().decode())
        except OSError:
            return None

    def query(self, expression: str) -> list[dict[str, Any]]:
        """What an expression has now."""
        answer = self.get(f"/api/v1/query?{urllib.parse.urlencode({'query': expression})}") or "{}"
        return list(json.loads(answer).get("data", {}).get("result", ()))

    def alerts(self, state: str = "firing") -> set[tuple[str, str]]:
        """What fires, by alert and server."""
        found = json.loads(self.get("/api/v1/alerts") or '{"data": {"alerts": []}}')["data"]["alerts"]
        of_state = [each["labels"] for each in found if each["state"] == state]
        return {(each["alertname"], each.get("instance", "")) for each in of_state}


def await_true(asked: Callable[[], bool], what: str, folder: Path) -> None:
    """Until it is so."""
    end = time.monotonic() + SECONDS
    while not asked():
        if time.monotonic() > end:
            print((folder / "prometheus.log").read_text()[-3000:], file=sys.stderr)
            raise SystemExit(f"waited {SECONDS} s for {what}")
        time.sleep(0.2)


def check_live(tools: Programs, folder: Path) -> None:
    """Two servers that are watched: what fires when one dies, and when its name goes."""
    soon = made(folder, "localhost", days=10)
    well, ill = ServerProcess(folder / "well"), ServerProcess(folder / "ill", *soon.options, trust=soon.trusting)
    watch = Watch(tools, folder)
    expiring = ("AskanceCertificateExpires", "ill")
    with contextlib.ExitStack() as stack:
        for server in (well, ill):
            server.start()
            stack.callback(server.stop)
        watch.watch(well=well.url, ill=ill.url)
        stack.enter_context(watch.running(soon.certificate))
        await_true(lambda: len(watch.query('up{job="askance"} == 1')) == 2, "both servers to be watched", folder)
        await_true(lambda: watch.alerts() == {expiring}, "the alert of the certificate", folder)
        say("ok: the certificate of one expires within two weeks: that fires, and nothing else")
        time.sleep(5)
        expect(watch.alerts() | watch.alerts("pending") == {expiring}, "and nothing else begins to, either")

        well.kill()
        killed = time.monotonic()
        await_true(lambda: watch.alerts() == {expiring, ("AskanceDown", "well")}, "AskanceDown", folder)
        say(f"ok: the other was killed: AskanceDown fires for it, after {time.monotonic() - killed:.0f} s")

        watch.watch(ill=ill.url)
        gone = time.monotonic()
        await_true(lambda: watch.alerts() == {expiring, ("AskanceGone", "well")}, "AskanceGone", folder)
        say(f"ok: its name is gone: AskanceGone fires for it, after {time.monotonic() - gone:.0f} s")

        well.start(well.port)
        watch.watch(well=well.url, ill=ill.url)
        await_true(lambda: watch.alerts() == {expiring}, "an end of it", folder)
        say("ok: it is started again, and neither fires any more")


def main() -> None:
    """All of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="a directory that keeps the package for the next time")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="askance-alerts-") as scratch:
        folder = Path(scratch)
        work = folder / "package" if asked.work is None else asked.work.resolve()
        work.mkdir(parents=True, exist_ok=True)
        tools = programs(work)
        check_rules(tools, folder)
        check_live(tools, folder)


if __name__ == "__main__":
    main()
