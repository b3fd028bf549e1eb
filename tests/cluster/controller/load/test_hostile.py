"""Jobs by somebody who means harm: a value is only ever a value, and a Job stays in its namespace."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.cluster.controller.conftest import Controller, ControllerCluster
from tests.cluster.controller.jobs import job, task, trio
from vcjob.admission.review import admit
from vcjob.plan.plan import Plan

Object = dict[str, Any]
Put = Callable[[Object, str], None]

NASTY = (
    "$(touch /tmp/owned)", "`id`", "; rm -rf /", "a && b | c > d", "'\"\\'\\\"", "x\nspec: {hostNetwork: true}", "{{ .Env }}",
    "${HOME}", "$(MASTER_ADDR)", "--port=1", "!!python/object:os.system", "&a *a", "\x00", "\u202eevil", "{index}", "%s%n", "../../etc",
    '", "hostPID": true, "x": "',
)  # fmt: skip
HARMLESS = "harmless"


def _worker(document: Object) -> Object:
    found: Object = document["spec"]["tasks"][1]
    return found


def _argument(flag: str) -> Put:
    def put(document: Object, value: str) -> None:
        document["spec"]["plugins"]["pytorch"].append(f"--{flag}={value}")

    return put


def _in_worker(*path: str | int) -> Put:
    def put(document: Object, value: str) -> None:
        inner: Any = _worker(document)["template"]
        for step in path[:-1]:
            inner = inner.setdefault(step, {}) if isinstance(inner, dict) else inner[step]
        inner[path[-1]] = value

    return put


def _in_spec(field: str) -> Put:
    return lambda document, value: document["spec"].update({field: value})


def _name(document: Object, value: str) -> None:
    document["metadata"]["name"] = value


def _task_name(document: Object, value: str) -> None:
    _worker(document)["name"] = value
    document["spec"]["plugins"]["pytorch"].append(f"--worker={value}")


def _env(document: Object, value: str) -> None:
    _worker(document)["template"]["spec"]["containers"][0]["env"] = [{"name": "MINE", "value": value}]


def _volume(document: Object, value: str) -> None:
    document["spec"]["volumes"] = [{"mountPath": f"/{value}", "volumeClaimName": "data"}]


def _job_label(document: Object, value: str) -> None:
    document["metadata"]["labels"] = {"volcano.sh/preemptable": value}


def _job_annotation(document: Object, value: str) -> None:
    document["metadata"]["annotations"] = {"volcano.sh/revocable-zone": value}


PLACES: dict[str, Put] = {
    "the Job's name": _name,
    "a task's name": _task_name,
    "--master": _argument("master"),
    "--worker": _argument("worker"),
    "--port": _argument("port"),
    "--wait-master-image": _argument("wait-master-image"),
    "--wait-master-timeout": _argument("wait-master-timeout"),
    "a label of the Job": _job_label,
    "an annotation of the Job": _job_annotation,
    "a label of the template": _in_worker("metadata", "labels", "mine"),
    "an annotation of the template": _in_worker("metadata", "annotations", "mine"),
    "a variable": _env,
    "an image": _in_worker("spec", "containers", 0, "image"),
    "a hostname": _in_worker("spec", "hostname"),
    "a subdomain": _in_worker("spec", "subdomain"),
    "a service account": _in_worker("spec", "serviceAccountName"),
    "a mount path": _volume,
    "the queue": _in_spec("queue"),
    "the scheduler": _in_spec("schedulerName"),
    "the priority class": _in_spec("priorityClassName"),
}


def _rendered(put: Put, value: str) -> list[Any] | None:
    """All objects of a Job with this value; None where it is refused, with the place of what is wrong."""
    document = trio("train", plugins={"pytorch": ["--wait-master-enabled"], "env": []})
    document["metadata"] |= {"namespace": "team", "uid": "6f1c2b0e-5d44-4a6e-9c0e-0a0b0c0d0e0f"}
    put(document, value)
    admission = admit(document, backend="cluster")
    if admission.job is None:
        assert all(problem.path for problem in admission.problems if problem.severity == "error")
        return None
    return json.loads(json.dumps(list(Plan(admission.job).render())))  # type: ignore[no-any-return]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield key
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)
    elif isinstance(value, str):
        yield value


def _shape(value: Any) -> Any:
    """The same with every text taken out; what was injected into the structure would show."""
    if isinstance(value, dict):
        return {key: _shape(inner) for key, inner in value.items()}
    return [_shape(inner) for inner in value] if isinstance(value, list) else type(value).__name__


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("value", NASTY)
def test_a_hostile_value_is_refused_or_stays_a_value(place: str, value: str) -> None:
    found = _rendered(PLACES[place], value)
    if found is None:
        return
    expected = _rendered(PLACES[place], HARMLESS)
    assert expected is not None
    assert _shape(found) == _shape(expected), "it changed what is made"
    for pod in (obj for obj in found if obj["kind"] == "Pod"):
        for container in pod["spec"].get("initContainers", ()):
            program = "\n".join(_strings(container.get("command"))) + "\n".join(
                _strings(container.get("args"))
            )
            assert value not in program, "it reached the wait program's text"


def _with_claims_of_identity(name: str, other: str) -> Object:
    """A template that says it is somebody else, somewhere else."""
    wanted = job(name, task("a", 1))
    wanted["spec"]["tasks"][0]["template"]["metadata"] |= {
        "name": "kube-dns",
        "namespace": other,
        "ownerReferences": [
            {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "1", "controller": True}
        ],
        "labels": {
            "volcano.sh/job-name": "another",
            "volcano.sh/job-namespace": other,
            "vcjob.io/attempt": "7",
        },
    }
    return wanted


@pytest.mark.cluster
def test_a_job_changes_nothing_in_another_namespace(
    testbed: ControllerCluster, serve: Callable[..., Controller], fakes: Callable[..., Any]
) -> None:
    fakes(1)
    other = f"{testbed.namespace}-other"
    testbed.api.create("/api/v1/namespaces", {"metadata": {"name": other}})
    theirs = f"/api/v1/namespaces/{other}"
    testbed.api.wait(f"{theirs}/serviceaccounts/default", lambda seen: seen is not None, what="made")
    serve()
    testbed.create(_with_claims_of_identity("sly", other))
    done = testbed.wait_phase("sly", "Completed", "Failed")
    assert done["status"]["state"]["phase"] == "Completed"
    (pod,) = testbed.pods()
    meta = pod["metadata"]
    assert (meta["name"], meta["namespace"]) == ("sly-a-0", testbed.namespace)
    assert [owner["uid"] for owner in meta["ownerReferences"]] == [done["metadata"]["uid"]]
    assert meta["labels"]["volcano.sh/job-name"] == "sly"
    assert meta["labels"]["volcano.sh/job-namespace"] == testbed.namespace
    for plural in ("pods", "services", "secrets", "persistentvolumeclaims"):
        assert testbed.api.list(f"{theirs}/{plural}") == []
    assert [found["metadata"]["name"] for found in testbed.api.list(f"{theirs}/configmaps")] == [
        "kube-root-ca.crt"
    ]
    testbed.api.delete(f"/api/v1/namespaces/{other}")
