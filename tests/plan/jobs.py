"""Small Jobs, made by hand, as they are after admission."""

from __future__ import annotations

from typing import Any

from tests import documents
from vcjob.spec.job import Job

UID = "6f1c2b0e-5d44-4a6e-9c0e-0a0b0c0d0e0f"


def container(name: str = "main", **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": "img:1", **fields}


def task(
    name: str, replicas: int = 1, *, spec: dict[str, Any] | None = None, **fields: Any
) -> dict[str, Any]:
    pod_spec = {"containers": [container()], **(spec or {})}
    return {
        "name": name,
        "replicas": replicas,
        "minAvailable": replicas,
        "template": {"spec": pod_spec},
        **fields,
    }


def document(*tasks: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    made = documents.job("train", *tasks, **{"queue": "default", "schedulerName": "volcano", **spec})
    made["metadata"] |= {"namespace": "team", "uid": UID, **(metadata or {})}
    return made


def job(*tasks: dict[str, Any], metadata: dict[str, Any] | None = None, **spec: Any) -> Job:
    return Job(document(*tasks, metadata=metadata, **spec))


def of_kind(objects: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [obj for obj in objects if obj["kind"] == kind]
