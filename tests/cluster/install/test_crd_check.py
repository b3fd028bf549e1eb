"""Definitions that somebody else made."""

from __future__ import annotations

import copy

import pytest

from vcjob.cluster.install.crd_check import check, refuse_if_fields_are_missing, warnings_about
from vcjob.cluster.install.objects import crds
from vcjob.errors import BackendError
from vcjob.kube.api.resources import Document


@pytest.fixture
def theirs() -> Document:
    definition = copy.deepcopy(crds.definitions()[0])
    del definition["metadata"]["labels"]
    return definition


def _spec(definition: Document) -> Document:
    found: Document = definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return found["properties"]  # type: ignore[no-any-return]


def test_ours_lacks_nothing() -> None:
    served = check(crds.JOBS, crds.definitions()[0])
    assert (served.owner, served.missing) == ("vcjob", ())
    assert warnings_about(served) == []


def test_volcanos_lacks_our_extensions_and_may_stay(theirs: Document) -> None:
    for name in ("suspend", "activeDeadlineSeconds"):
        del _spec(theirs)[name]
    served = check(crds.JOBS, theirs)
    refuse_if_fields_are_missing(served)
    assert served.owner == "other"
    (note,) = warnings_about(served)
    assert "spec.activeDeadlineSeconds, spec.suspend" in note


def test_an_older_volcanos_is_refused_with_the_way_out(theirs: Document) -> None:
    del _spec(theirs)["tasks"]["items"]["properties"]["partitionPolicy"]
    with pytest.raises(BackendError, match=r"spec\.tasks\[\]\.partitionPolicy") as refused:
        refuse_if_fields_are_missing(check(crds.JOBS, theirs))
    assert "--replace-crds" in (refused.value.hint or "")


def test_a_definition_without_a_schema_lacks_everything(theirs: Document) -> None:
    del theirs["spec"]["versions"][0]["schema"]
    with pytest.raises(BackendError, match="more"):
        refuse_if_fields_are_missing(check(crds.JOBS, theirs))
