"""A machine that cannot start another process for some time: one container is affected, not its pod."""

from __future__ import annotations

import errno
import os
import signal
from pathlib import Path

import msgspec
import pytest

from vcjob.local.machine.loop import Loop
from vcjob.local.pod.container import ContainerSpec
from vcjob.local.pod.launch import LaunchRequest, PlainLauncher, StartFailure
from vcjob.local.pod.pod import Pod, PodSpec
from vcjob.report.podstate import ContainerState, PodState

REASON = "no process can be started: Resource temporarily unavailable"


def _refuse(patch: pytest.MonkeyPatch, *refused: int) -> None:
    """These calls of fork, counted from 0, fail as they do at the limit of a user's processes."""
    fork, calls = os.fork, iter(range(1000))

    def limited() -> int:
        if next(calls) in refused:
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    patch.setattr(os, "fork", limited)


def _run_pod(folder: Path, restart_policy: str) -> PodState:
    """How a pod with a sidecar ends whose second process, the main one, is refused once; as a shim runs it."""
    env, cwd = dict(os.environ), str(folder)
    containers = [
        ContainerSpec("side", "sidecar", ["sleep", "600"], env, cwd, {}, {}),
        ContainerSpec("main", "main", ["true"], env, cwd, {}, {}),
    ]
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            with pytest.MonkeyPatch.context() as patch:
                _refuse(patch, 1)
                loop, plain = Loop(), PlainLauncher()
                state = PodState(task="a", index=0, name="a-0", uid="u", version=0, attempt=0)

                def changed() -> None:
                    if state.finished:
                        loop.stop()

                spec = PodSpec(containers, restart_policy, folder=cwd)
                pod = Pod(spec, state, loop, launcher=plain, plain=plain, changed=changed)
                pod.start()
                loop.run()
            os.write(writing, msgspec.json.encode(state))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        data = pipe.read()
    os.waitpid(pid, 0)
    return msgspec.json.decode(data, type=PodState)


def _is_stopped(container: ContainerState) -> bool:
    return container.ended is not None and container.ended.signal == signal.SIGTERM


def test_a_container_without_a_process_is_started_again_by_its_restart_policy(tmp_path: Path) -> None:
    state = _run_pod(tmp_path, "OnFailure")
    side, main = state.containers
    assert state.phase == "Succeeded" and main.restarts == 1
    assert main.last is not None and main.last.message == REASON
    assert side.restarts == 0 and _is_stopped(side)


def test_a_container_without_a_process_fails_with_the_reason_if_it_is_never_restarted(tmp_path: Path) -> None:
    state = _run_pod(tmp_path, "Never")
    side, main = state.containers
    assert state.phase == "Failed" and main.restarts == 0
    assert main.ended is not None
    assert (main.ended.reason, main.ended.exit_code, main.ended.message) == ("StartError", 128, REASON)
    assert _is_stopped(side)


def test_a_refused_process_leaves_no_descriptor_open(monkeypatch: pytest.MonkeyPatch) -> None:
    _refuse(monkeypatch, 0)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(StartFailure, match=REASON) as failure:
        PlainLauncher().launch(LaunchRequest(["true"], {}, "/", 1, 2))
    assert failure.value.errno == errno.EAGAIN
    assert os.listdir("/proc/self/fd") == before
