"""A certificate authority for the webhook, and certificates issued by it. Pure: PEM in, PEM out.

Only this module needs the package `cryptography` (the extra `cluster`); without it the import raises `BackendError`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

import msgspec

from vcjob.errors import BackendError

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError as error:
    raise BackendError(
        "the webhook's certificates need the package `cryptography`, which is not installed",
        hint="pip install 'vcjob[cluster]', or run the controller without its webhook",
    ) from error

if TYPE_CHECKING:
    from cryptography.x509 import Certificate, CertificateBuilder

BACKDATED = timedelta(hours=1)  # for API servers whose clock is behind ours
AUTHORITY_LIFE = timedelta(days=3650)
SERVER_LIFE = timedelta(days=365)


class Pair(msgspec.Struct, frozen=True):
    """A certificate and its key, in PEM.

    Made here for the webhook's server and its CA; `tls` stores both in a Secret. Its key must not appear in logs.
    """

    certificate: bytes
    key: bytes

    def __repr__(self) -> str:
        return "Pair(...)"  # no key is ever written to a log


def make_authority(now: datetime) -> Pair:
    key = ec.generate_private_key(ec.SECP256R1())
    # The name contains the time, so that two CAs in one bundle can be distinguished.
    name = x509.Name(
        [x509.NameAttribute(NameOID.COMMON_NAME, f"vcjob webhook CA {now:%Y-%m-%d %H:%M:%S.%f}")]
    )
    usage = _usage(key_cert_sign=True, crl_sign=True)
    builder = (
        _builder(name, name, key.public_key(), now, AUTHORITY_LIFE)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )
    return _signed(builder, key, key)


def issue(authority: Pair, names: Sequence[str], now: datetime) -> Pair:
    """A server certificate for DNS names and IP addresses."""
    signer = _load_key(authority.key)
    issuer = x509.load_pem_x509_certificate(authority.certificate)
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "vcjob webhook")])
    builder = (
        _builder(subject, issuer.subject, key.public_key(), now, SERVER_LIFE)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(digital_signature=True), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectAlternativeName([_general_name(name) for name in names]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False
        )
    )
    return _signed(builder, key, signer)


def made_at(certificate: bytes) -> datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_before_utc + BACKDATED


def is_due(certificate: bytes, now: datetime) -> bool:
    """Whether two thirds of its lifetime have passed (or it is not valid yet: the clock was set back)."""
    found = x509.load_pem_x509_certificate(certificate)
    begins, ends = found.not_valid_before_utc, found.not_valid_after_utc
    return now < begins or now >= begins + (ends - begins) * 2 / 3


def expires_at(certificate: bytes) -> datetime:
    return x509.load_pem_x509_certificate(certificate).not_valid_after_utc


def has_expired(certificate: bytes, now: datetime) -> bool:
    return now >= expires_at(certificate)


def covers(certificate: bytes, names: Sequence[str]) -> bool:
    found = x509.load_pem_x509_certificate(certificate)
    try:
        alternatives = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except x509.ExtensionNotFound:
        return False
    return set(alternatives) >= {_general_name(name) for name in names}


def is_from(certificate: bytes, authority: bytes) -> bool:
    """Whether `authority` signed `certificate`."""
    try:
        x509.load_pem_x509_certificate(certificate).verify_directly_issued_by(
            x509.load_pem_x509_certificate(authority)
        )
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def belong_together(pair: Pair) -> bool:
    """Whether the key belongs to the certificate; False for anything that is not PEM."""
    try:
        return (
            x509.load_pem_x509_certificate(pair.certificate).public_key() == _load_key(pair.key).public_key()
        )
    except (ValueError, TypeError):
        return False


def split_bundle(bundle: bytes) -> list[bytes]:
    """The certificates of a bundle, one PEM each; empty where it is damaged."""
    try:
        return [
            found.public_bytes(serialization.Encoding.PEM)
            for found in x509.load_pem_x509_certificates(bundle)
        ]
    except ValueError:
        return []


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, now: datetime, life: timedelta
) -> CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + life)
    )


def _signed(
    builder: CertificateBuilder, key: ec.EllipticCurvePrivateKey, signer: ec.EllipticCurvePrivateKey
) -> Pair:
    certificate: Certificate = builder.sign(signer, hashes.SHA256())
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    return Pair(certificate.public_bytes(serialization.Encoding.PEM), private)


def _load_key(key: bytes) -> ec.EllipticCurvePrivateKey:
    found = serialization.load_pem_private_key(key, password=None)
    if not isinstance(found, ec.EllipticCurvePrivateKey):
        raise ValueError("not an elliptic curve key")  # noqa: TRY004 - callers catch ValueError, which the library raises for bad content
    return found


def _general_name(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        encipher_only=False,
        decipher_only=False,
    )
