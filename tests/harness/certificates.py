"""Certificates for tests: made when they are needed, gone with the test's folder."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HERE: Final = ("localhost", "127.0.0.1")
_DAY: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """The files of a certificate and its key."""

    certificate: Path
    key: Path

    @property
    def options(self) -> tuple[str, ...]:
        """As `askance serve` and `askance ask` take them."""
        return ("--certificate", str(self.certificate), "--key", str(self.key))

    @property
    def trusting(self) -> ssl.SSLContext:
        """For a client that believes this certificate, and no other."""
        return ssl.create_default_context(cafile=str(self.certificate))

    @property
    def serving(self) -> ssl.SSLContext:
        """For a server."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.certificate, self.key)
        return context


def made(folder: Path, *names: str, days: int = 2, begins: int = -1, password: str = "", issuer: str = "room") -> Pair:
    """A certificate for these names and addresses, from so many days from now on, for so many days."""
    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.now(UTC)
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "room")])
    built = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + begins * _DAY)
        .not_valid_after(now + (begins + days) * _DAY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
    )
    if names:
        built = built.add_extension(x509.SubjectAlternativeName(list(map(_general, names))), critical=False)
    signed = built.sign(key, hashes.SHA256())
    lock = serialization.BestAvailableEncryption(password.encode()) if password else serialization.NoEncryption()
    pair = Pair(folder / "room.pem", folder / "room-key.pem")
    folder.mkdir(exist_ok=True)
    pair.certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    form = serialization.PrivateFormat.PKCS8
    pair.key.write_bytes(key.private_bytes(serialization.Encoding.PEM, form, lock))
    return pair


def _general(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)
