"""What it costs to follow a job: `vcjob logs -f` of three ranks that print 10,000 lines a second together."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import vcjob
from vcjob.sdk.local.handle import LocalHandle

ROOT = Path(__file__).parent.parent
GOAL = 0.20
RANKS = 3
RATE = 10_000
SECONDS = 6

#: Every 10 ms so many lines as the rate asks for, one write per line as an unbuffered rank would.
PROGRAM = f"""
import os, sys, time
each, begin, written = {RATE} / {RANKS}, time.monotonic(), 0
while (passed := time.monotonic() - begin) < {SECONDS}:
    while written < each * passed:
        os.write(1, b'step %d loss 0.123456 lr 0.0001 tokens per second 123456\\n' % written)
        written += 1
    time.sleep(0.01)
"""


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VCJOB_HOME"] = folder
        environment = {**os.environ, "PYTHONPATH": str(ROOT / "src")}
        handle = vcjob.run(
            vcjob.pytorch_job("noisy", command=[sys.executable, "-c", PROGRAM], workers=RANKS - 1)
        )
        while handle.phase == "Pending":
            time.sleep(0.02)
        command = [sys.executable, "-c", "from vcjob.cli.main import main; main(['logs', '-f', 'noisy'])"]
        begin = time.monotonic()
        followed = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
        passed = time.monotonic() - begin
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        handle.wait()
        assert isinstance(handle, LocalHandle)
        lines = followed.stdout.count(b"\n")
        written = sum(path.read_bytes().count(b"\n") for path in Path(handle.folder).rglob("*.out"))
    share = (usage.ru_utime + usage.ru_stime) / passed
    print(
        f"following {lines} lines in {passed:.1f} s ({lines / passed:.0f} a second): {100 * share:.1f} % of one core"
        f" (goal: under {100 * GOAL:.0f} %), {written - lines} lines missing"
    )
    return 0 if share < GOAL and lines == written else 1


if __name__ == "__main__":
    sys.exit(main())
