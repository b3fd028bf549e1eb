"""`run` on a cluster whose responses get lost: the Job is created once."""

from __future__ import annotations

import pytest

from tests.documents import job
from tests.kube.fake_api import FakeApi
from vcjob.cluster.client.jobs import JobClient
from vcjob.errors import JobExists

JOB = job("train")
JOB["metadata"]["annotations"] = {"mine": "yes"}


async def test_a_job_whose_creation_was_not_acknowledged_is_found_again(
    api: FakeApi, jobs: JobClient
) -> None:
    api.on_next("POST", "jobs", api.work_then_hang_up)
    made = await jobs.create(JOB, "default", (), strict=True)
    stored = api.objects["jobs", "default", "train"]
    assert made["metadata"]["uid"] == stored["metadata"]["uid"]
    assert made["metadata"]["annotations"]["mine"] == "yes"
    assert api.count("POST", "jobs") == 2


async def test_a_second_run_of_the_same_file_is_refused(api: FakeApi, jobs: JobClient) -> None:
    await jobs.create(JOB, "default", (), strict=True)
    api.on_next("POST", "jobs", api.work_then_hang_up)
    with pytest.raises(JobExists, match="already exists and is Pending"):
        await jobs.create(JOB, "default", (), strict=True)
    assert "annotations" in JOB["metadata"] and list(JOB["metadata"]["annotations"]) == ["mine"]
