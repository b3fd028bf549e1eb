"""A supervisor that is started before its run is known."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid

import pytest

from tests.local.conftest import spawn_without_sessions
from vcjob.local.machine import process
from vcjob.local.supervisor.prestart import PrestartedSupervisor


def waiting(prestarted: PrestartedSupervisor) -> list[int]:
    return process.marked(process.MARK_RUN, prestarted.uid)


def test_a_supervisor_that_gets_no_run_ends_on_its_own() -> None:
    prestarted = PrestartedSupervisor()
    assert waiting(prestarted)
    prestarted.close()
    deadline = time.monotonic() + 60
    while waiting(prestarted):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    prestarted.close()  # a second time does no harm


def test_a_supervisor_without_a_run_ends_with_the_command_that_made_it() -> None:
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(writing, PrestartedSupervisor().uid.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    uid = os.read(reading, 100).decode()
    deadline = time.monotonic() + 60
    while process.marked(process.MARK_RUN, uid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_supervisor_leads_a_session_of_its_own_also_where_python_cannot_start_it_in_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(os, "posix_spawn", spawn_without_sessions)
    prestarted = PrestartedSupervisor()
    deadline = time.monotonic() + 60
    while not (sessions := {os.getsid(pid) for pid in waiting(prestarted)}) or os.getsid(0) in sessions:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    prestarted.close()
    with pytest.raises(FileNotFoundError):
        process.spawn_session("/no/such/program", ["x"], {})


def test_the_uid_of_a_run_is_a_random_uuid() -> None:
    several = [PrestartedSupervisor() for _ in range(2)]
    uids = [uuid.UUID(prestarted.uid) for prestarted in several]
    for prestarted in several:
        prestarted.close()
    assert {(uid.version, uid.variant) for uid in uids} == {(4, uuid.RFC_4122)}
    assert len(set(uids)) == 2


def test_a_supervisor_loads_only_what_a_plain_run_needs() -> None:
    """Every run waits for these imports. The Job was checked before it started, and a plain run starts nothing warm."""
    program = "import sys, vcjob.local.supervisor.supervisor; print(*sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    loaded = set(shown.stdout.split())
    assert {name for name in loaded if name.startswith("vcjob.local.warm.")} == {
        "vcjob.local.warm.folder",
        "vcjob.local.warm.policy",
    }
    assert not {name for name in loaded if name.startswith("vcjob.admission.checks")}
    assert not loaded & {"asyncio", "dataclasses", "pathlib", "subprocess", "tempfile", "traceback", "yaml"}
    assert len([name for name in loaded if name.startswith("vcjob.")]) <= 126
