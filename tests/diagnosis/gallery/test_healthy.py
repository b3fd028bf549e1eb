"""Healthy and slow jobs have no findings, while they run and after their end."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.local.conftest import PATIENCE, Start, container, eventually, job, python, ranks, task
from vcjob import to_yaml
from vcjob.diagnosis.diagnose import HANGS
from vcjob.sdk.finding import jobs
from vcjob.sdk.local.handle import LocalHandle

from .hang_programs import GRID, WORK
from .watching import STARTED, a_line_of_every_rank, finding_of, ranks_in_a_collective, until

pytestmark = pytest.mark.slow

_SERVER = """
import os, socket, time
rank, place = int(os.environ['RANK']), ('127.0.0.1', int(os.environ['MASTER_PORT']))
if rank == 0:
    server = socket.create_server(place)
    peers = [server.accept()[0] for _ in range(2)]
else:
    while True:
        try:
            peer = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.02)
print('connected', flush=True)
time.sleep(600)
"""
#: Rank 2 writes a checkpoint to a slow disk before it connects; it uses no CPU worth mentioning.
_CHECKPOINT = """
import os, time
print('up', flush=True)
with open('checkpoint' + os.environ['RANK'], 'wb') as file:
    while os.environ['RANK'] == '2':
        file.seek(0)
        file.write(bytes(1 << 16))
        os.fsync(file.fileno())
        time.sleep(0.05)
"""
_PRINTS = "import time\nwhile True: print('x' * 4000, flush=True), time.sleep(0.01)"
_HANDLED = """
import traceback
try:
    {}['missing']
except KeyError:
    traceback.print_exc()
print('recovered')
"""

COMPLETING: dict[str, dict[str, Any]] = {
    "quick": job(*ranks("true")),
    "prints-a-traceback-and-recovers": job(*ranks(python(_HANDLED))),
    "warnings-on-stderr": job(*ranks("echo 'Warning: connection refused, retrying' >&2")),
    "retries-in-the-pod": job(
        task(
            "master",
            container("[ -e again ] && exit 0; touch again; exit 3"),
            restartPolicy="OnFailure",
        )
    ),
    "restarted-pod": job(
        task(
            "a",
            "[ -e again ] && exit 0; touch again; exit 3",
            policies=[{"event": "PodFailed", "action": "RestartPod"}],
        ),
        maxRetry=2,
    ),
    "uneven-ends": job(*ranks("sleep 0.$RANK")),
    "sidecar-is-ended": job(
        task("a", "true", initContainers=[container("sleep 600", "side", restartPolicy="Always")])
    ),
    "subprocess-fails": job(*ranks("false || true")),
    "init-step": job(task("a", "true", initContainers=[container("true", "fetch")])),
    "leaves-a-child-behind": job(*ranks("sleep 30 & true")),
}
RUNNING: dict[str, dict[str, Any]] = {
    "long-first-compile": job(*ranks("echo up; while :; do :; done", workers=1)),
    "download-before-the-meeting": job(*ranks("echo up; sleep 600")),
    "one-rank-only-waits": job(task("master", "echo up; sleep 600"), task("worker", "echo up; sleep 600")),
    "connected-and-idle": job(*ranks(python(_SERVER))),
    "slow-checkpoint": job(*ranks(python(_CHECKPOINT + _SERVER.replace("range(2)", "range(1)")))),
    "silent-for-long": job(*ranks(python("import time\nprint(1, flush=True)\ntime.sleep(600)"))),
}  # fmt: skip


#: Short, so that a test can watch for three times as long; the first check of a job is after two seconds.
_SHORT = 1.0
_WATCHED = 2.0 + 3 * _SHORT


def nothing_is_found(handle: LocalHandle) -> None:
    """Watch a job for so long that a hang would be found; not all the time: a look takes time from its ranks."""
    deadline = time.monotonic() + _WATCHED
    while time.monotonic() < deadline:
        assert handle.why() == []
        time.sleep(0.3)
    assert handle.phase == "Running"
    assert [event for event in handle.events() if event["reason"] in HANGS] == []


@pytest.mark.parametrize("name", list(COMPLETING))
def test_a_job_that_completes_has_no_finding(name: str, finish: Start) -> None:
    handle = finish(COMPLETING[name])
    assert handle.phase == "Completed", handle.status().state.message
    assert handle.why() == []
    assert handle.failure().culprit is None


@pytest.mark.parametrize("name", list(RUNNING))
def test_a_job_that_runs_has_no_finding(name: str, start: Start) -> None:
    handle = start(RUNNING[name], env={**os.environ, "VCJOB_HANG_AFTER": str(_SHORT)})
    a_line_of_every_rank(handle, handle.replicas)
    eventually(lambda: handle.phase == "Running")
    nothing_is_found(handle)
    handle.stop(now=True)
    handle.wait(PATIENCE)
    assert handle.phase == "Terminated" and handle.why() == []


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.timeout(2 * STARTED)
@pytest.mark.parametrize("work", ["writes-a-checkpoint", "compiles-in-a-child"])
def test_ranks_that_wait_through_several_groups_for_one_that_works_do_not_hang(
    work: str, start: Start
) -> None:
    document = job(*ranks(python(GRID.format(WORK[work])), workers=3))
    handle = start(document, env={**os.environ, "VCJOB_HANG_AFTER": str(_SHORT)})
    until(lambda: ranks_in_a_collective(handle) == {0, 1, 2}, "all others in a collective", handle)
    nothing_is_found(handle)
    handle.stop(now=True)


def test_a_stopped_terminal_stops_no_rank_and_is_no_hang(tmp_path: Path) -> None:
    """Nobody reads what `vcjob run` prints, as after Ctrl-S."""
    (tmp_path / "job.yaml").write_text(to_yaml(job(*ranks(python(_PRINTS)))))
    ours, theirs = pty.openpty()
    env = {**os.environ, "VCJOB_HANG_AFTER": str(_SHORT)}
    command = [sys.executable, "-m", "vcjob", "run", "job.yaml"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, env=env
    ) as shown:
        try:
            eventually(lambda: [each.phase for each in jobs()] == ["Running"], what="a running job")
            (handle,) = jobs()
            assert isinstance(handle, LocalHandle)
            eventually(lambda: printed(handle) > 1 << 20, what="more output than a terminal holds")
            before = printed(handle)
            nothing_is_found(handle)
            assert printed(handle) > before + (1 << 18)
            assert shown.poll() is None
            handle.stop(now=True)
        finally:
            shown.kill()
            os.close(ours)
            os.close(theirs)


def printed(handle: LocalHandle) -> int:
    """The bytes in the logs of a job."""
    return sum(file.stat().st_size for file in Path(handle.folder).rglob("*.out"))


@pytest.mark.parametrize("workers", [1, 2])
def test_a_rank_that_never_connects_is_named(workers: int, start: Start) -> None:
    program = f"import os, time\nif os.environ['RANK'] == '{workers}': print('connected', flush=True), time.sleep(99)\n"
    server = _SERVER.replace("range(2)", f"range({workers - 1})")
    document = job(*ranks(python(program + server), workers=workers))
    handle = start(document, env={**os.environ, "VCJOB_HANG_AFTER": "4"})
    a_line_of_every_rank(handle, workers + 1)
    part = "rank 0 waits there" if workers == 1 else "rank 0 and rank 1 wait there"
    finding = finding_of(handle, "RankNotConnected", part, first=(f"rank {workers}",))
    assert finding.ranks.victims == tuple(f"rank {rank}" for rank in range(workers))
    up = max(line.time or 0.0 for line in handle.logs() if line.rank == workers)
    event = next(event for event in handle.events() if event["reason"] == "RankNotConnected")
    # A slow start looks the same at first.
    assert datetime.fromisoformat(event["firstTimestamp"]).timestamp() - up > 2
    handle.stop(now=True)


def test_a_rank_that_works_before_it_connects_is_no_hang(start: Start) -> None:
    program = "import os\nwhile os.environ['RANK'] == '2': print('loading', sum(range(99999)), flush=True)\n"
    document = job(*ranks(python(program + _SERVER.replace("range(2)", "range(1)"))))
    handle = start(document, env={**os.environ, "VCJOB_HANG_AFTER": "1"})
    a_line_of_every_rank(handle)
    eventually(lambda: handle.phase == "Running")
    nothing_is_found(handle)
    handle.stop(now=True)


def test_workers_that_waited_long_for_a_late_master_do_not_hang(start: Start) -> None:
    """They try again every second, as torch does: when the master begins to listen they are not connected yet."""
    program = """
import os, socket, time
address = ('127.0.0.1', int(os.environ['MASTER_PORT']))
print('up', flush=True)
if os.environ['RANK'] == '0':
    time.sleep(4)
    server = socket.create_server(address)
    held = [server.accept() for _ in range(2)]
    print('all connected', flush=True)
    time.sleep(99)
while True:
    try:
        held = socket.create_connection(address)
        break
    except ConnectionRefusedError:
        time.sleep(1)
time.sleep(99)
"""
    document = job(*ranks(python(program)))
    document["metadata"].setdefault("annotations", {})["vcjob.io/on-hang"] = "fail"
    handle = start(document, env={**os.environ, "VCJOB_HANG_AFTER": "2"})
    eventually(lambda: any("all connected" in line.text for line in handle.logs()), what="the meeting")
    assert [event for event in handle.events() if event["reason"] == "RankNotConnected"] == []
    assert handle.phase == "Running"
    handle.stop(now=True)
