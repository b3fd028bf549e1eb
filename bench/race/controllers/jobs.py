"""The Jobs of the race: PyTorch Jobs as users write them, spelled out in full, for no webhook fills anything in."""

from __future__ import annotations

from typing import Any

from tests.testbed.parts.fake_nodes import COMPLETE_AFTER

NAMESPACE = "race"


def pytorch_job(name: str, workers: int, *, life: str | None) -> dict[str, Any]:
    """A master and `workers`; their pods end after `life`, or never."""
    tasks = [_task("master", 1, life)]
    if workers:
        tasks.append(_task("worker", workers, life))
    return {
        "apiVersion": "batch.volcano.sh/v1alpha1",
        "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "minAvailable": 1 + workers,
            "schedulerName": "default-scheduler",
            "queue": "default",
            "maxRetry": 3,
            "plugins": {
                "pytorch": ["--port=23456"],
                "svc": [],
                "env": [],
            },
            "tasks": tasks,
        },
    }


def _task(name: str, replicas: int, life: str | None) -> dict[str, Any]:
    return {
        "name": name,
        "replicas": replicas,
        "minAvailable": replicas,
        "maxRetry": 3,
        "template": {
            "metadata": {"annotations": {COMPLETE_AFTER: life} if life else {}},
            "spec": {
                "restartPolicy": "Never",
                "terminationGracePeriodSeconds": 1,
                "nodeSelector": {"type": "fake"},
                "containers": [
                    {
                        "name": name,
                        "image": "pytorch/pytorch:latest",
                        "command": ["python", "train.py"],
                        "resources": {"requests": {"cpu": "10m"}},
                    }
                ],
            },
        },
    }
