"""The same sentences from a real API server."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.client.conftest import container, job, task
from tests.testbed.cluster import Cluster
from vcjob.cluster.client.error_messages import translate_api_errors
from vcjob.cluster.client.jobs import JobClient
from vcjob.cluster.resources import JOBS
from vcjob.errors import BackendError
from vcjob.kube.api.resources import resource
from vcjob.kube.config.config import load

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("crds")]


def test_a_token_that_is_not_accepted(api_server: Cluster, tmp_path: Path, vcjob: Any) -> None:
    document = json.loads(api_server.kubeconfig.read_text())
    document["users"][0]["user"] = {"token": base64.b64encode(b"expired").decode()}
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(document))
    code, _, err = vcjob("list", "--kubeconfig", str(file))
    assert code == 3
    assert "does not accept your credentials: Unauthorized" in err
    assert "log in again" in err


def test_a_user_without_rights(api_server: Cluster, vcjob: Any) -> None:
    code, _, err = vcjob("status", "j", "--kubeconfig", str(api_server.identity("alice")), "-n", "team")
    assert code == 3
    assert "you may not read Jobs in the namespace 'team'" in err
    assert 'User "alice" cannot get resource "jobs"' in err


def test_a_namespace_that_does_not_exist(api_server: Cluster, tmp_path: Path, vcjob: Any) -> None:
    file = tmp_path / "job.json"
    file.write_text(json.dumps(job("lost", task("a", container("true")))))
    code, _, err = vcjob("run", str(file), "--kubeconfig", str(api_server.kubeconfig), "-n", "nowhere")
    assert code == 2
    assert "no namespace 'nowhere'" in err


async def test_a_field_that_the_cluster_does_not_know_is_refused_not_lost(
    api_server: Cluster, namespace: str
) -> None:
    verbs = JobClient(load(api_server.kubeconfig))
    wanted = job("lossy", task("a", container("true")), noSuchField=1)
    try:
        with pytest.raises(BackendError, match=r"has no spec\.noSuchField") as refused:
            await verbs.create(wanted, namespace, [], strict=True)
        assert refused.value.exit_code == 3
        assert await verbs.jobs(namespace) == []
    finally:
        await verbs.close()


async def test_missing_definitions(api_server: Cluster, namespace: str) -> None:
    """As the server answers where a kind is missing, seen with a version of Jobs that nobody has."""
    verbs = JobClient(load(api_server.kubeconfig))
    missing = resource("batch.volcano.sh", "v9", JOBS.plural, JOBS.kind)
    try:
        with (
            pytest.raises(BackendError, match="does not know Jobs"),
            translate_api_errors(verbs.config, "list Jobs", namespace),
        ):
            await verbs.client.list(missing, namespace)
    finally:
        await verbs.close()


async def test_without_a_controller_a_request_is_not_handled(api_server: Cluster, namespace: str) -> None:
    verbs = JobClient(load(api_server.kubeconfig))
    from vcjob.cluster.client.jobs import JobKey

    try:
        made = await verbs.create(job("alone", task("a", container("true"))), namespace, [], strict=True)
        command = await verbs.send(JobKey.of(made), "AbortJob")
        with pytest.raises(BackendError, match="no controller has handled the request"):
            await verbs.wait_for_command(command, 0.5)
        await verbs.delete(JobKey.of(made))
    finally:
        await verbs.close()
