"""The webhook's TLS certificate: created, stored, shared by all replicas and renewed without a restart.

One Secret holds the CA and the server's certificate. Any replica may write it; the API server's conflict check lets
one of them win, and the others use what is stored. The webhook configurations always trust every CA of the Secret,
and a new CA is trusted for a while before it signs anything, so that no call fails in between. Used by
`process.main`; errors of the API server and a missing Secret are raised by `start` and logged and retried by `run`.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from vcjob.cluster.webhook.certificates import (
    Pair,
    belong_together,
    covers,
    expires_at,
    has_expired,
    is_due,
    is_from,
    issue,
    made_at,
    make_authority,
    split_bundle,
)
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import MUTATING_WEBHOOKS, SECRETS, VALIDATING_WEBHOOKS, Document, Resource
from vcjob.kube.config.tls import load_pair
from vcjob.kube.controller.informer import Informer
from vcjob.kube.errors import Conflict, KubeError, NotFound

log = logging.getLogger(__name__)
CONFIGURATIONS = (MUTATING_WEBHOOKS, VALIDATING_WEBHOOKS)
TRUSTED_FIRST = timedelta(hours=1)  # how long a new CA is only trusted before it signs
CHECK_SECONDS = 3600.0
RETRY_SECONDS = 5.0


class TlsState(msgspec.Struct, frozen=True):
    """The content of the Secret."""

    bundle: bytes  # every CA to be trusted, the newest first
    authority_key: bytes  # of the newest
    server: Pair

    @property
    def authorities(self) -> list[bytes]:
        return split_bundle(self.bundle)

    def __repr__(self) -> str:
        return "TlsState(...)"


def next_state(state: TlsState | None, names: Sequence[str], now: datetime) -> TlsState | None:
    """The state that must replace `state`, or None where nothing has to change. Pure."""
    authorities = [found for found in state.authorities if not has_expired(found, now)] if state else []
    if state is None or not authorities or not belong_together(Pair(authorities[0], state.authority_key)):
        authority = make_authority(now)
        return TlsState(authority.certificate, authority.key, issue(authority, names, now))
    key = state.authority_key
    if is_due(authorities[0], now):
        fresh = make_authority(now)
        authorities.insert(0, fresh.certificate)
        key = fresh.key
    server = state.server
    if _wants_new_server(server, authorities, names, now):
        server = issue(Pair(authorities[0], key), names, now)
    following = TlsState(b"".join(authorities), key, server)
    return following if following != state else None


def _wants_new_server(server: Pair, authorities: list[bytes], names: Sequence[str], now: datetime) -> bool:
    if not belong_together(server) or not any(is_from(server.certificate, found) for found in authorities):
        return True
    if is_due(server.certificate, now) or not covers(server.certificate, names):
        return True
    newest = authorities[0]
    return not is_from(server.certificate, newest) and now - made_at(newest) >= TRUSTED_FIRST


class WebhookTls:
    """Keeps a valid certificate in `context`. `await start()`, then `run()` in a task.

    All replicas share one Secret. `start` raises errors of the API; `run` logs and retries them, and the server
    continues with the certificate that it has.
    """

    def __init__(
        self,
        client: Client,
        *,
        secret: str,
        namespace: str,
        names: Sequence[str],
        configurations: Sequence[str] = (),
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        on_served: Callable[[float], None] = lambda _: None,
    ) -> None:
        """`names` are those of the Service; `on_served` gets the expiry (epoch seconds) of each certificate served."""
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.context.minimum_version = ssl.TLSVersion.TLSv1_2
        self._client = client
        self._secret = secret
        self._namespace = namespace
        self._names = list(names)
        self._configurations = configurations
        self._now = now
        self._on_served = on_served
        self._served: Pair | None = None

    async def start(self) -> None:
        """Load a certificate, or create it unless another replica does."""
        while True:
            try:
                await self.settle()
            except Conflict:
                continue  # another replica was faster: load what it stored
            return

    async def run(self) -> None:
        """React to changes of the Secret and renew certificates in time, until cancelled."""
        changed = asyncio.Event()
        async with asyncio.TaskGroup() as tasks:
            for informer in self._informers():
                informer.on_change(
                    add=lambda _: changed.set(),
                    update=lambda _, __: changed.set(),
                    delete=lambda _: changed.set(),
                )
                tasks.create_task(informer.run())
            while True:
                pause = CHECK_SECONDS
                changed.clear()
                try:
                    await self.settle()
                except KubeError as error:
                    log.warning("cannot check or renew the webhook's certificate: %s", error)
                    pause = RETRY_SECONDS
                try:
                    await asyncio.wait_for(changed.wait(), pause)
                except TimeoutError:
                    pass

    def _informers(self) -> list[Informer[Document]]:
        """Of the Secret and the configurations: one that is created or overwritten later must trust our CA too."""
        places: list[tuple[Resource[Document], str, str | None]] = [(SECRETS, self._secret, self._namespace)]
        places += [(kind, name, None) for kind in CONFIGURATIONS for name in self._configurations]
        return [
            Informer(self._client, kind, namespace=namespace, fields=f"metadata.name={name}")
            for kind, name, namespace in places
        ]

    async def settle(self) -> None:
        """One round: read the Secret, renew what is due, update the configurations, serve the certificate."""
        try:
            found = await self._client.get(SECRETS, self._secret, self._namespace)
        except NotFound as error:
            # The right to create Secrets cannot be limited to one name: an installation creates it, empty.
            raise KubeError(
                f"the Secret {self._namespace}/{self._secret} does not exist: run `vcjob install` or `helm upgrade` again"
            ) from error
        state = _read(found)
        following = next_state(state, self._names, self._now())
        if following is not None:
            await self._store(found, following)
            state = following
        assert state is not None
        await self._trust(state.bundle)
        if state.server != self._served:
            load_pair(
                self.context, state.server.certificate, state.server.key
            )  # new handshakes use it at once
            self._served = state.server
            self._on_served(expires_at(state.server.certificate).timestamp())

    async def _store(self, found: Document, state: TlsState) -> None:
        content = {
            "ca.crt": state.bundle,
            "ca.key": state.authority_key,
            "tls.crt": state.server.certificate,
            "tls.key": state.server.key,
        }
        data = {name: base64.b64encode(value).decode() for name, value in content.items()}
        await self._client.replace(SECRETS, self._secret, {**found, "data": data}, self._namespace)

    async def _trust(self, bundle: bytes) -> None:
        """Write the CA bundle into those of our webhook configurations that exist."""
        wanted = base64.b64encode(bundle).decode()
        for kind in CONFIGURATIONS:
            for name in self._configurations:
                try:
                    found = await self._client.get(kind, name)
                except NotFound:
                    continue
                hooks: list[dict[str, Any]] = found.get("webhooks") or []
                if any((hook.get("clientConfig") or {}).get("caBundle") != wanted for hook in hooks):
                    trust = [{"name": hook["name"], "clientConfig": {"caBundle": wanted}} for hook in hooks]
                    await self._client.patch(kind, name, {"webhooks": trust}, kind="strategic")


def _read(secret: Document) -> TlsState | None:
    """The state in a Secret; None where it is empty or damaged."""
    data = secret.get("data") or {}
    try:
        parts = [
            base64.b64decode(data[name], validate=True) for name in ("ca.crt", "ca.key", "tls.crt", "tls.key")
        ]
    except (KeyError, ValueError):
        return None
    return TlsState(parts[0], parts[1], Pair(parts[2], parts[3]))
