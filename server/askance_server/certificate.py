"""The certificate with which a server speaks TLS: read and checked before anything is started."""

from __future__ import annotations

import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn
from urllib.parse import urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes

from askance_server.settings import SettingsError, url_of


@dataclass(frozen=True, slots=True)
class Certificate:
    """What a server shows of itself, and what it speaks TLS with."""

    file: Path
    context: ssl.SSLContext = field(repr=False)
    names: tuple[str, ...]
    """Names and addresses that it is for."""
    fingerprint: str
    """SHA-256, as browsers show it."""
    is_self_signed: bool
    begins: datetime
    expires: datetime

    @property
    def is_near_its_end(self) -> bool:
        """Whether less than a tenth of its time is left."""
        return self.expires - datetime.now(UTC) < (self.expires - self.begins) / 10

    def url(self, listener: socket.socket) -> str:
        """The URL of a listening socket: by a name that the certificate is for, where one leads there."""
        parts = urlsplit(url_of(listener))
        address = parts.hostname or ""
        name = (
            address
            if address in self.names
            else next((each for each in self.names if _leads_to(each, address)), address)
        )
        return f"https://[{name}]:{parts.port}" if ":" in name else f"https://{name}:{parts.port}"

    def warnings(self, host: str) -> Iterator[str]:
        """What browsers will say of it, which whoever starts the server should know before."""
        if host not in self.names:
            names = ", ".join(self.names[:3]) or "no name"
            yield f"{self.file} is a certificate for {names}, and not for {host}: browsers warn of it"
        if self.is_self_signed:
            yield (
                f"{self.file} is signed by nobody but itself: browsers warn of it, unless they were told to trust it; "
                f"they show its SHA-256, {self.fingerprint}"
            )

    def trusted_alone(self) -> ssl.SSLContext:
        """For a program that has this file itself: it trusts this certificate, wherever it is shown, and no other."""
        context = ssl.create_default_context(cafile=str(self.file))
        context.check_hostname = False
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        return context


def read_certificate(certificate: Path | None, key: Path | None) -> Certificate | None:
    """The certificate of the two files, if it can be used today; None where neither is given."""
    if certificate is None and key is None:
        return None
    if certificate is None or key is None:
        there, missing = ("certificate", "key") if key is None else ("key", "certificate")
        raise SettingsError(f"is given without --{missing}", where=f"--{there}", remedy="TLS needs both, or neither")
    shown = _parsed(certificate, _content(certificate))
    _content(key)
    names = _names(shown)
    _check_dates(certificate, shown)
    fingerprint = shown.fingerprint(hashes.SHA256()).hex(":").upper()
    is_self_signed = shown.issuer == shown.subject
    return Certificate(
        certificate,
        _context(certificate, key),
        names,
        fingerprint,
        is_self_signed,
        shown.not_valid_before_utc,
        shown.not_valid_after_utc,
    )


def _content(file: Path) -> bytes:
    try:
        return file.read_bytes()
    except OSError as error:
        remedy = "name a file in PEM that this user can read"
        raise SettingsError(f"cannot be read: {error.strerror}", where=str(file), remedy=remedy) from None


def _parsed(file: Path, content: bytes) -> x509.Certificate:
    try:
        return x509.load_pem_x509_certificates(content)[0]
    except ValueError:
        remedy = "name the certificate, then those that signed it: -----BEGIN CERTIFICATE-----"
        raise SettingsError("is no certificate in PEM", where=str(file), remedy=remedy) from None


def _names(shown: x509.Certificate) -> tuple[str, ...]:
    try:
        found = shown.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except (x509.ExtensionNotFound, ValueError):
        return ()
    addresses = found.get_values_for_type(x509.IPAddress)
    return (*found.get_values_for_type(x509.DNSName), *map(str, addresses))


def _check_dates(file: Path, shown: x509.Certificate) -> None:
    now = datetime.now(UTC)
    if now > shown.not_valid_after_utc:
        raise SettingsError(f"has expired on {shown.not_valid_after_utc:%Y-%m-%d}", where=str(file), remedy="renew it")
    if now < shown.not_valid_before_utc:
        what = f"holds from {shown.not_valid_before_utc:%Y-%m-%d %H:%M} UTC on"
        raise SettingsError(what, where=str(file), remedy="wait, or set the clock of this machine")


def _context(certificate: Path, key: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def locked() -> NoReturn:
        # Else OpenSSL would ask for it at the terminal.
        remedy = f"open it once: openssl pkey -in {key.name} -out open.pem, and keep that to yourself"
        raise SettingsError("is locked with a password", where=str(key), remedy=remedy)

    try:
        context.load_cert_chain(certificate, key, password=locked)
    except ssl.SSLError as error:
        if error.reason in {"KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH"}:
            remedy = "name the two that were made together"
            raise SettingsError(f"is not the key of {certificate}", where=str(key), remedy=remedy) from None
        if error.reason:
            what = f"cannot be used: {error.reason.lower().replace('_', ' ')}"
            raise SettingsError(what, where=f"{certificate}, {key}", remedy="make a stronger one") from None
        remedy = "name the file that has -----BEGIN PRIVATE KEY-----"
        raise SettingsError("is no private key in PEM", where=str(key), remedy=remedy) from None
    return context


def _leads_to(name: str, address: str) -> bool:
    """Whether a name is one of this address, as this machine looks it up."""
    try:
        return any(found[4][0] == address for found in socket.getaddrinfo(name, None))
    except (OSError, UnicodeError):
        return False
