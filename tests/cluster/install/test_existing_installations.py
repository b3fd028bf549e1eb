"""Installing into clusters that have another installation, other definitions or changed objects."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.install.conftest import CHART, CRDS, GUIDE, JOBS, InstalledCluster
from tests.testbed.images.catalog import VCJOB
from tests.testbed.parts.volcano import grant_rights
from tests.testbed.programs.builder import data

pytestmark = pytest.mark.cluster
LEASES = "/apis/coordination.k8s.io/v1/namespaces/volcano-system/leases"
ROLES = "/apis/rbac.authorization.k8s.io/v1"


@pytest.fixture
def cluster(bare: InstalledCluster) -> Iterator[InstalledCluster]:
    yield bare
    assert bare.vcjob("uninstall", "--delete-jobs").returncode == 0
    for item in bare.api.list(CRDS):
        bare.api.delete(f"{CRDS}/{item['metadata']['name']}")
        bare.api.wait(f"{CRDS}/{item['metadata']['name']}", lambda seen: seen is None, 30, "gone")


def volcanos(name: str = "batch.volcano.sh_jobs.yaml") -> dict[str, object]:
    found: dict[str, object] = yaml.safe_load((data("volcano", "crds") / name).read_text())
    return found


def test_volcanos_definition_is_kept_with_a_warning_about_missing_fields(cluster: InstalledCluster) -> None:
    cluster.api.create(CRDS, volcanos())
    version = cluster.api.get(f"{CRDS}/jobs.batch.volcano.sh")["metadata"]["generation"]
    done = cluster.install("--wait", "0")
    assert done.returncode == 0, done.stderr
    assert "CustomResourceDefinition jobs.batch.volcano.sh: kept" in done.stdout
    assert "spec.activeDeadlineSeconds, spec.suspend" in done.stderr
    found = cluster.api.get(f"{CRDS}/jobs.batch.volcano.sh")["metadata"]
    assert found["generation"] == version
    assert "app.kubernetes.io/managed-by" not in found.get("labels", {})
    assert cluster.vcjob("uninstall").returncode == 0
    assert cluster.api.find(f"{CRDS}/jobs.batch.volcano.sh") is not None
    assert cluster.api.find(f"{CRDS}/commands.bus.volcano.sh") is None


def test_a_job_with_a_field_that_volcanos_definition_lacks_is_refused_not_lost(
    cluster: InstalledCluster, tmp_path: Path
) -> None:
    cluster.api.create(CRDS, volcanos())
    cluster.api.wait(f"{CRDS}/jobs.batch.volcano.sh", _serves, 30, "served")
    job = yaml.safe_load(GUIDE.read_text())
    job["spec"]["suspend"] = True
    file = tmp_path / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    refused = cluster.vcjob("run", str(file), "--on", "cluster", "--detach")
    assert refused.returncode == 3, refused.stderr
    assert "has no spec.suspend: the server would silently drop it" in refused.stderr
    assert "hint: remove it from the Job, or update the cluster's definition of Jobs" in refused.stderr
    assert cluster.api.list(JOBS) == []


def _serves(definition: Any) -> bool:
    conditions = (definition.get("status") or {}).get("conditions") or ()
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def test_a_definition_with_fewer_fields_is_refused_and_can_be_replaced(cluster: InstalledCluster) -> None:
    old = volcanos()
    schema = old["spec"]["versions"][0]["schema"]["openAPIV3Schema"]  # type: ignore[index]
    del schema["properties"]["spec"]["properties"]["networkTopology"]
    cluster.api.create(CRDS, old)
    refused = cluster.install("--wait", "0")
    assert refused.returncode == 3
    assert "spec.networkTopology" in refused.stderr
    assert "hint:" in refused.stderr
    assert cluster.api.find("/api/v1/namespaces/vcjob-system") is None
    done = cluster.install("--wait", "0", "--replace-crds")
    assert done.returncode == 0, done.stderr
    assert cluster.install("--wait", "0").returncode == 0
    gone = cluster.vcjob("uninstall")
    assert "replaced another one and stays" in gone.stderr
    assert cluster.api.find(f"{CRDS}/jobs.batch.volcano.sh") is not None


def test_a_live_job_controller_of_volcanos_is_a_reason_to_refuse(cluster: InstalledCluster) -> None:
    cluster.api.create("/api/v1/namespaces", {"metadata": {"name": "volcano-system"}})
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    spec = {"holderIdentity": "somebody", "leaseDurationSeconds": 600, "renewTime": now, "acquireTime": now}
    cluster.api.create(LEASES, {"metadata": {"name": "vc-controller-manager"}, "spec": spec})
    grant_rights(cluster.api)
    refused = cluster.install("--wait", "0")
    assert refused.returncode == 3
    assert "--controllers=*,-job-controller" in refused.stderr
    assert cluster.api.find("/api/v1/namespaces/vcjob-system") is None
    assert cluster.install("--wait", "0", "--beside-volcano").returncode == 0
    examined = cluster.vcjob("doctor", "--on", "cluster", "-o", "json")
    checks = {check["topic"]: check for check in json.loads(examined.stdout)["cluster"]}
    assert (checks["others"]["standing"], "--beside-volcano" in checks["others"]["message"]) == ("ok", True)
    cluster.api.delete(f"{LEASES}/vc-controller-manager")
    assert cluster.install("--wait", "0").returncode == 0


def test_an_object_of_our_name_that_is_not_ours_is_left_alone(cluster: InstalledCluster) -> None:
    cluster.api.create(f"{ROLES}/clusterroles", {"metadata": {"name": "vcjob-controller"}, "rules": []})
    refused = cluster.install("--wait", "0")
    assert refused.returncode == 3
    assert "ClusterRole vcjob-controller already exists" in refused.stderr
    assert cluster.vcjob("uninstall").returncode == 0
    assert cluster.api.get(f"{ROLES}/clusterroles/vcjob-controller")["rules"] is None
    cluster.api.delete(f"{ROLES}/clusterroles/vcjob-controller")


def test_rights_that_are_no_longer_needed_are_removed(cluster: InstalledCluster) -> None:
    assert cluster.install("--wait", "0").returncode == 0
    done = cluster.install("--wait", "0", "--watch-namespace", "default")
    assert done.returncode == 0, done.stderr
    assert "ClusterRoleBinding vcjob-controller-jobs: removed" in done.stdout
    account = "--as=system:serviceaccount:vcjob-system:vcjob-controller"
    assert cluster.kubectl("auth", "can-i", "create", "pods", "-n", "default", account).stdout == "yes\n"
    assert cluster.kubectl("auth", "can-i", "create", "pods", "-n", "kube-system", account).stdout == "no\n"


def test_a_namespace_to_serve_must_exist(cluster: InstalledCluster) -> None:
    refused = cluster.install("--wait", "0", "--watch-namespace", "nowhere")
    assert refused.returncode == 3
    assert "there is no namespace nowhere" in refused.stderr
    assert cluster.api.find("/api/v1/namespaces/vcjob-system") is None


def test_a_second_installation_in_another_namespace_is_refused(cluster: InstalledCluster) -> None:
    assert cluster.install("--wait", "0").returncode == 0
    before = cluster.versions()
    for refused in (
        cluster.install("--wait", "0", "-n", "elsewhere"),
        cluster.vcjob("uninstall", "-n", "elsewhere"),
    ):
        assert refused.returncode == 3
        assert "already installed in namespace vcjob-system" in refused.stderr
    assert cluster.versions() == before


def test_changes_by_others_are_reported_before_anything_is_written(cluster: InstalledCluster) -> None:
    assert cluster.install("--wait", "0").returncode == 0
    cluster.kubectl("scale", "-n", "vcjob-system", "deploy/vcjob-controller", "--replicas=5")
    cluster.kubectl("delete", "-n", "vcjob-system", "pdb/vcjob-controller", "priorityclass/vcjob-controller")
    before = cluster.versions()
    refused = cluster.install("--wait", "0")
    assert refused.returncode == 3
    assert "Deployment vcjob-controller: .spec.replicas" in refused.stderr
    assert "--force-conflicts" in refused.stderr
    assert cluster.versions() == before
    assert cluster.install("--wait", "0", "--force-conflicts").returncode == 0
    assert len(cluster.versions()) == len(before) + 2


def test_manifests_that_kubectl_applied_are_taken_over(cluster: InstalledCluster) -> None:
    manifests = cluster.install("-o", "yaml").stdout
    for _ in range(2):  # the namespace is needed before what is in it
        applied = cluster.kubectl("apply", "--server-side", "-f", "-", text=manifests)
    assert applied.returncode == 0, applied.stderr
    done = cluster.install("--wait", "0")
    assert done.returncode == 0, done.stderr
    assert cluster.install("--wait", "0").returncode == 0


def test_an_installation_by_helm_is_left_to_helm(cluster: InstalledCluster) -> None:
    helm = ["--namespace", "vcjob-system", "vcjob"]
    installed = cluster.helm("install", *helm, str(CHART), "--create-namespace", "--set", f"image={VCJOB}")
    assert installed.returncode == 0, installed.stderr
    for verb, way in (("install", "helm upgrade vcjob"), ("uninstall", "helm uninstall vcjob")):
        refused = cluster.vcjob(verb)
        assert refused.returncode == 3, refused.stdout
        assert "vcjob was installed by Helm (release vcjob in namespace vcjob-system)" in refused.stderr
        assert way in refused.stderr
    assert cluster.api.find(f"{CRDS}/jobs.batch.volcano.sh") is not None
    examined = cluster.vcjob("doctor", "--on", "cluster", "-o", "json")
    checks = {check["topic"]: check for check in json.loads(examined.stdout)["cluster"]}
    assert checks["others"]["standing"] == "ok", checks["others"]
    assert cluster.helm("uninstall", *helm).returncode == 0
    gone = cluster.vcjob("uninstall")
    assert gone.returncode == 0, gone.stderr
    assert cluster.api.find(f"{CRDS}/jobs.batch.volcano.sh") is None


def test_a_missing_right_is_named(cluster: InstalledCluster) -> None:
    alice = cluster.cluster.identity("alice")
    done = cluster.vcjob("install", "--kubeconfig", str(alice))
    assert done.returncode == 3
    assert "alice" in done.stderr
    assert "hint:" in done.stderr


@pytest.mark.long
def test_a_real_volcano_is_seen(bare: InstalledCluster) -> None:
    volcano = bare.cluster.start_volcano("full")
    try:
        refused = bare.install("--wait", "0")
        assert refused.returncode == 3
        assert "--controllers=*,-job-controller" in refused.stderr
        beside = bare.install("--wait", "0", "--beside-volcano")
        assert beside.returncode == 0, beside.stderr
        assert "volcano-admission-service-jobs-mutate" in beside.stderr
        assert "CustomResourceDefinition jobs.batch.volcano.sh: kept" in beside.stdout
        assert bare.vcjob("uninstall").returncode == 0
        assert bare.api.find(f"{CRDS}/jobs.batch.volcano.sh") is not None
    finally:
        volcano.stop()
