"""What requests carry to identify their sender: headers and TLS context of the current credential.

Each HTTP client owns one `Identity` and updates it before every request, because credentials change while a
process runs. A credential that cannot be used raises ConfigError.
"""

from __future__ import annotations

import ssl

from vcjob._version import __version__
from vcjob.kube.config.auth import Credential
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.config.tls import client_context
from vcjob.kube.errors import ConfigError


class Identity:
    """The headers and the TLS context of the credential in use.

    `tls` is None for plain HTTP. A new client certificate gives a new context, never a changed one. ConfigError if
    the certificate or a header cannot be used.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._pair: tuple[bytes | None, bytes | None] | None = None
        self.credential: Credential | None = None
        self.tls: ssl.SSLContext | None = None

    def update(self, credential: Credential) -> None:
        """Use `credential` from now on."""
        if any("\r" in value or "\n" in value for _, value in credential.headers):
            raise ConfigError("a token or another header of the credential contains a line break")
        pair = (credential.certificate, credential.key)
        if pair != self._pair and self._config.server.startswith("https:"):
            self.tls = client_context(self._config.ca, credential, insecure=self._config.insecure)
            self._pair = pair
        self.credential = credential

    def headers(self, content_type: str, accept: str = "") -> list[tuple[str, str]]:
        """The headers of a request whose body has this type (empty: no body) and whose response may have the types in
        `accept` (empty: JSON)."""
        assert self.credential is not None
        headers = [
            *self.credential.headers,
            ("Accept", accept or "application/json"),
            ("Accept-Encoding", "identity"),  # decompression costs more than a nearby server's bytes
            ("User-Agent", f"vcjob/{__version__}"),
        ]
        return [*headers, ("Content-Type", content_type)] if content_type else headers
