"""Runs the corpus as processes of this machine, with the programs that the node's image has."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.differential.corpus import BUNDLE, Case
from tests.differential.observation import OVER, ContainerSeen, JobSeen, PodSeen
from vcjob import run, to_yaml
from vcjob.report.podstate import ContainerState, PodState
from vcjob.sdk.handle import Handle
from vcjob.sdk.local.handle import LocalHandle

PATIENCE = 120.0
_AT_ONCE = 6


def run_locally(cases: Sequence[Case], folder: Path) -> dict[str, JobSeen]:
    """Every Job by its name, as it ended."""
    programs = _programs(folder / "bin")
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        seen = pool.map(lambda case: _run(case, folder, programs), cases)
        return {case.name: job for case, job in zip(cases, seen, strict=True)}


def _programs(folder: Path) -> Path:
    """busybox under all its names, as in the image."""
    folder.mkdir()
    listed = subprocess.run(["busybox", "--list"], capture_output=True, text=True, check=True)
    for name in {"busybox", *listed.stdout.split()}:
        (folder / name).symlink_to("/bin/busybox")
    return folder


def _run(case: Case, folder: Path, programs: Path) -> JobSeen:
    work = folder / case.name
    work.mkdir()
    file = work / "job.yaml"
    file.write_text("---\n".join(to_yaml(document) for document in (case.job, *BUNDLE)))
    handle = run(file, cwd=work, env={"PATH": str(programs), "HOME": "/root"})
    _wait(handle)
    status = handle.to_dict()["status"]
    pods = [pod for pod in handle.pods() if pod.deleted_at is None]
    return JobSeen.of(status, {f"{pod.task}-{pod.index}": _pod(handle, pod, case.ordered) for pod in pods})


def _wait(handle: Handle) -> None:
    """Until it is over or suspended, and none of its processes runs."""
    deadline = time.monotonic() + PATIENCE
    while str(handle.phase) not in OVER or (isinstance(handle, LocalHandle) and handle.supervised):
        assert time.monotonic() < deadline, f"{handle.name} is still {handle.phase}"
        time.sleep(0.05)


def _pod(handle: Handle, pod: PodState, ordered: bool) -> PodSeen:
    return PodSeen(
        phase=pod.phase,
        reason=pod.reason or "",
        containers={c.name: _container(handle, pod, c, ordered) for c in pod.containers},
    )


def _container(handle: Handle, pod: PodState, state: ContainerState, ordered: bool) -> ContainerSeen:
    lines = [
        line
        for line in handle.logs(tasks=(pod.task,), containers=(state.name,))
        if line.index == pod.index and line.attempt == pod.attempt
    ]

    def text(stream: str) -> str:
        return "".join(f"{line.text}\n" for line in lines if line.stream == stream)

    return ContainerSeen(
        exit_code=state.ended.exit_code if state.ended else None,
        reason=state.ended.reason if state.ended else state.waiting or "",
        restarts=state.restarts,
        stdout=text("out"),
        stderr=text("err"),
        merged="".join(f"{line.text}\n" for line in lines) if ordered else "",
    )
