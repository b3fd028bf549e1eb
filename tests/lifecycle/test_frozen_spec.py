"""An update that must be rejected is detected after a restart of the caller, by the digest in the status."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.lifecycle.simulation import Simulation, job, task, torch_job
from vcjob.lifecycle.frozen_spec import spec_digest, spec_problem
from vcjob.lifecycle.status import Status

CHANGES: dict[str, dict[str, Any]] = {
    "policies": {"policies": [{"event": "*", "action": "TerminateJob"}]},
    "maxRetry": {"maxRetry": 9},
    "a removed task": {"tasks": [task("other", 3)]},
    "an image": {
        "tasks": [task("worker", 3, template={"spec": {"containers": [{"name": "c", "image": "x"}]}})]
    },
    "two million replicas": {"tasks": [task("worker", 2_000_000)]},
    "three hundred containers": {
        "tasks": [
            task(
                "worker",
                3,
                template={"spec": {"containers": [{"name": f"c{n}", "image": "x"} for n in range(300)]}},
            )
        ]
    },
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
@pytest.mark.parametrize("started", [True, False])
def test_a_forbidden_update_pauses_the_job_until_it_is_undone(change: dict[str, Any], started: bool) -> None:
    world = Simulation(job())
    world.settle()
    if started:
        world.running()
    spec, pods, before = world.job, dict(world.observed.pods), world.status
    world.change(**change)
    world.set_pod("worker", 0, "Failed", 1)
    pods = dict(world.observed.pods)
    world.command("TerminateJob")
    world.settle()
    assert (world.status.phase, world.status.state.reason) == (before.phase, "InvalidUpdate")
    assert world.observed.pods == pods, "nothing is created or deleted"
    assert [event.reason for event in world.events].count("InvalidUpdate") == 1
    world.job = spec
    world.settle()
    assert world.phase == "Terminated", "the Command waited for the spec to be valid again"


@pytest.mark.parametrize("digest", ["", "0:abc"], ids=["none", "of-another-format"])
def test_a_limit_is_enforced_on_a_job_whose_status_has_no_digest(digest: str) -> None:
    """As of one that Volcano started, or an earlier version: nothing but the limit says that the spec is wrong."""
    started = Simulation(job()).running().status
    large = job(policies=[{"exitCode": 1 + number % 255, "action": "AbortJob"} for number in range(301)])
    problem = spec_problem(large, msgspec.structs.replace(started, spec_digest=digest))
    assert problem is not None
    assert "spec.policies: there are 301 policies; at most 300 are allowed" in problem.message


def test_an_allowed_update_keeps_the_digest() -> None:
    world = Simulation(job()).running()
    digest = world.status.spec_digest
    world.scale(worker=5)
    world.change(priorityClassName="high", minAvailable=2)
    world.settle()
    assert world.status.spec_digest == digest == spec_digest(world.job)
    assert len(world.observed.pods) == 5


def test_a_job_that_started_before_there_was_a_digest_gets_one() -> None:
    world = Simulation(job()).running()
    document = world.status.to_kube()
    own = document["controlledResources"]["vcjob.io/lifecycle"]
    document["controlledResources"]["vcjob.io/lifecycle"] = own.replace(world.status.spec_digest, "")
    status = Status.from_kube(document)
    assert (status.spec_digest, spec_problem(world.job, status)) == ("", None)


def test_a_digest_of_another_format_is_replaced_not_compared() -> None:
    status = Status(spec_digest="0:abc")
    assert spec_problem(job(), status) is None


def test_the_digest_of_a_job_does_not_change_between_versions() -> None:
    """A different digest would pause every running Job at the upgrade: raise FORMAT in that case."""
    assert spec_digest(torch_job()) == "1:cad7d9f356226cbf8154c5fa7ad40440"
