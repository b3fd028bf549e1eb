"""The failure report: which rank failed first, which only followed, and the last lines of output."""

from __future__ import annotations

import os
import signal
from pathlib import Path

from tests.local.conftest import PATIENCE, Start, eventually, job, left_behind, python, ranks, task

#: Rank 1 raises, closes its connection and takes its time to end; the others notice at once and are gone first.
SLOW_TO_END = """
import atexit, os, socket, time
rank, place = int(os.environ['RANK']), ('127.0.0.1', int(os.environ['MASTER_PORT']))
if rank == 0:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(place)
    server.listen()
    peer = server.accept()[0]
    if not peer.recv(1):
        raise RuntimeError('Connection closed by peer [127.0.0.1]')
else:
    while True:
        try:
            peer = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.02)
    def linger():
        peer.close()
        time.sleep(30)
    atexit.register(linger)
    time.sleep(0.2)
    raise ValueError('the loss is NaN')
"""


def test_a_rank_that_is_slow_to_end_is_still_the_one_that_began_it(finish: Start) -> None:
    handle = finish(job(task("master", python(SLOW_TO_END)), task("worker", python(SLOW_TO_END))))
    assert handle.phase == "Failed"
    report = handle.failure()
    assert report.culprit and report.culprit.rank == 1
    assert report.culprit.exception == "ValueError: the loss is NaN"
    assert report.victims == ["rank 0 (master-0)"]
    (finding,) = handle.why()
    assert (report.cause, report.message) == (finding.cause, finding.message)
    last = handle.events()[-1]
    assert (last["reason"], last["message"]) == (finding.cause, finding.message)
    said = "rank 1 (worker-0) failed: ValueError: the loss is NaN (<string>:24 in <module>)"
    assert handle.status().state.message == said


def test_a_killed_rank_is_named_with_its_signal(start: Start) -> None:
    handle = start(job(*ranks("sleep 600")))
    eventually(lambda: handle.status().running == 3)
    pod = eventually(
        lambda: next((p for p in handle.pods() if p.rank == 2 and p.containers and p.containers[0].pid), None)
    )
    os.kill(pod.containers[0].pid, signal.SIGKILL)
    assert handle.wait(PATIENCE) == "Failed"
    culprit = handle.failure().culprit
    assert culprit and (culprit.rank, culprit.signal, culprit.exit_code) == (2, "SIGKILL", 137)
    assert culprit.how == "was killed by SIGKILL"


WARNS = """
import sys, warnings
print('loading', flush=True)
warnings.warn('TypedStorage is deprecated')
print('fatal: the dataset is missing', flush=True)
sys.exit(3)
"""


def test_a_reason_on_stdout_is_found_although_stderr_has_a_warning(finish: Start) -> None:
    handle = finish(job(task("a", python(WARNS))))
    assert handle.why()[0].message.endswith("ended with exit code 3: fatal: the dataset is missing")
    assert "fatal: the dataset is missing" in handle.status().state.message
    culprit = handle.failure().culprit
    # Two pipes: lines that are written shortly one after the other may arrive in either order.
    assert culprit and {"loading", "fatal: the dataset is missing"} < set(culprit.stderr)


def test_a_lost_supervisor_accuses_no_rank(start: Start) -> None:
    handle = start(job(*ranks("sleep 600")))
    eventually(lambda: handle.status().running == 3)
    supervisor = next(
        p for p in left_behind(handle) if Path(f"/proc/{p}/comm").read_text() == "vcjob-supervise\n"
    )
    os.kill(supervisor, signal.SIGKILL)
    eventually(lambda: not handle.supervised)
    assert handle.phase == "Failed"
    assert handle.failure().culprit is None


def test_only_the_last_attempt_counts(finish: Start) -> None:
    program = "if [ -e again ]; then exit 9; else touch again; exit 3; fi"
    handle = finish(
        job(task("a", program, policies=[{"event": "PodFailed", "action": "RestartPod"}]), maxRetry=2)
    )
    assert handle.phase == "Failed"
    culprit = handle.failure().culprit
    assert culprit and (culprit.exit_code, culprit.attempt) == (9, 1)
