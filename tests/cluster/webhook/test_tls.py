"""The webhook's certificates: renewed in time, trusted before they are served, shared by all replicas."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest
import pytest_asyncio
from aiohttp import web

from tests.kube.fake_api import FakeApi
from tests.testbed.cluster import Cluster
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.process.health import Health
from vcjob.cluster.process.main import _webhook
from vcjob.cluster.process.metrics import Metrics
from vcjob.cluster.webhook.certificates import (
    AUTHORITY_LIFE,
    SERVER_LIFE,
    Pair,
    belong_together,
    covers,
    is_from,
    issue,
    make_authority,
)
from vcjob.cluster.webhook.tls import TRUSTED_FIRST, TlsState, WebhookTls, next_state
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import CONFIG_MAPS, SECRETS, VALIDATING_WEBHOOKS
from vcjob.kube.config.auth import Fixed
from vcjob.kube.config.config import ClusterConfig, load
from vcjob.kube.errors import ApiError, Conflict, KubeError

NOW = datetime(2026, 1, 1, tzinfo=UTC)
NAMES = ["vcjob-webhook.vcjob-system.svc", "10.0.0.1"]


def fresh(now: datetime = NOW) -> TlsState:
    state = next_state(None, NAMES, now)
    assert state is not None
    return state


def test_the_first_state_is_whole() -> None:
    state = fresh()
    assert belong_together(state.server)
    assert covers(state.server.certificate, NAMES)
    assert is_from(state.server.certificate, state.bundle)
    assert next_state(state, NAMES, NOW) is None


def test_the_servers_certificate_is_renewed_after_two_thirds_of_its_life() -> None:
    state = fresh()
    assert next_state(state, NAMES, NOW + SERVER_LIFE * 0.6) is None
    renewed = next_state(state, NAMES, NOW + SERVER_LIFE * 0.7)
    assert renewed is not None
    assert renewed.bundle == state.bundle
    assert renewed.server != state.server


def test_a_new_authority_is_trusted_before_it_signs() -> None:
    late = NOW + AUTHORITY_LIFE * 0.7
    old = fresh()
    old = TlsState(old.bundle, old.authority_key, issue(Pair(old.bundle, old.authority_key), NAMES, late))
    turning = next_state(old, NAMES, late)
    assert turning is not None
    newest, oldest = turning.authorities
    assert oldest == old.bundle
    assert turning.server == old.server  # still the old one's: every API server trusts it
    assert next_state(turning, NAMES, late + TRUSTED_FIRST / 2) is None
    turned = next_state(turning, NAMES, late + TRUSTED_FIRST)
    assert turned is not None
    assert is_from(turned.server.certificate, newest)
    assert turned.authorities == [newest, oldest]
    assert next_state(turned, NAMES, late + TRUSTED_FIRST) is None


def test_an_expired_authority_leaves_the_bundle() -> None:
    late = NOW + AUTHORITY_LIFE * 0.7
    turning = next_state(fresh(), NAMES, late)
    assert turning is not None
    later = next_state(turning, NAMES, NOW + AUTHORITY_LIFE + timedelta(days=1))
    assert later is not None
    assert len(later.authorities) == 1


def test_new_names_get_a_new_certificate_of_the_same_authority() -> None:
    state = fresh()
    renamed = next_state(state, [*NAMES, "another.name"], NOW)
    assert renamed is not None
    assert renamed.bundle == state.bundle
    assert covers(renamed.server.certificate, ["another.name"])


@pytest.mark.parametrize("part", ["bundle", "authority_key", "certificate", "key"])
@pytest.mark.parametrize(
    "broken",
    [b"", b"no pem", make_authority(NOW).certificate, make_authority(NOW).key],
    ids=["empty", "no pem", "another's certificate", "another's key"],
)
def test_a_damaged_state_is_replaced(part: str, broken: bytes) -> None:
    state = fresh()
    parts = {
        "bundle": state.bundle,
        "authority_key": state.authority_key,
        "certificate": state.server.certificate,
        "key": state.server.key,
    }
    parts[part] = broken
    damaged = TlsState(parts["bundle"], parts["authority_key"], Pair(parts["certificate"], parts["key"]))
    repaired = next_state(damaged, NAMES, NOW)
    assert repaired is not None
    assert belong_together(repaired.server)
    assert is_from(repaired.server.certificate, repaired.authorities[0])
    assert next_state(repaired, NAMES, NOW) is None


def test_certificates_of_a_clock_that_was_far_ahead_are_replaced() -> None:
    state = fresh(NOW + timedelta(days=3000))
    repaired = next_state(state, NAMES, NOW)
    assert repaired is not None
    assert next_state(repaired, NAMES, NOW + TRUSTED_FIRST) is None


@pytest_asyncio.fixture
async def api() -> AsyncIterator[FakeApi]:
    """A server with the empty Secret of an installation."""
    async with FakeApi() as server:
        await server.put("secrets", "tls", metadata={"labels": {"kept": "yes"}})
        yield server


def keeper(client: Client, **options: object) -> WebhookTls:
    return WebhookTls(client, secret="tls", namespace="default", names=NAMES, **options)  # type: ignore[arg-type]


async def test_replicas_that_start_together_serve_one_certificate(api: FakeApi) -> None:
    async with Client(ClusterConfig(server=api.url, source=Fixed())) as client:
        replicas = [keeper(client) for _ in range(5)]
        await asyncio.gather(*(replica.start() for replica in replicas))
    assert len({replica._served for replica in replicas}) == 1


async def test_the_expiry_of_the_served_certificate_is_reported(api: FakeApi) -> None:
    expiries: list[float] = []
    async with Client(ClusterConfig(server=api.url, source=Fixed())) as client:
        replica = keeper(client, on_served=expiries.append)
        await replica.start()
        await replica.settle()
    (expiry,) = expiries
    assert expiry == pytest.approx((datetime.now(UTC) + SERVER_LIFE).timestamp(), abs=60)


async def test_an_empty_secret_that_install_made_is_filled(api: FakeApi) -> None:
    async with Client(ClusterConfig(server=api.url, source=Fixed())) as client:
        await keeper(client).start()
    secret = api.objects["secrets", "default", "tls"]
    assert set(secret["data"]) == {"ca.crt", "ca.key", "tls.crt", "tls.key"}
    assert secret["metadata"]["labels"] == {"kept": "yes"}


async def test_a_secret_that_was_deleted_is_reported_and_not_created(api: FakeApi) -> None:
    async with Client(ClusterConfig(server=api.url, source=Fixed())) as client:
        replica = keeper(client)
        await replica.start()
        served = replica._served
        await api.drop("secrets", "tls")
        with pytest.raises(KubeError, match="the Secret default/tls does not exist: run `vcjob install`"):
            await replica.settle()
        assert replica._served == served
        assert api.count("POST") == 0
        await api.put("secrets", "tls")  # by an installation
        await replica.settle()
    assert replica._served not in (None, served)


async def test_a_secret_that_was_emptied_gets_new_certificates(api: FakeApi) -> None:
    async with Client(ClusterConfig(server=api.url, source=Fixed())) as client:
        replica = keeper(client)
        await replica.start()
        served = replica._served
        await client.patch(SECRETS, "tls", {"data": None}, "default")
        await replica.settle()
    assert replica._served not in (None, served)


async def test_the_readiness_probe_names_the_secret_that_is_missing(api: FakeApi) -> None:
    health, stop = Health(), asyncio.Event()
    async with Client(ClusterConfig(server=api.url, source=Fixed())) as client:
        running = asyncio.create_task(_webhook(client, ControllerOptions(), health, Metrics(), stop))
        async with asyncio.timeout(30):
            while not health.waiting_for:
                await asyncio.sleep(0.005)
        stop.set()
        await running
    assert "the Secret vcjob-system/vcjob-webhook-tls does not exist" in health.waiting_for
    assert "`vcjob install`" in health.waiting_for


async def served_certificate(port: int, bundle: bytes) -> bytes:
    """What a client that trusts the bundle is shown in a new handshake."""
    context = ssl.create_default_context(cadata=bundle.decode())
    _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=NAMES[0])
    shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    return ssl.DER_cert_to_PEM_cert(shown).encode()


async def test_a_renewed_certificate_is_served_without_a_restart(api: FakeApi) -> None:
    today = datetime.now(UTC)
    clock = today - SERVER_LIFE * 0.7
    async with Client(ClusterConfig(server=api.url, source=Fixed())) as client:
        tls = keeper(client, now=lambda: clock)
        await tls.start()
        runner = web.AppRunner(web.Application(), shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls.context).start()
        port = runner.addresses[0][1]
        bundle = base64.b64decode(api.objects["secrets", "default", "tls"]["data"]["ca.crt"])
        before = await served_certificate(port, bundle)
        clock = today
        await tls.settle()
        after = await served_certificate(port, bundle)
        await runner.cleanup()
    assert before != after
    assert (
        base64.b64decode(api.objects["secrets", "default", "tls"]["data"]["tls.crt"]).split() == after.split()
    )


async def review(request: web.Request) -> web.Response:
    """Denies what is named so. Each call comes by a new connection, and so by a new handshake."""
    asked = (await request.json())["request"]
    allowed = not asked["name"].startswith("denied")
    answer = {"uid": asked["uid"], "allowed": allowed, "status": {"message": "not this one"}}
    body = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer}
    return web.json_response(body, headers={"Connection": "close"})


@pytest.mark.cluster
async def test_a_real_api_server_calls_the_webhook_through_every_renewal(
    api_server: Cluster, namespace: str
) -> None:
    """A certificate that is due, a CA that is due, the new CA's first certificate: at each step calls pass."""
    today = datetime.now(UTC)
    host = api_server.host_address
    authority = make_authority(today - timedelta(days=20) - AUTHORITY_LIFE * 2 / 3)
    server = issue(authority, [host], today - timedelta(days=300))
    content = {
        "ca.crt": authority.certificate,
        "ca.key": authority.key,
        "tls.crt": server.certificate,
        "tls.key": server.key,
    }
    data = {name: base64.b64encode(value).decode() for name, value in content.items()}
    clock = today - timedelta(days=300)
    app = web.Application()
    app.router.add_post("/review", review)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    async with Client(load(api_server.kubeconfig, environ={})) as client:
        await client.create(SECRETS, {"metadata": {"name": "tls"}, "data": data}, namespace)
        tls = WebhookTls(
            client,
            secret="tls",
            namespace=namespace,
            names=[host],
            configurations=[namespace],
            now=lambda: clock,
        )
        await tls.start()
        await web.TCPSite(runner, host, 0, ssl_context=tls.context).start()
        running = asyncio.create_task(tls.run())
        hook = {
            "name": "test.vcjob.io",
            "clientConfig": {"url": f"https://{host}:{runner.addresses[0][1]}/review"},
            "rules": [
                {
                    "operations": ["CREATE"],
                    "apiGroups": [""],
                    "apiVersions": ["v1"],
                    "resources": ["configmaps"],
                }
            ],
            "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": namespace}},
            "sideEffects": "None",
            "admissionReviewVersions": ["v1"],
            "timeoutSeconds": 5,
        }
        try:
            # The configuration comes after the keeper's start: it is found and made to trust us.
            await client.apply(
                VALIDATING_WEBHOOKS, namespace, VALIDATING_WEBHOOKS.manifest(namespace, webhooks=[hook])
            )
            served = []
            for days, hours in ((300, 0), (50, 0), (10, 0), (10, -2)):
                clock = today - timedelta(days=days, hours=hours)
                await settled(tls)
                served.append((await client.get(SECRETS, "tls", namespace))["data"]["tls.crt"])
                await is_denied(client, namespace, f"denied-{len(served)}", at_once=len(served) in (2, 3))
                await client.create(CONFIG_MAPS, {"metadata": {"name": f"allowed-{len(served)}"}}, namespace)
            first, renewed, turning, turned = served
            assert first != renewed == turning != turned
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            await client.delete(VALIDATING_WEBHOOKS, namespace)
            await runner.cleanup()


async def settled(tls: WebhookTls) -> None:
    """The keeper's own task may write at the same time: then the loser looks again."""
    for _ in range(20):
        try:
            await tls.settle()
            return
        except Conflict:
            await asyncio.sleep(0.05)


async def is_denied(client: Client, namespace: str, name: str, *, at_once: bool) -> None:
    """The API server uses a changed configuration shortly after it is written: the very first call may
    fail until then, and that of the new CA too, which is trusted here for less than its hour."""
    async with asyncio.timeout(60):
        while True:
            try:
                await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, namespace)
            except ApiError as error:
                if "not this one" in error.message:
                    return
                assert not at_once, error
            await client.delete(CONFIG_MAPS, name, namespace)
            await asyncio.sleep(0.2)
