"""What docs/operate.md and docs/monitoring.md tell of the code is so."""

from __future__ import annotations

import ast
import configparser
import json
import re
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from socket import socket
from typing import Any

import pytest
import yaml
from cryptography import x509
from prometheus_client import Metric
from prometheus_client.parser import text_string_to_metric_families

from askance_protocol.budget import MICRO
from askance_protocol.rounds import RoundState, StudyState
from askance_server.app import open_resources
from askance_server.ledger import Census, Verdict
from askance_server.ledger.sqlite import COMMITS_FILE, FILE, SqliteLedger
from askance_server.metrics import Metrics
from askance_server.settings import Settings, SettingsError, read_settings
from benchmarks import capacity
from tests.e2e.alerts import cases
from tests.e2e.units import real as units
from tests.harness import warm
from tests.harness.certificates import made
from tests.harness.servers import Service
from tests.lab.commands.calls import at_home

ROOT = Path(__file__).parents[1]
MONITORING = (ROOT / "docs" / "monitoring.md").read_text("utf-8")
OPERATE = (ROOT / "docs" / "operate.md").read_text("utf-8")
RULES = (ROOT / "docs" / "operate" / "alerts.yml").read_text("utf-8")
UNITS = sorted((ROOT / "docs" / "operate").glob("askance*"))


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of the first table below a heading, without its head."""
    section = re.split(rf"^#+ {re.escape(heading)}$", page, flags=re.MULTILINE)[1]
    lines = re.split(r"^#+ ", section, maxsplit=1, flags=re.MULTILINE)[0].splitlines()
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")][2:]


def anchors(page: str) -> set[str]:
    """What a link may name of a page."""
    return {re.sub(r"[^\w -]", "", line[1]).lower().replace(" ", "-") for line in re.finditer(r"^#+ (.*)$", page, re.M)}


# -------------------------------------------------------------------------------------------------------------- metrics


def exposed() -> list[Metric]:
    metrics = Metrics()
    told = metrics.exposition(depth=0, census=Census(users=0, studies={}, rounds={}), paused=0).decode()
    # When a counter began, which every library tells in the same way.
    return [each for each in text_string_to_metric_families(told) if not each.name.endswith("_created")]


def labels_of(metric: Metric) -> str:
    names = {name for sample in metric.samples for name in sample.labels}
    return ", ".join(f"`{name}`" for name in sorted(names))


def metric_rows(metrics: Iterable[Metric]) -> list[list[str]]:
    return [
        [f"`{each.name}{'_total' * (each.type == 'counter')}`", each.type, labels_of(each), each.documentation]
        for each in metrics
    ]


def test_each_metric_stands_on_the_page_with_what_it_says_of_itself() -> None:
    assert sorted(table(MONITORING, "Metrics")) == sorted(metric_rows(exposed()))
    for verdict in Verdict:
        assert f"`{verdict.name.lower()}`" in MONITORING


def test_a_monitor_hears_of_paused_studies_and_of_the_certificate(tmp_path: Path) -> None:
    pair = made(tmp_path, "localhost")
    with Service(tmp_path / "data", certificate=pair.certificate, key=pair.key) as service:
        service.app.state.aggregator.driver._paused["study"] = "its code was changed"
        told = {family.name: family for family in text_string_to_metric_families(service.get("/metrics").text)}
    expires = x509.load_pem_x509_certificate(pair.certificate.read_bytes()).not_valid_after_utc
    values = {
        name: told[name].samples[0].value for name in told if name.startswith(("askance_cert", "askance_studies_p"))
    }
    assert values == {
        "askance_studies_paused": 1,
        "askance_certificate_expiry_timestamp_seconds": expires.timestamp(),
    }


# ----------------------------------------------------------------------------------------------------------------- logs


def events(source: str) -> Iterator[tuple[str, str]]:
    """Level and message of each line that a module may log, with … for what differs."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="_LOG"), attr=level), args=[ast.Constant(value=str(message)), *_]
            ):
                yield {"exception": "error"}.get(level, level), message.replace("%s", "…")
            case ast.Call(func=ast.Attribute(value=ast.Name(id="_LOG"))):
                raise AssertionError(f"line {node.lineno} logs what is no text")
            case _:
                pass


def logged() -> set[tuple[str, str]]:
    files = [path for room in ("protocol", "client", "server", "lab") for path in (ROOT / room).rglob("*.py")]
    sources = (path.read_text("utf-8") for path in files)
    return {event for source in sources if "_LOG." in source for event in events(source)}


def test_each_line_of_the_log_stands_on_the_page() -> None:
    found = logged()
    assert {(level, message.strip("`")) for level, message, _ in table(MONITORING, "The log")} == found
    assert len(found) > 10


def test_a_line_that_is_new_is_found() -> None:
    """The control."""
    assert list(events("_LOG.exception('a thing %s', thing)")) == [("error", "a thing …")]
    with pytest.raises(AssertionError):
        list(events("_LOG.error(what)"))


# --------------------------------------------------------------------------------------------------------------- alerts

FUNCTIONS = {"histogram_quantile", "sum", "max", "rate", "increase", "time", "absent", "last_over_time"}
WORDS = {"by", "and", "or", "unless"}
TOKEN = re.compile(
    r"""\s*(?:(?P<selector>(?P<metric>[a-z_]+)\{(?P<labels>[^}]*)\}(?:\[\d+[smhd]\])?)
    |(?P<number>\d+(?:\.\d+)?)|(?P<word>[a-z_]+)|(?P<sign>[-+*/(),]|==|!=|>=|<=|[<>]))""",
    re.VERBOSE,
)
VALUES = {
    "verdict": {verdict.name.lower() for verdict in Verdict},
    "state": {state.value for state in (*RoundState, *StudyState)},
    "job": {"askance"},
}


def rule_faults(rule: dict[str, Any]) -> list[str]:
    """What is wrong with a rule: names that no server tells, what cannot be read, a way to nowhere."""
    known = {sample.name for metric in exposed() for sample in metric.samples} | {"askance_commit_seconds_bucket", "up"}
    found, expression, place, depth = list[str](), str(rule["expr"]).strip(), 0, 0
    while place < len(expression):
        token = TOKEN.match(expression, place)
        if token is None or token.end() == place:
            return [*found, f"cannot be read: {expression[place:]}"]
        place = token.end()
        depth += (token["sign"] == "(") - (token["sign"] == ")")
        if token["metric"] and token["metric"] not in known:
            found.append(f"no metric {token['metric']}")
        for label, value in re.findall(r'(\w+)="([^"]*)"', token["labels"] or ""):
            if value not in VALUES.get(label, ()):
                found.append(f"no {label} {value}")
        if token["word"] and token["word"] not in FUNCTIONS | WORDS | {"le", "job"}:
            found.append(f"no function {token['word']}")
    if depth:
        found.append("parentheses that do not fit")
    if rule["labels"]["severity"] not in {"page", "ticket"} or not rule["annotations"]["why"]:
        found.append("no severity or no reason")
    page, _, anchor = str(rule["annotations"]["runbook"]).partition("#")
    if page != "docs/operate.md" or anchor not in anchors(OPERATE):
        found.append(f"no place {page}#{anchor}")
    return found


def rules() -> list[dict[str, Any]]:
    return [rule for group in yaml.safe_load(RULES)["groups"] for rule in group["rules"]]


def test_alerts_are_of_metrics_that_there_are_and_lead_to_what_to_do() -> None:
    assert {rule["alert"]: rule_faults(rule) for rule in rules()} == {rule["alert"]: [] for rule in rules()}
    rows = {
        name.strip("`"): (kind, way.partition("](operate.md")[2].rstrip(")"))
        for name, kind, _, way in table(MONITORING, "Alerts")
    }
    told = {
        rule["alert"]: (rule["labels"]["severity"], rule["annotations"]["runbook"].removeprefix("docs/operate.md"))
        for rule in rules()
    }
    assert rows == told


@pytest.mark.parametrize(
    ("before", "after", "fault"),
    [
        ("askance_queue_depth", "askance_queue_length", "no metric askance_queue_length"),
        ("> 100000", "> (100000", "parentheses"),
        ("> 100000", "$ 100000", "cannot be read"),
        ("> 100000", "> most(100000)", "no function most"),
        ('job="askance"', 'job="askanse"', "no job askanse"),
    ],
)
def test_a_planted_fault_of_an_alert_is_found(before: str, after: str, fault: str) -> None:
    [rule] = [rule for rule in rules() if rule["alert"] == "AskanceQueueGrows"]
    assert before in rule["expr"]
    [found] = rule_faults(rule | {"expr": rule["expr"].replace(before, after)})
    assert fault in found
    assert rule_faults(rule | {"annotations": rule["annotations"] | {"runbook": "docs/operate.md#nowhere"}}) != []


def test_each_alert_has_a_case_in_which_it_fires_and_one_in_which_it_does_not() -> None:
    """`make test-alerts` gives them to Prometheus."""
    assert list(cases.uncovered(rules())) == []
    # The controls: an alert without a case, one that always fires, and a case of an alert that is gone.
    new = {**rules()[0], "alert": "AskanceNew"}
    assert list(cases.uncovered([*rules(), new])) == [
        "AskanceNew fires in no case",
        "AskanceNew keeps quiet in no case",
    ]
    loud = tuple(case for case in cases.CASES if case.alert != "AskanceDown" or case.fires)
    assert list(cases.uncovered(rules(), loud)) == ["AskanceDown keeps quiet in no case"]
    assert "AskanceDown" in list(cases.uncovered(rules()[1:]))


@pytest.mark.parametrize("name", ["alerts", "units"])
def test_make_begins_the_real_run_and_what_it_imports_is_there(name: str) -> None:
    [line] = re.findall(rf"^test-{name}: install\n\t(.*)", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    for module, fine in ((line, True), (line.replace(name, "none"), False)):
        words = module.replace("$(BIN)/python", sys.executable).rpartition(" ")[0].split()
        run = subprocess.run([*words, "--help"], cwd=ROOT, capture_output=True, text=True, check=False)
        assert (run.returncode == 0 and "--work" in run.stdout) == fine


def test_the_links_of_both_pages_lead_somewhere() -> None:
    for page in (OPERATE, MONITORING):
        for target in re.findall(r"\]\(([^)]+)\)", page):
            file, _, anchor = target.partition("#")
            there = ROOT / "docs" / file
            assert not file or there.exists(), target
            text = page if not file else there.read_text("utf-8")
            assert not anchor or anchor in anchors(text), target


# ---------------------------------------------------------------------------------------------------------------- units

HARDENED = {
    "NoNewPrivileges": "yes",
    "ProtectSystem": "strict",
    "ProtectHome": "yes",
    "PrivateTmp": "yes",
    "CapabilityBoundingSet": "",
    "UMask": "0077",
    "StateDirectoryMode": "0700",
    "User": "askance",
}
ANALYZE = shutil.which("systemd-analyze")


def unit(text: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None, delimiters=("=",), comment_prefixes=("#",))
    parser.optionxform = str  # type: ignore[assignment, method-assign] - names as they are written
    parser.read_string(text)
    return parser


def unit_faults(text: str, folder: Path, name: str = "askance.service") -> list[str]:
    """What is not hardened, and what systemd itself says of a unit, where it is to be had."""
    service = unit(text)["Service"]
    found = [f"{key}={service.get(key)}" for key, value in HARDENED.items() if service.get(key) != value]
    command = service["ExecStart"].removeprefix("/usr/local/bin/")
    if command.split()[:2] not in (["askance", "serve"], ["askance", "backup"]):
        found.append(command)
    if ANALYZE is not None:
        # Where the program will be is for who installs it to see to.
        (folder / name).write_text(text.replace("/usr/local/bin/askance", "/bin/true"), "utf-8")
        run = subprocess.run([ANALYZE, "verify", str(folder / name)], capture_output=True, text=True, check=False)
        found += [line for line in run.stderr.splitlines() if name in line]
    return found


@pytest.mark.parametrize("path", [path for path in UNITS if path.suffix == ".service"], ids=lambda path: path.name)
def test_a_unit_is_hardened_and_systemd_can_read_it(path: Path, tmp_path: Path) -> None:
    text = path.read_text("utf-8")
    assert unit_faults(text, tmp_path, path.name) == []
    # The controls.
    assert unit_faults(text.replace("NoNewPrivileges=yes", "NoNewPrivileges=no"), tmp_path, path.name) != []
    if ANALYZE is not None:
        assert unit_faults(text.replace("PrivateTmp=yes", "PrivateTmp=yes\nPrivateTemp=yes"), tmp_path, path.name) != []


def test_the_server_s_unit_waits_until_it_answers_and_starts_it_again() -> None:
    service = unit((ROOT / "docs" / "operate" / "askance.service").read_text("utf-8"))["Service"]
    assert (service["Type"], service["Restart"], service["StateDirectory"]) == ("notify", "on-failure", "askance")


def memory_faults(text: str) -> list[str]:
    """What of the memory that the unit gives a server is not as measured, or not as in compose."""
    given = re.fullmatch(r"(\d+)G", unit(text)["Service"].get("MemoryMax", ""))
    if given is None:
        return ["no MemoryMax"]
    size = json.loads((ROOT / "docs" / "performance" / "measured.json").read_text("utf-8"))["runs"]["server_size"][
        "said"
    ]
    measured, most = size["figures"]["megabytes_asked"]["median"], int(given[1]) * 1024
    found = [] if 3 * measured <= most <= 5 * measured else [f"{most} MB of {measured} measured"]
    if size["users"] < Settings().open_limit:
        found.append("enrolment.token enrols more users than were measured")
    compose = re.search(r"mem_limit: (\d+)g", (ROOT / "docker-compose.yml").read_text("utf-8"))
    return found if compose is not None and compose[1] == given[1] else [*found, "compose gives another"]


def test_the_unit_bounds_the_server_s_memory_by_what_was_measured() -> None:
    text = (ROOT / "docs" / "operate" / "askance.service").read_text("utf-8")
    assert memory_faults(text) == []
    # The controls.
    assert memory_faults(text.replace("MemoryMax", "MemoryMin")) == ["no MemoryMax"]
    assert len(memory_faults(text.replace("MemoryMax=1G", "MemoryMax=9G"))) == 2


def settings_faults(text: str, folder: Path) -> list[str]:
    """What the settings that the units share do not say, or say wrongly: those that are commented out, too."""
    file = folder / "askance.toml"
    file.write_text(re.sub(r"^# (\w+ = )", r"\1", text, flags=re.MULTILINE), "utf-8")
    try:
        found = read_settings(config=file, environ={})
    except SettingsError as error:
        return [str(error)]
    service = unit((ROOT / "docs" / "operate" / "askance.service").read_text("utf-8"))["Service"]
    wanted = [f"/var/lib/{service['StateDirectory']}/data", "json"]
    return [] if [found.database, found.log_format] == wanted else [f"{found.database} {found.log_format}"]


def test_the_units_and_the_commands_of_the_page_share_settings_that_can_be_read(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "operate" / "askance.toml").read_text("utf-8")
    assert settings_faults(text, tmp_path) == []
    for path in (path for path in UNITS if path.suffix == ".service"):
        assert unit(path.read_text("utf-8"))["Service"]["ExecStart"].endswith(" --config /etc/askance/askance.toml")
    assert "--config /etc/askance/askance.toml" in units.own(OPERATE)
    # The controls.
    assert settings_faults(text.replace("# port", "# prot"), tmp_path) != []
    assert settings_faults(text.replace("/var/lib/askance/data", "data"), tmp_path) != []


def test_what_is_typed_under_systemd_is_found_on_the_page() -> None:
    """`make test-units` types it."""
    found = units.blocks(OPERATE)
    assert list(found) == ["Install", "Restore", "Upgrade"]
    assert all("own " in each for each in found.values())
    assert units.own(OPERATE) in found["Install"]
    # The control.
    assert list(units.blocks(OPERATE.replace("systemctl", "service"))) != list(found)


def test_a_process_that_may_too_much_is_found() -> None:
    hardened = "".join(f"{name}:\t{value}\n" for name, value in units.HARDENED.items())
    assert units.soft(hardened) == []
    for name in units.HARDENED:
        assert units.soft(hardened.replace(f"{name}:", "Other:")) != []
    assert units.soft(hardened.replace("CapEff:\t0", "CapEff:\t1")) != []


# -------------------------------------------------------------------------------------------------------------- figures


def capacity_section(page: str) -> str:
    return page.partition("<!-- capacity -->\n")[2].partition("\n<!-- end of capacity -->")[0].strip()


def test_the_capacity_of_a_server_is_what_was_measured() -> None:
    """Where it is not: python benchmarks/capacity.py prints the table."""
    runs = json.loads(capacity.KEPT.read_text("utf-8"))["runs"]
    assert capacity_section(MONITORING) == capacity.markdown(runs)
    # The control: one figure of one run.
    runs["ingest"]["said"]["requests_per_second"]["few_128"] += 1
    assert capacity_section(MONITORING) != capacity.markdown(runs)
    assert round(1_000_000 / 3600) == 278


# ------------------------------------------------------------------------------------------------------- does not start

Provoke = Callable[[Path], tuple[object, ...]]


def kept(place: Path) -> Path:
    """A directory in which a server has run."""
    with closing(open_resources(Settings(database=str(place / "data"))).ledger) as ledger:
        ledger.enrol(3, MICRO)
    return place / "data"


def changed(place: Path, change: Callable[[Path], object]) -> tuple[object, ...]:
    change(data := kept(place))
    return ("--database", data)


def by_sql(statement: str) -> Callable[[Path], None]:
    def change(data: Path) -> None:
        with closing(sqlite3.connect(data / FILE, isolation_level=None)) as db:
            db.execute(statement)

    return change


def config(place: Path) -> tuple[object, ...]:
    (place / "askance.toml").write_text("prot = 1\n")
    return ("--config", place / "askance.toml")


def expired(place: Path) -> tuple[object, ...]:
    return made(place, "localhost", begins=-3, days=1).options


def two_pairs(place: Path) -> tuple[object, ...]:
    for name in ("one", "other"):
        (place / name).mkdir()
    return ("--certificate", made(place / "one", "x").certificate, "--key", made(place / "other", "x").key)


PROVOKED: dict[str, Provoke] = {
    "…: is not a setting": config,
    "--cap: …": lambda _: ("--cap", "much"),
    "port …: is taken, and so are the next 19": lambda _: ("--host", "127.0.0.97", "--port", 65535),
    "host …: has no address": lambda _: ("--host", "nowhere.invalid"),
    "…: is in use by process …": lambda place: ("--database", kept(place)),
    "…: cannot be made: …": lambda place: ("--database", place / "file"),
    "…: others can read it or write it: its mode is …": lambda place: changed(
        place, lambda data: (data / "server.key").chmod(0o644)
    ),
    "…: does not hold 64 hexadecimal digits": lambda place: changed(
        place, lambda data: (data / "server.key").write_text("none")
    ),
    "… has lost … of … commits that were made": lambda place: changed(
        place, lambda data: (data / COMMITS_FILE).write_text("99")
    ),
    "…: table … is not what it was when it was written last": lambda place: changed(
        place, by_sql("UPDATE enrolments SET cap = cap + 1")
    ),
    "…: is not a ledger or is damaged: …": lambda place: changed(
        place, lambda data: (data / FILE).write_text("none " * 999)
    ),
    "…: has schema …, this program knows …": lambda place: changed(place, by_sql("PRAGMA user_version = 99")),
    "…: has expired on …": expired,
    "…: is not the key of …": two_pairs,
    "postgresql://…: connection failed: …": lambda _: ("--database", "postgresql://me@127.0.0.1:1/none"),
    "psycopg: is not installed": lambda _: ("--database", "postgresql://me@127.0.0.1:1/none"),
}
ELSEWHERE = {"postgresql://… is the ledger of servers with another key"}
"""What takes a database, and is in tests/server/ledger/test_dumping.py."""


def pattern_of(message: str) -> re.Pattern[str]:
    return re.compile(".*".join(map(re.escape, message.split("…"))))


def start_messages() -> list[str]:
    return [message for cell, _ in table(OPERATE, "It does not start") for message in re.findall("`([^`]+)`", cell)]


def test_each_reason_not_to_start_can_be_provoked() -> None:
    assert set(start_messages()) == PROVOKED.keys() | ELSEWHERE


@pytest.mark.parametrize("message", PROVOKED)
def test_a_server_that_does_not_start_says_what_stands_on_the_page(
    message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").touch()
    options = PROVOKED[message](tmp_path)
    if message.startswith("psycopg"):
        monkeypatch.setitem(sys.modules, "psycopg", None)
        code, _, said = at_home(capsys, "serve", *options)
    elif "is in use" in message:
        with closing(SqliteLedger.open(tmp_path / "data")):
            code, said = ended(tmp_path, "--port", 0, *options)
    else:
        with socket() as taken:
            taken.bind(("127.0.0.97", 65535))
            taken.listen()
            code, said = ended(tmp_path, *(() if "--port" in options else ("--port", 0)), *options)
    assert pattern_of(message).search(said), said
    assert said.count("\n") == 1
    assert code in {1, 2, 3}
    # The control: no other of the page's messages fits, but those of which it is a part.
    assert [other for other in start_messages() if other != message and pattern_of(other).search(said)] == []


def ended(place: Path, *options: object) -> tuple[int, str]:
    run = warm.run(["serve", *map(str, options)], cwd=place)
    return run.returncode, run.stderr
