"""Runs the corpus on the testbed's node, under our controller and a real kubelet."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.cluster.controller.conftest import ControllerCluster
from tests.differential.corpus import BUNDLE, Case
from tests.differential.observation import OVER, ContainerSeen, JobSeen, PodSeen
from tests.testbed.parts.node import Node

PATIENCE = 240.0
_PLURALS = {"ConfigMap": "configmaps", "Secret": "secrets"}
Object = dict[str, Any]


def run_on_cluster(cases: Sequence[Case], cluster: ControllerCluster, node: Node) -> dict[str, JobSeen]:
    """Every Job by its name, as it ended."""
    for document in BUNDLE:
        cluster.api.create(f"{cluster.core}/{_PLURALS[document['kind']]}", document)
    return _run(cases, cluster, node)


def run_again_on_cluster(cases: Sequence[Case], cluster: ControllerCluster, node: Node) -> dict[str, JobSeen]:
    """The same for Jobs that have run there before."""
    names = {case.name for case in cases}
    for name in names:
        cluster.api.delete(f"{cluster.jobs}/{name}")
    cluster.api.wait(
        cluster.jobs,
        lambda seen: not names & {job["metadata"]["name"] for job in seen["items"]},
        PATIENCE,
        "deleted",
    )
    return _run(cases, cluster, node)


def _run(cases: Sequence[Case], cluster: ControllerCluster, node: Node) -> dict[str, JobSeen]:
    for case in cases:
        cluster.create(case.job)
    jobs = _wait_for_jobs(cluster)
    pods = _wait_for_pods(cluster)
    logs = node.cell.folder / "kubelet" / "pod-logs"
    return {case.name: _job(case, jobs[case.name], pods, logs) for case in cases}


def _wait_for_jobs(cluster: ControllerCluster) -> dict[str, Object]:
    seen = cluster.api.wait(
        cluster.jobs,
        lambda seen: all(_phase(job) in OVER for job in seen["items"]),
        PATIENCE,
        "all over",
    )
    return {job["metadata"]["name"]: job for job in seen["items"]}


def _phase(job: Object) -> str:
    return str(((job.get("status") or {}).get("state") or {}).get("phase", ""))


def _wait_for_pods(cluster: ControllerCluster) -> list[Object]:
    """Pods that are being deleted go; the others have ended."""
    return cluster.wait_pods(
        lambda pods: all(
            pod["status"]["phase"] in ("Succeeded", "Failed") and "deletionTimestamp" not in pod["metadata"]
            for pod in pods
        ),
        PATIENCE,
    )


def _job(case: Case, job: Object, pods: Sequence[Object], logs: Path) -> JobSeen:
    own = [
        pod
        for pod in pods
        if any(owner["uid"] == job["metadata"]["uid"] for owner in pod["metadata"]["ownerReferences"])
    ]
    return JobSeen.of(
        job["status"],
        {pod["metadata"]["name"].removeprefix(f"{case.name}-"): _pod(pod, logs, case.ordered) for pod in own},
    )


def _pod(pod: Object, logs: Path, ordered: bool) -> PodSeen:
    status, meta = pod["status"], pod["metadata"]
    folder = logs / f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
    states = [*status.get("initContainerStatuses", ()), *status.get("containerStatuses", ())]
    return PodSeen(
        phase=status["phase"],
        reason=status.get("reason", ""),
        containers={state["name"]: _container(state, folder, ordered) for state in states},
    )


def _container(state: Object, folder: Path, ordered: bool) -> ContainerSeen:
    now = state["state"]
    ended, restarts = now.get("terminated") or {}, state["restartCount"]
    reason = ended.get("reason") or (now.get("waiting") or {}).get("reason", "")
    out, err, merged = _streams(folder / state["name"] / f"{restarts}.log")
    return ContainerSeen(
        exit_code=ended.get("exitCode"),
        reason=reason,
        restarts=restarts,
        stdout=out,
        stderr=err,
        merged=merged if ordered else "",
    )


def _streams(path: Path) -> tuple[str, str, str]:
    """stdout, stderr and both of a log in the format of the container runtime: TIME STREAM F|P TEXT."""
    content = _settled(path)
    streams: dict[bytes, bytes] = {b"stdout": b"", b"stderr": b""}
    merged = b""
    for line in content.split(b"\n")[:-1]:
        _, stream, tag, text = line.split(b" ", 3)
        piece = text + (b"\n" if tag == b"F" else b"")
        streams[stream] += piece
        merged += piece
    ended = (
        text + b"\n" if text and not text.endswith(b"\n") else text for text in (*streams.values(), merged)
    )
    out, err, both = (text.decode(errors="replace") for text in ended)
    return out, err, both


def _settled(path: Path) -> bytes:
    """The runtime may write the last lines some time after the kubelet has seen the end: wait until no more come."""
    content, equal = b"", 0
    for _ in range(100):
        before, content = content, path.read_bytes() if path.exists() else b""
        equal = equal + 1 if content == before else 0
        if equal >= 3:
            break
        time.sleep(0.05)
    return content
