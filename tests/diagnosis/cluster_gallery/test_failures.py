"""Every failure of the gallery happens for real on a cluster; the right cause is ranked first and shown on the Job."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.controller.conftest import establish
from tests.testbed.cluster import Cluster
from tests.testbed.parts.node import Node
from tests.testbed.parts.part import Part
from vcjob.diagnosis.finding import Finding

from .failures import FAILURES, HEALTHY, Failure
from .gallery import Gallery, eventually, gallery

pytestmark = [pytest.mark.cluster, pytest.mark.long]


@pytest.fixture(scope="module")
def jobs(api_server: Cluster, node: Node, dns: Part) -> Iterator[Gallery]:
    """All Jobs of the gallery, started at the same time."""
    establish(api_server)
    for image in ("guide", "ash"):
        node.load_image(image)
    with gallery(api_server) as found:
        yield found


@pytest.mark.timeout(240)
@pytest.mark.parametrize("failure", FAILURES, ids=[failure.name for failure in FAILURES])
def test_the_cause_is_ranked_first_and_shown_on_the_job(failure: Failure, jobs: Gallery) -> None:
    handle = jobs.handle(failure)

    def is_right(findings: list[Finding]) -> bool:
        return (
            bool(findings) and findings[0].cause == failure.cause and failure.message in findings[0].message
        )

    findings = eventually(handle.why, is_right)
    assert is_right(findings), (handle.to_dict().get("status", {}).get("state"), findings)
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
        assert is_right(handle.why()), handle.why()


@pytest.mark.timeout(240)
@pytest.mark.parametrize("name", list(HEALTHY))
def test_a_healthy_job_has_no_finding_of_failure(name: str, jobs: Gallery) -> None:
    job, phase = HEALTHY[name]
    handle = jobs.handle(Failure(name, job, ""))
    assert eventually(lambda: handle.phase, lambda seen: seen == phase) == phase
    # That a pending job waits for an init step is no failure.
    assert [finding for finding in handle.why() if finding.cause != "InitStep"] == []
