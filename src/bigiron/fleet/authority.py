"""A throw-away certificate authority: only hosts with its certificate belong to the fleet.

Its own key is forgotten at once, so that it signs nothing more; another fleet gets another one.
"""

import ipaddress
import os
import ssl
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from bigiron.errors import UserError

if TYPE_CHECKING:
    from distributed.security import Security

AUTHORITY, CERTIFICATE, KEY = "authority.pem", "certificate.pem", "key.pem"
_SKEW = timedelta(days=1)  # clocks of workers may be wrong


def create(folder: Path, days: int) -> None:
    """Make an authority, and the one certificate that all of a fleet share; UserError if there is one."""
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    if folder.exists() and any(folder.iterdir()):
        raise UserError(f"{folder} is not empty: give another folder, as certificates are not overwritten")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    begin, end = datetime.now(UTC) - _SKEW, datetime.now(UTC) + timedelta(days=days)
    authority_key, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    authority, member = (
        x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        for name in ("bigiron fleet authority", "bigiron fleet")
    )

    def signed(subject: x509.Name, of: ec.EllipticCurvePrivateKey, *, is_authority: bool) -> bytes:
        builder = (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(authority)
            .public_key(of.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(begin)
            .not_valid_after(end)
            .add_extension(x509.BasicConstraints(ca=is_authority, path_length=None), critical=True)
        )
        if not is_authority:
            names = [x509.DNSName("bigiron-fleet"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
            builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
        return builder.sign(authority_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    _write(folder / AUTHORITY, signed(authority, authority_key, is_authority=True))
    _write(folder / CERTIFICATE, signed(member, key, is_authority=False))
    _write(
        folder / KEY,
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        ),
    )


def _write(path: Path, content: bytes) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)


def security(folder: Path) -> "Security":
    """What Dask wants to know of a fleet's certificates; UserError for a folder that has none."""
    from distributed.security import Security

    authority, certificate, key = (folder / name for name in (AUTHORITY, CERTIFICATE, KEY))
    for path in (authority, certificate, key):
        if not path.is_file():
            raise UserError(f"{folder} has no {path.name}: make certificates with `bigiron fleet init DIR`")
    if key.stat().st_mode & 0o077:
        raise UserError(f"{key} can be read by others, who could join the fleet: chmod 600 {key}")
    try:
        context = ssl.create_default_context(cafile=authority)
        context.load_cert_chain(certificate, key)
    except (ssl.SSLError, OSError) as error:
        raise UserError(f"the certificates in {folder} cannot be used: {error}") from None
    mine = {"cert": str(certificate), "key": str(key)}
    return Security(
        require_encryption=True,
        tls_ca_file=str(authority),
        **{
            f"tls_{role}_{what}": path
            for role in ("client", "scheduler", "worker")
            for what, path in mine.items()
        },
    )
