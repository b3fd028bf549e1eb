"""What the supervisor of a job takes: memory at 8 ranks, idle CPU, and the end of the command after a rank's death."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
MEMORY_GOAL = 25.0
ROUNDS = 9


def main() -> int:
    os.environ["PYTHONPATH"] = str(ROOT / "src")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["VCJOB_HOME"] = folder
        memory, shims, idle = _resident()
        deaths = sorted(_death(number) for number in range(ROUNDS))
    print(f"supervisor of 8 ranks: {memory:.1f} MiB resident (goal: at most {MEMORY_GOAL:.0f})")
    print(
        f"each of its 8 shims: {shims:.1f} MiB of its own; the supervisor's idle CPU: {100 * idle:.2f} % of a core"
    )
    print(
        f"from a rank's death to the end of the job: {1000 * statistics.median(deaths):.0f} ms in the median round"
    )
    return 0 if memory <= MEMORY_GOAL else 1


def _resident() -> tuple[float, float, float]:
    import vcjob
    from vcjob.local.machine import process

    handle = vcjob.run(vcjob.pytorch_job("quiet", command="sleep 60", workers=7))
    while handle.phase == "Pending":
        time.sleep(0.02)
    time.sleep(1.0)
    ours = {
        pid: Path(f"/proc/{pid}/comm").read_text().strip()
        for pid in process.marked(process.MARK_RUN, handle.uid)
    }
    supervisor = next(pid for pid, name in ours.items() if name == "vcjob-supervise")
    began, before = time.monotonic(), _cpu(supervisor)
    time.sleep(4.0)
    idle = (_cpu(supervisor) - before) / (time.monotonic() - began)
    memory = _field(f"/proc/{supervisor}/status", "VmRSS:")
    shims = [
        _field(f"/proc/{pid}/smaps_rollup", "Private_Dirty:")
        for pid, name in ours.items()
        if name == "vcjob-pod"
    ]
    handle.delete()
    return memory, statistics.mean(shims), idle


def _death(number: int) -> float:
    import vcjob

    program = "import os, time; time.sleep(0.3 if os.environ['RANK'] == '1' else 60); os._exit(3)"
    handle = vcjob.run(
        vcjob.pytorch_job(f"dies-{number}", command=[sys.executable, "-c", program], workers=3)
    )
    handle.wait()
    end = time.time()
    return end - min(pod.finished_at or end for pod in handle.pods())


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _field(path: str, name: str) -> float:
    """A line of a /proc file that is in kB, as MiB."""
    line = next(line for line in Path(path).read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) / 1024


if __name__ == "__main__":
    sys.exit(main())
