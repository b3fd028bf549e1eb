"""The connection that the handles of a cluster share: changes of the kubeconfig, and processes that fork."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import ClassVar

import pytest

import vcjob
from vcjob.cli.main import main

CONFIG = """
current-context: {current}
contexts:
- {{name: one, context: {{cluster: one}}}}
- {{name: two, context: {{cluster: two}}}}
clusters:
- {{name: one, cluster: {{server: "{one}"}}}}
- {{name: two, cluster: {{server: "{two}"}}}}
"""


class _JobsApi(BaseHTTPRequestHandler):
    """Answers every request with a list of one Job, named after the server."""

    protocol_version = "HTTP/1.1"
    names: ClassVar[dict[int, str]] = {}
    requests: ClassVar[list[str]] = []

    def do_GET(self) -> None:
        self.requests.append(self.path)
        name = self.names[self.server.server_address[1]]  # type: ignore[index]
        job = {
            "metadata": {
                "name": name,
                "namespace": "default",
                "uid": name,
                "creationTimestamp": "2026-01-01T00:00:00Z",
            },
            "spec": {"tasks": []},
        }
        answer = {"kind": "JobList", "metadata": {"resourceVersion": "1"}, "items": [job]}
        body = json.dumps(job if self.path.split("?")[0].endswith(f"/{name}") else answer).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture
def clusters() -> Iterator[dict[str, str]]:
    """Two API servers by name."""
    servers = {name: ThreadingHTTPServer(("127.0.0.1", 0), _JobsApi) for name in ("one", "two")}
    for name, server in servers.items():
        _JobsApi.names[server.server_port] = name
        threading.Thread(target=server.serve_forever, daemon=True).start()
    yield {name: f"http://127.0.0.1:{server.server_port}" for name, server in servers.items()}
    for server in servers.values():
        server.shutdown()
        server.server_close()


def test_a_change_of_the_current_context_takes_effect_at_the_next_call(
    clusters: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "config"
    file.write_text(CONFIG.format(current="one", **clusters))
    monkeypatch.setenv("KUBECONFIG", str(file))
    (old,) = vcjob.jobs(on="cluster")
    fresh = tmp_path / "fresh"  # as kubectl writes it: a new file in its place
    fresh.write_text(CONFIG.format(current="two", **clusters))
    fresh.replace(file)
    assert [job.name for job in vcjob.jobs(on="cluster")] == ["two"]
    old.to_dict()  # what was just listed is not read again, once
    assert old.to_dict()["metadata"]["name"] == "one", "a handle keeps the cluster of its job"


def test_an_unchanged_kubeconfig_keeps_its_connection(clusters: dict[str, str], tmp_path: Path) -> None:
    from vcjob.sdk.cluster.connection import connect

    file = tmp_path / "config"
    file.write_text(CONFIG.format(current="one", **clusters))
    assert connect(None, str(file)) is connect(None, str(file))
    assert connect("two", str(file)) is not connect(None, str(file))


def test_a_forked_child_uses_a_connection_of_its_own(clusters: dict[str, str], tmp_path: Path) -> None:
    file = tmp_path / "config"
    file.write_text(CONFIG.format(current="one", **clusters))
    (handle,) = vcjob.jobs(kubeconfig=str(file))
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover - counted in the parent only
        try:
            handle.to_dict()  # what was just listed is not read again, once
            found = [handle.to_dict()["metadata"]["name"], vcjob.jobs(kubeconfig=str(file))[0].name]
            os.write(writer, json.dumps(found).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as answer:
        assert json.loads(answer.read()) == ["one", "one"]
    os.waitpid(child, 0)
    assert handle.to_dict()["metadata"]["name"] == "one", "and the parent's still works"


@pytest.mark.parametrize("output", ["table", "json"])
def test_a_list_of_jobs_is_one_request(
    clusters: dict[str, str], tmp_path: Path, output: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "config"
    file.write_text(CONFIG.format(current="one", **clusters))
    _JobsApi.requests.clear()
    assert main(["list", "--kubeconfig", str(file), "-o", output, "-l", "!team"]) == 0
    assert "one" in capsys.readouterr().out
    assert len(_JobsApi.requests) == 1
