"""Jobs of small programs, run for real: every test here starts processes and sees them end."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests import documents
from vcjob.errors import UserError
from vcjob.local.jobs.requests import supervisor_of
from vcjob.local.machine import process
from vcjob.local.pod.environment import HostContext
from vcjob.local.run.run_dir import RunDir
from vcjob.local.supervisor.host_setup import host_pattern
from vcjob.sdk.finding import jobs
from vcjob.sdk.handle import Handle
from vcjob.sdk.local.handle import LocalHandle
from vcjob.sdk.running import run
from vcjob.spec.job import Job

#: No test waits so long unless something is wrong. Programs that must be ended sleep for longer.
PATIENCE = 120.0

#: VCJOB_TEST_WARM=1: the same tests, with every Python program forked from a warm server.
WARM = os.environ.get("VCJOB_TEST_WARM") == "1"

Start = Callable[..., LocalHandle]


def container(command: str | list[str], name: str = "main", **fields: Any) -> dict[str, Any]:
    """A container that runs a shell line, or a list of words."""
    words = ["sh", "-c", command] if isinstance(command, str) else command
    return {"name": name, "image": "none", "command": words, **fields}


def python(program: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    return container([sys.executable, *_program(program)], name, **fields)


def _program(text: str) -> list[str]:
    if not WARM:
        return ["-c", text]
    # A fork runs files and modules, not text; the folder is in nobody's way and goes with the machine's own.
    folder = Path(tempfile.gettempdir()) / f"vcjob-test-programs-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    file = folder / f"program_{hashlib.sha256(text.encode()).hexdigest()[:12]}.py"
    fresh = file.with_suffix(f".{os.getpid()}")
    fresh.write_text(text)
    fresh.replace(file)  # other tests may run the same program at this moment: never half of it
    return [str(file)]


_OF_TASKS: tuple[str, ...] = ("policies", "maxRetry", "dependsOn", "minAvailable")


def task(name: str, *containers: dict[str, Any] | str, replicas: int = 1, **fields: Any) -> dict[str, Any]:
    """A task; `policies`, `maxRetry`, `dependsOn` stay at the task, everything else goes into the pod."""
    own: dict[str, Any] = {key: fields.pop(key) for key in _OF_TASKS if key in fields}
    listed = [
        container(c, f"main{i}" if i else "main") if isinstance(c, str) else c
        for i, c in enumerate(containers)
    ]
    spec = {"restartPolicy": "Never", "terminationGracePeriodSeconds": 5, "containers": listed, **fields}
    return {"name": name, "replicas": replicas, "template": {"spec": spec}, **own}


_FORKED = {"vcjob.io/warm": "true", "vcjob.io/warm-imports": "json"}


def job(
    *tasks: dict[str, Any], name: str = "job", plugins: dict[str, Any] | None = None, **spec: Any
) -> dict[str, Any]:
    if plugins is None:
        plugins = {"pytorch": []} if any(t["name"] == "master" for t in tasks) else {}
    made = documents.job(name, *tasks, plugins=plugins, **spec)
    if WARM:
        made["metadata"]["annotations"] = _FORKED
    return made


def ranks(command: str | dict[str, Any], workers: int = 2, **fields: Any) -> list[dict[str, Any]]:
    """A master and workers that run the same."""
    return [task("master", command, **fields), task("worker", command, replicas=workers, **fields)]


def some_host(**changes: Any) -> HostContext:
    """Where a pod of a job of three ranks runs; 20001 stands for the cluster's port."""
    pattern = host_pattern(Job(job(*ranks("true"))))
    return HostContext({}, {}, {}, pattern, 23456, 20001, "node", "uid")._replace(**changes)


def left_behind(handle: Handle) -> list[int]:
    return process.marked(process.MARK_RUN, handle.uid)


def kill_supervisor(handle: LocalHandle, number: int = signal.SIGKILL) -> None:
    supervisor = supervisor_of(RunDir(handle.folder))
    assert supervisor is not None
    os.kill(supervisor, number)


_posix_spawn = os.posix_spawn


def spawn_without_sessions(*arguments: Any, setsid: bool = False, **options: Any) -> int:
    """`os.posix_spawn` of a Python that was built with an old C library."""
    if setsid:
        raise NotImplementedError("posix_spawn: setsid unavailable on this platform")
    return _posix_spawn(*arguments, **options)


def eventually(condition: Callable[[], Any], patience: float = PATIENCE, what: str = "the condition") -> Any:
    """The first true answer; an assertion error where there is none in time."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        answer = condition()
        if answer:
            return answer
        time.sleep(0.01)
    raise AssertionError(f"{what} did not come true within {patience:g} s")


def texts(handle: Handle, **filters: Any) -> list[str]:
    return [line.text for line in handle.logs(**filters)]


@pytest.fixture(autouse=True)
def nothing_runs_on(own_home: None) -> Iterator[None]:
    """Whatever a test has left running, also when it failed half-way, is ended after it."""
    yield
    for handle in jobs():
        if isinstance(handle, LocalHandle) and handle.supervised:
            with suppress(UserError):  # it has ended, and its supervisor is about to
                handle.stop(now=True)
            handle.wait(PATIENCE)


@pytest.fixture
def another_user() -> int:
    """The uid of a user whom this process may become. Root may not where its container has dropped CAP_SETUID."""
    nobody = 65534
    try:
        subprocess.run(["true"], user=nobody, check=True)
    except PermissionError:
        pytest.skip("becoming another user needs root with CAP_SETUID")
    return nobody


@pytest.fixture
def start(tmp_path: Path) -> Start:
    """Starts jobs in a folder of their own."""

    def starting(document: dict[str, Any] | str, **options: Any) -> LocalHandle:
        options.setdefault("cwd", tmp_path)
        options.setdefault("warm", WARM)
        handle = run(document, **options)
        assert isinstance(handle, LocalHandle)
        return handle

    return starting


@pytest.fixture
def finish(start: Start) -> Start:
    """Starts a job and waits for its end."""

    def finishing(document: dict[str, Any] | str, **options: Any) -> LocalHandle:
        handle = start(document, **options)
        handle.wait(PATIENCE)
        return handle

    return finishing
