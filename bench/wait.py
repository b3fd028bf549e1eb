"""wait-for-master: how fast it sees a master that appears, whether its timeout is true, what it costs.

Beside it, in the same run, a peer that waits as Volcano's own script does: `nc -z`, else `/dev/tcp`, then a
sleep of 2 s, and only the sleeps counted. Exit 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.wait_for_master.images import Image, build, plain
from tests.wait_for_master.namespace import BLACK_HOLE, inside
from vcjob.plugins.wait import WAIT_TIMEOUT_EXIT_CODE, program

GOAL_REACTION = 0.2  # seconds, median
GOAL_OVERRUN = 0.5  # seconds beyond the timeout
PATIENCE = 20  # seconds after which the peer's hang is plain
TOOLS = ("timeout", "sleep", "date", "bash")
PEER = """
waited=0
until nc -z "$VCJOB_WAIT_HOST" "$VCJOB_WAIT_PORT" 2>/dev/null || (echo >"/dev/tcp/$VCJOB_WAIT_HOST/$VCJOB_WAIT_PORT") 2>/dev/null; do
  [ "$waited" -lt "$VCJOB_WAIT_TIMEOUT" ] || exit 1
  sleep 2
  waited=$((waited + 2))
done
"""
PROGRAMS = {"vcjob": program(), "peer": PEER}


def start(
    path: Path, text: str, host: str, port: int, timeout: int, before: list[str]
) -> subprocess.Popen[bytes]:
    settings = {"VCJOB_WAIT_HOST": host, "VCJOB_WAIT_PORT": str(port), "VCJOB_WAIT_TIMEOUT": str(timeout)}
    return subprocess.Popen(
        [*before, str(path / "sh"), "-c", text],
        env={"PATH": str(path), "RANK": "1", **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def reaction(path: Path, text: str, appears_after: float) -> float:
    """Seconds from the moment the master listens to the end of the wait."""
    with socket.socket() as master:
        master.bind(("127.0.0.1", 0))
        process = start(path, text, "127.0.0.1", master.getsockname()[1], 300, [])
        time.sleep(appears_after)
        if process.poll() is not None:
            raise RuntimeError("the wait ended before there was a master")
        listening = time.monotonic()
        master.listen(8)
        process.wait(timeout=30)
        return time.monotonic() - listening


def reactions(path: Path, text: str, moments: list[float], lanes: int) -> list[float]:
    """One wait for each moment, a few at a time."""
    found: list[float] = []
    queue = list(moments)

    def lane() -> None:
        while queue:
            found.append(reaction(path, text, queue.pop()))

    threads = [threading.Thread(target=lane) for _ in range(lanes)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(found) != len(moments):
        raise RuntimeError(f"{len(moments) - len(found)} waits failed")
    return sorted(found)


def until_timeout(path: Path, text: str, timeout: int, folder: Path) -> tuple[float | None, int | None]:
    """Seconds until the program gives up where every packet is dropped, and its exit code; None: it hangs."""
    unshare = shutil.which("unshare")
    before, _ = inside([str(unshare), "--net", "--mount", "--pid", "--fork", "--kill-child"], folder)
    began = time.monotonic()
    process = start(path, text, BLACK_HOLE, 23456, timeout, before)
    try:
        process.wait(timeout=timeout + PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None, None
    return time.monotonic() - began, process.returncode


def cpu(path: Path, text: str, seconds: int) -> float:
    """CPU in milliseconds per second of waiting for a master that never comes, all its children included."""
    with socket.socket() as master:
        master.bind(("127.0.0.1", 0))
        process = start(path, text, "127.0.0.1", master.getsockname()[1], seconds, [])
        began = time.monotonic()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        return (usage.ru_utime + usage.ru_stime) * 1000 / (time.monotonic() - began)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--waits", type=int, default=40, help="waits for each program")
    options.add_argument(
        "--latest", type=float, default=8, help="the latest moment at which a master appears, in seconds"
    )
    options.add_argument("--lanes", type=int, default=4, help="waits at the same time")
    options.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = options.parse_args()
    missing = [tool for tool in ("dash", "nc.openbsd", "bash", "ip", "unshare") if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        print(
            f"wait: skipped: needs root and {', '.join(missing) or 'nothing else'} (tests/debian-packages.txt)"
        )
        return 0
    chance = random.Random(given.seed)
    moments = [chance.uniform(0.3, given.latest) for _ in range(given.waits)]
    print(f"wait: seed {given.seed}, {given.waits} masters that appear after 0.3 to {given.latest} s")
    missed = []
    with tempfile.TemporaryDirectory() as folder:
        path = build(Image("dash", {"nc": "nc.openbsd", **plain(*TOOLS)}), Path(folder, "image"))
        medians = {}
        for name, text in PROGRAMS.items():
            seen = reactions(path, text, moments, given.lanes)
            medians[name] = statistics.median(seen)
            print(f"  reaction {name:6} median {medians[name]:.3f} s, longest {seen[-1]:.3f} s")
        print(
            f"  reaction ratio vcjob/peer {medians['vcjob'] / medians['peer']:.2f} (goal: median <= {GOAL_REACTION} s)"
        )
        if medians["vcjob"] > GOAL_REACTION:
            missed.append("reaction")
        for timeout in (2, 5):
            for name, text in PROGRAMS.items():
                took, code = until_timeout(path, text, timeout, Path(folder, "etc"))
                shown = (
                    f"still hangs after {timeout + PATIENCE} s"
                    if took is None
                    else f"ends after {took:.2f} s with {code}"
                )
                print(f"  timeout of {timeout} s, packets dropped: {name:6} {shown}")
                if name == "vcjob" and (
                    took is None
                    or not timeout <= took <= timeout + GOAL_OVERRUN
                    or code != WAIT_TIMEOUT_EXIT_CODE
                ):
                    missed.append(f"timeout of {timeout} s")
        costs = {name: cpu(path, text, 14) for name, text in PROGRAMS.items()}
        for name, cost in costs.items():
            print(f"  CPU while waiting {name:6} {cost:.1f} ms per second")
    print("wait: missed: " + ", ".join(missed) if missed else "wait: all goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
