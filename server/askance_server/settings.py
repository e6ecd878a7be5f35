"""Settings: a flag, else `ASKANCE_*`, else `askance.toml`, else the default.

Every source is read as text and one model decides what the text means, so that `--cap 0.5`, `ASKANCE_CAP=0.5` and
`cap = 0.5` are one thing, and ε passes through no float on its way to whole micro-ε. A value that is refused names the
source that it came from. The file is closed: a key that nothing reads is refused, because a misspelt limit is no limit.
The environment cannot be: other programs write there, Kubernetes writes `ASKANCE_PORT_8080_TCP`; `unknown_variables`
lists what nothing reads.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import socket
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final, Literal, cast

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretBytes,
    ValidationError,
    field_serializer,
)

from askance_protocol import budget
from askance_protocol.errors import AskanceError, Code, ProtocolError
from askance_protocol.rounds import LEAST_CHARGE
from askance_server import auth
from askance_server.logs import LogFormat, LogLevel, scrub

CONFIG_FILE: Final = "askance.toml"
PREFIX: Final = "ASKANCE_"
PORTS_TRIED: Final = 20

_BACKLOG: Final = 2048
_DATA: Final = "./askance-data"
_OTHERS: Final = frozenset(
    {
        "ASKANCE_SERVER",
        "ASKANCE_OPERATOR_TOKEN",
        "ASKANCE_OPERATOR_TOKEN_FILE",
        "ASKANCE_ENROLMENT_TOKEN_FILE",
    }
)
"""Read by the commands that speak to a server."""


class SettingsError(ProtocolError):
    """A setting that cannot be used: its name, where it was given, and the remedy."""

    code = Code.USAGE
    most = AskanceError.most  # It names files, whole.


def _micro_epsilon(value: object) -> object:
    """Text is ε; an integer is micro-ε, as everywhere in Python, and no less than a round costs: `1` is meant as ε."""
    if isinstance(value, str):
        return budget.limit_from_text(value)
    micro_epsilon = budget.whole_micro(value)
    if micro_epsilon < LEAST_CHARGE:
        raise ValueError(f'is {budget.to_text(micro_epsilon)}, less than any round costs: write ε as text, such as "1"')
    return micro_epsilon


def _key(value: object) -> object:
    if not isinstance(value, str):
        return value
    if re.fullmatch(r"[0-9a-fA-F]{64}", value, re.ASCII) is None:
        raise ValueError("is not 64 hexadecimal digits")
    return bytes.fromhex(value)


def _database(value: str) -> str:
    if value.startswith(("postgresql://", "postgres://")):
        return value
    if "://" in value or re.search(r"\b(?:host|dbname|password)\s*=", value):
        raise ValueError("is neither a PostgreSQL URL nor a directory")
    return str(_home(Path(value)))


def _home(path: Path) -> Path:
    """The path, with the home of a user in place of ~."""
    try:
        return path.expanduser()
    except RuntimeError:
        raise ValueError("names the home of a user who is not known here") from None


class Settings(BaseModel):
    """The settings of a server. They show neither the server key nor the password of the database."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, validate_default=True)

    host: Annotated[str, Field(min_length=1, description="an address of this machine")] = "127.0.0.1"
    port: Annotated[int, Field(ge=0, le=65535, description="0 to 65535; 0 takes any free port")] = 8080
    database: Annotated[
        str,
        Field(min_length=1, description="a directory, or postgresql://user@host/name"),
        AfterValidator(_database),
    ] = _DATA
    data_directory: Annotated[
        Annotated[Path, AfterValidator(_home)] | None,
        Field(description="a directory for key and token files, where the database is elsewhere"),
    ] = None
    cap: Annotated[
        int, BeforeValidator(_micro_epsilon), Field(description="ε that one user may spend over her lifetime, as 1.5")
    ] = budget.MICRO
    """Micro-ε."""
    server_key: Annotated[
        Annotated[SecretBytes, Field(min_length=auth.KEY_BYTES, max_length=auth.KEY_BYTES)] | None,
        BeforeValidator(_key),
        Field(description="64 hexadecimal digits"),
    ] = None
    """None: the key file of the data directory."""
    certificate: Annotated[
        Annotated[Path, AfterValidator(_home)] | None,
        Field(description="a file in PEM, with which the server speaks TLS"),
    ] = None
    key: Annotated[
        Annotated[Path, AfterValidator(_home)] | None,
        Field(description="a file in PEM: the private key of the certificate"),
    ] = None
    enrolment: Annotated[
        Literal["open", "limited"],
        Field(description="open: enrolment.token enrols up to open_limit; or limited: there is none"),
    ] = "open"
    queue_limit: Annotated[int, Field(ge=1, description="how many reports may wait to be written")] = 2_000_000
    body_limit: Annotated[int, Field(ge=1 << 10, description="how many bytes a request may have")] = 32 << 20
    """A batch of a million reports in JSON columns has at most 27 MB."""
    study_limit: Annotated[int, Field(ge=1, description="how many studies may run at a time")] = 1_000
    round_limit: Annotated[int, Field(ge=1, le=1_000_000, description="how many rounds a study may have")] = 10_000
    open_limit: Annotated[
        int, Field(ge=1, le=1 << 40, description="up to how many users in all enrolment.token enrols")
    ] = 10_000_000
    """Many people may hold that token, and each user takes memory. A token of a number has no such limit."""
    user_limit: Annotated[int, Field(ge=1, le=1 << 40, description="how many users may enrol")] = 1_000_000_000
    connection_limit: Annotated[int, Field(ge=1, description="how many connections there may be")] = 10_000
    """Fewer where the process may not have as many descriptors: see `hosting`."""
    log_level: Annotated[LogLevel, Field(description="debug, info, warning or error")] = "info"
    log_format: Annotated[LogFormat, Field(description="auto, json or text")] = "auto"

    @property
    def directory(self) -> Path:
        """The directory of key and token files, and of the ledger unless it is PostgreSQL."""
        if self.data_directory is not None:
            return self.data_directory
        return Path(_DATA if self.is_postgres else self.database)

    @property
    def is_postgres(self) -> bool:
        """Whether the ledger is PostgreSQL."""
        return "://" in self.database

    @property
    def shown_database(self) -> str:
        """The database without its password."""
        return scrub(self.database)

    @property
    def server_key_bytes(self) -> bytes | None:
        """The server key, if it was given."""
        return None if self.server_key is None else self.server_key.get_secret_value()

    @field_serializer("database")
    def _dump_database(self, value: str) -> str:
        return scrub(value)

    def __repr_args__(self) -> Iterator[tuple[str | None, Any]]:
        for name, value in super().__repr_args__():
            yield name, self.shown_database if name == "database" else value


@dataclass(frozen=True, slots=True)
class _Given:
    text: str
    source: str


def read_settings(
    flags: Mapping[str, object] | None = None, *, environ: Mapping[str, str] | None = None, config: Path | None = None
) -> Settings:
    """The settings of this start. A flag that is None was not given; `config` must exist, `askance.toml` need not."""
    file = Path(CONFIG_FILE) if config is None else config
    given = _of_file(file) if config is not None or file.exists() else {}
    given |= _of_environment(os.environ if environ is None else environ)
    given |= _of_flags(flags or {})
    try:
        return Settings.model_validate({name: value.text for name, value in given.items()})
    except ValidationError as error:
        raise _refused(error, given) from None


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    """Variables of the environment that look like settings but are unknown."""
    known = {PREFIX + name.upper() for name in Settings.model_fields} | _OTHERS
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def bind(host: str, port: int) -> socket.socket:
    """Bind a listening socket to this port, or to the next free one of twenty. Port 0 means any free port.

    The caller compares the port with the socket's own, and tells the user if they differ.
    """
    family, address = _resolve(host)
    for candidate in range(port, min(port + PORTS_TRIED, 1 << 16)):
        listener = socket.socket(family, socket.SOCK_STREAM)
        try:
            # Else a restart would wait a minute for the old connections of its port.
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, candidate))
            # Two processes may both bind a port; only one of them can listen.
            listener.listen(_BACKLOG)
        except OSError as error:
            listener.close()
            if error.errno != errno.EADDRINUSE:
                raise _unusable(host, candidate, error) from None
        else:
            return listener
    remedy = "choose another with --port, or 0 for any free one"
    raise SettingsError(f"is taken, and so are the next {PORTS_TRIED - 1}", where=f"port {port}", remedy=remedy)


def url_of(listener: socket.socket) -> str:
    """The URL under which a browser on this machine reaches this socket."""
    host, port = cast("tuple[str, int]", listener.getsockname()[:2])
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - these are what we replace
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _resolve(host: str) -> tuple[socket.AddressFamily, str]:
    try:
        found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError):
        raise SettingsError("has no address", where=f"host {host}", remedy="try 127.0.0.1") from None
    family, _, _, _, address = found[0]
    return family, str(address[0])


def _unusable(host: str, port: int, error: OSError) -> SettingsError:
    remedy = {
        errno.EACCES: "ports below 1024 belong to the system: choose a larger one",
        errno.EADDRNOTAVAIL: "choose an address of this machine: 127.0.0.1, or 0.0.0.0 for all",
    }.get(error.errno or 0, "choose another with --host and --port")
    return SettingsError(f"cannot be listened on: {error.strerror}", where=f"{host} port {port}", remedy=remedy)


# ---------------------------------------------------------------------------------------------------- sources


def _of_flags(flags: Mapping[str, object]) -> dict[str, _Given]:
    return {
        name: _Given(str(value), "--" + name.replace("_", "-")) for name, value in flags.items() if value is not None
    }


def _of_environment(environ: Mapping[str, str]) -> dict[str, _Given]:
    """The variables that are set and not empty: compose files write `ASKANCE_PORT=${PORT:-}`."""
    variables = {name: PREFIX + name.upper() for name in Settings.model_fields}
    return {name: _Given(environ[variable], variable) for name, variable in variables.items() if environ.get(variable)}


def _of_file(file: Path) -> dict[str, _Given]:
    text = _read(file)
    try:
        # Numbers with a point stay the text that they are: ε is not to become a float.
        table = tomllib.loads(text, parse_float=str)
    except tomllib.TOMLDecodeError as error:
        raise SettingsError(f"is not TOML: {error}", where=str(file), remedy="write lines like port = 8080") from None
    given = {
        name: _Given(_text(value, source := _place(file, text, name), name), source) for name, value in table.items()
    }
    if "server_key" in given:
        auth.check_private(file)
    return given


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        what = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise SettingsError(f"cannot be read: {what}", where=str(file), remedy="see --config") from None


def _text(value: object, source: str, name: str) -> str:
    if name not in Settings.model_fields:
        close = difflib.get_close_matches(name, Settings.model_fields, 1)
        remedy = f"did you mean {close[0]}?" if close else "known are " + ", ".join(Settings.model_fields)
        raise SettingsError("is not a setting", where=source, remedy=remedy)
    if isinstance(value, str) or type(value) is int:
        return str(value)
    raise SettingsError("is neither a text nor a number", where=source, remedy=_wanted(name))


def _place(file: Path, text: str, name: str) -> str:
    """Place of a setting: file, line and key. tomllib gives no lines; an unusually spelled key has none."""
    written = re.compile(rf"\s*\[*\s*([\"']?){re.escape(name)}\1\s*[=.\]]")
    lines = (number for number, line in enumerate(text.splitlines(), 1) if written.match(line))
    return ", ".join(part for part in (str(file), *(f"line {number}" for number in lines), name)[:3])


def _wanted(name: str) -> str:
    return f"give {Settings.model_fields[name].description}"


def _refused(error: ValidationError, given: Mapping[str, _Given]) -> SettingsError:
    first = error.errors(include_url=False, include_input=False)[0]
    name = str(first["loc"][0])
    if name not in Settings.model_fields:
        return SettingsError("is not a setting", where=given[name].source)
    cause = first.get("ctx", {}).get("error")
    if isinstance(cause, AskanceError):
        # Its place is that of a document; here the place is where it was given.
        return SettingsError(cause.what, where=given[name].source, remedy=_wanted(name))
    what = first["msg"].removeprefix("Value error, ").replace("Input should", "should")
    return SettingsError(what, where=given[name].source, remedy=_wanted(name))
