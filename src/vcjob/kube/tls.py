"""TLS contexts from PEM bytes."""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path

from vcjob.kube.auth import Credential
from vcjob.kube.errors import ConfigError


def client_context(ca: bytes | None, credential: Credential, *, insecure: bool = False) -> ssl.SSLContext:
    """The context for connections to one API server with one client certificate (or none)."""
    if ca is not None and not ca.strip():  # OpenSSL would trust the whole world's CAs instead
        raise ConfigError("the cluster's CA certificate is empty")
    try:
        context = ssl.create_default_context(cadata=ca.decode("ascii") if ca is not None else None)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the cluster's CA certificate cannot be used: {error}") from error
    # Clusters' own CAs often lack the key identifiers that Python 3.13 began to insist on.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credential.certificate is not None and credential.key is not None:
        _load_pair(context, credential.certificate, credential.key)
    return context


def _load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """OpenSSL reads certificates from files only: a private folder that is gone again at once."""
    with tempfile.TemporaryDirectory(prefix="vcjob-") as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(certificate.rstrip() + b"\n" + key)
        try:
            # An empty password keeps OpenSSL from asking for one at the terminal.
            context.load_cert_chain(pair, password="")
        except (ssl.SSLError, ValueError, OSError) as error:
            raise ConfigError(f"the client certificate and its key cannot be used: {error}") from error
