"""Those who can start the ranks of a training on one machine: how each is called, and one run of each."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench.race.launching.processes import MARK, family, free_port, name_of, pss, rss
from bench.race.report.results import ROOT

PYTHON = sys.executable
TORCHRUN = Path(PYTHON).parent / "torchrun"
VCJOB = [PYTHON, "-c", "import sys; from vcjob.cli.main import main; sys.exit(main())"]
SCRIPT = ROOT / "bench" / "programs" / "first_collective.py"
BARE = ROOT / "bench" / "programs" / "bare.py"

OURS = ("plain", "warm", "kept")
#: From PyPI, into an environment of their own that sees our torch.
PEERS = {"torchx": "0.7.0", "accelerate": "1.15.0"}
PEERS_FOLDER = ROOT / ".venv-race"

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


def set_up_peers() -> None:
    """TorchX and accelerate at the pinned versions, unless they are there."""
    pinned = [f"{name}=={version}" for name, version in PEERS.items()]
    stamp = PEERS_FOLDER / "pinned"
    if stamp.exists() and stamp.read_text() == " ".join(pinned):
        return
    print(f"setting up {', '.join(pinned)} in {PEERS_FOLDER.name} ...", file=sys.stderr, flush=True)
    subprocess.run([PYTHON, "-m", "venv", "--clear", str(PEERS_FOLDER)], check=True)
    python = PEERS_FOLDER / "bin" / "python"
    where = "import sysconfig; print(sysconfig.get_path('purelib'))"
    ours, theirs = (
        subprocess.run([str(each), "-c", where], check=True, text=True, stdout=subprocess.PIPE).stdout.strip()
        for each in (PYTHON, python)
    )
    Path(theirs, "torch-of-vcjob.pth").write_text(ours + "\n")
    subprocess.run([str(python), "-m", "pip", "install", "-q", *pinned], check=True)
    stamp.write_text(" ".join(pinned))


class Track:
    """Where they run: a folder of its own, the same environment for all."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="vcjob-race-"))
        self.env = {
            **os.environ,
            "OMP_NUM_THREADS": "1",  # as torchrun sets it for its own ranks
            "PYTHONPATH": str(ROOT / "src"),
            "VCJOB_HOME": str(self.folder / "home"),  # no kept-warm server here
            "PATH": f"{Path(PYTHON).parent}{os.pathsep}{os.environ['PATH']}",
            "HF_HOME": str(self.folder / "hf"),
        }
        self.kept_env = {**self.env, "VCJOB_HOME": str(self.folder / "kept")}
        self._count = 0

    def __enter__(self) -> Track:
        return self

    def __exit__(self, *_: object) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self, who: str, ranks: int, *words: str) -> tuple[subprocess.Popen[bytes], Path]:
        """A run of `ranks` ranks by this contestant, and the folder in which the ranks leave their times."""
        self._count += 1
        out = self.folder / f"run-{self._count}"
        out.mkdir()
        env = {**(self.kept_env if who == "kept" else self.env), MARK: out.name}
        argv = self._argv(who, ranks, free_port(), out, [str(SCRIPT), str(out), *words])
        with open(out / "log", "wb") as log:
            process = subprocess.Popen(argv, env=env, stdout=log, stderr=log, cwd=out, start_new_session=True)
        return process, out

    def _argv(self, who: str, ranks: int, port: int, out: Path, script: list[str]) -> list[str]:
        if who == "torchrun":
            return [str(TORCHRUN), f"--nproc-per-node={ranks}", f"--master-port={port}", *script]
        if who == "torchx":
            flags = ["-s", "local_cwd", "-cfg", f"log_dir={out / 'torchx'}"]
            ddp = ["dist.ddp", "-j", f"1x{ranks}", "--script", script[0], "--", *script[1:]]
            return [str(PEERS_FOLDER / "bin" / "torchx"), "run", *flags, *ddp]
        if who == "accelerate":
            # Its way to more than one process per machine is called multi_gpu; the ranks use gloo as all others.
            size = ["--multi_gpu", "--num_machines=1", f"--num_processes={ranks}"]
            rest = ["--mixed_precision=no", "--dynamo_backend=no", f"--main_process_port={port}"]
            return [str(PEERS_FOLDER / "bin" / "accelerate"), "launch", *size, *rest, *script]
        if who == "bare":
            return [PYTHON, str(BARE), str(ranks), str(port), *script]
        job = out / "job.yaml"
        job.write_text(JOB.format(name=out.name, ranks=ranks, port=port, python=PYTHON, script=script))
        return [*VCJOB, "run", *(["--warm"] if who == "warm" else []), str(job)]

    def first_collective(self, who: str, ranks: int) -> float:
        """Seconds from the command to the moment when all ranks have talked to each other."""
        begin = time.time()
        process, out = self.start(who, ranks)
        done = _all_done(process, out, ranks)
        (out / "end").touch()
        _ended_well(process, out)
        return done - begin

    def death(self, who: str, ranks: int) -> tuple[float, str]:
        """Seconds from the death of rank 1 to the command's return, and what it says of the rank."""
        process, out = self.start(who, ranks, "die")
        try:
            process.wait(120)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        returned = time.time()
        words = (out / "log").read_text(errors="replace").replace(f"{ROOT}/", "")
        assert process.returncode != 0, words
        return returned - float((out / "death").read_text()), about_the_rank(words)

    def memory(self, who: str, ranks: int) -> tuple[float, float]:
        """MiB of all processes of a run that has done its first collective, and of the agent alone."""
        process, out = self.start(who, ranks)
        _all_done(process, out, ranks)
        time.sleep(0.3)
        pids = family(out.name, self._servers() if who == "kept" else set())
        everything = sum(pss(pid) for pid in pids)
        if who in OURS:
            agent = sum(rss(pid) for pid in pids if name_of(pid) == "vcjob-supervise")
        else:
            agent = pss(process.pid)
        (out / "end").touch()
        _ended_well(process, out)
        return everything, agent

    @contextlib.contextmanager
    def kept_server(self) -> Iterator[None]:
        start = [*VCJOB, "warm", "start", "--python", PYTHON]
        subprocess.run(start, env=self.kept_env, check=True, stdout=subprocess.DEVNULL)
        try:
            yield
        finally:
            subprocess.run([*VCJOB, "warm", "stop"], env=self.kept_env, check=True, stdout=subprocess.DEVNULL)

    def _servers(self) -> set[int]:
        command = [*VCJOB, "warm", "status", "-o", "json"]
        shown = subprocess.run(command, env=self.kept_env, check=True, stdout=subprocess.PIPE)
        return {entry["pid"] for entry in json.loads(shown.stdout)["servers"]}


_OF_RANK_1 = re.compile(r"(?i)rank\W{0,12}1\b")
_OF_AN_END = re.compile(r"(?i)exit|signal|sigkill|killed|died")


def about_the_rank(log: str) -> str:
    """The last line in which the launcher names the rank that died and how, else the last that names it."""
    lines = [re.sub(r"\x1b\[[0-9;]*m", "", line).strip() for line in log.splitlines()]
    naming = [line for line in lines if _OF_RANK_1.search(line)]
    telling = [line for line in naming if _OF_AN_END.search(line)]
    return (telling or naming or [""])[-1]


def _all_done(process: subprocess.Popen[bytes], out: Path, ranks: int) -> float:
    files = [out / f"done-{rank}" for rank in range(ranks)]
    while not all(file.exists() for file in files):
        if process.poll() is not None:
            raise SystemExit(f"it ended with {process.returncode}:\n{(out / 'log').read_text()}")
        time.sleep(0.01)
    return max(float(file.read_text()) for file in files)


def _ended_well(process: subprocess.Popen[bytes], out: Path) -> None:
    if process.wait(120) != 0:
        raise SystemExit(f"it ended with {process.returncode}:\n{(out / 'log').read_text()}")
