"""Beside torchrun: how soon all ranks have talked to each other, how soon a death is noticed, how much memory.

python bench/launch.py [--rounds 7] [--ranks 2 4 8] [--only times|deaths|memory]

All contestants run the same script with gloo on this machine, in turn, in every round; what counts is the ratio
of the medians. OMP_NUM_THREADS=1 is set for all, as torchrun sets it for its own ranks.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "bench" / "programs" / "first_collective.py"
PYTHON = sys.executable
TORCHRUN = Path(PYTHON).parent / "torchrun"
VCJOB = [PYTHON, "-c", "import sys; from vcjob.cli.main import main; sys.exit(main())"]
MARK = "VCJOB_BENCH"

CONTESTANTS = ("torchrun", "bare", "plain", "warm", "kept")
#: Kind of measure, contestant, ranks: at most this part of torchrun's.
GOALS = {
    ("first collective", "plain", 2): 0.85,
    ("first collective", "plain", 4): 0.85,
    ("first collective", "plain", 8): 0.85,
    ("first collective", "warm", 4): 0.4,
    ("first collective", "warm", 8): 0.25,
    ("first collective", "kept", 4): 0.15,
    ("death", "plain", 4): 0.5,
    ("death", "warm", 4): 0.5,
    ("memory", "warm", 4): 0.4,
}
SUPERVISOR_MIB = 25.0


class Bench:
    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="vcjob-bench-"))
        self.env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT / "src"),
            "VCJOB_HOME": str(self.folder / "home"),  # no kept-warm server here
            "PATH": f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}",
        }
        self.kept_env = {**self.env, "VCJOB_HOME": str(self.folder / "kept")}
        self._count = 0

    def start(self, who: str, ranks: int, *words: str) -> tuple[subprocess.Popen[bytes], Path]:
        """A run of `ranks` ranks by this contestant, and the folder in which the ranks leave their times."""
        self._count += 1
        out = self.folder / f"run-{self._count}"
        out.mkdir()
        env = {**(self.kept_env if who == "kept" else self.env), MARK: out.name}
        port = free_port()
        script = [str(SCRIPT), str(out), *words]
        if who == "torchrun":
            argv = [str(TORCHRUN), f"--nproc-per-node={ranks}", f"--master-port={port}", *script]
        elif who == "bare":
            argv = [PYTHON, str(Path(__file__)), "--bare", str(ranks), str(port), *script]
        else:
            job = out / "job.yaml"
            job.write_text(JOB.format(name=out.name, ranks=ranks, port=port, python=PYTHON, script=script))
            argv = [*VCJOB, "run", *(["--warm"] if who == "warm" else []), str(job)]
        with open(out / "log", "wb") as log:
            process = subprocess.Popen(argv, env=env, stdout=log, stderr=log, cwd=out, start_new_session=True)
        return process, out

    def first_collective(self, who: str, ranks: int) -> float:
        begin = time.time()
        process, out = self.start(who, ranks)
        done = self._all_done(process, out, ranks)
        (out / "end").touch()
        self._ended_well(process, out)
        return done - begin

    def death(self, who: str, ranks: int) -> float:
        process, out = self.start(who, ranks, "die")
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        returned = time.time()
        assert process.returncode != 0, (out / "log").read_text()
        return returned - float((out / "death").read_text())

    def memory(self, who: str, ranks: int) -> tuple[float, float]:
        """MiB of all processes of a run that has done its first collective, and of the agent alone."""
        process, out = self.start(who, ranks)
        self._all_done(process, out, ranks)
        time.sleep(0.3)
        pids = family(out.name, self._servers() if who == "kept" else set())
        everything = sum(pss(pid) for pid in pids)
        agent = (
            pss(process.pid)
            if who == "torchrun"
            else sum(rss(pid) for pid in pids if name_of(pid) == "vcjob-supervise")
        )
        (out / "end").touch()
        self._ended_well(process, out)
        return everything, agent

    @contextlib.contextmanager
    def kept_server(self) -> Iterator[None]:
        subprocess.run(
            [*VCJOB, "warm", "start", "--python", PYTHON],
            env=self.kept_env,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        try:
            yield
        finally:
            subprocess.run([*VCJOB, "warm", "stop"], env=self.kept_env, check=True, stdout=subprocess.DEVNULL)

    def _servers(self) -> set[int]:
        command = [*VCJOB, "warm", "status", "-o", "json"]
        shown = subprocess.run(command, env=self.kept_env, check=True, stdout=subprocess.PIPE)
        return {entry["pid"] for entry in json.loads(shown.stdout)["servers"]}

    def _all_done(self, process: subprocess.Popen[bytes], out: Path, ranks: int) -> float:
        files = [out / f"done-{rank}" for rank in range(ranks)]
        while not all(file.exists() for file in files):
            if process.poll() is not None:
                raise SystemExit(f"it ended with {process.returncode}:\n{(out / 'log').read_text()}")
            time.sleep(0.01)
        return max(float(file.read_text()) for file in files)

    def _ended_well(self, process: subprocess.Popen[bytes], out: Path) -> None:
        if process.wait(120) != 0:
            raise SystemExit(f"it ended with {process.returncode}:\n{(out / 'log').read_text()}")


JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata: {{name: {name}}}
spec:
  plugins: {{pytorch: ["--master=rank", "--worker=rank", "--port={port}"]}}
  tasks:
  - name: rank
    replicas: {ranks}
    template:
      spec:
        restartPolicy: Never
        containers: [{{name: rank, image: none, command: ["{python}"], args: {script}}}]
"""


def bare(ranks: int, port: str, script: list[str]) -> int:
    """The ranks and nothing else."""
    env = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": str(ranks)}
    children = [subprocess.Popen([PYTHON, *script], env={**env, "RANK": str(rank)}) for rank in range(ranks)]
    return max(child.wait() for child in children)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def family(mark: str, roots: set[int]) -> set[int]:
    """Every process that carries the mark or is one of the roots, and every descendant of one."""
    parents: dict[int, int] = {}
    found = set(roots)
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError):
            parents[int(name)] = int(Path(f"/proc/{name}/stat").read_text().rsplit(")", 1)[1].split()[1])
            if f"{MARK}={mark}".encode() in Path(f"/proc/{name}/environ").read_bytes().split(b"\0"):
                found.add(int(name))
    while more := {pid for pid, parent in parents.items() if parent in found} - found:
        found |= more
    return found


def pss(pid: int) -> float:
    return _field(f"/proc/{pid}/smaps_rollup", "Pss:")


def rss(pid: int) -> float:
    return _field(f"/proc/{pid}/smaps_rollup", "Rss:")


def _field(path: str, label: str) -> float:
    with contextlib.suppress(OSError):
        for line in Path(path).read_text().splitlines():
            if line.startswith(label):
                return int(line.split()[1]) / 1024
    return 0.0


def name_of(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/comm").read_text().strip()
    return ""


def in_turn(
    rounds: int, who: tuple[str, ...], ranks: list[int], measure: Callable[[str, int], float]
) -> dict[tuple[str, int], list[float]]:
    """Every contestant in every round, so that a busy minute disturbs all alike; the first round warms up."""
    found: dict[tuple[str, int], list[float]] = {(name, count): [] for name in who for count in ranks}
    for turn in range(rounds + 1):
        for count in ranks:
            for name in who:
                value = measure(name, count)
                if turn:
                    found[name, count].append(value)
        print(f"round {turn} of {rounds}" if turn else "warmed up", file=sys.stderr, flush=True)
    return found


def show(kind: str, unit: str, found: dict[tuple[str, int], list[float]]) -> bool:
    """Print medians and ratios; False if a goal was missed."""
    good = True
    for (name, ranks), values in found.items():
        median, best = statistics.median(values), min(values)
        text = f"{kind}, {ranks} ranks, {name:8}: median {median:7.3f} {unit}, best {best:7.3f}"
        if name != "torchrun":
            ratio = median / statistics.median(found["torchrun", ranks])
            text += f", {ratio:.3f} x torchrun"
            goal = GOALS.get((kind, name, ranks))
            if goal is not None:
                text += f" (goal: at most {goal}{'' if ratio <= goal else ', MISSED'})"
                good &= ratio <= goal
        print(text, flush=True)
    return good


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8])
    parser.add_argument("--only", choices=["times", "deaths", "memory"])
    options = parser.parse_args()
    if not TORCHRUN.exists():
        print("torch is not installed beside this interpreter: nothing to compare with", file=sys.stderr)
        return 1
    bench = Bench()
    good = True
    try:
        with bench.kept_server():
            if options.only in (None, "times"):
                times = in_turn(options.rounds, CONTESTANTS, options.ranks, bench.first_collective)
                good &= show("first collective", "s", times)
            if options.only in (None, "deaths"):
                deaths = in_turn(options.rounds, ("torchrun", "plain", "warm", "kept"), [4], bench.death)
                good &= show("death", "s", deaths)
            if options.only in (None, "memory"):
                good &= _memory(bench)
    finally:
        shutil.rmtree(bench.folder, ignore_errors=True)
    return 0 if good else 1


def _memory(bench: Bench) -> bool:
    found: dict[tuple[str, int], list[float]] = {}
    agents: dict[str, float] = {}
    for name in CONTESTANTS:
        everything, agents[name] = bench.memory(name, 4)
        found[name, 4] = [everything]
    good = show("memory", "MiB", found)
    for name in ("plain", "warm", "kept"):
        met = agents[name] <= SUPERVISOR_MIB
        good &= met
        print(
            f"agent, {name}: {agents[name]:.1f} MiB resident beside torchrun's {agents['torchrun']:.0f}"
            f" (goal: at most {SUPERVISOR_MIB:.0f}{'' if met else ', MISSED'})"
        )
    return good


if __name__ == "__main__":
    if sys.argv[1:2] == ["--bare"]:
        sys.exit(bare(int(sys.argv[2]), sys.argv[3], sys.argv[4:]))
    sys.exit(main())
