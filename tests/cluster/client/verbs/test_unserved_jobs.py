"""Jobs that no controller has picked up, and users who may not follow what they have created."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiohttp import web

from tests.cluster.client.conftest import container, job, task
from tests.kube.fake_api import KINDS, FakeApi, refuse
from tests.testbed.cluster import Cluster
from vcjob.cli.list import _row
from vcjob.cluster.client.jobs import JobClient, JobKey
from vcjob.lifecycle.status import Phase, State, Status

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/{}/jobs"
RBAC = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}"
RUNNING = {"state": {"phase": "Running"}}


async def test_a_job_without_a_status_is_deleted(api: FakeApi, jobs: JobClient) -> None:
    key = JobKey.of(await api.put("jobs", "lonely"))
    assert await jobs.delete_unserved(key)
    assert api.objects == {}


async def test_a_job_that_a_controller_has_picked_up_stays(api: FakeApi, jobs: JobClient) -> None:
    key = JobKey.of(await api.put("jobs", "served", status=RUNNING))
    assert not await jobs.delete_unserved(key)
    assert api.count("DELETE") == 0


async def test_a_controller_that_comes_just_in_time_keeps_the_job(api: FakeApi, jobs: JobClient) -> None:
    key = JobKey.of(await api.put("jobs", "late"))

    async def written_in_between(_: web.Request) -> web.StreamResponse | None:
        await api.put("jobs", "late", status=RUNNING)
        return None

    api.on_next("DELETE", "jobs", written_in_between)
    assert not await jobs.delete_unserved(key)
    assert ("jobs", "default", "late") in api.objects


def owned_by(job: Any) -> dict[str, Any]:
    owner = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job["metadata"]["name"],
             "uid": job["metadata"]["uid"], "controller": True}  # fmt: skip
    return {"ownerReferences": [owner], "labels": {"volcano.sh/job-name": job["metadata"]["name"]}}


@pytest.mark.parametrize("kind", ["pods", "configmaps", "podgroups"])
async def test_a_job_whose_first_status_is_not_written_yet_is_known_by_its_objects(
    api: FakeApi, jobs: JobClient, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller may write a status that says only "started" five seconds after it has created the pods."""
    monkeypatch.setitem(KINDS, "podgroups", "PodGroup")
    made = await api.put("jobs", "started")
    name = {"pods": "any", "configmaps": "started-svc", "podgroups": f"started-{made['metadata']['uid']}"}[
        kind
    ]
    await api.put(kind, name, metadata=owned_by(made))
    assert not await jobs.delete_unserved(JobKey.of(made))
    assert api.count("DELETE") == 0


async def test_objects_of_an_earlier_job_of_the_name_do_not_count(api: FakeApi, jobs: JobClient) -> None:
    made = await api.put("jobs", "again")
    earlier = {"metadata": {"name": "again", "uid": "earlier"}}
    for kind, name in (("pods", "again-a-0"), ("configmaps", "again-svc")):
        await api.put(kind, name, metadata=owned_by(earlier))
    assert await jobs.delete_unserved(JobKey.of(made))


async def test_a_user_who_may_read_no_pods_can_still_delete_an_unserved_job(
    api: FakeApi, jobs: JobClient
) -> None:
    made = await api.put("jobs", "lonely")
    refused = []

    async def forbid(_: web.Request) -> web.StreamResponse:
        refused.append(True)
        return refuse(403, "Forbidden")

    for kind in ("pods", "configmaps", "podgroups"):
        api.on_next("GET", kind, forbid)
    assert await jobs.delete_unserved(JobKey.of(made))
    assert len(refused) == 3


def test_the_age_counts_from_the_creation_and_not_from_the_last_resume() -> None:
    now = time.time()
    resumed: Any = SimpleNamespace(name="j", namespace="n", replicas=1, created=now - 7200, started=now - 60)
    shown = Status(state=State(phase=Phase.RUNNING), started=now - 60, running=1)
    duration, age = _row(resumed, shown)[4:6]
    assert duration.startswith(("60", "1m", "59"))
    assert age.startswith("2h")


@pytest.mark.cluster
@pytest.mark.usefixtures("crds")
class TestOnARealCluster:
    def run(self, file: Path, kubeconfig: Path, namespace: str) -> subprocess.Popen[str]:
        file.write_text(json.dumps(job("unserved", task("a", container("true")))))
        command = [sys.executable, "-m", "vcjob.cli.main", "run", str(file), "--kubeconfig", str(kubeconfig)]
        return subprocess.Popen(
            [*command, "-n", namespace], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def test_sigterm_deletes_a_job_that_no_controller_serves(
        self, api_server: Cluster, namespace: str, tmp_path: Path
    ) -> None:
        process = self.run(tmp_path / "job.json", api_server.kubeconfig, namespace)
        found = f"{JOBS.format(namespace)}/unserved"
        api_server.api.wait(found, lambda seen: seen is not None, 30, "created")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 130, err
        assert "deleted the job 'unserved', which no controller had picked up" in err
        assert f"vcjob doctor --on cluster -n {namespace}" in err
        assert "vcjob install" not in err
        assert api_server.api.find(found) is None
        commands = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{namespace}/commands"
        api_server.api.wait(commands, lambda seen: not seen["items"], 30, "empty")

    def test_without_the_right_to_watch_run_says_that_the_job_was_created(
        self, api_server: Cluster, namespace: str, tmp_path: Path
    ) -> None:
        rule = {"apiGroups": ["batch.volcano.sh"], "resources": ["jobs"], "verbs": ["create", "get"]}
        api_server.api.create(
            f"{RBAC.format(namespace)}/roles", {"metadata": {"name": "create"}, "rules": [rule]}
        )
        binding = {
            "metadata": {"name": "create"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "create"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}],
        }
        api_server.api.create(f"{RBAC.format(namespace)}/rolebindings", binding)
        process = self.run(tmp_path / "job.json", api_server.identity("bob"), namespace)
        _, err = process.communicate(timeout=60)
        assert process.returncode == 3, err
        assert "the job 'unserved' was created, but it cannot be followed: you may not " in err
        assert "vcjob status unserved" in err
        assert api_server.api.find(f"{JOBS.format(namespace)}/unserved") is not None
