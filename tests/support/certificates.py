"""A small certificate authority for tests of TLS. It makes certificates for servers: valid ones, and ones that clients
must refuse."""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

NOW = datetime.now(UTC)
DAY = timedelta(days=1)


class Authority:
    """A certificate authority with a separate key; `file` holds its certificate."""

    def __init__(self, folder: Path, name: str) -> None:
        self.folder, self.file = folder, folder / f"{name}.pem"
        self._key, self._name = _key(), _named(name)
        made = _certificate(self._name, self._name, self._key, (NOW - DAY, NOW + 2 * DAY))
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        self.file.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))

    def server(
        self,
        name: str,
        *,
        common: str = "server",
        names: tuple[str, ...] = ("localhost", "127.0.0.1"),
        valid: tuple[datetime, datetime] = (NOW - DAY, NOW + DAY),
    ) -> tuple[Path, Path]:
        """Make a server's certificate and key; return their files."""
        key = _key()
        made = _certificate(_named(common), self._name, key, valid)
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        if names:
            made = made.add_extension(x509.SubjectAlternativeName(list(map(_alternative, names))), critical=False)
        cert, key_file = self.folder / f"{name}.pem", self.folder / f"{name}.key"
        cert.write_bytes(_pem(made.sign(self._key, hashes.SHA256())))
        key_file.write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
            )
        )
        key_file.chmod(0o600)
        return cert, key_file


def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def _named(common: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common)])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _certificate(
    subject: x509.Name, issuer: x509.Name, key: rsa.RSAPrivateKey, valid: tuple[datetime, datetime]
) -> x509.CertificateBuilder:
    made = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key.public_key())
    made = made.serial_number(x509.random_serial_number())
    return made.not_valid_before(valid[0]).not_valid_after(valid[1])


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
