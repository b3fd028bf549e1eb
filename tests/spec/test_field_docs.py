"""The documentation of the fields of a Job."""

from __future__ import annotations

import pytest

from vcjob.admission import defaults
from vcjob.admission.checks.policies import ACTIONS, EVENTS
from vcjob.spec.field_docs import DOCUMENTED, field_doc, nearest_path, own_paths


def test_every_field_of_the_schema_is_documented_and_no_other() -> None:
    assert sorted(path for path, _, _ in DOCUMENTED) == sorted(own_paths())


def test_a_field_has_its_type_meaning_default_and_inner_fields() -> None:
    doc = field_doc("spec.tasks[0].minAvailable")
    assert doc == (
        "spec.tasks.minAvailable",
        "integer",
        "How many pods of this task must be able to run.",
        "`replicas`",
        (),
    )
    policies = field_doc("spec.tasks.policies")
    assert policies is not None
    assert (policies.type, policies.fields) == (
        "list of mapping",
        ("action", "event", "events", "exitCode", "timeout"),
    )


@pytest.mark.parametrize(
    ("path", "kubernetes"),
    [
        ("spec.tasks.template.spec.containers[0].image", "pod.spec.containers.image"),
        ("spec.volumes[].volumeClaim.accessModes", "pvc.spec.accessModes"),
        ("metadata.labels", "pod.metadata.labels"),
    ],
)
def test_a_field_of_kubernetes_refers_to_kubectl(path: str, kubernetes: str) -> None:
    doc = field_doc(path)
    assert doc is not None
    assert doc.meaning == f"A field of Kubernetes: `kubectl explain {kubernetes}`."


@pytest.mark.parametrize("path", ["spec.taks", "nothing", "spec.tasks.template.spec.nothing", "spec..tasks"])
def test_an_unknown_path_has_no_documentation(path: str) -> None:
    assert field_doc(path) is None


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("spec.taks", "spec.tasks"),
        ("policies.timeout", "spec.policies.timeout"),
        ("maxRetry", "spec.maxRetry"),
        ("dependsOn", "spec.tasks.dependsOn"),
        ("zzz", None),
    ],
)
def test_a_wrong_path_gets_a_suggestion(wrong: str, right: str | None) -> None:
    assert nearest_path(wrong) == right


def test_the_documented_values_are_those_that_admission_knows() -> None:
    texts = {path: (meaning, default) for path, meaning, default in DOCUMENTED}
    assert all(action in texts["spec.policies.action"][0] for action in ACTIONS)
    assert all(event in texts["spec.policies.event"][0] for event in EVENTS)
    assert texts["spec.queue"][1] == defaults.QUEUE
    assert texts["spec.schedulerName"][1] == defaults.SCHEDULER
    assert texts["spec.maxRetry"][1] == texts["spec.tasks.maxRetry"][1] == str(defaults.MAX_RETRY)
