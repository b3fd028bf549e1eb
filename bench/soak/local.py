"""A local job whose output passes through a small VCJOB_LOG_LIMIT, and programs that follow it.

`soak_output` measures the supervisor, the shim of the pod and a `vcjob logs -f` while gigabytes are printed.
`soak_followers` runs `logs -f` and the live view of `run` for hours of a fast clock.
"""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import vcjob
from bench.soak.curve import Curve, of_process
from vcjob.local.machine import process

LIMIT = "64Mi"
SAMPLES = 20
NAME = "noisy"

#: Lines of 1 KiB in pieces of 64 KiB, as fast as they are read.
PRINTS = """
import os, sys
piece, left = (b'x' * 1023 + b'\\n') * 64, int(sys.argv[1])
while left > 0:
    left -= os.write(1, piece)
"""
#: A line now and then, until it is ended; a rank that fails and restarts now and then.
TALKS = """
import itertools, os, sys, time
for step in itertools.count():
    print('step', step, 'loss', 1 / (step + 1), flush=True)
    time.sleep(0.05)
    if os.environ['RANK'] == '1' and step == 100:
        sys.exit(1)
"""


@contextmanager
def _home(**variables: str) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="vcjob-soak-") as folder:
        os.environ.update(VCJOB_HOME=folder, **variables)
        yield Path(folder)


def soak_output(total: int) -> list[Curve]:
    curves = {name: Curve(name, "GB") for name in ("vcjob-supervise", "vcjob-pod", "logs -f")}
    with _home(VCJOB_LOG_LIMIT=LIMIT):
        command = [sys.executable, "-c", PRINTS, str(total)]
        handle = vcjob.run(vcjob.pytorch_job(NAME, command=command, workers=0))
        while handle.phase == "Pending":
            time.sleep(0.02)
        follower = _vcjob("logs", "-f", NAME)
        assert follower.stdout is not None and follower.stdout.read(1)  # it is at work
        drain = threading.Thread(target=_drain, args=(follower.stdout,))
        drain.start()
        pids = {Path(f"/proc/{pid}/comm").read_text().strip(): pid for pid in process.marked(process.MARK_RUN, handle.uid)}  # fmt: skip
        pids["logs -f"] = follower.pid
        (log,) = Path(str(vars(handle)["_run"].folder)).rglob("*.out")
        passed = 0
        while handle.phase == "Running":
            size = log.stat().st_size
            if size >= passed + total // SAMPLES:
                passed = size
                used = round(log.stat().st_blocks * 512 / 2**20, 1)
                for name, curve in curves.items():
                    curve.add(round(size / 1e9, 2), {**of_process(pids[name]), "log MiB on disk": used})
            time.sleep(0.05)
        handle.wait()
        follower.wait(120)
        drain.join()
    return list(curves.values())


def _vcjob(*arguments: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen([sys.executable, "-m", "vcjob", *arguments], stdout=subprocess.PIPE)


def _drain(stream: IO[bytes]) -> None:
    while stream.read(1 << 20):
        pass


def soak_followers(hours: float) -> list[Curve]:
    """`logs -f` in a pipe and `run` on a terminal, each for so many hours of its own clock."""
    curves = []
    program = [sys.executable, "-c", TALKS]
    document = vcjob.pytorch_job(NAME, command=program, workers=2, restarts=1_000_000)
    with _home() as home:
        file = home / "job.yaml"
        file.write_text(vcjob.to_yaml(document))
        curves.append(_on_fast_clock("live view", hours, home, "run", str(file)))
        handle = vcjob.run(document)
        curves.append(_on_fast_clock("logs -f, hours", hours, home, "logs", "-f", NAME))
        handle.delete()
    return curves


def _on_fast_clock(title: str, hours: float, home: Path, *arguments: str) -> Curve:
    samples = home / f"{arguments[0]}.samples"
    command = [sys.executable, "-m", "bench.soak.fast_clock", str(hours), str(samples), *arguments]
    screen, terminal = pty.openpty()
    running = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal)
    os.close(terminal)
    with os.fdopen(screen, "rb", buffering=0) as output:
        try:
            _drain(output)
        except OSError:
            pass  # the other side of a terminal has been closed
    running.wait(60)
    curve = Curve(title, "h")
    for line in samples.read_text().splitlines():
        hour, sample = json.loads(line)
        curve.add(hour, sample)
    return curve
