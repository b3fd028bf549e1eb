"""TLS contexts from certificates and keys in PEM.

`kube.http.identity` makes the client's context for an API server here, and the webhook's server loads its own pair.
Certificates and keys that cannot be used raise ConfigError. Where the system has files in memory, no key is written
to a disk.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from pathlib import Path

from vcjob.kube.config.auth import Credential
from vcjob.kube.errors import ConfigError


def client_context(ca: bytes | None, credential: Credential, *, insecure: bool = False) -> ssl.SSLContext:
    """The context for connections to one API server with one client certificate (or none)."""
    if ca is not None and not ca.strip():  # OpenSSL would trust the system's CAs instead
        raise ConfigError("the cluster's CA certificate is empty")
    try:
        context = ssl.create_default_context(cadata=ca.decode("ascii") if ca is not None else None)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(f"the cluster's CA certificate cannot be used: {error}") from error
    # Cluster CAs often lack the key identifiers that Python 3.13 requires by default.
    context.verify_flags &= ~getattr(ssl, "VERIFY_X509_STRICT", 0)
    if insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if credential.certificate is not None and credential.key is not None:
        load_pair(context, credential.certificate, credential.key)
    return context


def load_pair(context: ssl.SSLContext, certificate: bytes, key: bytes) -> None:
    """Load PEM bytes. OpenSSL reads only files, so they are written to a file in memory if the system has such
    files (no key reaches a disk, and the root filesystem may be read-only), else to a short-lived one."""
    content = certificate.rstrip() + b"\n" + key
    if hasattr(os, "memfd_create") and Path("/proc/self/fd").is_dir():
        with open(os.memfd_create("pair", os.MFD_CLOEXEC), "wb") as file:
            file.write(content)
            file.flush()
            _load(context, f"/proc/self/fd/{file.fileno()}")
        return
    with tempfile.TemporaryDirectory(prefix="vcjob-") as folder:
        pair = Path(folder) / "pair.pem"
        pair.touch(mode=0o600)
        pair.write_bytes(content)
        _load(context, str(pair))


def _load(context: ssl.SSLContext, file: str) -> None:
    try:
        context.load_cert_chain(file, password="")  # an empty password keeps OpenSSL from prompting
    except (ssl.SSLError, ValueError, OSError) as error:
        raise ConfigError(f"the certificate and its key cannot be used: {error}") from error
