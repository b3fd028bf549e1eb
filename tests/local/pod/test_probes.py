"""Single checks of probes: every failure is a result with a reason, never an exception in the shim."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from typing import Any

import pytest

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
        checks.command(["sleep", "60"], PATIENCE, lambda _passed, _why: None)()
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
