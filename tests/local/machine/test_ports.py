"""Claims and ports: held by one job at a time, and free again when it ends."""

from __future__ import annotations

import os
import socket
import sys
from functools import partial
from pathlib import Path

import pytest

from tests.local.conftest import (
    PATIENCE,
    Start,
    container,
    eventually,
    job,
    left_behind,
    ranks,
    task,
    texts,
)
from tests.ports import port_of, reserve_port
from vcjob.errors import BackendError
from vcjob.local.machine import claims, ports
from vcjob.sdk.handle import Handle
from vcjob.sdk.running import run


def _is_running(handle: Handle) -> bool:
    return handle.phase == "Running"


def test_a_claim_is_held_by_one_and_ends_with_its_release() -> None:
    name = f"test/{os.getpid()}"
    first = claims.claim(name)
    assert first is not None and claims.claim(name) is None
    first.release()
    second = claims.claim(name)
    assert second is not None
    second.release()


def test_a_claimed_port_is_not_given_twice_although_nobody_listens_yet() -> None:
    with reserve_port() as held:
        wanted = port_of(held)
        one, first = ports.take_port(wanted)
        other, second = ports.take_port(wanted)
    low, high = ports.replacement_range()
    assert one == wanted and other != wanted and low <= other <= high < 32768
    first.release()
    second.release()


def test_a_port_that_somebody_listens_on_is_not_free() -> None:
    for family, address in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as server:
            server.bind((address, 0))
            server.listen()
            assert not ports.is_free(server.getsockname()[1])


@pytest.mark.slow
def test_ten_jobs_on_one_port_all_complete_and_leave_nothing(tmp_path: Path) -> None:
    program = (
        "import os, socket, time\n"
        "place = ('127.0.0.1', int(os.environ['MASTER_PORT']))\n"
        "while not os.path.exists('go'): time.sleep(0.05)\n"
        "if os.environ['RANK'] == '0':\n"
        "    s = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "    s.bind(place); s.listen(); c = s.accept()[0]; c.sendall(os.environ['VCJOB_RUN_UID'].encode()); c.close()\n"
        "else:\n"
        "    while True:\n"
        "        try: c = socket.create_connection(place); break\n"
        "        except OSError: time.sleep(0.02)\n"
        "    assert c.recv(100).decode() == os.environ['VCJOB_RUN_UID']\n"
        "print(place[1])\n"
    )
    one = container([sys.executable, "-c", program])
    with reserve_port() as held:
        plugins = {"pytorch": [f"--port={port_of(held)}"]}
        documents = [job(*ranks(one, workers=1), name=f"job-{n}", plugins=plugins) for n in range(10)]
        handles = [run(document, cwd=tmp_path) for document in documents]
        for handle in handles:
            eventually(partial(_is_running, handle))
        (tmp_path / "go").touch()
        assert [handle.wait(PATIENCE) for handle in handles] == ["Completed"] * 10
        used = [{line.text for line in handle.logs()} for handle in handles]
        assert all(len(each) == 1 for each in used) and len(set.union(*used)) == 10
        assert [left_behind(handle) for handle in handles] == [[]] * 10
        assert all(ports.is_free(int(port)) for port in set.union(*used))


def test_no_free_port_at_all_is_a_ground_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ports, "is_free", lambda _port: False)
    monkeypatch.setattr(ports, "replacement_range", lambda: (20000, 20003))
    with pytest.raises(BackendError, match="no free port"):
        ports.take_port(12345)


@pytest.mark.parametrize("value", ["0", "65536", "²"])
def test_a_master_port_that_is_no_port_is_left_to_the_program(finish: Start, value: str) -> None:
    """Such as one that the program replaces. It ended the supervisor."""
    setting = [{"name": "MASTER_PORT", "value": value}]
    handle = finish(job(task("a", container('echo "port=$MASTER_PORT"', env=setting))))
    assert handle.phase == "Completed"
    assert texts(handle) == [f"port={value}"]
