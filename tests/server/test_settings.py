"""Settings: who wins, what is refused and by which name, what is never shown."""

from __future__ import annotations

import socket
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from pydantic import ValidationError

from askance_protocol.rounds import LEAST_CHARGE
from askance_server.auth import KeyFileError
from askance_server.settings import Settings, SettingsError, bind, read_settings, unknown_variables, url_of

KEY = "0123456789abcdef" * 4
URL = "postgresql://ask:s3cr@t/x@db:5432/askance"


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write(text: str, name: str = "askance.toml") -> Path:
    Path(name).write_text(text)
    return Path(name)


def read(environ: dict[str, str] | None = None, **flags: object) -> Settings:
    return read_settings(flags, environ=environ or {})


def refused(environ: dict[str, str] | None = None, **flags: object) -> str:
    with pytest.raises(SettingsError) as caught:
        read(environ, **flags)
    return str(caught.value)


def test_the_defaults_are_local() -> None:
    settings = read()
    assert (settings.host, settings.port, settings.cap) == ("127.0.0.1", 8080, 1_000_000)
    assert settings.directory == Path("askance-data")
    assert settings.server_key_bytes is None


def test_a_flag_wins_over_the_environment_over_the_file_over_the_default() -> None:
    write("port = 1\nhost = 'file'\ncap = 3\n")
    settings = read({"ASKANCE_PORT": "2", "ASKANCE_HOST": "environment"}, port=4)
    assert (settings.port, settings.host, settings.cap) == (4, "environment", 3_000_000)
    assert settings.queue_limit == Settings().queue_limit


def test_a_flag_that_is_none_and_an_empty_variable_were_not_given() -> None:
    write("port = 1")
    assert read({"ASKANCE_PORT": ""}, port=None).port == 1


def test_the_cap_is_exact_from_every_source() -> None:
    text = "0.123456"
    assert read(cap=text).cap == 123_456
    assert read({"ASKANCE_CAP": text}).cap == 123_456
    write(f"cap = {text}")
    assert read().cap == 123_456
    assert Settings(cap=123_456).cap == 123_456, "an integer in Python is micro-ε"


@pytest.mark.parametrize("cap", [1, 8, LEAST_CHARGE - 1])
def test_an_integer_that_was_meant_as_epsilon_is_refused(cap: int) -> None:
    """No round costs so little: `Settings(cap=1)` would be a server that never asks anybody."""
    with pytest.raises(ValidationError, match='less than any round costs: write ε as text, such as "1"'):
        Settings(cap=cap)
    assert Settings(cap=LEAST_CHARGE).cap == LEAST_CHARGE


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("port", "x", "integer"),
        ("port", "65536", "65535"),
        ("port", "-1", "0"),
        ("port", "80.5", "integer"),
        ("cap", "-1", "decimal"),
        ("cap", "nan", "decimal"),
        ("cap", "0.1234569", "six decimals"),
        ("log_level", "loud", "debug"),
        ("queue_limit", "0", "1"),
        ("database", "mysql://a@b/c", "PostgreSQL"),
        ("database", "host=db dbname=x password=s3cret", "PostgreSQL"),
        ("server_key", "abc", "64 hexadecimal"),
        ("host", "", "address"),
    ],
)
def test_a_bad_value_names_the_source_that_it_came_from(name: str, value: str, why: str) -> None:
    flag = "--" + name.replace("_", "-")
    flags: dict[str, object] = {name: value}
    assert refused(None, **flags).startswith(f"{flag}: ")
    if value:
        message = refused({"ASKANCE_" + name.upper(): value})
        assert message.startswith(f"ASKANCE_{name.upper()}: ")
        assert why.lower() in message.lower()
    path = write(f"# a comment\n\n{name} = '{value}'\n")
    path.chmod(0o600)
    assert refused().startswith(f"askance.toml, line 3, {name}: ")


def test_a_bad_value_that_is_overruled_is_not_read() -> None:
    assert read({"ASKANCE_PORT": "x"}, port=5).port == 5


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("prot = 1", "askance.toml, line 1, prot: is not a setting (did you mean port?)"),
        ("port = 1\n\nzzz = 2", "askance.toml, line 3, zzz: is not a setting (known are host, port,"),
        ("[server]\nport = 1", "askance.toml, line 1, server: is not a setting"),
        ("port = true", "askance.toml, line 1, port: is neither a text nor a number"),
        ("port = [1]", "askance.toml, line 1, port: is neither a text nor a number"),
        ("port = ", "askance.toml: is not TOML: "),
        ("port = 1\nport = 2", "askance.toml: is not TOML: "),
    ],
)
def test_the_file_is_closed_and_a_fault_in_it_is_told_with_its_line(text: str, said: str) -> None:
    write(text)
    assert refused().startswith(said)


def test_a_named_file_must_exist_and_is_read_in_place_of_the_usual_one() -> None:
    write("port = 1")
    write("port = 2", "other.toml")
    assert read_settings({}, environ={}, config=Path("other.toml")).port == 2
    with pytest.raises(SettingsError, match=r"none\.toml: cannot be read"):
        read_settings({}, environ={}, config=Path("none.toml"))


def test_variables_that_no_setting_reads_are_listed() -> None:
    environ = {"ASKANCE_PROT": "1", "ASKANCE_PORT": "1", "ASKANCE_SERVER": "http://a", "PATH": "/"}
    assert unknown_variables(environ) == ["ASKANCE_PROT"]


def test_settings_are_frozen_and_closed() -> None:
    settings = read()
    with pytest.raises(ValidationError):
        settings.port = 1  # type: ignore[misc]
    with pytest.raises(ValidationError):
        Settings.model_validate({"prot": 1})


def test_no_secret_is_shown() -> None:
    settings = read({"ASKANCE_SERVER_KEY": KEY, "ASKANCE_DATABASE": URL})

    shown = f"{settings!r} {settings} {settings.shown_database} {settings.model_dump()} {settings.model_dump_json()}"

    assert settings.database == URL
    assert settings.server_key_bytes == bytes.fromhex(KEY)
    for secret in ("s3cr", "t/x@", KEY, KEY[:16], repr(bytes.fromhex(KEY))):
        assert secret not in shown
    assert "db:5432/askance" in settings.shown_database


@pytest.mark.parametrize("url", ["postgresql://db/x?user=a&password=s3cret", "postgres://a:s3cret@db"])
def test_a_password_is_hidden_wherever_a_url_may_carry_it(url: str) -> None:
    settings = read(database=url)
    assert "s3cret" not in f"{settings!r}{settings.shown_database}"
    assert settings.database == url


def test_a_refused_secret_is_not_repeated() -> None:
    assert "tooshort" not in refused({"ASKANCE_SERVER_KEY": "tooshort"})
    assert "s3cret" not in refused(database="mysql://a:s3cret@db/x")


def test_a_settings_file_with_the_key_in_it_must_be_private() -> None:
    path = write(f"server_key = '{KEY}'")
    path.chmod(0o644)
    with pytest.raises(KeyFileError, match="chmod 600"):
        read()
    path.chmod(0o600)
    assert read().server_key_bytes == bytes.fromhex(KEY)


def test_keys_lie_beside_the_ledger_or_where_they_are_told_to(directory: Path) -> None:
    assert read(database="data").directory == Path("data")
    assert read(database=URL).directory == Path("askance-data")
    assert read(database=URL, data_directory="keys").directory == Path("keys")


# ------------------------------------------------------------------------------------------------------- bind


def test_port_0_takes_any_port_and_listens_on_loopback_only() -> None:
    with bind("127.0.0.1", 0) as listener:
        host, port = listener.getsockname()
        assert host == "127.0.0.1"
        assert url_of(listener) == f"http://127.0.0.1:{port}"
        socket.create_connection((host, port), 5).close()


def test_a_busy_port_moves_on_to_the_next_free_one() -> None:
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with bind("127.0.0.1", port) as second, bind("127.0.0.1", port) as third:
            found = [each.getsockname()[1] for each in (second, third)]
    assert port < found[0] < found[1] < port + 20


def test_after_twenty_busy_ports_the_next_step_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("askance_server.settings.PORTS_TRIED", 1)
    with bind("127.0.0.1", 0) as first, pytest.raises(SettingsError, match="--port, or 0"):
        bind("127.0.0.1", first.getsockname()[1])


def test_an_address_of_another_machine_or_of_none_is_refused() -> None:
    with pytest.raises(SettingsError, match="an address of this machine"):
        bind("192.0.2.1", 0)
    with pytest.raises(SettingsError, match="has no address"):
        bind("no such host", 0)


@pytest.mark.parametrize(
    ("bound", "shown"),
    [
        (("0.0.0.0", 8080), "http://127.0.0.1:8080"),
        (("127.0.0.1", 8080), "http://127.0.0.1:8080"),
        (("::", 8080, 0, 0), "http://[::1]:8080"),
        (("::1", 8080, 0, 0), "http://[::1]:8080"),
    ],
)
def test_the_url_is_one_that_a_browser_here_can_open(bound: tuple[Any, ...], shown: str) -> None:
    """Whether this machine has IPv6 does not matter: only what a socket says of itself does."""
    listener: Any = SimpleNamespace(getsockname=lambda: bound)

    assert url_of(listener) == shown


def test_a_socket_on_all_addresses_is_found_on_the_loopback() -> None:
    with bind("0.0.0.0", 0) as listener:
        assert url_of(listener) == f"http://127.0.0.1:{listener.getsockname()[1]}"
