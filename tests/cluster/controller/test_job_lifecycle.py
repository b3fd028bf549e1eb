"""The lives of Jobs on a real API server, with pretended nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.cluster.controller.conftest import Controller, ControllerCluster
from tests.cluster.controller.jobs import job, task, trio

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("two_nodes")]
Serve = Callable[..., Controller]


@pytest.fixture(autouse=True)
def two_nodes(fakes: Callable[..., Any]) -> None:
    fakes(2)


def attempts(pods: list[dict[str, Any]]) -> dict[str, str]:
    return {pod["metadata"]["name"]: pod["metadata"]["labels"]["vcjob.io/attempt"] for pod in pods}


def running(pods: list[dict[str, Any]]) -> int:
    return sum(
        pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"] for pod in pods
    )


def test_a_job_completes_and_costs_few_requests(ground: ControllerCluster, serve: Serve) -> None:
    controller = serve()
    ground.create(trio("tiny"))
    done = ground.wait_phase("tiny", "Completed")
    assert done["status"]["succeeded"] == 3
    assert done["status"]["state"]["reason"] == "Succeeded"
    assert [c["status"] for c in done["status"]["conditions"]] == ["Pending", "Running", "Completed"]
    assert len(ground.pods()) == 3, "finished pods stay for their logs"
    writes = controller.writes()
    assert writes["create", "pods"] == 3
    assert sum(writes.values()) <= 14, writes


def test_without_volcano_one_event_says_who_schedules(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    ground.create(trio("replaced"))
    ground.wait_phase("replaced", "Completed")
    said = [event for event in ground.events("replaced") if event["reason"] == "SchedulerReplaced"]
    assert len(said) == 1
    assert "Volcano's scheduler does not run here" in said[0]["message"]
    assert {pod["spec"]["schedulerName"] for pod in ground.pods()} == {"default-scheduler"}


def test_a_warning_of_the_api_server_is_an_event_on_the_job(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    warn = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    ground.api.patch(f"/api/v1/namespaces/{ground.namespace}", warn)
    ground.create(job("lax", task("a", 2, after=None)))
    seen = ground.api.wait(
        f"{ground.core}/events",
        lambda seen: [e for e in seen["items"] if e["reason"] == "PodWarning"],
        what="reported",
    )
    warnings = [event["message"] for event in seen["items"] if event["reason"] == "PodWarning"]
    assert len(warnings) == 1, "once for all pods"
    assert warnings[0].startswith('pods of task a: would violate PodSecurity "restricted:latest"')


def test_a_failed_pod_restarts_the_job_until_the_runs_are_used_up(
    ground: ControllerCluster, serve: Serve
) -> None:
    serve()
    policy = [{"event": "PodFailed", "action": "RestartJob"}]
    ground.create(job("again", task("a", 2, after="200ms", code=3), policies=policy, maxRetry=2))
    failed = ground.wait_phase("again", "Failed")
    assert failed["status"]["state"]["reason"] == "MaxRetryReached"
    assert "exited with code 3" in failed["status"]["state"]["message"]
    assert failed["status"]["retryCount"] == 2
    assert set(attempts(ground.pods()).values()) == {"1"}, "the last run's pods stay"


def test_commands_suspend_and_resume(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    ground.create(job("paused", task("a", 2, after=None)))
    ground.wait_phase("paused", "Running")
    ground.command("paused", "AbortJob")
    ground.wait_phase("paused", "Aborted")
    assert ground.pods() == []
    ground.command("paused", "ResumeJob")
    resumed = ground.wait_phase("paused", "Running")
    assert resumed["status"].get("retryCount", 0) == 0, "resuming costs no run"
    assert set(attempts(ground.pods()).values()) == {"1"}
    commands = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{ground.namespace}/commands"
    ground.api.wait(commands, lambda seen: not seen["items"], what="deleted")


def test_spec_suspend_suspends_and_resumes(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    ground.create(job("dozing", task("a", 2, after=None), suspend=True))
    state = ground.wait_phase("dozing", "Aborted")["status"]["state"]
    assert state["message"] == "spec.suspend is true"
    assert ground.pods() == []
    ground.api.patch(f"{ground.jobs}/dozing", {"spec": {"suspend": False}})
    ground.wait_phase("dozing", "Running")


def test_a_change_that_is_not_allowed_is_reported_and_ignored(
    ground: ControllerCluster, serve: Serve
) -> None:
    serve()
    ground.create(job("fixed", task("a", 1, after=None), maxRetry=5))
    ground.wait_phase("fixed", "Running")
    image = {"op": "replace", "path": "/spec/tasks/0/template/spec/containers/0/image", "value": "evil:1"}
    ground.api.patch(f"{ground.jobs}/fixed", [image])
    ground.api.wait(
        f"{ground.core}/events",
        lambda seen: [e for e in seen["items"] if e["reason"] == "InvalidUpdate" and "image" in e["message"]],
        what="reported",
    )
    ground.api.delete(f"{ground.core}/pods/fixed-a-0")
    pods = ground.wait_pods(lambda pods: running(pods) == 1 and attempts(pods) == {"fixed-a-0": "1"})
    assert pods[0]["spec"]["containers"][0]["image"] == "busybox:1.36.1"


def test_a_job_is_deleted_and_at_once_created_again_under_its_name(
    ground: ControllerCluster, serve: Serve
) -> None:
    serve()
    ground.create(trio("phoenix", after=None))
    ground.wait_phase("phoenix", "Running")
    old = {pod["metadata"]["uid"] for pod in ground.pods()}
    ground.api.delete(f"{ground.jobs}/phoenix", propagationPolicy="Background")
    uid = ground.create(trio("phoenix", after="1s"))["metadata"]["uid"]
    ground.wait_phase("phoenix", "Completed")
    pods = ground.pods()
    assert len(pods) == 3
    assert not old & {pod["metadata"]["uid"] for pod in pods}
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == {uid}
    service = ground.api.get(f"{ground.core}/services/phoenix")
    assert service["metadata"]["ownerReferences"][0]["uid"] == uid


def test_what_is_deleted_or_changed_is_restored(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    ground.create(trio("whole", after=None))
    ground.wait_phase("whole", "Running")
    service, hosts = f"{ground.core}/services/whole", f"{ground.core}/configmaps/whole-svc"
    policy = f"/apis/networking.k8s.io/v1/namespaces/{ground.namespace}/networkpolicies/whole"
    old = ground.api.get(service)["metadata"]["uid"]
    ground.api.delete(service)
    ground.api.wait(service, lambda seen: seen and seen["metadata"]["uid"] != old, what="created again")
    ground.api.patch(hosts, {"data": {"VC_WORKER_NUM": "7", "mine": "kept"}})
    healed = ground.api.wait(hosts, lambda seen: seen["data"]["VC_WORKER_NUM"] == "2", what="healed")
    assert healed["data"]["mine"] == "kept"
    ground.api.patch(service, {"spec": {"selector": {"stray": "x"}}})
    ground.api.wait(service, lambda seen: "stray" not in seen["spec"]["selector"], what="healed")
    ground.api.delete(policy)
    ground.api.wait(policy, lambda seen: seen is not None, what="created again")
    assert running(ground.pods()) == 3


def test_a_service_of_another_is_never_touched(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    mine = {"metadata": {"name": "taken"}, "spec": {"clusterIP": "None", "selector": {"app": "mine"}}}
    before = ground.api.create(f"{ground.core}/services", mine)
    ground.create(trio("taken"))
    message = ground.wait_reason("taken", "NameConflict")
    assert "Service taken exists and does not belong to this Job" in message
    assert ground.pods() == []
    after = ground.api.get(f"{ground.core}/services/taken")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    ground.api.delete(f"{ground.core}/services/taken")
    ground.wait_phase("taken", "Completed")


def test_replicas_change_while_the_job_runs(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    ground.create(job("elastic", task("a", 2, after=None), plugins={"svc": []}, minAvailable=1))
    ground.wait_phase("elastic", "Running")
    path = f"{ground.jobs}/elastic"
    ground.api.patch(path, [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 5}])
    ground.wait_pods(lambda pods: running(pods) == 5)
    ground.api.wait(
        f"{ground.core}/configmaps/elastic-svc", lambda seen: seen["data"]["VC_A_NUM"] == "5", what="grown"
    )
    ground.api.patch(path, [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 1}])
    pods = ground.wait_pods(lambda pods: len(pods) == 1)
    assert pods[0]["metadata"]["name"] == "elastic-a-0"


def test_an_invalid_job_fails_with_all_its_problems(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    bad = job("bad", task("worker", 2), plugins={"pytorch": ["--port=abc"]}, minAvailable=9)
    ground.create(bad)
    failed = ground.wait_phase("bad", "Failed")["status"]["state"]
    assert failed["reason"] == "InvalidJob"
    assert "spec.plugins.pytorch[0]" in failed["message"]
    assert "minAvailable" in failed["message"]
    assert ground.pods() == []


def test_a_pod_with_only_the_labels_does_not_count(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    labels = {"volcano.sh/job-name": "real", "volcano.sh/task-spec": "a", "volcano.sh/task-index": "0"}
    impostor = {
        "metadata": {"name": "impostor", "labels": labels, "annotations": labels},
        "spec": {"containers": [{"name": "c", "image": "busybox:1.36.1"}]},
    }
    ground.api.create(f"{ground.core}/pods", impostor)
    ground.create(job("real", task("a", 2)))
    done = ground.wait_phase("real", "Completed")
    assert done["status"]["succeeded"] == 2
    ground.api.delete(f"{ground.jobs}/real")
    left = ground.wait_pods(lambda pods: len(pods) == 1)
    assert left[0]["metadata"]["name"] == "impostor"


def test_a_full_quota_is_the_reason_until_it_is_raised(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    quota = f"{ground.core}/resourcequotas"
    ground.api.create(quota, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})
    ground.api.wait(f"{quota}/few", lambda seen: (seen.get("status") or {}).get("hard"), what="counted")
    ground.create(job("squeezed", task("a", 3, after=None)))
    assert "exceeded quota" in ground.wait_reason("squeezed", "QuotaExceeded")
    ground.api.patch(f"{quota}/few", {"spec": {"hard": {"pods": "5"}}})
    ground.wait_phase("squeezed", "Running")


def test_the_schedulers_message_is_the_jobs_reason(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    huge = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000"}}}]}
    ground.create(job("huge", task("a", 2, pod=huge)))
    message = ground.wait_reason("huge", "Unschedulable")
    assert "Insufficient cpu" in message
    assert "(and 1 more pods)" in message


def test_a_pod_that_the_namespace_forbids_is_the_jobs_reason(ground: ControllerCluster, serve: Serve) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    ground.api.patch(f"/api/v1/namespaces/{ground.namespace}", {"metadata": {"labels": labels}})
    serve()
    ground.create(job("careless", task("a", 1)))
    assert "allowPrivilegeEscalation" in ground.wait_reason("careless", "PodSecurity")


def test_a_missing_volume_is_the_jobs_reason(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    ground.create(job("stored", task("a", 1), volumes=[{"mountPath": "/data", "volumeClaim": claim}]))
    assert "PersistentVolumeClaim" in ground.wait_reason("stored", "Volume")
    (made,) = ground.api.list(f"{ground.core}/persistentvolumeclaims")
    assert made["metadata"]["ownerReferences"][0]["name"] == "stored"
    (pod,) = ground.pods()
    mounted = [
        v["persistentVolumeClaim"]["claimName"]
        for v in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in v
    ]
    assert mounted == [made["metadata"]["name"]]


def test_a_scheduler_that_nobody_runs_is_the_jobs_reason(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    ground.create(job("lonely", task("a", 1), schedulerName="nobody"))
    assert "'nobody'" in ground.wait_reason("lonely", "NoSuchScheduler")


def test_a_finished_job_goes_when_its_time_to_live_is_over(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    ground.create(job("brief", task("a", 1, after="100ms"), ttlSecondsAfterFinished=1))
    ground.api.wait(f"{ground.jobs}/brief", lambda seen: seen is None, what="gone")
    ground.wait_pods(lambda pods: not pods)


def test_a_pod_deleted_by_hand_is_replaced(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    ground.create(job("steady", task("a", 2, after=None)))
    ground.wait_phase("steady", "Running")
    ground.api.delete(f"{ground.core}/pods/steady-a-1")
    ground.wait_pods(lambda pods: running(pods) == 2 and attempts(pods)["steady-a-1"] == "1")


def test_a_task_waits_for_the_one_it_depends_on(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    second = task("second", 2, dependsOn={"name": ["first"]})
    ground.create(job("ordered", task("first", 1, after="2s"), second))
    ground.wait_phase("ordered", "Completed")
    born = {pod["metadata"]["name"]: pod["metadata"]["creationTimestamp"] for pod in ground.pods()}
    first = next(pod for pod in ground.pods() if pod["metadata"]["name"] == "ordered-first-0")
    assert born["ordered-second-0"] >= first["status"]["startTime"]


def test_the_pods_of_a_deleted_job_end_with_it(ground: ControllerCluster, serve: Serve) -> None:
    controller = serve()
    ground.create(job("doomed", task("a", 3, after=None)))
    ground.wait_phase("doomed", "Running")
    ground.api.delete(f"{ground.jobs}/doomed")
    ground.wait_pods(lambda pods: not pods)
    assert controller.writes()["delete", "pods"] <= 3, "whoever comes first, we or the garbage collector"


def test_orphaned_pods_of_a_deleted_job_continue_to_run(ground: ControllerCluster, serve: Serve) -> None:
    serve()
    ground.create(job("gone", task("a", 3, after=None)))
    ground.wait_phase("gone", "Running")
    ground.api.delete(f"{ground.jobs}/gone", propagationPolicy="Orphan")
    ground.wait_pods(lambda pods: not any(pod["metadata"].get("ownerReferences") for pod in pods))
    ground.api.wait(f"{ground.jobs}/gone", lambda seen: seen is None, what="gone")
    ground.create(job("next", task("b", 1)))
    ground.wait_phase("next", "Completed")
    assert running([pod for pod in ground.pods() if pod["metadata"]["name"].startswith("gone-")]) == 3
    ground.api.request("DELETE", f"{ground.core}/pods")
