"""A Job keeps the edition of the plugins that it was started with."""

from __future__ import annotations

import pytest

from tests.cluster.controller.harness import Harness
from tests.cluster.controller.jobs import job, task
from vcjob.plugins.edition import EDITION


async def test_a_job_keeps_the_edition_that_it_was_started_with() -> None:
    harness = Harness(job("j", task("a", 1)))
    await harness.reconcile()
    assert harness.stored["controlledResources"]["vcjob.io/edition"] == str(EDITION)


@pytest.mark.parametrize(("edition", "expected"), [("1", []), ("2", ["0"]), (None, [])])
async def test_a_replaced_pod_is_made_by_the_edition_of_its_job(
    edition: str | None, expected: list[str]
) -> None:
    harness = Harness(job("j", task("master", 1), plugins={"pytorch": []}), status_delay=0.0)
    await harness.reconcile()
    resources = {k: v for k, v in harness.stored["controlledResources"].items() if k != "vcjob.io/edition"}
    if edition is None:
        resources.pop("vcjob.io/gang", None)
    else:
        resources["vcjob.io/edition"] = edition
    found = harness.api.objects["jobs", "j"]
    status = {**found["status"], "controlledResources": resources}
    taken_over = Harness({**found, "status": status}, status_delay=0.0)
    await taken_over.reconcile()
    ((_, pod),) = [(key, obj) for key, obj in taken_over.api.objects.items() if key[0] == "pods"]
    env = pod["spec"]["containers"][0]["env"]
    assert [entry["value"] for entry in env if entry["name"] == "LOCAL_RANK"] == expected


@pytest.mark.parametrize(
    "edition", ["999", "9" * 5000, "²", "٢", "-1", "2.0", ""]
)  # an edited status may have any text
async def test_nothing_is_made_for_a_job_of_an_edition_that_is_not_known(edition: str) -> None:
    harness = Harness(job("j", task("a", 2)), status_delay=0.0)
    await harness.reconcile()
    resources = {**harness.stored["controlledResources"], "vcjob.io/edition": edition}
    found = harness.api.objects["jobs", "j"]
    harness.change({**found, "status": {**found["status"], "controlledResources": resources}})
    harness.lose("j-a-0")
    await harness.reconcile()
    assert harness.pods() == ["j-a-1"]
    assert harness.stored["state"]["reason"] == "UnknownEdition"
    harness.show("j-a-1", "Succeeded")
    await harness.reconcile()
    assert harness.stored["succeeded"] == 1, "it is still followed"
