"""Ranks that wait for each other for ever (gloo, on CPUs): the rank that is behind is named; healthy jobs are not."""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import pytest

from tests.local.conftest import PATIENCE, Start, container, eventually, job, python, ranks
from vcjob.diagnosis.diagnose import HANGS
from vcjob.diagnosis.finding import Finding
from vcjob.local.live.stacks import find_py_spy
from vcjob.sdk.local.handle import LocalHandle

pytestmark = [pytest.mark.torch, pytest.mark.timeout(240)]

SECONDS = 4.0
_STARTED = PATIENCE * 3  # importing torch in three processes on a busy machine
_INIT = """
import os, sys, time, torch, torch.distributed as dist
rank = int(os.environ['RANK'])
dist.init_process_group('gloo')
for _ in range(3):
    dist.all_reduce(torch.ones(4))
print('begun', flush=True)
"""
_ALL_REDUCE = "\ndist.all_reduce(torch.ones(4))\n"
_SLEEPS = _INIT + "if rank == 1:\n    time.sleep(600)" + _ALL_REDUCE
_LOOPS = _INIT + "x = 0\nwhile rank == 1:\n    x += 1" + _ALL_REDUCE
_DATA_LOADER = (
    _INIT
    + """
class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        if rank == 1:
            time.sleep(600)
        return torch.ones(1)

for batch in torch.utils.data.DataLoader(Data(), num_workers=1):
    dist.all_reduce(torch.ones(4))
"""
)
#: The worker is forked while a thread holds a lock that it needs, as a logger's or a client's: nobody releases its copy.
_FORKED_LOCK = (
    _INIT
    + """
import threading
lock, held, forked = threading.Lock(), threading.Event(), threading.Event()

class Data(torch.utils.data.Dataset):
    def __len__(self):
        return 4
    def __getitem__(self, index):
        with lock:
            return torch.ones(1)

def hold():
    with lock:
        held.set()
        forked.wait()

if rank == 1:
    threading.Thread(target=hold).start()
    held.wait()
batches = iter(torch.utils.data.DataLoader(Data(), num_workers=1, multiprocessing_context='fork'))
forked.set()
for batch in batches:
    dist.all_reduce(torch.ones(4))
"""
)
_GATHERS = (
    _INIT
    + "if rank == 1:\n    dist.all_gather([torch.ones(4) for _ in range(3)], torch.ones(4))\nelse:\n    dist.all_reduce(torch.ones(4))"
    + _ALL_REDUCE * 3
    + "time.sleep(600)"
)
_SIZES = _INIT + "for _ in range(3):\n    dist.all_reduce(torch.ones(5 if rank == 1 else 4))\ntime.sleep(600)"
_STRAGGLES = (
    _INIT
    + "for _ in range(900):\n    time.sleep(0.3 if rank == 1 else 0.1)\n    dist.all_reduce(torch.ones(4))"
)
_PREPARES = (
    _INIT.replace("for _ in", "if rank == 1:\n    {}\nfor _ in").replace("range(3)", "range(4)")
    + "time.sleep(600)"
)
_UNEVEN = (
    _INIT
    + "for _ in range(99):\n    time.sleep(2.5 if rank == 1 else 0.1)\n    dist.all_reduce(torch.ones(4))"
)
_RECEIVES = _INIT + "if rank == 0:\n    dist.recv(torch.ones(4), src=1)\ntime.sleep(600)"
_SENDS = _INIT + "if rank == 0:\n    dist.send(torch.ones(1 << 24), dst=1)\ntime.sleep(600)"
_CROSSED = _INIT + "if rank < 2:\n    dist.recv(torch.ones(4), src=1 - rank)\ntime.sleep(600)"
#: Rank 0 receives what rank 1 makes: with much work, or seldom and with little.
_PIPELINES = {
    "computes": _INIT + "if rank == 0:\n    dist.recv(torch.ones(4), src=1)\nwhile True: sum(range(1000))",
    "sends-seldom": _INIT
    + "while True:\n    if rank == 0:\n        dist.recv(torch.ones(4), src=1)\n    elif rank == 1:\n        time.sleep(1.5)\n        dist.send(torch.ones(4), dst=0)\n    else:\n        time.sleep(600)",
}
#: What one rank does while the others wait in their first collective, or between two of them.
_WORK = {
    "long-first-compile": "end = time.time() + 60\n    while time.time() < end: sum(range(1000))",
    "compiles-in-a-child": "import subprocess; subprocess.run(['timeout', '60', 'sh', '-c', 'while :; do :; done'])",
    "downloads": "end = time.time() + 60\n    while time.time() < end: os.urandom(99999), open('/dev/zero', 'rb').read(1 << 20), time.sleep(0.05)",
    "writes-a-checkpoint": "file = open('checkpoint', 'wb')\n    while True: file.seek(0), file.write(bytes(1 << 16)), os.fsync(file.fileno()), time.sleep(0.05)",
    "prints": "for _ in range(200): print('downloading', flush=True), time.sleep(0.3)",
}


def hung(start: Start, program: str, *, seconds: float = SECONDS, on_hang: str = "warn") -> LocalHandle:
    """Start three ranks of a program with a short patience."""
    document: dict[str, Any] = job(*ranks(python(program)), maxRetry=2)
    document["metadata"].setdefault("annotations", {})["vcjob.io/on-hang"] = on_hang
    return start(document, env={**os.environ, "VCJOB_HANG_AFTER": str(seconds)})


def findings(handle: LocalHandle) -> list[Finding]:
    return [each for each in handle.why() if each.cause != "PodsPending"]


_CASES = {
    "sleeps": (_SLEEPS, "RankBehind", "rank 1 never reached all_reduce #4; all others have waited in it for "),
    "endless-loop": (_LOOPS, "RankBehind", "rank 1 never reached all_reduce #4"),
    "deadlocked-data-loader": (_DATA_LOADER, "RankBehind", "rank 1 never reached all_reduce #4"),
    "forked-with-a-held-lock": (_FORKED_LOCK, "RankBehind", "rank 1 never reached all_reduce #4"),
    "other-collective": (_GATHERS, "CollectiveMismatch", "rank 1 called all_gather where the others called all_reduce (#4)"),
    "other-sizes": (_SIZES, "CollectiveMismatch", "rank 1 called all_reduce with 5 Float where the others used 4 Float (#4)"),
    "receives-what-nobody-sends": (_RECEIVES, "RankBehind", "rank 1 never sent what rank 0 has waited for in recv for "),
    "sends-what-nobody-receives": (_SENDS, "RankBehind", "rank 1 never received what rank 0 has waited to send for "),
    "straggler": (_STRAGGLES, "Straggler", "× slower per step than the median of the others"),
}  # fmt: skip
#: `make test` runs these; the rest are for `make test-cluster`.
_FEW = ("sleeps", "fail")


def few(name: str, *values: object) -> Any:
    return pytest.param(*values, id=name, marks=() if name in _FEW else pytest.mark.long)


@pytest.mark.parametrize(("program", "cause", "part"), [few(name, *case) for name, case in _CASES.items()])
def test_the_rank_is_named_while_the_job_runs(program: str, cause: str, part: str, start: Start) -> None:
    handle = hung(start, program)
    (finding,) = eventually(lambda: findings(handle), _STARTED, "the finding")
    assert finding.cause == cause, finding
    assert part in finding.message
    assert finding.ranks.first == ("rank 1",)
    if cause != "Straggler":
        assert [event["reason"] for event in handle.events()].count(cause) == 1
        assert any(part in note for note in handle.notes())
    if program in (_DATA_LOADER, _FORKED_LOCK):
        assert "DataLoader" in finding.hint and any("DataLoader" in each.text for each in finding.evidence)
    handle.stop(now=True)


@pytest.mark.long
def test_without_the_agent_the_stacks_name_the_rank(start: Start) -> None:
    """-E: Python ignores PYTHONPATH, so that the agent is not loaded."""
    if find_py_spy() is None:
        pytest.skip("py-spy is not installed")
    program = container([sys.executable, "-E", "-c", _SLEEPS])
    handle = start(job(*ranks(program)), env={**os.environ, "VCJOB_HANG_AFTER": str(SECONDS)})
    (finding,) = eventually(lambda: findings(handle), _STARTED, "the finding")
    assert (finding.cause, finding.ranks.first) == ("RankBehind", ("rank 1",))
    assert "rank 1 is not in all_reduce; all others have waited in it for" in finding.message
    handle.stop(now=True)


@pytest.mark.long
@pytest.mark.parametrize("work", list(_WORK))
def test_a_rank_that_works_while_the_others_wait_is_no_hang(work: str, start: Start) -> None:
    handle = hung(start, _PREPARES.format(_WORK[work]), seconds=2.0)
    eventually(lambda: _waiting(handle), _STARTED, "a rank that waits in a collective")
    deadline = time.monotonic() + 3 * 2.0
    while time.monotonic() < deadline:
        assert findings(handle) == []
        time.sleep(0.1)
    handle.stop(now=True)


@pytest.mark.long
def test_ranks_that_receive_from_each_other_are_named(start: Start) -> None:
    handle = hung(start, _CROSSED)
    (finding,) = eventually(lambda: findings(handle), _STARTED, "the finding")
    assert (finding.cause, finding.ranks.first) == ("CollectiveMismatch", ("rank 0", "rank 1"))
    assert "rank 0 in recv for rank 1, rank 1 in recv for rank 0" in finding.message
    handle.stop(now=True)


@pytest.mark.long
@pytest.mark.parametrize("pipeline", list(_PIPELINES))
def test_a_pipeline_that_works_is_no_hang(pipeline: str, start: Start) -> None:
    handle = hung(start, _PIPELINES[pipeline], seconds=2.0)
    eventually(lambda: len({line.rank for line in handle.logs()}) == 3, _STARTED, "a line of every rank")
    deadline = time.monotonic() + 4 * 2.0
    while time.monotonic() < deadline:
        assert findings(handle) == []
        time.sleep(0.1)
    assert [event for event in handle.events() if event["reason"] in HANGS] == []
    handle.stop(now=True)


@pytest.mark.long
def test_uneven_batches_are_no_hang(start: Start) -> None:
    handle = hung(start, _UNEVEN)
    eventually(lambda: _waiting(handle), _STARTED, "a rank that waits in a collective")
    deadline = time.monotonic() + 1.5 * SECONDS
    while time.monotonic() < deadline:
        assert [each for each in findings(handle) if each.cause != "Straggler"] == []
        time.sleep(0.1)
    handle.stop(now=True)


@pytest.mark.long
def test_a_rank_that_somebody_has_stopped_is_no_hang_and_neither_is_its_time_afterwards(start: Start) -> None:
    import signal

    from vcjob.local.live.rank_process import main_container

    handle = hung(start, _UNEVEN.replace("2.5", "0.1").replace("99", "9999"), seconds=2.0)
    eventually(lambda: len({line.rank for line in handle.logs()}) == 3, _STARTED, "a line of every rank")
    pod = next(pod for pod in handle.pods() if pod.rank == 1)
    container = main_container(pod)
    assert container is not None and container.pid is not None
    os.kill(container.pid, signal.SIGSTOP)
    eventually(lambda: _waiting(handle), _STARTED, "a rank that waits in a collective")
    deadline = time.monotonic() + 3 * 2.0
    while time.monotonic() < deadline:
        assert findings(handle) == []
        time.sleep(0.1)
    os.kill(container.pid, signal.SIGCONT)
    handle.stop(now=True)


@pytest.mark.parametrize("action", [few(action, action) for action in ("fail", "restart")])
def test_on_hang_acts_instead_of_waiting_for_torchs_timeout(action: str, start: Start) -> None:
    handle = hung(start, _SLEEPS, on_hang=action)
    assert handle.wait(_STARTED * 2) == "Failed"
    status = handle.status()
    assert "rank 1 never reached all_reduce #4" in status.state.message
    assert status.state.reason == ("Hung" if action == "fail" else "MaxRetryReached")
    assert status.restarts == (0 if action == "fail" else 1)
    first = handle.why()[0]
    assert (first.cause, first.ranks.first) == ("RankBehind", ("rank 1",))


_JOIN = "import os, time, torch, torch.distributed as dist\nrank = int(os.environ['RANK'])\nprint('up', flush=True)\n"
_INIT_ONLY = "dist.init_process_group('gloo')\ntime.sleep(600)"
_MEETINGS = {
    "master-sleeps": (
        _JOIN + "if rank == 0: time.sleep(600)\n" + _INIT_ONLY,
        "MasterNotListening",
        " of the master: rank 0 has done nothing for ",
    ),
    "master-uses-another-port": (
        _JOIN + "if rank == 0: os.environ['MASTER_PORT'] = '0'\n" + _INIT_ONLY,
        "MasterNotListening",
        "it uses another port; rank ",
    ),
    "expects-more-ranks": (
        _JOIN + "os.environ['WORLD_SIZE'] = '4'\n" + _INIT_ONLY,
        "WorldSizeMismatch",
        "all 3 ranks have joined, and rank 0 has waited for more in init_process_group for ",
    ),
}
#: What a rank may do for long before it joins.
_LATE = {
    "rank-0-computes": "if rank == 0:\n    while True: sum(range(1000))\n",
    "rank-0-downloads": "if rank == 0:\n    while True: open('/dev/zero', 'rb').read(1 << 20), time.sleep(0.05)\n",
    "rank-2-computes": "if rank == 2:\n    while True: sum(range(1000))\n",
}


@pytest.mark.long
@pytest.mark.parametrize("name", list(_MEETINGS))
def test_ranks_that_do_not_meet_have_a_finding(name: str, start: Start) -> None:
    program, cause, part = _MEETINGS[name]
    handle = hung(start, program)
    (finding,) = eventually(lambda: findings(handle), _STARTED, "the finding")
    assert (finding.cause, finding.ranks.first) == (cause, ("rank 0",)), finding
    assert part in finding.message
    assert any(part in note for note in handle.notes())
    handle.stop(now=True)


@pytest.mark.long
def test_workers_that_wait_in_an_init_container_for_an_idle_master_have_a_finding(start: Start) -> None:
    plugins = {"pytorch": ["--wait-master-enabled=true", "--wait-master-timeout=600"]}
    document = job(*ranks("sleep 600"), plugins=plugins, minAvailable=1)
    handle = start(document, env={**os.environ, "VCJOB_HANG_AFTER": str(SECONDS)})
    (finding,) = eventually(lambda: findings(handle), _STARTED, "the finding")
    assert finding.cause == "MasterNotListening", finding
    assert "rank 1 and rank 2 wait to connect to it" in finding.message
    handle.stop(now=True)


@pytest.mark.long
@pytest.mark.parametrize("work", list(_LATE))
def test_a_rank_that_works_before_it_joins_is_no_hang(work: str, start: Start) -> None:
    handle = hung(start, _JOIN + _LATE[work] + _INIT_ONLY, seconds=2.0)
    eventually(lambda: len({line.rank for line in handle.logs()}) == 3, _STARTED, "a line of every rank")
    deadline = time.monotonic() + 4 * 2.0
    while time.monotonic() < deadline:
        assert findings(handle) == []
        time.sleep(0.1)
    assert [event for event in handle.events() if event["reason"] in HANGS] == []
    handle.stop(now=True)


@pytest.mark.long
@pytest.mark.parametrize(
    ("program", "cause"),
    [
        pytest.param(_SLEEPS, "RankBehind", id="sleeps"),
        pytest.param(_RECEIVES, "RankBehind", id="receives"),
        *(pytest.param(program, cause, id=name) for name, (program, cause, _) in _MEETINGS.items()),
    ],
)
def test_a_hang_is_reported_within_thirty_seconds_with_default_settings(
    program: str, cause: str, start: Start
) -> None:
    handle = start(job(*ranks(python(program))))
    eventually(lambda: len({line.rank for line in handle.logs()}) == 3, _STARTED, "a line of every rank")
    began = time.time()
    (finding,) = eventually(lambda: findings(handle), 60, "the finding")
    assert finding.cause == cause
    event = next(each for each in handle.events() if each["reason"] == cause)
    assert event["type"] == "Warning"
    assert time.time() - began <= 30
    handle.stop(now=True)


def _waiting(handle: LocalHandle) -> list[str]:
    """Ranks whose report says that they wait in a collective."""
    from vcjob.local.logs.rank_reports import read_reports
    from vcjob.local.run.run_dir import RunDir

    run = RunDir(handle.folder)
    return [
        str(report.state.rank)
        for pod in handle.pods()
        for report in read_reports(run.pod_folder(pod.name, pod.attempt))
        if any(not call.done for call in report.state.collectives)
    ]
