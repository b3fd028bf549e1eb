"""The SDK used by several threads from the start."""

from __future__ import annotations

import subprocess
import sys

import pytest

#: Threads change places as often as possible, and all of them are the first to use everything.
PROGRAM = """
import sys, threading
import vcjob
sys.setswitchinterval(1e-6)
start, errors = threading.Barrier(8), []

def use(number):
    try:
        start.wait()
        command = ["sh", "-c", "echo %d" % number]
        handle = vcjob.run(vcjob.pytorch_job("job-%d" % number, command=command, workers=0))
        handle.wait()
        assert [line.text for line in handle.logs()] == [str(number)], handle.status()
    except BaseException as error:
        errors.append(error)

threads = [threading.Thread(target=use, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
sys.exit(repr(errors) if errors else 0)
"""


@pytest.mark.slow
def test_many_threads_can_be_the_first_to_run_a_job(own_home: None) -> None:
    for _ in range(3):
        done = subprocess.run(
            [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=120, check=False
        )
        assert (done.returncode, done.stderr) == (0, "")
