"""Updates (docs/semantics.md): which fields may change, and that applying the same file again changes nothing."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from tests.admission.cases import admitted, container, job, pytorch_job, task, template
from tests.spec.mistakes import TEXTS
from tests.strategies import jobs
from vcjob.admission.review import admit
from vcjob.admission.update import check_update, frozen_spec
from vcjob.spec.bundle import load_text
from vcjob.spec.problem import format_path

REFERENCE = [
    Path(__file__).parent.parent / "reference" / f"{name}.json"
    for name in ("guide", "guide-old", "multi", "res")
]
CLAIM = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}


@pytest.fixture
def old() -> dict[str, Any]:
    limits = {"cpu": "1", "memory": "1Gi"}
    pod = template(
        container(
            resources={"limits": limits}, ports=[{"containerPort": 80}], env=[{"name": "A", "value": "1"}]
        )
    )
    doc = pytorch_job(
        tasks=[task("master", template=pod), task("worker", 3)],
        volumes=[{"mountPath": "/d", "volumeClaim": CLAIM}],
    )
    return admitted(doc).doc


def change(doc: dict[str, Any], *where: Any, to: Any) -> dict[str, Any]:
    changed = copy.deepcopy(doc)
    node: Any = changed
    for step in where[:-1]:
        node = node[step]
    node[where[-1]] = to
    return changed


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("spec", "minAvailable"), 1),
        (("spec", "priorityClassName"), "high"),
        (("spec", "suspend"), True),
        (("spec", "tasks", 1, "replicas"), 5),
        (("spec", "tasks", 1, "minAvailable"), 1),
        (("metadata", "labels"), {"a": "b"}),
        (("metadata", "finalizers"), ["x/y"]),
        (("status",), {"state": {"phase": "Running"}}),
    ],
)
def test_what_may_change(old: dict[str, Any], where: tuple[Any, ...], value: Any) -> None:
    new = change(old, *where, to=value)
    assert check_update(old, new) == []
    assert frozen_spec(old) == frozen_spec(new)
    assert admit(new, old=old).valid


@pytest.mark.parametrize(
    ("where", "value", "path"),
    [
        (("spec", "queue"), "other", "spec.queue"),
        (("spec", "schedulerName"), "other", "spec.schedulerName"),
        (("spec", "maxRetry"), 4, "spec.maxRetry"),
        (("spec", "maxRetry"), 0, "spec.maxRetry"),
        (("spec", "minSuccess"), 1, "spec.minSuccess"),
        (("spec", "activeDeadlineSeconds"), 5, "spec.activeDeadlineSeconds"),
        (("spec", "plugins", "pytorch"), ["--port=5"], "spec.plugins.pytorch[0]"),
        (("spec", "plugins", "env"), [], "spec.plugins.env"),
        (("spec", "policies"), [{"event": "PodFailed", "action": "AbortJob"}], "spec.policies"),
        (("spec", "volumes"), [], "spec.volumes"),
        (("spec", "volumes", 0, "mountPath"), "/e", "spec.volumes[0].mountPath"),
        (("spec", "tasks", 0, "maxRetry"), 9, "spec.tasks[0].maxRetry"),
        (("spec", "tasks", 0, "template", "spec", "containers", 0, "image"), "img:2", "spec.tasks[0].template.spec.containers[0].image"),
        (
            ("spec", "tasks", 0, "template", "spec", "containers", 0, "env", 0, "value"),
            "2",
            "spec.tasks[0].template.spec.containers[0].env[0].value",
        ),
        (
            ("spec", "tasks", 0, "template", "spec", "containers", 0, "resources", "limits", "cpu"),
            "2",
            "spec.tasks[0].template.spec.containers[0].resources.limits.cpu",
        ),
        (("spec", "tasks", 0, "template", "spec", "hostNetwork"), True, "spec.tasks[0].template.spec.hostNetwork"),
    ],
)  # fmt: skip
def test_what_may_not_change(old: dict[str, Any], where: tuple[Any, ...], value: Any, path: str) -> None:
    new = change(old, *where, to=value)
    found = check_update(old, new)
    assert path in {problem.path for problem in found}
    assert frozen_spec(old) != frozen_spec(new)
    assert found[0].message.startswith(
        f"`{format_path(found[0].where[-1:])}` cannot change: job updates may not"
    )
    assert "delete the Job" in (found[0].hint or "")
    assert not admit(new, old=old).valid


def test_tasks_are_not_added_removed_or_reordered(old: dict[str, Any]) -> None:
    tasks = old["spec"]["tasks"]
    for changed, words in (
        ([*tasks, task("more")], "added: more"),
        (tasks[:1], "removed: worker"),
        ([tasks[0], {**tasks[1], "name": "other"}], "removed: worker; added: other"),
        ([tasks[1], tasks[0]], "order"),
    ):
        (problem,) = check_update(old, change(old, "spec", "tasks", to=changed))
        assert problem.path == "spec.tasks"
        assert words in problem.message


@pytest.mark.parametrize("file", REFERENCE, ids=lambda file: file.stem)
def test_applying_the_same_file_again_is_not_a_change(file: Path) -> None:
    reference = json.loads(file.read_text())
    (stored,) = [item for item in reference["objects"] if item["kind"] == "Job"]
    assert check_update(stored, reference["job"]) == []
    assert check_update(reference["job"], stored) == []
    assert frozen_spec(reference["job"]) == frozen_spec(stored)
    assert admit(reference["job"], old=stored).valid


def test_fields_written_by_the_api_server_and_the_controller_are_not_a_change(old: dict[str, Any]) -> None:
    new = copy.deepcopy(old)
    pod = new["spec"]["tasks"][0]["template"]
    pod["metadata"] = {"creationTimestamp": None}
    pod["spec"]["containers"][0]["ports"][0]["protocol"] = "TCP"
    pod["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "1000m", "memory": "1024Mi"}
    pod["spec"]["containers"][0]["securityContext"] = {"capabilities": {}}
    pod["spec"]["nodeSelector"] = None
    new["spec"]["volumes"][0]["volumeClaimName"] = "j-pvc-0123456789ab"
    new["spec"]["policies"] = []
    new["spec"]["networkTopology"] = {"mode": "hard"}
    assert check_update(old, new) == []
    assert check_update(new, old) == []
    assert admit(new, old=old).valid


def test_text_that_looks_like_an_equal_amount_is_a_change_elsewhere(old: dict[str, Any]) -> None:
    where = ("spec", "tasks", 0, "template", "spec", "containers", 0, "env", 0, "value")
    assert check_update(old, change(old, *where, to="1000m"))


def test_true_is_not_1(old: dict[str, Any]) -> None:
    one = change(old, "spec", "tasks", 0, "template", "spec", "priority", to=1)
    assert check_update(one, change(old, "spec", "tasks", 0, "template", "spec", "priority", to=True))


def test_numbers_that_do_not_fit_are_refused_on_update_too(old: dict[str, Any]) -> None:
    result = admit(change(old, "spec", "tasks", 1, "minAvailable", to=9), old=old)
    assert [problem.path for problem in result.problems] == ["spec.tasks[1].minAvailable"]


@pytest.mark.parametrize("metadata", [1, "name", ["name"], None])
def test_metadata_that_is_no_mapping_is_refused_on_update_too(old: dict[str, Any], metadata: object) -> None:
    assert not admit({**old, "metadata": metadata}, old=old).valid


def test_what_was_wrong_before_does_not_block_an_update() -> None:
    old = job(queue="q", policies=[{"event": "Nonsense", "action": "AbortJob"}])
    assert not admit(old).valid
    new = change(old, "metadata", "labels", to={"a": "b"})
    assert admit(new, old=old).valid
    worse = change(new, "spec", "minAvailable", to=9)
    assert [problem.path for problem in admit(worse, old=old).problems] == ["spec.minAvailable"]


WRONG_PLUGINS = {
    "arguments": {"pytorch": ["--port=abc"], "svc": ["x"]},
    "a task that does not exist": {"pytorch": ["--worker=nobody"]},
    "an unknown plugin": {"mine": []},
    "a plugin of Volcano's": {"ssh": [], "svc": []},
    "no plugins": ["pytorch"],
    "no arguments": {"pytorch": {"port": 1}},
}


@pytest.mark.parametrize("plugins", WRONG_PLUGINS.values(), ids=WRONG_PLUGINS)
def test_a_stored_job_whose_plugins_are_wrong_can_be_labelled(plugins: Any) -> None:
    old = {**job(), "spec": {**job()["spec"], "plugins": plugins}}
    assert not admit(old).valid
    assert admit(change(old, "metadata", "labels", to={"a": "b"}), old=old).valid


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_any_stored_job_can_be_applied_again(text: str) -> None:
    for document in load_text(text, "job.yaml").jobs:
        assert admit(document, old=document.data).job is not None or document.problems


def test_a_job_that_is_being_deleted_can_always_lose_its_finalizers() -> None:
    old = job(queue="Bad_")
    new = change(job(task("other")), "metadata", "deletionTimestamp", to="2026-11-15T10:00:00Z")
    assert admit(new, old=old).problems == []


def test_queues_are_not_asked_on_update(old: dict[str, Any]) -> None:
    assert admit(old, old=old, queues={}).valid


def test_a_second_claim_is_refused_at_creation_only(old: dict[str, Any]) -> None:
    named = change(old, "spec", "volumes", 0, "volumeClaimName", to="x")
    assert not admit(named).valid
    assert admit(named, old=old).valid


def test_many_changes_are_not_all_listed(old: dict[str, Any]) -> None:
    env = [{"name": f"N{i}", "value": "1"} for i in range(50)]
    other = [{"name": f"M{i}", "value": "2"} for i in range(50)]
    where = ("spec", "tasks", 0, "template", "spec", "containers", 0, "env")
    assert len(check_update(change(old, *where, to=env), change(old, *where, to=other))) == 20


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large], deadline=None)
@given(jobs())
def test_a_random_job_applied_again_is_not_a_change(doc: dict[str, Any]) -> None:
    stored = admitted(doc).doc
    assert check_update(stored, doc) == []
    assert admit(doc, old=stored).valid


def test_a_mapping_that_appears_or_disappears_is_a_change(old: dict[str, Any]) -> None:
    new = change(old, "spec", "tasks", 0, "template", "spec", "nodeSelector", to={"zone": "a"})
    for one, other in ((old, new), (new, old)):
        assert [problem.path for problem in check_update(one, other)] == [
            "spec.tasks[0].template.spec.nodeSelector"
        ]
