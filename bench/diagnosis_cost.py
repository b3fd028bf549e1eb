"""What the diagnosis costs: a job with and without hang detection, and `vcjob why` on a failure of 1,000 ranks.

Jobs with and without it run in pairs (see `bench.paired`), many short ones for the start and a few longer ones for the
steps. A goal is missed only where the whole interval is above it. Without: no agent, no checks by the supervisor, and
PyTorch's flight recorder is off.

python -m bench.diagnosis_cost [--starts PAIRS] [--steps PAIRS] [--minutes MINUTES]
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from bench.paired import abba, interval

ROOT = Path(__file__).parent.parent
#: Longer than the ten seconds after which the agent reads the whole recorder.
STEP_SECONDS = 11.0
RANKS = 1000
RATIO_GOAL, WHY_GOAL = 1.01, 1.0
OFF = {"VCJOB_HANG_DETECTION": "off", "TORCH_FR_BUFFER_SIZE": "0"}
START = {"first": "time to the first collective", "first_cpu": "CPU time until the first collective"}
STEP = {"step": "wall time of a step", "step_cpu": "CPU time of a step"}


def ranks_job(name: str, command: list[str], workers: int) -> dict[str, Any]:
    def task(task_name: str, replicas: int) -> dict[str, Any]:
        container = {"name": "main", "image": "none", "command": command}
        spec = {"restartPolicy": "Never", "containers": [container]}
        return {"name": task_name, "replicas": replicas, "template": {"spec": spec}}

    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name},
        "spec": {"plugins": {"pytorch": []}, "tasks": [task("master", 1), task("worker", workers)]},
    }


class Measured(NamedTuple):
    """One job of two ranks: the slower rank's times, and the CPU time of both ranks, their shims and the supervisor."""

    first: float
    first_cpu: float
    step: float
    step_cpu: float


def measure(diagnosis: bool, step_seconds: float) -> Measured:
    """Run the job, with or without the diagnosis. It ends after its first collective where `step_seconds` is 0."""
    from vcjob.sdk.running import run

    command = [sys.executable, str(ROOT / "bench/programs/steps.py"), str(step_seconds)]
    began = time.monotonic()
    handle = run(ranks_job("steps", command, 1), env={**os.environ, **({} if diagnosis else OFF)})
    if handle.wait(120) != "Completed":
        raise SystemExit(f"the job is {handle.phase}: {handle.status().state.message}")
    lines = [line.text.split()[1:] for line in handle.logs() if line.text.startswith("measured")]
    handle.delete()
    firsts, first_cpus, steps, step_cpus = zip(*(map(float, line) for line in lines), strict=True)
    return Measured(max(firsts) - began, sum(first_cpus), max(steps), sum(step_cpus))


def cost(pairs: int, minutes: float, step_seconds: float, labels: dict[str, str]) -> bool:
    """Measure pairs of jobs, fewer where time runs out, and print the ratio of each figure. Whether a goal was missed."""
    measured: list[tuple[Measured, Measured]] = []
    end = time.monotonic() + 60 * minutes
    for order in abba(pairs):
        if measured and time.monotonic() > end:
            break
        results = {diagnosis: measure(diagnosis, step_seconds) for diagnosis in order}
        measured.append((results[True], results[False]))
    verdicts = []
    for figure, label in labels.items():
        found = interval([getattr(on, figure) / getattr(off, figure) for on, off in measured])
        usual = statistics.median(getattr(off, figure) for _, off in measured)
        verdicts.append(found.verdict(RATIO_GOAL))
        print(
            f"{label}: {found} of that without diagnosis; goal: at most {RATIO_GOAL}, {verdicts[-1]}; "
            f"{1000 * usual:.2f} ms without"
        )
    return "missed" in verdicts


def why() -> bool:
    """A real failure of three ranks, its records multiplied: rank 1 raises, the others lose their connection to it."""
    from vcjob.sdk.local.handle import LocalHandle
    from vcjob.sdk.running import run

    program = (
        "import os, time\nif os.environ['RANK'] == '1': raise ValueError('loss is NaN')\ntime.sleep(0.5)\n"
        "raise RuntimeError('[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234')"
    )
    document = ranks_job("large", [sys.executable, "-c", program], 2)
    document["metadata"]["annotations"] = {"vcjob.io/on-rank-failure": "ignore"}
    handle = run(document)
    handle.wait(60)
    assert isinstance(handle, LocalHandle)
    multiply(Path(handle.folder))
    taken = []
    for _ in range(5):
        began = time.perf_counter()
        shown = subprocess.run(
            [sys.executable, "-m", "vcjob.cli.main", "why", "large", "-o", "json"],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        taken.append(time.perf_counter() - began)
    finding = json.loads(shown.stdout)["findings"][0]
    if finding["ranks"]["first"] != ["rank 1"] or len(finding["ranks"]["victims"]) != RANKS - 1:
        raise SystemExit(f"the first rank is not named: {finding['message']}")
    seconds = statistics.median(taken)
    print(f"`vcjob why` on a failure of {RANKS} ranks: {seconds:.2f} s (goal: at most {WHY_GOAL} s)")
    return seconds > WHY_GOAL


def multiply(folder: Path) -> None:
    """Make a failure of three ranks one of 1,000: the last worker's record and logs, again and again."""
    pods = json.loads((folder / "pods.json").read_text())
    last = max(pods, key=lambda pod: pod.get("rank", 0))
    logs = folder / "pods" / last["name"]
    for rank in range(3, RANKS):
        name = f"large-worker-{rank - 1}"
        uid = f"{rank:08d}{last['uid'][8:]}"
        pods.append({**last, "name": name, "index": rank - 1, "rank": rank, "uid": uid})
        shutil.copytree(logs, folder / "pods" / name)
    (folder / "pods.json").write_text(json.dumps(pods))


def main() -> int:
    parser = argparse.ArgumentParser(description="what the diagnosis costs")
    parser.add_argument(
        "--starts", type=int, default=30, help="pairs of jobs that end after their first collective"
    )
    parser.add_argument(
        "--steps", type=int, default=6, help="pairs of jobs that make steps for eleven seconds"
    )
    parser.add_argument("--minutes", type=float, default=7.0, help="no pair begins later than this")
    options = parser.parse_args()
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # an installed package has its bytecode
    with TemporaryDirectory() as home:
        os.environ["VCJOB_HOME"] = home
        missed = [why()]
        measure(True, 0.0)  # bytecode and files are in memory from here on
        missed += [
            cost(options.starts, options.minutes * 0.6, 0.0, START),
            cost(options.steps, options.minutes * 0.4, STEP_SECONDS, STEP),
        ]
    return 1 if any(missed) else 0


if __name__ == "__main__":
    sys.exit(main())
