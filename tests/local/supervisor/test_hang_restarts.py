"""Hangs and the supervisors that watch for them: one that is killed, and one that continues a suspended job."""

from __future__ import annotations

import os
from typing import Any

import pytest

import vcjob
from tests.local.conftest import PATIENCE, Start, eventually, job, kill_supervisor, left_behind, python, ranks
from vcjob.sdk.local.handle import LocalHandle

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

#: Rank 0 listens, and rank 1 never connects.
_HANGS = """
import os, socket, time
if os.environ['RANK'] == '0':
    server = socket.create_server(('127.0.0.1', int(os.environ['MASTER_PORT'])))
time.sleep(600)
"""


def hanging(start: Start, on_hang: str) -> LocalHandle:
    document: dict[str, Any] = job(*ranks(python(_HANGS), workers=1), maxRetry=2)
    document["metadata"].setdefault("annotations", {})["vcjob.io/on-hang"] = on_hang
    return start(document, env={**os.environ, "VCJOB_HANG_AFTER": "2"})


def found(handle: LocalHandle) -> bool:
    return any(finding.cause == "RankNotConnected" for finding in handle.why())


def test_a_resumed_job_has_no_finding_of_its_old_ranks_and_a_new_hang_is_found(start: Start) -> None:
    handle = hanging(start, "warn")
    eventually(lambda: found(handle), what="the first finding")
    handle.suspend()
    eventually(lambda: handle.phase == "Aborted" and not handle.supervised, what="the end of the ranks")
    assert not found(handle)
    handle.resume()
    eventually(lambda: handle.phase == "Running")
    assert not found(handle)
    eventually(lambda: found(handle), what="the second finding")
    reasons = [event["reason"] for event in handle.events()]
    assert reasons.count("RankNotConnected") == 2
    assert "HangEnded" not in reasons
    handle.stop(now=True)


def test_a_killed_supervisor_is_the_cause_and_the_next_run_acts_on_its_hang(start: Start) -> None:
    lost = hanging(start, "warn")
    eventually(lambda: found(lost), what="the finding")
    kill_supervisor(lost)
    eventually(lambda: not lost.supervised)
    assert lost.why()[0].cause == "SupervisorLost"
    assert left_behind(lost) == []
    again = hanging(start, "restart")
    assert again.wait(PATIENCE * 3) == "Failed"
    status = vcjob.find("job").status()
    assert (status.state.reason, status.restarts) == ("MaxRetryReached", 1)
    assert "rank 1 has not connected to the master" in status.state.message
