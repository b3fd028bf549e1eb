"""Loading, checking and rendering from Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import vcjob

GUIDE = Path("tests/guides/guide.en.yaml")


def guide(**metadata: Any) -> dict[str, Any]:
    doc = dict(vcjob.load(GUIDE).job.doc)
    return {**doc, "metadata": {**doc["metadata"], **metadata}}


@pytest.mark.parametrize("form", ["path", "string", "text", "json", "dictionary", "job"])
def test_a_job_is_loaded_from_whatever_form_it_has(form: str) -> None:
    source: Any = {
        "path": GUIDE,
        "string": str(GUIDE),
        "text": GUIDE.read_text(),
        "json": json.dumps(guide()),
        "dictionary": guide(),
        "job": vcjob.load(GUIDE).job,
    }[form]
    loaded = vcjob.load(source)
    assert loaded.job.name == "pytorch-job"
    assert loaded.job.spec.queue == "default"
    assert loaded.jobs == [loaded.job]
    assert loaded.problems == loaded.warnings == []
    assert vcjob.validate(source) == []
    assert [obj["kind"] for obj in vcjob.render(source)][-3:] == ["Pod"] * 3


def test_what_stands_beside_a_job_is_loaded_with_it() -> None:
    beside = [
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}},
        {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "p"}, "spec": {}},
    ]
    loaded = vcjob.load("\n---\n".join(json.dumps(document) for document in [*beside, guide()]))
    assert loaded.config_maps == {"c": beside[0]}
    assert loaded.secrets == {"s": beside[1]}
    assert loaded.claims == {"p": beside[2]}
    assert loaded.job.name == "pytorch-job"


def test_several_jobs_are_several() -> None:
    loaded = vcjob.load("\n---\n".join(json.dumps(guide(name=name)) for name in ("a", "b")))
    assert [job.name for job in loaded.jobs] == ["a", "b"]
    with pytest.raises(vcjob.UserError, match=r"there are 2 Jobs in <text>: a, b") as caught:
        loaded.job
    assert caught.value.hint


def test_an_invalid_job_is_refused_with_every_problem() -> None:
    bad = guide(name="Bad_Name")
    bad["spec"] = {**bad["spec"], "nonsense": 1}
    problems = vcjob.validate(bad)
    assert {problem.path for problem in problems} == {"metadata.name", "spec.nonsense"}
    with pytest.raises(vcjob.InvalidJob) as caught:
        vcjob.load(bad)
    assert list(caught.value.problems) == problems
    with pytest.raises(vcjob.InvalidJob):
        vcjob.render(bad)


def test_unknown_fields_pass_where_they_are_allowed() -> None:
    strange = guide()
    strange["spec"] = {**strange["spec"], "nonsense": 1}
    assert vcjob.validate(strange, allow_unknown=True) == []
    assert vcjob.load(strange, allow_unknown=True).job.doc["spec"]["nonsense"] == 1
    assert vcjob.render(strange, allow_unknown=True)


def test_a_file_that_is_not_there_is_a_source_error() -> None:
    for function in (vcjob.load, vcjob.validate, vcjob.render):
        with pytest.raises(vcjob.SourceError, match="no such file"):
            function("nope.yaml")


def test_rendering_takes_gang_uid_and_namespace() -> None:
    objects = vcjob.render(GUIDE, gang="none", uid="u-1", namespace="team")
    assert {obj["kind"] for obj in objects} == {"ConfigMap", "Service", "NetworkPolicy", "Pod"}
    assert {obj["metadata"]["namespace"] for obj in objects} == {"team"}
    assert {obj["metadata"]["ownerReferences"][0]["uid"] for obj in objects} == {"u-1"}


def test_a_uid_in_the_document_stays_unless_another_is_given() -> None:
    assert vcjob.render(guide(uid="own"))[0]["metadata"]["ownerReferences"][0]["uid"] == "own"
    assert vcjob.render(guide(uid="own"), uid="u")[0]["metadata"]["ownerReferences"][0]["uid"] == "u"


def test_the_namespace_of_the_job_is_not_overruled() -> None:
    assert vcjob.render(guide(namespace="team"), namespace="team")[0]["metadata"]["namespace"] == "team"
    with pytest.raises(vcjob.UserError, match="is for the namespace team, not other"):
        vcjob.render(guide(namespace="team"), namespace="other")


def test_loading_does_not_change_what_it_was_given() -> None:
    given = json.loads(json.dumps(guide()))
    before = json.dumps(given)
    vcjob.render(given)
    assert json.dumps(given) == before


def test_validate_warns_about_a_container_that_run_refuses_on_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path))
    job = vcjob.pytorch_job("a", workers=0)
    (problem,) = vcjob.validate(job)
    assert (problem.severity, problem.path) == ("warning", "spec.tasks[0].template.spec.containers[0]")
    assert "has no `command`" in problem.message
    with pytest.raises(vcjob.UserError, match="nothing to run for master/pytorch"):
        vcjob.run(job)
    (tmp_path / "images.json").write_text('{"pytorch/pytorch": "true"}')
    assert vcjob.validate(job) == []
    assert vcjob.validate(vcjob.pytorch_job("a", command="true")) == []
