"""kill -9 at random moments, at everything that can be killed: the truth stands afterwards, and nothing else."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import msgspec
import pytest

import vcjob
from tests.local.conftest import (
    PATIENCE,
    Start,
    eventually,
    job,
    kill_supervisor,
    left_behind,
    python,
    task,
    texts,
)
from vcjob.local.jobs import recovery
from vcjob.local.jobs.recovery import settle
from vcjob.local.jobs.requests import supervisor_of
from vcjob.local.machine import process
from vcjob.local.machine.ports import is_free
from vcjob.local.run.run_dir import RunDir
from vcjob.sdk.local.handle import LocalHandle

TARGETS = ("rank", "master", "waiting", "supervisor", "command", "shim")

#: Ranks meet at the port and print numbered lines; every second one has a grandchild in a session of its own.
#: A line counts as written once its number stands in the rank's counter file.
PROGRAM = """
import os, socket, sys, time
rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])
place = ('127.0.0.1', int(os.environ['MASTER_PORT']))
if rank % 2 and os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(600)
    os._exit(0)
if rank == 0:
    server = socket.socket()
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    server.bind(place)
    server.listen()
    peers = []
    while len(peers) < world - 1:
        peer = server.accept()[0]
        if peer.recv(1) == b'r':  # not a probe of wait-for-master
            peers.append(peer)
else:
    while True:
        try:
            peer = socket.create_connection(place)
            break
        except OSError:
            time.sleep(0.02)
    peer.sendall(b'r')
counter = os.open(f'counter-{rank}', os.O_CREAT | os.O_WRONLY, 0o644)
for number in range(1, 61):
    os.write(1, b'line %d %s\\n' % (number, b'x' * 100))  # whole, or not at all
    os.pwrite(counter, b'%06d' % number, 0)
    time.sleep(0.005)
"""


def rounds(count: int, beginning: int = 20260203) -> Iterator[tuple[str, int]]:
    chance = random.Random(beginning)
    for number in range(count):
        yield TARGETS[number % len(TARGETS)], chance.randrange(1 << 30)


@pytest.mark.parametrize(
    ("target", "seed"),
    [
        pytest.param(target, seed, marks=() if target == "supervisor" else pytest.mark.slow)
        for target, seed in rounds(len(TARGETS))
    ],
)
def test_a_kill_at_a_random_moment(start: Start, tmp_path: Path, target: str, seed: int) -> None:
    one_round(tmp_path, target, seed)


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_storm_of_kills_at_random_moments(tmp_path: Path) -> None:
    """`make storm` runs two hundred rounds with a new seed each time, `make test-cluster` a part of them."""
    count = int(os.environ.get("VCJOB_STORM_ROUNDS", "40"))
    beginning = int(os.environ.get("VCJOB_STORM_SEED") or random.randrange(1 << 30))
    print(f"again with the same moments: VCJOB_STORM_SEED={beginning}")
    for number, (target, seed) in enumerate(rounds(count, beginning)):
        folder = tmp_path / str(number)
        folder.mkdir()
        one_round(folder, target, seed, name=f"storm-{number}")


def one_round(folder: Path, target: str, seed: int, name: str = "storm") -> None:
    chance, port = random.Random(seed), _own_port()
    document = job(
        task("master", python(PROGRAM)),
        task("worker", python(PROGRAM), replicas=2),
        name=name,
        plugins={"pytorch": [f"--port={port}", "--wait-master-enabled=true", "--wait-master-timeout=20"]},
    )
    (folder / "job.yaml").write_text(vcjob.to_yaml(document))
    with open(folder / "said", "wb") as said:
        command = subprocess.Popen(
            [sys.executable, "-m", "vcjob.cli.main", "run", "job.yaml"],
            cwd=folder,
            stdout=said,
            stderr=subprocess.STDOUT,
        )
    handle = eventually(lambda: _found(name, command, folder / "said"), what="the job")
    with Reader(Path(handle.folder)) as reader:
        time.sleep(chance.uniform(0.0, 0.7))
        killed = _kill(handle, target, command)
        _await_end(handle, command, target)
    context = f"target {target}, seed {seed}, killed {killed}"
    assert reader.damaged == [], context
    _await_no_process(handle, context)
    _check_truth(handle, target, killed, context)
    _check_lines(handle, folder, context)
    assert is_free(int(handle.status().resources.get("vcjob.io/master-port", port))), context


def _own_port() -> int:
    """One that nobody else takes: whether it is free again afterwards is asked of it."""
    while not is_free(port := random.randrange(20000, 30000)):
        pass
    return port


def _found(name: str, command: subprocess.Popen[bytes], said: Path) -> LocalHandle | None:
    assert command.poll() in (None, 0), said.read_text()
    try:
        handle = vcjob.find(name)
    except vcjob.NoSuchJob:
        return None
    assert isinstance(handle, LocalHandle)
    return handle


def _kill(handle: LocalHandle, target: str, command: subprocess.Popen[bytes]) -> int | None:
    """Kill the target, if it is there at this moment; returns what was killed."""
    pid: int | None = None
    pods = {pod.rank: pod for pod in handle.pods()}
    containers = {(pod.rank, c.name): c for pod in pods.values() for c in pod.containers}
    if target == "command":
        pid = command.pid if command.poll() is None else None
    elif target == "supervisor":
        pid = supervisor_of(RunDir(handle.folder))
    elif target == "shim":
        pid = pods[1].shim if 1 in pods and not pods[1].finished else None
    else:
        wanted = {"rank": (1, "main"), "master": (0, "main"), "waiting": (2, "wait-for-master")}[target]
        pid = containers[wanted].pid if wanted in containers else None
    if pid is None:
        return None
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        return None
    return pid


def _await_end(handle: LocalHandle, command: subprocess.Popen[bytes], target: str) -> None:
    try:
        command.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        left = "\n".join(f"{pid} {_command_line(pid)}" for pid in left_behind(handle))
        pytest.fail(f"`run` has not ended; {target} was killed; {handle.status()}\n{handle.pods()}\n{left}")
    assert handle.wait(PATIENCE)


def _await_no_process(handle: LocalHandle, context: str) -> None:
    try:
        eventually(lambda: not left_behind(handle), what="the end of all processes")
    except AssertionError:
        left = {pid: _command_line(pid) for pid in left_behind(handle)}
        assert left == {}, context


def _command_line(pid: int) -> str:
    try:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[:2]
    except OSError:
        return "gone"
    return f"{process.name_of(pid)} (state, parent: {' '.join(state)}) {words[:200]}"


def _check_truth(handle: LocalHandle, target: str, killed: int | None, context: str) -> None:
    status = handle.status()
    if killed is None or target == "command":
        assert status.phase == "Completed", (context, status.state)
        return
    if status.phase == "Completed":
        return  # the kill came when the work was done
    assert status.phase == "Failed", (context, status.state)
    assert status.state.message, context
    if target == "supervisor":
        assert status.state.reason == "SupervisorLost", context
        assert all(pod.finished for pod in handle.pods()), context
    elif target != "shim" and status.culprit and status.culprit.failure:
        # Its peers may have felt it before we saw it: the first of them is as good a cause.
        assert status.culprit.failure.exit_code not in (0, None), context


def _check_lines(handle: LocalHandle, folder: Path, context: str) -> None:
    """No line that was written is lost, none is torn, and they are in order."""
    written: dict[int, list[str]] = {}
    for line in handle.logs(containers=("main",)):
        if line.stream == "out" and line.rank is not None:
            written.setdefault(line.rank, []).append(line.text)
    for rank in range(3):
        counter = folder / f"counter-{rank}"
        count = int(counter.read_text() or 0) if counter.exists() else 0
        lines = written.get(rank, [])
        assert len(lines) >= count, (context, rank)
        assert lines == [f"line {number} {'x' * 100}" for number in range(1, len(lines) + 1)], (context, rank)


class Reader:
    """Reads the files of a run all the time, as other verbs would; remembers any that was not whole."""

    def __init__(self, folder: Path) -> None:
        self.damaged: list[str] = []
        self._folder = folder
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._read)

    def __enter__(self) -> Reader:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _read(self) -> None:
        while not self._stop.wait(0.02):
            for name in ("job.json", "status.json", "pods.json", "config.json"):
                try:
                    msgspec.json.decode((self._folder / name).read_bytes())
                except FileNotFoundError:
                    continue
                except msgspec.DecodeError as error:
                    self.damaged.append(f"{name}: {error}")


def test_the_next_verb_reports_the_loss_after_the_supervisor_is_killed(start: Start) -> None:
    handle = start(job(task("master", "sleep 600"), task("worker", "sleep 600", replicas=2)))
    eventually(lambda: handle.status().running == 3)
    kill_supervisor(handle)
    eventually(lambda: not handle.supervised)
    document = vcjob.find("job").to_dict()
    assert document["status"]["state"]["phase"] == "Failed"
    assert document["status"]["state"]["reason"] == "SupervisorLost"
    assert document["status"].get("running", 0) == 0 and document["status"]["failed"] == 3
    assert left_behind(handle) == []
    assert vcjob.find("job").events()[-1]["reason"] == "SupervisorLost"
    assert [finding.cause for finding in vcjob.find("job").why()] == ["SupervisorLost"]


def test_all_who_ask_at_once_hear_the_same_truth(start: Start) -> None:
    handle = start(job(task("a", "sleep 600", replicas=2)))
    eventually(lambda: handle.status().running == 2)
    kill_supervisor(handle)
    eventually(lambda: not handle.supervised)
    heard: list[str] = []
    threads = [threading.Thread(target=lambda: heard.append(str(handle.status().phase))) for _ in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert heard == ["Failed"] * 12
    assert [event["reason"] for event in handle.events()].count("SupervisorLost") == 1


@pytest.mark.parametrize("damaged", [False, True], ids=["readable", "damaged"])
def test_supervisor_and_shims_killed_together_leave_only_what_the_next_verb_sweeps(
    start: Start, damaged: bool
) -> None:
    detached = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(600)\n"
    handle = start(job(task("a", python(detached), replicas=2)))
    eventually(lambda: handle.status().running == 2)
    eventually(lambda: len(left_behind(handle)) >= 7)
    for pid in [p for p in left_behind(handle) if process.name_of(p).startswith("vcjob-")]:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not handle.supervised)
    if damaged:
        Path(handle.folder, "status.json").write_bytes(b"")
    assert handle.phase == "Failed"
    assert left_behind(handle) == []


def test_a_new_run_ends_what_the_old_one_left_before_it_starts(start: Start) -> None:
    detached = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(600)\n"
    old = start(job(task("a", python(detached))))
    eventually(lambda: len(left_behind(old)) >= 4)
    for pid in [p for p in left_behind(old) if process.name_of(p).startswith("vcjob-")]:
        os.kill(pid, signal.SIGKILL)
    eventually(lambda: not old.supervised)
    new = start(job(task("a", "true")))
    assert left_behind(old) == []
    assert new.wait(PATIENCE) == "Completed"
    assert old.phase == "Failed"


def test_a_verb_lets_the_shims_of_a_lost_job_save_the_last_output(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recovery, "_LAST_OUTPUT", PATIENCE)
    program = "until [ -e go ]; do sleep 0.01; done; seq 5000; touch written; sleep 600"
    handle = start(job(task("a", program)))
    run = RunDir(handle.folder)
    shim = eventually(lambda: next((pod.shim for pod in run.pods() if pod.phase == "Running"), None))
    os.kill(shim, signal.SIGSTOP)  # as one that the kernel has not scheduled yet
    (tmp_path / "go").touch()
    eventually((tmp_path / "written").exists)
    kill_supervisor(handle)
    eventually(lambda: not run.supervised())
    marked, calls = process.marked, itertools.count()

    def continuing(mark: str, *values: str) -> list[int]:
        if next(calls) == 1:  # the verb has seen the shim once
            with suppress(ProcessLookupError):
                os.kill(shim, signal.SIGCONT)
        return marked(mark, *values)

    monkeypatch.setattr(process, "marked", continuing)
    assert settle(run).phase == "Failed"
    assert texts(handle) == [str(number) for number in range(1, 5001)]
    assert left_behind(handle) == []


@pytest.mark.slow
def test_a_job_can_be_run_again_after_its_supervisor_was_killed(start: Start) -> None:
    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.phase == "Running")
    kill_supervisor(handle)
    eventually(lambda: not handle.supervised)
    again = start(job(task("a", "true")))
    assert again.wait(PATIENCE) == "Completed"
    assert left_behind(handle) == []


@pytest.mark.torch
@pytest.mark.long
@pytest.mark.timeout(900)
def test_kills_at_random_moments_with_torch(tmp_path: Path) -> None:
    """Real collectives: the ranks that hang behind a dead one are ended, not left to their timeouts."""
    program = (
        "import os, torch, torch.distributed as dist\n"
        "dist.init_process_group('gloo')\n"
        "x = torch.ones(1000)\n"
        "for step in range(400):\n"
        "    dist.all_reduce(x)\n"
        "    x /= dist.get_world_size()\n"
        "    print('step', step, float(x[0]), flush=True)\n"
    )
    chance = random.Random(10)
    for number in range(10):
        document = job(
            task("master", python(program)),
            task("worker", python(program), replicas=2),
            name=f"torch-{number}",
        )
        handle = vcjob.run(document, cwd=tmp_path)
        eventually(partial(texts, handle), what="the first step")
        time.sleep(chance.uniform(0.0, 0.3))
        victim = chance.randrange(3)
        pod = next(pod for pod in handle.pods() if pod.rank == victim)
        pid = pod.containers[-1].pid
        if pid is not None:
            os.kill(pid, signal.SIGKILL)
        phase = handle.wait(PATIENCE)
        assert left_behind(handle) == []
        if phase == "Failed":
            culprit = handle.failure().culprit
            assert culprit and culprit.rank is not None
        for rank in range(3):
            lines = [line.text.split() for line in handle.logs(ranks=(rank,)) if line.text.startswith("step")]
            steps = [words[1] for words in lines if len(words) == 3]  # the kill may cut the last line
            assert steps == [str(n) for n in range(len(steps))]
