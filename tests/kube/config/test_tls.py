"""TLS to the API server: trust and client certificates."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web

from tests.kube.certificates import Authority
from vcjob.kube.api.client import Client
from vcjob.kube.config.auth import CertificateFiles, Credential, Fixed
from vcjob.kube.config.config import ClusterConfig
from vcjob.kube.errors import ConfigError, KubeError, Unreachable
from vcjob.kube.http.transport import Transport


class SecureServer:
    """Says to each client the name in its certificate."""

    def __init__(self, folder: Path) -> None:
        self.ca = Authority()
        certificate, key = self.ca.issue("server", hosts=["127.0.0.1", "api.internal"])
        (folder / "server.pem").write_bytes(certificate + key)
        (folder / "ca.pem").write_bytes(self.ca.pem)
        self.context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(folder / "ca.pem"))
        # The CA of the tests is as plain as those of many clusters; Python 3.13 would refuse it.
        self.context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self.context.load_cert_chain(folder / "server.pem")
        self.context.verify_mode = ssl.CERT_OPTIONAL
        self.url = ""

    async def answer(self, request: web.Request) -> web.Response:
        peer = request.get_extra_info("peercert") or {}
        name = next((pair[0][1] for pair in peer.get("subject", ())), "nobody")
        return web.json_response({"gitVersion": name})


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[SecureServer]:
    made = SecureServer(tmp_path)
    app = web.Application()
    app.router.add_get("/version", made.answer)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=made.context).start()
    made.url = f"https://127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


async def who_am_i(config: ClusterConfig) -> str:
    async with Client(config, transport=Transport(config, retry_seconds=0)) as client:
        return await client.version()


async def test_a_server_of_the_clusters_ca_is_trusted(server: SecureServer) -> None:
    assert await who_am_i(ClusterConfig(server=server.url, source=Fixed(), ca=server.ca.pem)) == "nobody"


async def test_tls_works_on_uvloop(server: SecureServer) -> None:
    uvloop = pytest.importorskip("uvloop", reason="uvloop is not installed")
    config = ClusterConfig(server=server.url, source=Fixed(), ca=server.ca.pem)

    def on_uvloop() -> str:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(who_am_i(config))

    assert await asyncio.to_thread(on_uvloop) == "nobody"


async def test_a_certificate_of_another_ca_is_rejected_with_the_reason(server: SecureServer) -> None:
    with pytest.raises(Unreachable, match="certificate not trusted") as caught:
        await who_am_i(ClusterConfig(server=server.url, source=Fixed(), ca=Authority("other").pem))
    assert "CA" in (caught.value.hint or "")


async def test_verification_is_off_only_with_insecure_skip_tls_verify(server: SecureServer) -> None:
    assert await who_am_i(ClusterConfig(server=server.url, source=Fixed(), insecure=True)) == "nobody"


async def test_the_server_name_to_verify_can_be_configured(server: SecureServer) -> None:
    config = ClusterConfig(server=server.url, source=Fixed(), ca=server.ca.pem, server_name="api.internal")
    assert await who_am_i(config) == "nobody"
    with pytest.raises(Unreachable):
        await who_am_i(
            ClusterConfig(server=server.url, source=Fixed(), ca=server.ca.pem, server_name="other.name")
        )


async def test_the_client_certificate_is_presented(server: SecureServer) -> None:
    source = Fixed(Credential((), *server.ca.issue("alice")))
    assert await who_am_i(ClusterConfig(server=server.url, source=source, ca=server.ca.pem)) == "alice"


async def test_a_renewed_certificate_file_is_used_without_a_restart(
    server: SecureServer, tmp_path: Path
) -> None:
    files = (tmp_path / "c.pem", tmp_path / "k.pem")
    for file, content in zip(files, server.ca.issue("before"), strict=True):
        file.write_bytes(content)
    config = ClusterConfig(server=server.url, source=CertificateFiles(*files), ca=server.ca.pem)
    async with Client(config) as client:
        assert await client.version() == "before"
        for file, content in zip(files, server.ca.issue("after"), strict=True):
            file.write_bytes(content)
        assert await client.version() == "after"


@pytest.mark.parametrize(
    "broken", [b"", b"no pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"]
)
async def test_an_invalid_ca_or_certificate_is_a_config_error(server: SecureServer, broken: bytes) -> None:
    with pytest.raises(ConfigError):
        await who_am_i(ClusterConfig(server=server.url, source=Fixed(), ca=broken))
    with pytest.raises(ConfigError):
        source = Fixed(Credential((), broken or b"x", broken or b"x"))
        await who_am_i(ClusterConfig(server=server.url, source=source, ca=server.ca.pem))


async def test_plain_http_to_a_tls_port_is_reported_without_a_traceback(server: SecureServer) -> None:
    with pytest.raises(KubeError):
        await who_am_i(ClusterConfig(server=server.url.replace("https", "http"), source=Fixed()))
