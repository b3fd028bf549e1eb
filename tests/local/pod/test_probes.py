"""Single checks of probes: every failure is a result with a reason, never an exception in the shim."""

from __future__ import annotations

import os
import socket
import ssl
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.kube.certificates import Authority
from tests.local.conftest import PATIENCE, eventually
from vcjob.local.machine.loop import Loop
from vcjob.local.pod.launch import LaunchRequest, PlainLauncher
from vcjob.local.pod.probes import Checks


def _result(probe: dict[str, Any], timeout: float = PATIENCE) -> tuple[bool, str]:
    """The result of one check; ports of the probe are ports of this machine."""
    loop, results = Loop(), list[tuple[bool, str]]()

    def finished(passed: bool, why: str) -> None:
        results.append((passed, why))
        loop.stop()

    def port(given: object) -> int:
        assert isinstance(given, int)
        return given

    request = LaunchRequest([], dict(os.environ), "/", -1, -1)
    Checks(loop, PlainLauncher(), request, port).check(probe, timeout, finished)
    if not results:
        loop.run()
    loop.close()
    (result,) = results
    return result


def test_nothing_is_remembered_of_commands_that_have_ended_or_were_cancelled() -> None:
    loop, launcher = Loop(), PlainLauncher()
    checks = Checks(loop, launcher, LaunchRequest([], dict(os.environ), "/", -1, -1), lambda _: 0)
    for _ in range(3):
        checks.command(["true"], PATIENCE, lambda _passed, _why: loop.stop())
        loop.run()
        checks.command(["sleep", "600"], PATIENCE, lambda _passed, _why: None)()
    loop.close()

    def remembered() -> bool:
        launcher.reap()
        return any(vars(launcher).values())

    eventually(lambda: not remembered(), what="the end of the cancelled commands")


@pytest.fixture
def listener() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


@pytest.mark.parametrize("kind", ["tcpSocket", "httpGet"])
def test_a_port_that_no_socket_can_have_is_a_failed_check(kind: str) -> None:
    assert _result({kind: {"port": 70000}}) == (False, "port 70000 does not exist: ports are 1 to 65535")


def test_a_refused_connection_is_a_failed_check(listener: socket.socket) -> None:
    port = listener.getsockname()[1]
    assert _result({"tcpSocket": {"port": port}}) == (True, "")
    listener.close()
    assert _result({"tcpSocket": {"port": port}}) == (False, f"connection to port {port}: refused")


def _serve(listener: socket.socket, context: ssl.SSLContext | None, answer: bytes) -> threading.Thread:
    """Accept one connection, with TLS where there is a context, read the request and answer it."""

    def serve() -> None:
        connection, _ = listener.accept()
        with suppress(OSError), connection:
            secure = context.wrap_socket(connection, server_side=True) if context else connection
            with secure:
                secure.recv(4096)
                secure.sendall(answer)

    thread = threading.Thread(target=serve)
    thread.start()
    return thread


@pytest.fixture
def tls(tmp_path: Path) -> ssl.SSLContext:
    """A server with a certificate that nobody trusts."""
    certificate, key = Authority().issue("pod")
    (tmp_path / "pem").write_bytes(certificate + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "pem")
    return context


@pytest.mark.parametrize("scheme", ["HTTP", "HTTPS"])
@pytest.mark.parametrize(
    ("answer", "result"),
    [
        (b"HTTP/1.1 204 No Content\r\n\r\n", (True, "HTTP status 204")),
        (b"HTTP/1.1 500 Broken\r\n\r\n", (False, "HTTP status 500")),
        (b"x" * 100_000, (False, "HTTP status missing")),
        (b"", (False, "HTTP status missing")),
    ],
    ids=["ok", "error", "endless", "none"],
)
def test_an_http_probe_passes_by_the_status_of_the_answer_with_any_certificate(
    listener: socket.socket, tls: ssl.SSLContext, scheme: str, answer: bytes, result: tuple[bool, str]
) -> None:
    thread = _serve(listener, tls if scheme == "HTTPS" else None, answer)
    assert _result({"httpGet": {"port": listener.getsockname()[1], "scheme": scheme}}) == result
    thread.join()


def test_an_https_probe_of_a_server_without_tls_is_a_failed_check(listener: socket.socket) -> None:
    thread = _serve(listener, None, b"HTTP/1.1 400 Bad Request\r\n\r\n")
    passed, why = _result({"httpGet": {"port": listener.getsockname()[1], "scheme": "HTTPS"}})
    thread.join()
    assert not passed and "WRONG_VERSION_NUMBER" in why


def test_a_server_that_resets_the_connection_is_a_failed_check(listener: socket.socket) -> None:
    def reset() -> None:
        connection, _ = listener.accept()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        connection.close()

    thread = threading.Thread(target=reset)
    thread.start()
    passed, why = _result({"httpGet": {"port": listener.getsockname()[1]}})
    thread.join()
    assert not passed and why
