"""`vcjob explain`: the documentation of a field."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Vcjob
from vcjob.sdk.authoring import explaining
from vcjob.spec.field_docs import DOCUMENTED


@pytest.mark.parametrize(
    "path",
    ["spec.tasks.policies", "spec.tasks[1].policies", "job.spec.tasks.policies", ".spec.tasks.policies"],
)
def test_a_field_is_shown_with_its_type_meaning_and_fields(vcjob: Vcjob, path: str) -> None:
    result = vcjob("explain", path)
    assert result.code == 0
    assert result.out.startswith("spec.tasks.policies  <list of mapping>\n  What to do when")
    assert "\n  action  <string>\n    What to do: AbortJob" in result.out


def test_a_default_is_shown(vcjob: Vcjob) -> None:
    assert "Default: volcano." in vcjob("explain", "spec.schedulerName").out


def test_without_a_path_the_job_itself_is_shown(vcjob: Vcjob) -> None:
    result = vcjob("explain", "-o", "json")
    assert [field["name"] for field in result.json["fields"]] == [
        "apiVersion",
        "kind",
        "metadata",
        "spec",
        "status",
    ]


def test_a_field_of_kubernetes_names_the_kubectl_that_describes_it(vcjob: Vcjob) -> None:
    shown = vcjob("explain", "spec.tasks.template.spec.containers").out
    assert "kubectl explain pod.spec.containers" in shown and "\n  image  <string>\n" in shown


def test_an_unknown_field_is_refused_with_the_nearest(vcjob: Vcjob) -> None:
    result = vcjob("explain", "spec.tasks.polices")
    assert result.code == 2
    assert "a Job has no field `spec.tasks.polices`" in result.err and "`spec.tasks.policies`" in result.err


def test_every_documented_field_can_be_explained_with_its_fields() -> None:
    for path, meaning, _ in DOCUMENTED:
        doc = explaining.explain(path)
        assert doc.meaning == meaning
        explaining.explain_fields(doc)
