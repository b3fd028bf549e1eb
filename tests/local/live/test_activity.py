"""Whether a process does something, from /proc."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from tests.local.conftest import eventually
from vcjob.rank_agent.activity import ActivitySample, sample

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")


@contextmanager
def process(program: str) -> Iterator[int]:
    """Runs a program; it and its children end with the block, also when an assertion fails."""
    with subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.DEVNULL, start_new_session=True
    ) as started:
        try:
            yield started.pid
        finally:
            os.killpg(started.pid, signal.SIGKILL)


def between(pid: int, printed: int = 0) -> tuple[ActivitySample, ActivitySample]:
    first = sample(pid, 0, time.time())
    time.sleep(0.3)
    second = sample(pid, printed, time.time())
    assert first is not None and second is not None
    return first, second


def is_idle(pid: int) -> bool:
    first, second = between(pid)
    return second.is_idle_since(first)


def test_a_process_that_sleeps_is_idle_once_it_has_started() -> None:
    with process("import time\nwhile True: time.sleep(0.2)") as pid:
        assert eventually(lambda: is_idle(pid), what="an idle process")
        first, second = between(pid, printed=5)
        assert not second.is_idle_since(first)  # it has printed


@pytest.mark.parametrize(
    "program",
    [
        "while True: pass",
        "import time\nwhile True: time.sleep(0.01), open('/dev/zero', 'rb').read(99999)",
        "import subprocess\nsubprocess.run(['sh', '-c', 'while :; do :; done; :'])",
        "import time\nwhile True: time.sleep(0.001)",
    ],
    ids=["computes", "reads", "its-child-computes", "wakes-up-all-the-time"],
)
def test_a_process_that_does_something_is_never_idle(program: str) -> None:
    with process(program) as pid:
        assert not any(is_idle(pid) for _ in range(3))


def test_a_loop_has_no_effect_and_a_child_that_computes_has() -> None:
    def effects(pid: int) -> bool:
        first, second = between(pid)
        return not second.has_no_effect_since(first)

    with process("while True: pass") as pid:
        assert eventually(lambda: not effects(pid), what="a loop without effects")
    with process("import subprocess\nsubprocess.run(['sh', '-c', 'while :; do :; done; :'])") as pid:
        assert eventually(lambda: effects(pid), what="the work of the child")


def test_a_stopped_process_is_paused_and_one_that_has_ended_has_no_sample() -> None:
    with process("import time\ntime.sleep(99)") as pid:
        os.kill(pid, signal.SIGSTOP)
        eventually(lambda: (found := sample(pid, 0, 0.0)) is not None and found.paused, what="the stop")
    assert sample(pid, 0, 0.0) is None
