"""The controller as a pod of a real node, from our image, installed by `vcjob install`."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.cluster.install.conftest import CRDS, GUIDE, JOBS, InstalledCluster, phase_of

pytestmark = pytest.mark.cluster
HOME = "/api/v1/namespaces/vcjob-system"
OWNER = {
    "apiVersion": "batch.volcano.sh/v1alpha1",
    "kind": "Job",
    "name": "none",
    "uid": "none",
    "blockOwnerDeletion": True,
}
RIGHTS = Path(__file__).with_name("rights.txt")


@pytest.fixture(scope="module")
def installed(real: InstalledCluster) -> InstalledCluster:
    done = real.install("--wait", "200")
    assert done.returncode == 0, done.stderr
    assert "and runs" in done.stdout
    # A Job can run at once: the API server accepts objects that a Job owns.
    owned = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "owned", "ownerReferences": [OWNER]},
    }
    accepted = real.kubectl("create", "--dry-run=server", "-f", "-", text=json.dumps(owned))
    assert accepted.returncode == 0, accepted.stderr
    return real


def guide(name: str, **changes: str) -> str:
    text = GUIDE.read_text().replace("name: pytorch-job", f"name: {name}")
    for old, new in changes.items():
        text = text.replace(old, new)
    return text


def test_two_replicas_run_and_one_of_them_leads(installed: InstalledCluster) -> None:
    pods = [pod for pod in installed.api.list(f"{HOME}/pods") if not pod["metadata"].get("deletionTimestamp")]
    assert [pod["status"]["phase"] for pod in pods] == ["Running", "Running"]
    lease = installed.api.get("/apis/coordination.k8s.io/v1/namespaces/vcjob-system/leases/vcjob-controller")
    assert any(lease["spec"]["holderIdentity"].startswith(pod["metadata"]["name"]) for pod in pods)
    for pod in pods:
        proxied = f"{HOME}/pods/http:{pod['metadata']['name']}:8080/proxy/readyz"
        assert installed.api.text(proxied) == "ok\n"
        metrics = installed.api.text(f"{HOME}/pods/http:{pod['metadata']['name']}:8081/proxy/metrics")
        assert "vcjob_api_requests_total{" in metrics


def test_its_log_lines_are_json(installed: InstalledCluster) -> None:
    pod = installed.api.list(f"{HOME}/pods")[0]["metadata"]["name"]
    lines = installed.api.text(f"{HOME}/pods/{pod}/log").splitlines()
    assert all(json.loads(line)["message"] for line in lines)


def test_the_guides_file_gets_defaults_and_completes(installed: InstalledCluster) -> None:
    done = installed.kubectl("apply", "-f", str(GUIDE))
    assert done.returncode == 0, done.stderr
    job = installed.api.get(f"{JOBS}/pytorch-job")
    assert job["spec"]["plugins"]["svc"] == []
    assert [task["minAvailable"] for task in job["spec"]["tasks"]] == [1, 2]
    installed.api.wait(
        f"{JOBS}/pytorch-job", lambda seen: phase_of(seen) in ("Completed", "Failed"), 120, "at its end"
    )
    assert phase_of(installed.api.get(f"{JOBS}/pytorch-job")) == "Completed"
    shown = installed.kubectl("get", "vj", "pytorch-job")
    assert re.match(r"NAME +STATUS +MINAVAILABLE +RUNNINGS +AGE\npytorch-job +Completed", shown.stdout)
    before = installed.api.get(f"{JOBS}/pytorch-job")["metadata"]["generation"]
    again = installed.kubectl("apply", "-f", str(GUIDE))
    assert again.returncode == 0, again.stderr
    assert installed.api.get(f"{JOBS}/pytorch-job")["metadata"]["generation"] == before


def test_a_warning_reaches_the_user(installed: InstalledCluster) -> None:
    document = yaml.safe_load(guide("warned"))
    container = document["spec"]["tasks"][0]["template"]["spec"]["containers"][0]
    container["env"] = [{"name": "RANK", "value": "7"}]
    done = installed.kubectl("apply", "--dry-run=server", "-f", "-", text=yaml.dump(document))
    assert done.returncode == 0, done.stderr
    assert "Warning: spec.tasks[0].template.spec.containers[0].env[0]" in done.stderr


def test_an_invalid_job_is_refused_with_every_path(installed: InstalledCluster) -> None:
    text = guide("bad", **{"--port=23456": "--port=abc", "replicas: 2": "replicas: -2"})
    done = installed.kubectl("apply", "-f", "-", text=text)
    assert done.returncode == 1
    assert 'The Job "bad" is invalid:' in done.stderr
    assert "* spec.tasks[1].replicas: -2 is too small" in done.stderr
    assert "* spec.plugins.pytorch[2]: `--port`: `abc` is not a whole number" in done.stderr
    assert installed.api.find(f"{JOBS}/bad") is None


def test_a_change_that_is_not_allowed_is_refused(installed: InstalledCluster) -> None:
    installed.kubectl("apply", "-f", "-", text=guide("fixed"))
    done = installed.kubectl("patch", "vcjob", "fixed", "--type=merge", "-p", '{"spec":{"queue":"other"}}')
    assert done.returncode == 1
    assert "spec.queue" in done.stderr
    grown = installed.kubectl("patch", "vcjob", "fixed", "--type=merge", "-p", '{"spec":{"minAvailable":2}}')
    assert grown.returncode == 0, grown.stderr


def test_its_rights_are_the_committed_ones(installed: InstalledCluster) -> None:
    shown = [
        f"in namespace {namespace}:\n{_rights(installed, namespace)}"
        for namespace in ("default", "vcjob-system")
    ]
    assert "\n".join(shown) == RIGHTS.read_text()


def _rights(cluster: InstalledCluster, namespace: str) -> str:
    """What `kubectl auth can-i --list` says, but for what every account may do."""
    account = "--as=system:serviceaccount:vcjob-system:vcjob-controller"
    lines = cluster.kubectl(
        "auth", "can-i", "--list", "--no-headers", "-n", namespace, account
    ).stdout.splitlines()
    own = [line for line in lines if line.strip() and not line.startswith((" ", "selfsubject"))]
    found = []
    for line in own:
        resource, _, rest = line.partition(" ")
        _urls, names, verbs = re.findall(r"\[([^\]]*)\]", rest)
        found.append(f"  {resource}{f' {names}' if names else ''}: {verbs}\n")
    return "".join(sorted(found))


def test_doctor_finds_nothing_missing(installed: InstalledCluster) -> None:
    done = installed.vcjob("doctor", "--on", "cluster", "-o", "json")
    assert done.returncode == 0, done.stdout
    standings = {check["topic"]: check["standing"] for check in json.loads(done.stdout)["cluster"]}
    assert standings == {
        "cluster": "ok",
        "rights": "ok",
        "Jobs": "ok",
        "controller": "ok",
        "webhook": "ok",
        "gang": "note",
        "others": "ok",
    }


def test_installing_again_changes_nothing(installed: InstalledCluster) -> None:
    before = installed.versions()
    done = installed.install("--wait", "60")
    assert done.returncode == 0, done.stderr
    assert "0 objects changed" in done.stdout
    assert installed.versions() == before


def test_an_upgrade_keeps_running_jobs(installed: InstalledCluster) -> None:
    document = yaml.safe_load(guide("long"))
    for task in document["spec"]["tasks"]:
        task.pop("policies", None)
        pod = task["template"]["spec"]
        pod["containers"][0] |= {"image": "busybox:1.36.1", "command": ["sleep", "25"]}
    del document["spec"]["plugins"]["pytorch"]
    document["spec"]["plugins"]["svc"] = []
    assert installed.kubectl("apply", "-f", "-", text=yaml.dump(document)).returncode == 0
    installed.api.wait(f"{JOBS}/long", lambda seen: phase_of(seen) == "Running", 60, "Running")
    before = _pods_of(installed, "long")
    done = installed.install("--wait", "200", "--gang", "none")
    assert done.returncode == 0, done.stderr
    assert "Deployment vcjob-controller: changed" in done.stdout
    installed.api.wait(f"{JOBS}/long", lambda seen: phase_of(seen) == "Completed", 90, "Completed")
    assert _pods_of(installed, "long") == before


def _pods_of(cluster: InstalledCluster, job: str) -> set[str]:
    listed = cluster.api.list(f"/api/v1/namespaces/default/pods?labelSelector=volcano.sh/job-name={job}")
    return {pod["metadata"]["uid"] for pod in listed}


def test_the_webhook_serves_again_after_all_replicas_were_replaced(installed: InstalledCluster) -> None:
    old = {pod["metadata"]["uid"] for pod in installed.api.list(f"{HOME}/pods")}
    for pod in installed.api.list(f"{HOME}/pods"):
        installed.api.delete(f"{HOME}/pods/{pod['metadata']['name']}")

    def replaced(seen: Any) -> bool:
        ready = [pod for pod in seen["items"] if _is_ready(pod) and pod["metadata"]["uid"] not in old]
        return len(ready) == len(seen["items"]) == 2

    installed.api.wait(f"{HOME}/pods", replaced, 200, "replaced")
    bad = guide("bad", **{"--port=23456": "--port=0"})
    deadline = time.monotonic() + 30  # until the node routes to the new addresses
    while True:
        done = installed.kubectl("apply", "--dry-run=server", "-f", "-", text=bad)
        if done.returncode or time.monotonic() > deadline:
            break
    assert "spec.plugins.pytorch[2]" in done.stderr


def _is_ready(pod: Any) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def test_it_serves_only_the_namespaces_that_it_was_given(installed: InstalledCluster) -> None:
    installed.api.create("/api/v1/namespaces", {"metadata": {"name": "served"}})
    done = installed.install("--wait", "200", "--watch-namespace", "served")
    assert done.returncode == 0, done.stderr
    for namespace in ("default", "served"):
        assert installed.kubectl("apply", "-n", namespace, "-f", "-", text=guide("scoped")).returncode == 0
    there = JOBS.replace("default", "served")
    installed.api.wait(f"{there}/scoped", lambda seen: phase_of(seen) == "Completed", 90, "Completed")
    assert phase_of(installed.api.get(f"{JOBS}/scoped")) == ""
    assert _pods_of(installed, "scoped") == set()
    home = installed.api.list(f"{HOME}/pods")[0]["metadata"]["name"]
    assert "forbidden" not in installed.api.text(f"{HOME}/pods/{home}/log")


def test_uninstalling_keeps_jobs_unless_their_deletion_is_requested(installed: InstalledCluster) -> None:
    foreign = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "mine"}}
    installed.api.create(f"{HOME}/configmaps", foreign)
    kept = installed.vcjob("uninstall")
    assert kept.returncode == 0, kept.stderr
    assert "jobs.batch.volcano.sh stays" in kept.stderr
    assert "somebody else's ConfigMap mine" in kept.stderr
    assert phase_of(installed.api.get(f"{JOBS}/pytorch-job")) == "Completed"
    assert installed.api.find(f"{HOME}/configmaps/mine") is not None
    assert {name.split("/")[0] for name in installed.versions()} == {"CustomResourceDefinition", "Namespace"}
    installed.api.delete(f"{HOME}/configmaps/mine")
    gone = installed.vcjob("uninstall", "--delete-jobs")
    assert gone.returncode == 0, gone.stderr
    assert installed.api.find(f"{CRDS}/jobs.batch.volcano.sh") is None
    assert installed.api.find(HOME) is None
    assert installed.versions() == {}
    assert "not installed" in installed.vcjob("uninstall").stdout
