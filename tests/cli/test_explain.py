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


def test_a_plugin_is_shown_with_its_arguments(vcjob: Vcjob) -> None:
    for name, plugin in explaining.PLUGINS.items():
        shown = vcjob("explain", f"spec.plugins.{name}").out
        assert shown.startswith(f"spec.plugins.{name}  <list of string>\n  {plugin.meaning[:60]}")
        assert f"  --{plugin.flags[0].name}  <{plugin.flags[0].kind}>\n" in shown
        assert all(flag.meaning for flag in plugin.flags)
    assert "Default: 23456." in vcjob("explain", "spec.plugins.pytorch").out
    assert "\n  svc  <list of string>\n" in vcjob("explain", "spec.plugins").out


@pytest.mark.parametrize(
    "path", ["spec.plugins.pytorch.port", "spec.plugins.pytorch.--port", "job.spec.plugins.pytorch.port"]
)
def test_one_argument_of_a_plugin_is_shown(vcjob: Vcjob, path: str) -> None:
    record = vcjob("explain", path, "-o", "json").json
    assert (record["path"], record["type"], record["default"]) == (
        "spec.plugins.pytorch.port",
        "int",
        "23456",
    )


@pytest.mark.parametrize(
    ("path", "message", "hint"),
    [
        ("master", "a Job has no field `master`", "`--master` is an argument of the plugin pytorch"),
        ("--inject-hosts-env", "a Job has no field", "`vcjob explain spec.plugins.svc`"),
        ("pytorch", "a Job has no field `pytorch`", "`vcjob explain spec.plugins.pytorch` shows the plugin"),
        ("spec.plugins.mpi", "no description of the plugin `mpi`", "described are pytorch, svc, env"),
        (
            "spec.plugins.svc.port",
            "the plugin `svc` has no argument `--port`",
            "`vcjob explain spec.plugins.svc` lists",
        ),
    ],
)
def test_an_argument_without_its_plugin_is_answered_with_both(
    vcjob: Vcjob, path: str, message: str, hint: str
) -> None:
    result = vcjob("explain", "--", path)
    assert result.code == 2
    error, advice = result.err.splitlines()
    assert message in error and hint in advice
