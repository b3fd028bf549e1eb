"""A job store on this machine as it looks after many jobs have run, written without running them."""

from __future__ import annotations

import os
import time
import uuid
from pathlib import Path

from vcjob.lifecycle.status import Phase, State, Status
from vcjob.local.jobs.store import Store
from vcjob.local.run.run_dir import RunConfig
from vcjob.report.podstate import ContainerState, Ended, PodState

LINES = "".join(f"step {step} loss 0.1234 tokens per second 123456\n" for step in range(10))


def fill(home: Path, jobs: int, pods: int) -> None:
    """`jobs` jobs that have ended, each of `pods` pods that wrote ten lines."""
    for number in range(jobs):
        _job(Store(str(home)), f"job-{number}", pods)


def _job(store: Store, name: str, pods: int) -> None:
    now = time.time()
    container = {"name": "main", "image": "none", "command": ["true"]}
    template = {"spec": {"restartPolicy": "Never", "containers": [container]}}
    document = {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": "default", "uid": str(uuid.uuid4())},
        "spec": {
            "minAvailable": pods,
            "tasks": [{"name": "worker", "replicas": pods, "minAvailable": pods, "template": template}],
        },
    }
    run, lock = store.create(document, RunConfig(), "")
    run.write_status(Status(State(Phase.COMPLETED), succeeded=pods, started=now, finished=now))
    run.write_pods([_pod(name, index, now) for index in range(pods)])
    for index in range(pods):
        folder = run.pod_folder(f"{name}-worker-{index}", 0)
        os.makedirs(folder)
        Path(folder, "main.0.out").write_text(LINES)
    os.close(lock)


def _pod(job: str, index: int, now: float) -> PodState:
    ended = Ended(0, "Completed", now, started_at=now)
    return PodState(
        task="worker",
        index=index,
        name=f"{job}-worker-{index}",
        uid=str(uuid.uuid4()),
        phase="Succeeded",
        created_at=now,
        started_at=now,
        finished_at=now,
        containers=[ContainerState(name="main", role="main", started_at=now, ended=ended)],
    )
