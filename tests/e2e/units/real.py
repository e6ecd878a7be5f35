"""`make test-units`: what docs/operate.md says to type under systemd, typed there.

A container with Debian's systemd as its first process gets this tree, and nothing of this program beside it. The blocks
of the page that begin with a command of root are run as they stand: install, back up, restore, upgrade. Between them
the server is killed, the timer fires, a setting is wrong, and the kernel is asked what the units may do.

It needs root on Debian: podman is installed if it is not there. The packages of the lock are fetched here, because the
container is given no index. Everything is taken away at the end, unless `--work DIR` keeps Debian and the packages.
"""

from __future__ import annotations

import argparse
import contextlib
import lzma
import os
import re
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Final

from tests.e2e.compose.engine import BASE_PACKAGES, Environment, await_true, debootstrap, install, podman, run, say
from tests.e2e.compose_model import ROOT

PAGE: Final = ROOT / "docs" / "operate.md"
PACKAGES: Final = f"{BASE_PACKAGES},systemd,systemd-sysv,dbus"
DATA: Final = "/var/lib/askance/data"
OLD: Final = ROOT / "tests" / "server" / "ledger" / "fixtures" / "ledger_of_0_1.sqlite.xz"
EXPOSURE: Final = {"askance": 1.5, "askance-backup": 1.0}
"""What `systemd-analyze security` may say at most: 0 is nothing, 10 everything."""
HARDENED: Final = {"CapEff": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"}
ENROL: Final = f"""python3 - <<'P'
import urllib.request
request = urllib.request.Request("http://127.0.0.1:8080/v1/enrolments", method="POST")
request.add_header("Authorization", "Bearer " + open("{DATA}/enrolment.token").read().strip())
print(urllib.request.urlopen(request).read().decode())
P"""


def expect(holds: bool, what: str, said: str = "") -> None:
    """One promise, and what was said where it is not kept."""
    say(f"{'ok' if holds else 'FAILED'}: {what}")
    if not holds:
        raise SystemExit(f"not so: {what}\n{said}")


# ------------------------------------------------------------------------------------------------------------ the page


def blocks(page: str) -> dict[str, str]:
    """What is typed as root under systemd, by heading; the first block that has `own` says what that is."""
    found = dict[str, str]()
    for section in re.split(r"^#+ ", page, flags=re.MULTILINE):
        texts = re.findall(r"```text\n(.*?)```", section, re.DOTALL)
        if typed := [text for text in texts if "systemctl" in text]:
            found[section.partition("\n")[0]] = "\n".join(typed)
    return found


def own(page: str) -> str:
    """The line of the page that lets root type commands about the server's files."""
    [line] = re.findall(r"^own\(\) .*$", page, re.MULTILINE)
    return str(line)


# ------------------------------------------------------------------------------------------------------- the container


class Machine:
    """A container that systemd runs."""

    def __init__(self, env: Environment, name: str) -> None:
        self._env, self._name = env, name

    def type(self, script: str, *, fine: bool = True) -> str:
        """What root types, in the clone; and what is said."""
        words = ["podman", "exec", "--interactive", "--workdir", "/root/askance"]
        words += [
            "--env",
            "PIP_NO_INDEX=1",
            "--env",
            "PIP_FIND_LINKS=/wheels",
            self._name,
            "bash",
            "-e",
            "-o",
            "pipefail",
        ]
        begin = time.monotonic()
        done = subprocess.run(words, env=self._env, input=script, capture_output=True, text=True, check=False)
        first = script.strip().splitlines()[0]
        say(f"{time.monotonic() - begin:5.1f} s  {first[:90]}")
        if fine and done.returncode:
            raise SystemExit(f"exit code {done.returncode} of\n{script}\n{done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def property(self, unit: str, name: str) -> str:
        """What systemd says of a unit."""
        return self.type(f"systemctl show {unit} --property {name} --value").strip()

    def well(self) -> bool:
        """Whether the server answers and is ready."""
        return "alive and ready" in self.type("askance health", fine=False)

    def give(self, path: str, body: bytes) -> None:
        """Put a file into it."""
        words = ["podman", "exec", "--interactive", self._name, "tee", path]
        subprocess.run(words, env=self._env, input=body, stdout=subprocess.DEVNULL, check=True)

    def clone(self) -> None:
        """This tree, as a clone of it would be."""
        listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard").splitlines()
        there = [name for name in listed if (ROOT / name).is_file() and not name.startswith(".venv")]
        pack = ["tar", "--create", "--directory", str(ROOT), "--files-from", "-"]
        packed = subprocess.run(pack, input="\n".join(there).encode(), capture_output=True, check=True).stdout
        run("podman", "exec", self._name, "mkdir", "-p", "/root/askance", env=self._env)
        words = ["podman", "exec", "--interactive", self._name, "tar", "--extract", "--directory", "/root/askance"]
        subprocess.run(words, env=self._env, input=packed, check=True)


@contextlib.contextmanager
def machine(work: Path, env: Environment) -> Generator[Machine]:
    """A Debian that nobody has used, with systemd as its first process; its changes are gone at the end."""
    base = work / "machine"
    if not (base / "complete").exists():
        run("rm", "-rf", base)
        debootstrap(base, PACKAGES)
    name = f"askance-units-{uuid.uuid4().hex[:8]}"
    # Its network is its own and has nothing but a loopback.
    options = ["--detach", "--name", name, "--systemd=always", "--privileged", "--network", "none"]
    run("podman", "run", *options, "--rootfs", f"{base}:O", "/sbin/init", env=env)
    try:
        fresh = Machine(env, name)
        await_true(lambda: running(env, name), "systemd", 60)
        fresh.clone()
        yield fresh
    finally:
        run("podman", "rm", "--force", "--time", "5", name, env=env, check=False)


def running(env: Environment, name: str) -> bool:
    """Whether systemd has started all that it starts."""
    state = run("podman", "exec", name, "systemctl", "is-system-running", env=env, check=False)
    return state in {"running", "degraded"}


# --------------------------------------------------------------------------------------------------------- the promises


def soft(status: str) -> list[str]:
    """What the kernel lets a process do that it should not, by its `/proc/PID/status`."""
    found = dict(re.findall(r"^(\w+):\s+(\S+)", status, re.MULTILINE))
    return [f"{name} {found.get(name)}" for name, value in HARDENED.items() if found.get(name) != value]


def check_installed(at: Machine, typed: Mapping[str, str], page: str) -> None:
    """Installed as the page says: it runs, as nobody much, and what the kernel says is what the unit says."""
    at.type(typed["Install"])
    expect(at.well(), "installed as the page says, it answers")
    pid = at.property("askance", "MainPID")
    expect(
        soft(at.type(f"cat /proc/{pid}/status")) == [], "it has no capability, gains none, and its calls are filtered"
    )
    expect(soft(at.type("cat /proc/1/status")) != [], "control: a process that is not hardened is found")
    expect(at.type(f"stat -c %U /proc/{pid}").strip() == "askance", "it is the user askance")
    expect(at.type(f"stat -c '%a %U' {DATA}/server.key").strip() == "600 askance", "its key is its own")
    for unit, most in EXPOSURE.items():
        said = at.type(f"systemd-analyze security {unit} --no-pager", fine=False)
        exposure = float(re.findall(r"exposure level for \S+: ([\d.]+)", said)[0])
        expect(exposure <= most, f"systemd-analyze security {unit}: {exposure}")
    told = at.type(f"{own(page)}\nown doctor", fine=False)
    expect("failed" not in told, "askance doctor finds nothing", told)


def check_killed(at: Machine) -> None:
    """Killed, it is started again; stopped, it ends well."""
    pid = at.property("askance", "MainPID")
    at.type(f"kill -9 {pid}")
    await_true(at.well, "an answer after SIGKILL", 60)
    expect(
        at.property("askance", "MainPID") != pid and at.property("askance", "NRestarts") == "1",
        "killed, it is there again",
    )
    at.type("systemctl stop askance")
    expect(at.property("askance", "Result") == "success", "stopped, it ends well")
    at.type("systemctl start askance")
    expect(at.well(), "and once it is started it answers: systemd has waited for that")


def check_setting(at: Machine) -> None:
    """A setting that is wrong is named in the log, and nothing else has to be done than to mend it."""
    at.type("cp -p /etc/askance/askance.toml /root && echo 'prot = 1' >>/etc/askance/askance.toml")
    at.type("systemctl restart askance", fine=False)
    said = at.type("journalctl -u askance -o cat -n 50 --no-pager")
    expect("askance.toml" in said and "is not a setting" in said, "a wrong setting is named in the log")
    at.type("cp -p /root/askance.toml /etc/askance/")
    await_true(at.well, "an answer once it is mended", 60)
    say("ok: mended, it is started by itself")


def backups_of(at: Machine) -> list[str]:
    """The names of what the timer's unit has made."""
    return at.type("ls /var/lib/askance-backups").split()


def check_timer(at: Machine) -> None:
    """The timer fires, and what is older than 14 days goes; what has another name stays."""
    before = backups_of(at)
    at.type(
        "cd /var/lib/askance-backups; mkdir askance-backup-old before; touch -d '-16 days' askance-backup-old before"
    )
    place = "/run/systemd/system/askance-backup.timer.d"
    soon = r"[Timer]\nOnCalendar=\nOnCalendar=*:*:*\nRandomizedDelaySec=0\nAccuracySec=1s\n"
    again = "systemctl daemon-reload; systemctl restart askance-backup.timer"
    at.type(f"mkdir -p {place}; printf '{soon}' >{place}/soon.conf; {again}")
    await_true(lambda: len(set(backups_of(at)) - {*before, "before", "askance-backup-old"}) > 0, "the timer", 60)
    at.type(f"rm -r {place}; {again}")
    await_true(lambda: at.property("askance-backup", "ActiveState") == "inactive", "the last of these", 60)
    expect(at.property("askance-backup", "Result") == "success", "the timer has made a backup")
    expect(
        {"before"} < set(backups_of(at)) and "askance-backup-old" not in backups_of(at), "and only what is old is gone"
    )
    newest = max(name for name in backups_of(at) if name.startswith("askance-backup-2"))
    told = at.type(
        f"cd /var/lib/askance && runuser -u askance -- askance restore /var/lib/askance-backups/{newest} --check"
    )
    expect("looked at and whole" in told, "it is whole")


def check_restored(at: Machine, typed: Mapping[str, str], page: str) -> None:
    """A backup takes the place of what came after it, once that is accepted."""
    at.type("systemctl start askance-backup")
    expect('"user":' in at.type(ENROL), "somebody enrols after the backup")
    said = at.type(f"{own(page)}\n{typed['Restore']}", fine=False)
    wanted = re.search(r"; lost: \d+ commits? .*--accept-loss", said) is not None
    expect(wanted, "the restore says what is lost, and does nothing", said)
    rest = typed["Restore"].partition("\n")[2].replace("data.old ", "data.old --accept-loss ")
    said = at.type(f"{own(page)}\n{rest}")
    expect(
        "everything is as it was written" in said and at.well(),
        "accepted, it is as it was, and the server goes on",
        said,
    )


def check_upgraded(at: Machine, typed: Mapping[str, str], page: str) -> None:
    """A ledger of version 0.1 is brought to this one."""
    at.type(f"systemctl stop askance; mv {DATA} {DATA}.other; install -d -m 700 -o askance -g askance {DATA}")
    at.give(f"{DATA}/ledger.sqlite", lzma.decompress(OLD.read_bytes()))
    at.type(f"chown askance: {DATA}/ledger.sqlite; chmod 600 {DATA}/ledger.sqlite")
    said = at.type(f"{own(page)}\n{typed['Upgrade']}")
    expect(
        "would be brought to" in said and "and verified" in said, "upgraded as the page says, after a try and a backup"
    )
    expect("everything is as it was written" in said and at.well(), "it is whole, and the server goes on with it", said)
    left = at.type("ls -d /var/lib/askance/askance-upgrade-* /var/lib/askance-backups/askance-upgrade-*", fine=False)
    expect(left.count("No such file") == 2, "no copy is left", left)


def main() -> None:
    """From nothing to the end of the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", type=Path, help="a directory that keeps Debian and the packages")
    asked = parser.parse_args()
    if os.geteuid():
        raise SystemExit("run this as root: it starts containers that systemd runs")
    page = PAGE.read_text("utf-8")
    typed = blocks(page)
    with contextlib.ExitStack() as stack:
        if asked.work is not None:
            asked.work.mkdir(parents=True, exist_ok=True)
        work = asked.work or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="askance-units-")))
        install()
        env = stack.enter_context(podman(work.resolve()))
        at = stack.enter_context(machine(work.resolve(), env))
        check_installed(at, typed, page)
        check_killed(at)
        check_setting(at)
        check_timer(at)
        check_restored(at, typed, page)
        check_upgraded(at, typed, page)
        print(at.type("journalctl -u askance -o cat -n 200 --no-pager | grep -c . || true"), file=sys.stderr)


if __name__ == "__main__":
    main()
