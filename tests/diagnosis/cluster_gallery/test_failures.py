"""Every failure of the gallery happens for real on a cluster; the right cause is ranked first and shown on the Job."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster import host_torch
from tests.cluster.controller.conftest import establish
from tests.testbed.cluster import Cluster
from tests.testbed.fixtures import need
from tests.testbed.parts.node import Node
from tests.testbed.parts.part import Part
from vcjob.diagnosis.finding import Finding

from .failures import FAILURES, HEALTHY, Failure
from .gallery import Gallery, eventually, gallery
from .process_groups import GROUPS, HANGS, PATIENCE, STARTED
from .programs import PROGRAMS

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def jobs(api_server: Cluster, node: Node, dns: Part) -> Iterator[Gallery]:
    """All Jobs of the gallery, started at the same time."""
    establish(api_server)
    for image in ("guide", "ash"):
        node.load_image(image)
    groups = [] if host_torch.problem() else [*GROUPS, *HANGS]
    with pytest.MonkeyPatch.context() as patch, gallery(api_server, [*groups, *PROGRAMS, *FAILURES]) as found:
        patch.setenv("VCJOB_HANG_AFTER", PATIENCE)
        yield found


def parameters(failures: list[Failure]) -> list[Any]:
    of_torch = [*GROUPS, *HANGS]
    return [
        pytest.param(failure, id=failure.name, marks=pytest.mark.torch if failure in of_torch else ())
        for failure in failures
    ]


@pytest.mark.timeout(2 * STARTED)
@pytest.mark.parametrize("failure", parameters(HANGS))
def test_a_rank_for_which_the_others_wait_without_end_is_named(failure: Failure, jobs: Gallery) -> None:
    need(host_torch.problem())
    handle = jobs.handle(failure)
    findings = eventually(handle.why, lambda found: is_right(found, failure), STARTED)
    assert is_right(findings, failure) and findings[0].ranks.first == failure.first, findings
    handle.stop(now=True)


@pytest.mark.timeout(240)
@pytest.mark.parametrize("failure", parameters([*GROUPS, *PROGRAMS, *FAILURES]))
def test_the_cause_is_ranked_first_and_shown_on_the_job(failure: Failure, jobs: Gallery) -> None:
    if failure in GROUPS:
        need(host_torch.problem())
    handle = jobs.handle(failure)
    findings = eventually(handle.why, lambda found: is_right(found, failure))
    assert is_right(findings, failure), (handle.to_dict().get("status", {}).get("state"), findings)
    if failure.first:
        assert findings[0].ranks.first == failure.first
    if failure.first and not failure.on_job:
        said = eventually(
            lambda: jobs.on_job(failure),
            lambda said: any(each.startswith(f"{failure.cause}: ") for each in said),
        )
        assert any(each.startswith(f"{failure.cause}: ") for each in said), said
    expected = failure.on_job or failure.message
    said = eventually(lambda: jobs.on_job(failure), lambda said: any(expected in each for each in said))
    assert any(expected in each for each in said), said
    # The finding stays the same once the Job is over and its running pods are deleted.
    if handle.done:
        assert is_right(handle.why(), failure), handle.why()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", list(HEALTHY))
def test_a_healthy_job_has_no_finding_of_failure(name: str, jobs: Gallery) -> None:
    job, phase = HEALTHY[name]
    handle = jobs.handle(Failure(name, job, ""))
    assert eventually(lambda: handle.phase, lambda seen: seen == phase) == phase
    # That a pending job waits for an init step is no failure.
    assert [finding for finding in handle.why() if finding.cause != "InitStep"] == []


def is_right(findings: list[Finding], failure: Failure) -> bool:
    return bool(findings) and findings[0].cause == failure.cause and failure.message in findings[0].message
