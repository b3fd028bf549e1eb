"""Credentials from a program: client-go's exec plugins, `client.authentication.k8s.io` v1 and v1beta1.

The kubeconfig creates one; the transport uses it as a credential `Source`. A program that fails, takes too long or
prints something else than an ExecCredential raises ConfigError.
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from vcjob.kube.config.auth import Credential
from vcjob.kube.errors import ConfigError

API_VERSIONS = ("client.authentication.k8s.io/v1", "client.authentication.k8s.io/v1beta1")
TIMEOUT_SECONDS = 60.0
EARLY = timedelta(seconds=30)  # a credential is replaced this long before it expires


class ExecSpec(msgspec.Struct, rename="camel"):
    """The `exec` part of a kubeconfig user.

    Read from the file as it is; `ExecPlugin` checks and runs it.
    """

    api_version: str = ""
    command: str = ""
    args: list[str] | None = None
    env: list[dict[str, str]] | None = None
    install_hint: str = ""
    interactive_mode: str = ""
    provide_cluster_info: bool = False


class _CredentialStatus(msgspec.Struct, rename="camel"):
    token: str = ""
    client_certificate_data: str = ""
    client_key_data: str = ""
    expiration_timestamp: datetime | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _CredentialStatus | None = None


#: Made at import: msgspec crashes if two threads resolve the fields of a type at the same time.
_CREDENTIAL = msgspec.json.Decoder(_ExecCredential)


def _now() -> datetime:
    return datetime.now(UTC)


class ExecPlugin:
    """Runs the program if there is no credential yet, or if it is about to expire or was refused.

    A credential `Source`, used by every request of one client. ConfigError if it fails or prints something else.
    """

    def __init__(
        self,
        spec: ExecSpec,
        *,
        cluster: dict[str, Any] | None = None,
        now: Callable[[], datetime] = _now,
    ) -> None:
        if spec.api_version not in API_VERSIONS:
            raise ConfigError(
                f"the credential program {spec.command!r} uses {spec.api_version or 'no version'}, which is not supported",
                hint=f"update it to one of {', '.join(API_VERSIONS)}",
            )
        if not spec.command:
            raise ConfigError("the kubeconfig names a credential program without a command")
        if spec.interactive_mode not in ("", "Never", "IfAvailable", "Always"):
            raise ConfigError(
                f"interactiveMode must be Never, IfAvailable or Always, not {spec.interactive_mode!r}"
            )
        if not spec.interactive_mode and spec.api_version.endswith("/v1"):
            raise ConfigError(
                f"the credential program {spec.command!r} needs an interactiveMode in version v1"
            )
        self._spec = spec
        self._cluster = cluster if spec.provide_cluster_info else None
        self._now = now
        self._credential: Credential | None = None
        self._renew_at: datetime | None = None
        self._ran_at = float("-inf")
        self._lock = asyncio.Lock()

    async def get(self) -> Credential:
        if self._fresh():
            assert self._credential is not None
            return self._credential
        async with self._lock:  # concurrent requests run the program once
            if not self._fresh():
                await self._run()
        assert self._credential is not None
        return self._credential

    def invalidate(self) -> bool:
        # Otherwise a program whose new credential is refused too would be run for every request.
        if time.monotonic() - self._ran_at < 1.0:
            return False
        self._credential = None
        return True

    def _fresh(self) -> bool:
        return self._credential is not None and (self._renew_at is None or self._now() < self._renew_at)

    def _when_to_renew(self, expires: datetime | None) -> datetime | None:
        if expires is None:
            return None
        expires = expires if expires.tzinfo is not None else expires.replace(tzinfo=UTC)
        now = self._now()
        # Short-lived credentials are not replaced for every request.
        return max(expires - EARLY, now + (expires - now) * 0.8)

    def _interactive(self) -> bool:
        mode = self._spec.interactive_mode or "IfAvailable"
        available = sys.stdin is not None and sys.stdin.isatty()
        if mode == "Always" and not available:
            raise ConfigError(
                f"the credential program {self._spec.command!r} needs a terminal, and there is none"
            )
        return available and mode != "Never"

    def _environment(self, interactive: bool) -> dict[str, str]:
        info: dict[str, Any] = {"interactive": interactive}
        if self._cluster is not None:
            info["cluster"] = self._cluster
        request = {"apiVersion": self._spec.api_version, "kind": "ExecCredential", "spec": info}
        extra = {entry.get("name", ""): entry.get("value", "") for entry in self._spec.env or []}
        return {**os.environ, **extra, "KUBERNETES_EXEC_INFO": msgspec.json.encode(request).decode()}

    async def _run(self) -> None:
        name = self._spec.command
        interactive = self._interactive()
        try:
            process = await asyncio.create_subprocess_exec(
                name,
                *(self._spec.args or []),
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                stderr=None if interactive else asyncio.subprocess.PIPE,
                env=self._environment(interactive),
            )
        except OSError as error:
            raise ConfigError(
                f"the credential program {name!r} cannot be started: {error.strerror or error}",
                hint=self._spec.install_hint or "install it, or choose another user in the kubeconfig",
            ) from error
        try:
            async with asyncio.timeout(None if interactive else TIMEOUT_SECONDS):
                out, err = await process.communicate()
        except BaseException as error:
            if process.returncode is None:
                process.kill()
                await process.wait()
            if isinstance(error, TimeoutError):
                raise ConfigError(
                    f"the credential program {name!r} did not finish in {TIMEOUT_SECONDS:.0f} s"
                ) from error
            raise
        if process.returncode:
            output = (err or b"").decode("utf-8", "replace").strip()[-500:]
            raise ConfigError(
                f"the credential program {name!r} failed with exit code {process.returncode}"
                + (f": {output}" if output else ""),
                hint=self._spec.install_hint or None,
            )
        self._take(out)

    def _take(self, out: bytes) -> None:
        name = self._spec.command
        try:
            answer = _CREDENTIAL.decode(out)
        except msgspec.MsgspecError as error:
            raise ConfigError(
                f"the credential program {name!r} printed an invalid ExecCredential: {error}"
            ) from error
        if answer.api_version != self._spec.api_version:
            raise ConfigError(
                f"the credential program {name!r} returned {answer.api_version or 'no version'} instead of {self._spec.api_version}"
            )
        status = answer.status
        if status is None or not (status.token or status.client_certificate_data):
            raise ConfigError(f"the credential program {name!r} returned neither a token nor a certificate")
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise ConfigError(
                f"the credential program {name!r} returned a certificate without its key, or the reverse"
            )
        self._renew_at = self._when_to_renew(status.expiration_timestamp)
        self._credential = Credential(
            (("Authorization", f"Bearer {status.token}"),) if status.token else (),
            status.client_certificate_data.encode() or None,
            status.client_key_data.encode() or None,
        )
        self._ran_at = time.monotonic()
