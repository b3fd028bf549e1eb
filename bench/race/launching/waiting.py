"""wait-for-master: how soon it sees a master that appears, whether its timeout is true, what it costs.

    python -m bench.race.launching.waiting [--quick] [--waits 40] [--seconds 60] [--seed N]

In the same run and image there is a peer that waits as Volcano's own script does: `nc -z`, else `/dev/tcp`,
then a sleep of 2 s, and only the sleeps counted.
"""

from __future__ import annotations

import argparse
import os
import random
import select
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench.race.report.results import Round, Row, earlier, limit_row, one_round, row, write
from tests.plugins.wait_for_master.images import Image, build, plain
from tests.plugins.wait_for_master.namespace import BLACK_HOLE, inside
from vcjob.plugins.wait import WAIT_TIMEOUT_EXIT_CODE, program

GOAL_REACTION = 0.15
GOAL_CPU = 1.0
#: Seconds after which the peer's hang is plain.
PATIENCE = 20
#: The latest moment at which a master appears, in seconds.
LATEST = 10.0
#: So many waits at a time: they do little but wait.
LANES = 8
#: nc by its path, for Debian's busybox prefers an nc of its own that has no -z.
PEER = """
waited=0
until { "$NC" -z "$VCJOB_WAIT_HOST" "$VCJOB_WAIT_PORT" || echo >"/dev/tcp/$VCJOB_WAIT_HOST/$VCJOB_WAIT_PORT"; } 2>/dev/null; do
  [ "$waited" -lt "$VCJOB_WAIT_TIMEOUT" ] || exit 1
  sleep 2
  waited=$((waited + 2))
done
"""
PROGRAMS = {"vcjob": program(), "peer": PEER}
#: The two kinds of images in which it runs: those of trainings have a bash, the default image has none.
IMAGES = {
    "an image with bash": Image("dash", {"nc": "nc.openbsd", **plain("timeout", "sleep", "date", "bash")}),
    "busybox with nc": Image("busybox", {"nc": "nc.openbsd"}),
}
NEEDED = ("dash", "nc.openbsd", "bash", "busybox", "ip", "unshare")


def main(argv: Sequence[str] | None = None) -> list[Row]:
    """Run it, write the figures; the rows of the table come back."""
    parser = argparse.ArgumentParser(prog="python -m bench.race.launching.waiting")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter waits")
    parser.add_argument("--waits", type=int, help="waits for each program in each image")
    parser.add_argument("--seconds", type=int, nargs="+", help="how long the waits are whose CPU is measured")
    parser.add_argument("--only", choices=["reactions", "timeouts", "costs"])
    parser.add_argument("--keep", action="store_true", help="keep earlier figures of other scenarios")
    parser.add_argument("--seed", type=int, default=random.randrange(10**6))
    given = parser.parse_args(argv)
    missing = [tool for tool in NEEDED if shutil.which(tool) is None]
    if missing or os.geteuid() != 0:
        needs = ", ".join(["root", *missing])
        print(f"no wait race here: needs {needs} (tests/debian-packages.txt)", file=sys.stderr)
        return []
    waits, seconds = (
        given.waits or (12 if given.quick else 40),
        given.seconds or ([30] if given.quick else [30, 120]),
    )
    chance = random.Random(given.seed)
    moments = [chance.uniform(0.3, LATEST) for _ in range(waits)]
    print(f"seed {given.seed}: {waits} masters that appear after 0.3 to {LATEST:.0f} s", file=sys.stderr)
    found: list[Round] = []
    with tempfile.TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        paths = {
            name: build(image, Path(folder, str(number)))
            for number, (name, image) in enumerate(IMAGES.items())
        }
        for name, path in paths.items():
            if given.only in (None, "reactions"):
                found += _reactions(name, path, moments)
            if given.only in (None, "timeouts"):
                found += _timeouts(name, path, (2,) if given.quick else (2, 5), Path(folder))
        if given.only in (None, "costs"):
            found += _costs(paths, seconds)
    if given.keep:
        found = earlier("waiting", sorted({each["scenario"] for each in found})) + found
    rows = goal_rows(found)
    write("waiting-quick" if given.quick else "waiting", found, rows, {})
    return rows


def _reactions(image: str, path: Path, moments: list[float]) -> list[Round]:
    """Both programs at each moment, so that a busy second disturbs both alike."""
    waits = [(number, moment, who) for number, moment in enumerate(moments, 1) for who in PROGRAMS]
    with ThreadPoolExecutor(LANES) as lanes:
        took = lanes.map(lambda wait: _reaction(path, PROGRAMS[wait[2]], wait[1]), waits)
        return [
            one_round(f"reaction, {image}", who, number, {"seconds": round(seconds, 4)})
            for (number, _, who), seconds in zip(waits, took, strict=True)
        ]


def _timeouts(image: str, path: Path, timeouts: Sequence[int], folder: Path) -> list[Round]:
    waits = [(number, timeout, who) for number, timeout in enumerate(timeouts, 1) for who in PROGRAMS]

    def wait(number: int, timeout: int, who: str) -> Round:
        own = folder / f"{path.name}-{timeout}-{who}"
        took, code = _until_timeout(path, PROGRAMS[who], timeout, own)
        figures = {"timeout": timeout, "seconds": took, "exit_code": code}
        return one_round(f"dropped packets, {image}", who, number, figures)

    with ThreadPoolExecutor(LANES) as lanes:
        return list(lanes.map(lambda words: wait(*words), waits))


def _costs(paths: dict[str, Path], lengths: Sequence[int]) -> list[Round]:
    """All side by side: they do little but wait."""
    waits = [(image, seconds, who) for image in paths for seconds in lengths for who in PROGRAMS]
    with ThreadPoolExecutor(len(waits)) as lanes:
        costs = lanes.map(lambda wait: _cpu(paths[wait[0]], PROGRAMS[wait[2]], wait[1]), waits)
        return [
            one_round(f"CPU in {seconds} s, {image}", who, 1, {"ms_per_second": round(cost, 3)})
            for (image, seconds, who), cost in zip(waits, costs, strict=True)
        ]


def goal_rows(rounds: Sequence[Round]) -> list[Row]:
    rows = []
    for scenario in dict.fromkeys(each["scenario"] for each in rounds):
        kind, _, image = scenario.partition(", ")
        of = {who: [r for r in rounds if r["scenario"] == scenario and r["who"] == who] for who in PROGRAMS}
        if kind == "dropped packets":
            rows += [_timeout_row(image, each) for each in of["vcjob"]]
            continue
        figure, unit, goal = (
            ("seconds", "s", GOAL_REACTION) if kind == "reaction" else ("ms_per_second", "ms/s", GOAL_CPU)
        )
        ours, peer = (statistics.mean(each["figures"][figure] for each in of[who]) for who in PROGRAMS)
        rows.append(row(f"wait, {image}: {kind}", "the loop", unit, ours, peer, goal))
    return rows


def _timeout_row(image: str, found: Round) -> Row:
    timeout, took, code = (found["figures"][name] for name in ("timeout", "seconds", "exit_code"))
    most = max(1.05 * timeout, timeout + 0.5)
    name = f"wait, {image}: timeout of {timeout} s, packets dropped"
    true = took is not None and took >= timeout and code == WAIT_TIMEOUT_EXIT_CODE
    made = limit_row(name, "s", timeout + PATIENCE if took is None else took, most)
    return {**made, "met": made["met"] and true}


def _start(
    path: Path, text: str, host: str, port: int, timeout: int, before: Sequence[str] = ()
) -> subprocess.Popen[bytes]:
    settings = {"VCJOB_WAIT_HOST": host, "VCJOB_WAIT_PORT": str(port), "VCJOB_WAIT_TIMEOUT": str(timeout)}
    return subprocess.Popen(
        [*before, str(path / "sh"), "-c", text],
        env={"PATH": str(path), "NC": str(path / "nc"), "RANK": "1", **settings},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )


def _reaction(path: Path, text: str, appears_after: float) -> float:
    """Seconds from the moment the master listens to the end of the wait."""
    with socket.socket() as master:
        master.bind(("127.0.0.1", 0))
        process = _start(path, text, "127.0.0.1", master.getsockname()[1], 300)
        time.sleep(appears_after)
        if process.poll() is not None:
            raise RuntimeError("the wait ended before there was a master")
        listening = time.monotonic()
        master.listen(8)
        # Not Popen.wait with a timeout: it looks only every twentieth of a second.
        ended = os.pidfd_open(process.pid)
        try:
            if not select.select([ended], [], [], 30)[0]:
                raise RuntimeError("the wait did not end although there was a master")
            return time.monotonic() - listening
        finally:
            os.close(ended)
            process.kill()
            process.wait()


def _until_timeout(path: Path, text: str, timeout: int, folder: Path) -> tuple[float | None, int | None]:
    """Seconds until the program gives up where every packet is dropped, and its exit code; None: it hangs."""
    unshare = str(shutil.which("unshare"))
    before, _ = inside([unshare, "--net", "--mount", "--pid", "--fork", "--kill-child"], folder)
    began = time.monotonic()
    process = _start(path, text, BLACK_HOLE, 23456, timeout, before)
    try:
        process.wait(timeout=timeout + PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        return None, None
    return round(time.monotonic() - began, 3), process.returncode


def _cpu(path: Path, text: str, seconds: int) -> float:
    """CPU in milliseconds per second of waiting for a master that never comes, all children included."""
    with socket.socket() as master:
        master.bind(("127.0.0.1", 0))
        process = _start(path, text, "127.0.0.1", master.getsockname()[1], seconds)
        began = time.monotonic()
        _, _, usage = os.wait4(process.pid, 0)
        process.returncode = 0
        return (usage.ru_utime + usage.ru_stime) * 1000 / (time.monotonic() - began)


if __name__ == "__main__":
    from bench.race.report.table import text

    rows = main()
    print(text(rows))
    sys.exit(0 if all(each["met"] for each in rows) else 1)
