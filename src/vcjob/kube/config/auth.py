"""Sources of credentials.

The transport asks a `Source` for the credential of each request, because it may change at any time: a token file
is rewritten, an exec plugin's certificate expires. A source that has no credential raises ConfigError.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import msgspec

from vcjob.kube.errors import ConfigError

TOKEN_FILE_SECONDS = 10.0  # the kubelet rewrites projected tokens long before they expire


class Credential(msgspec.Struct, frozen=True):
    """The headers of a request and the client certificate of its connection.

    A `Source` returns one for each request; it is immutable. Its text form shows no secret.
    """

    headers: tuple[tuple[str, str], ...] = ()
    certificate: bytes | None = None  # PEM
    key: bytes | None = None  # PEM

    def __repr__(self) -> str:
        return "Credential(...)"  # secrets must not appear in logs


class Source(Protocol):
    """Provides the credential for each request.

    The transport calls `get` before every request, and `invalidate` after a 401 to learn whether another attempt can
    help. A source without a credential raises ConfigError.
    """

    async def get(self) -> Credential:
        """The credential for the next request."""

    def invalidate(self) -> bool:
        """The server refused the last credential. True: `get` may now return another one."""


class Fixed:
    """A credential that never changes: certificate data, a token or a password in the kubeconfig.

    Once the server has refused it, another attempt would be refused too.
    """

    def __init__(self, credential: Credential | None = None) -> None:
        self._credential = credential or Credential()

    async def get(self) -> Credential:
        return self._credential

    def invalidate(self) -> bool:
        return False


class TokenFile:
    """A bearer token in a file that another program rewrites.

    The file is read again after a while, and after a 401. If it cannot be read then, the old token is used;
    ConfigError only if there has never been one.
    """

    def __init__(self, path: Path, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._path = path
        self._clock = clock
        self._credential: Credential | None = None
        self._read_at = 0.0

    async def get(self) -> Credential:
        now = self._clock()
        if self._credential is None or now - self._read_at >= TOKEN_FILE_SECONDS:
            self._read_at = now
            self._read()
        assert self._credential is not None
        return self._credential

    def invalidate(self) -> bool:
        before = self._credential
        self._read_at = -TOKEN_FILE_SECONDS
        self._read()
        return before != self._credential

    def _read(self) -> None:
        try:
            token = self._path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            if self._credential is not None:  # the file is being rewritten: keep the old token
                return
            raise ConfigError(f"the token file {self._path} cannot be read: {error}") from error
        if token:
            self._credential = bearer(token)
        elif self._credential is None:
            raise ConfigError(f"the token file {self._path} is empty")


class CertificateFiles:
    """A client certificate and key in files, which are read again when they change.

    Files that cannot be read are a ConfigError only the first time; afterwards the old certificate is used.
    """

    def __init__(self, certificate: Path, key: Path) -> None:
        self._certificate = certificate
        self._key = key
        self._stamp: tuple[int, ...] | None = None
        self._credential: Credential | None = None

    async def get(self) -> Credential:
        try:
            stats = [path.stat() for path in (self._certificate, self._key)]
            stamp = tuple(
                number for stat in stats for number in (stat.st_mtime_ns, stat.st_ino, stat.st_size)
            )
            if stamp != self._stamp:
                certificate, key = self._certificate.read_bytes(), self._key.read_bytes()
                self._credential = Credential((), certificate, key)
                self._stamp = stamp
        except OSError as error:
            if self._credential is None:
                raise ConfigError(f"the client certificate cannot be read: {error}") from error
        assert self._credential is not None
        return self._credential

    def invalidate(self) -> bool:
        return False


class Combined:
    """Several sources: their headers are combined, and the last certificate is used.

    Used where a kubeconfig names several, such as a certificate and a token. It fails if one of them fails.
    """

    def __init__(self, sources: list[Source]) -> None:
        self._sources = sources
        self._parts: list[Credential] = []
        self._joined = Credential()

    async def get(self) -> Credential:
        parts = [await source.get() for source in self._sources]
        if len(parts) == len(self._parts) and all(a is b for a, b in zip(parts, self._parts, strict=True)):
            return self._joined
        headers = tuple(header for part in parts for header in part.headers)
        pair = next((part for part in reversed(parts) if part.certificate is not None), Credential())
        self._parts = parts
        self._joined = Credential(headers, pair.certificate, pair.key)
        return self._joined

    def invalidate(self) -> bool:
        renewable = [source.invalidate() for source in self._sources]  # all of them, not only up to the first
        return any(renewable)


def bearer(token: str) -> Credential:
    return Credential((("Authorization", f"Bearer {token}"),))


def basic(username: str, password: str) -> Credential:
    pair = base64.b64encode(f"{username}:{password}".encode()).decode()
    return Credential((("Authorization", f"Basic {pair}"),))
