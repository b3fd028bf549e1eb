"""AdmissionReviews as an API server sends them, and how to read the answers."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import yaml

GUIDE = Path(__file__).parents[2] / "guides/guide.en.yaml"
Object = dict[str, Any]


def guide() -> Object:
    job: Object = yaml.load(GUIDE.read_text(), Loader=yaml.CSafeLoader)
    return job


def review(job: Any, operation: str = "CREATE", old: Any = None, **request: Any) -> bytes:
    return json.dumps(
        {
            "apiVersion": "admission.k8s.io/v1",
            "kind": "AdmissionReview",
            "request": {
                "uid": "705ab4f5",
                "kind": {"group": "batch.volcano.sh", "version": "v1alpha1", "kind": "Job"},
                "resource": {"group": "batch.volcano.sh", "version": "v1alpha1", "resource": "jobs"},
                "name": "",
                "namespace": "team",
                "operation": operation,
                "userInfo": {"username": "someone"},
                "object": job,
                "oldObject": old,
                "dryRun": False,
                **request,
            },
        }
    ).encode()


def response(answered: bytes) -> Object:
    document = json.loads(answered)
    assert (document["apiVersion"], document["kind"]) == ("admission.k8s.io/v1", "AdmissionReview")
    found: Object = document["response"]
    assert found["uid"] == "705ab4f5"
    return found


def operations(found: Object) -> list[Object]:
    assert found.get("patchType") == "JSONPatch"
    patch: list[Object] = json.loads(base64.b64decode(found["patch"]))
    return patch


def patched(job: Object, found: Object) -> Object:
    """The Job with the answer's patch (of which only `add` and `replace` occur) applied."""
    result: Object = json.loads(json.dumps(job))
    for operation in operations(found):
        *steps, last = operation["path"].split("/")[1:]
        place: Any = result
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place[step]
        place[int(last) if isinstance(place, list) else last] = operation["value"]
    return result


def long_job(tasks: int = 4, containers: int = 3) -> Object:
    """A Job as large as real ones get: 300 lines of YAML with the numbers given here."""
    job = guide()
    template = job["spec"]["tasks"][1]
    job["spec"]["tasks"] = job["spec"]["tasks"][:1] + [
        {
            "name": f"part-{number}" if number else "worker",
            "replicas": 2,
            "template": {
                "metadata": {"labels": {f"label-{n}": str(n) for n in range(5)}},
                "spec": {
                    "restartPolicy": template["template"]["spec"].get("restartPolicy", "OnFailure"),
                    "volumes": [{"name": f"data-{n}", "emptyDir": {}} for n in range(3)],
                    "containers": [
                        {
                            "name": f"container-{n}",
                            "image": "pytorch/pytorch:2.9",
                            "command": ["python", "-m", "train"],
                            "env": [{"name": f"VARIABLE_{e}", "value": str(e)} for e in range(6)],
                            "resources": {"requests": {"cpu": "1", "memory": "2Gi"}},
                            "volumeMounts": [{"name": f"data-{n}", "mountPath": f"/data/{n}"}],
                        }
                        for n in range(containers)
                    ],
                },
            },
        }
        for number in range(tasks)
    ]
    return job
