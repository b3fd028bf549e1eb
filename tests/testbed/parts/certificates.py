"""The testbed's own certificate authority, certificates for servers and identities, and kubeconfigs that carry them."""

from __future__ import annotations

import base64
import datetime
import ipaddress
import json
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID


class Authority:
    """Signs for one testbed; kept in its folder, so that another process can sign more."""

    def __init__(self, folder: Path, name: str = "vcjob-testbed") -> None:
        self.folder = folder
        self.file = folder / "ca.crt"
        self.key_file = folder / "ca.key"
        if self.file.exists():
            key = serialization.load_pem_private_key(self.key_file.read_bytes(), None)
            assert isinstance(key, ec.EllipticCurvePrivateKey)
            self._key = key
            self._certificate = x509.load_pem_x509_certificate(self.file.read_bytes())
            return
        folder.mkdir(parents=True, exist_ok=True)
        self._key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._certificate = (
            _builder(subject, subject, self._key.public_key())
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        write_key(self.key_file, self._key)
        self.file.write_bytes(self._certificate.public_bytes(serialization.Encoding.PEM))

    def issue(
        self, file_name: str, user: str, groups: tuple[str, ...] = (), hosts: tuple[str, ...] = ()
    ) -> tuple[Path, Path]:
        """A certificate and its key: for a server where ``hosts`` are given, for a client always."""
        certificate_file, key_file = self.folder / f"{file_name}.crt", self.folder / f"{file_name}.key"
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name(
            [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
            + [x509.NameAttribute(NameOID.COMMON_NAME, user)]
        )
        usages = [ExtendedKeyUsageOID.CLIENT_AUTH] + ([ExtendedKeyUsageOID.SERVER_AUTH] if hosts else [])
        builder = (
            _builder(subject, self._certificate.subject, key.public_key())
            .add_extension(x509.ExtendedKeyUsage(usages), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False
            )
        )
        if hosts:
            builder = builder.add_extension(
                x509.SubjectAlternativeName([_name(host) for host in hosts]), critical=False
            )
        certificate = builder.sign(self._key, hashes.SHA256())
        write_key(key_file, key)
        certificate_file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
        return certificate_file, key_file

    def kubeconfig(self, path: Path, server: str, user: str, groups: tuple[str, ...] = ()) -> Path:
        """A kubeconfig with everything inside it, in JSON (which is YAML)."""
        certificate, key = self.issue(f"client-{path.stem}", user, groups)
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": "testbed",
                    "cluster": {"server": server, "certificate-authority-data": _encoded(self.file)},
                }
            ],
            "users": [
                {
                    "name": user,
                    "user": {
                        "client-certificate-data": _encoded(certificate),
                        "client-key-data": _encoded(key),
                    },
                }
            ],
            "contexts": [
                {"name": "testbed", "context": {"cluster": "testbed", "user": user, "namespace": "default"}}
            ],
            "current-context": "testbed",
        }
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(document, indent=1))
        path.chmod(0o600)
        return path


def service_account_keys(folder: Path) -> tuple[Path, Path]:
    """The pair that signs and checks service account tokens."""
    public, private = folder / "service-accounts.pub", folder / "service-accounts.key"
    if not private.exists():
        key = ec.generate_private_key(ec.SECP256R1())
        public.write_bytes(
            key.public_key().public_bytes(
                serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo
            )
        )
        write_key(private, key)
    return public, private


def write_key(path: Path, key: ec.EllipticCurvePrivateKey) -> None:
    path.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        )
    )
    path.chmod(0o600)


def _builder(
    subject: x509.Name, issuer: x509.Name, public_key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.datetime.now(datetime.UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(minutes=5))
        .not_valid_after(now + datetime.timedelta(days=30))
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _encoded(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()
