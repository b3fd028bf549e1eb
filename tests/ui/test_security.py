"""Who may talk to the UI's server."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import quote

import aiohttp
import pytest
import pytest_asyncio
from yarl import URL

from vcjob.local.jobs.store import Store
from vcjob.local.run.run_dir import RunConfig
from vcjob.sdk.backend import open_backend
from vcjob.ui.server import serve


class Page:
    """A running server, and a client that behaves as the page does."""

    def __init__(self, url: str, session: aiohttp.ClientSession) -> None:
        self.origin, _, self.token = url.partition("/#token=")
        self._session = session

    async def get(self, path: str, *, token: str | None = None, **headers: str) -> tuple[int, str]:
        return await self.request("GET", path, token=token, **headers)

    async def request(
        self, method: str, path: str, *, token: str | None = None, body: object = None, **headers: str
    ) -> tuple[int, str]:
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent["Authorization"] = f"Bearer {self.token if token is None else token}"
        url = URL(self.origin + path, encoded=True)  # as it is: the client would tidy `%2e%2e` up
        async with self._session.request(method, url, headers=sent, json=body) as response:
            return response.status, await response.text()


@pytest_asyncio.fixture(params=[False])
async def page(request: pytest.FixtureRequest) -> AsyncIterator[Page]:
    ready: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    server = asyncio.ensure_future(
        serve(open_backend("local"), read_only=request.param, on_ready=ready.set_result)
    )
    async with aiohttp.ClientSession() as session:
        yield Page(await ready, session)
    server.cancel()
    with suppress(asyncio.CancelledError):
        await server


async def test_the_page_with_its_token_reads_the_jobs(page: Page) -> None:
    assert await page.get("/api/jobs") == (200, '{"jobs":[]}')


@pytest.mark.parametrize("token", ["", "wrong", "é"])
async def test_nothing_is_readable_without_the_token(page: Page, token: str) -> None:
    status, text = await page.get("/api/jobs", token=token)
    assert status == 403 and "token" in text


async def test_a_token_that_is_not_utf_8_is_wrong_and_nothing_is_logged(
    page: Page, caplog: pytest.LogCaptureFixture
) -> None:
    port = int(page.origin.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(
        f"GET /api/jobs HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n".encode()
        + b"Authorization: Bearer \xff\r\n\r\n"
    )
    answer = await reader.read()
    writer.close()
    assert answer.startswith(b"HTTP/1.1 403") and b"token" in answer
    assert "Traceback" not in caplog.text


async def test_a_request_under_another_host_name_is_rejected(page: Page) -> None:
    """A name of the attacker's that resolves to this machine (DNS rebinding)."""
    for path in ("/", "/api/jobs"):
        assert (await page.get(path, Host="attacker.example:80"))[0] == 403
        port = page.origin.rpartition(":")[2]
        assert (await page.get(path, Host=f"[::1]:{port}"))[0] == 403, "it does not listen there"


async def test_a_tunnel_may_have_another_port(page: Page) -> None:
    """`ssh -L 9000:127.0.0.1:PORT`: the browser names the port of the tunnel."""
    for host in ("localhost:9000", "127.0.0.1:9000", "localhost"):
        assert (await page.get("/api/jobs", Host=host, Origin=f"http://{host}"))[0] == 200
    for host in ("localhost:9000.attacker.example", "localhost.attacker.example:9000", "127.0.0.1:x", ""):
        assert (await page.get("/api/jobs", Host=host))[0] == 403


async def test_a_page_of_another_site_cannot_act(page: Page) -> None:
    port = page.origin.rpartition(":")[2]
    for origin in ("https://attacker.example", "null", "http://127.0.0.1:1", f"http://localhost:{port}"):
        status, _ = await page.request("POST", "/api/jobs/default/a/actions/stop", Origin=origin)
        assert status == 403


async def test_every_response_forbids_inline_script_and_framing(page: Page) -> None:
    async with aiohttp.ClientSession() as session, session.get(page.origin) as response:
        policy = response.headers["Content-Security-Policy"]
        assert "script-src 'self'" in policy and "unsafe" not in policy
        assert "frame-ancestors 'none'" in policy
        assert response.headers["X-Content-Type-Options"] == "nosniff"


@pytest.mark.parametrize(
    "path", ["/static/../server.py", "/static/%2e%2e/server.py", "/static/..%2fserver.py"]
)
async def test_only_static_files_are_served(page: Page, path: str) -> None:
    status, text = await page.get(path)
    assert status in (403, 404) and "aiohttp" not in text


@pytest.mark.parametrize("page", [True], indirect=True)
async def test_a_read_only_server_changes_nothing(page: Page) -> None:
    for path in ("run", "jobs/default/a/actions/stop", "jobs/default/a/stacks"):
        status, text = await page.request("POST", f"/api/{path}", body={"text": "kind: Job"})
        assert status == 403 and "read-only" in text
    assert (await page.get("/api/jobs/default/a/stacks"))[0] == 405


async def test_the_name_of_a_file_is_text_and_not_read(page: Page) -> None:
    status, text = await page.request("POST", "/api/validate", body={"text": "/etc/passwd"})
    assert status == 200 and "root:" not in text and "mapping" in text


async def test_an_unknown_job_is_one_sentence(page: Page) -> None:
    status, text = await page.get("/api/jobs/default/nosuch")
    assert status == 404 and "nosuch" in text and "Traceback" not in text


async def test_a_name_in_the_path_never_leads_to_a_file_outside_the_store(
    page: Page, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A run that another user has planted, whose files are links to what only the server's user may read."""
    secret = tmp_path / "secret"
    secret.write_text("a private key")
    doc = {"metadata": {"name": "evil", "uid": "u" * 36}, "spec": {"minAvailable": 1, "tasks": []}}
    run, lock = Store(str(tmp_path)).create(doc, RunConfig(), "")
    os.close(lock)
    given = Path(run.path("given.yaml"))
    given.unlink()
    given.symlink_to(secret)
    names = [quote(path, safe="") for path in (os.path.dirname(run.folder), run.folder, "..", ".", "a\0b")]
    paths = [
        f"/api/jobs/default/{name}{form}" for name in names for form in ("", "/manifest/written", "/logs.txt")
    ]
    paths += [f"/api/jobs/{name}/evil" for name in names] + [f"/api/denied/{names[0]}"]
    for path in paths:
        status, text = await page.get(path)
        assert status == 404 and "private key" not in text, path
    assert "Traceback" not in caplog.text


@pytest.mark.parametrize("part", ["since=yesterday", "since=9999-99-99T00:00:00Z", "tail=x", "index=x"])
async def test_a_part_of_a_log_that_makes_no_sense_is_refused(page: Page, part: str) -> None:
    status, text = await page.get(f"/api/jobs/default/a/logs?{part}")
    assert status == 400 and "number" in text
