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


def test_a_job_completes_and_costs_few_requests(testbed: ControllerCluster, serve: Serve) -> None:
    controller = serve()
    testbed.create(trio("tiny"))
    done = testbed.wait_phase("tiny", "Completed")
    assert done["status"]["succeeded"] == 3
    assert done["status"]["state"]["reason"] == "Succeeded"
    assert [c["status"] for c in done["status"]["conditions"]] == ["Pending", "Running", "Completed"]
    assert len(testbed.pods()) == 3, "finished pods stay for their logs"
    writes = controller.writes()
    assert writes["create", "pods"] == 3
    assert sum(writes.values()) <= 14, writes


def test_without_volcano_one_event_says_who_schedules(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    testbed.create(trio("replaced"))
    testbed.wait_phase("replaced", "Completed")
    said = [event for event in testbed.events("replaced") if event["reason"] == "SchedulerReplaced"]
    assert len(said) == 1
    assert "Volcano's scheduler does not run here" in said[0]["message"]
    assert {pod["spec"]["schedulerName"] for pod in testbed.pods()} == {"default-scheduler"}


def test_a_warning_of_the_api_server_is_an_event_on_the_job(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    warn = {"metadata": {"labels": {"pod-security.kubernetes.io/warn": "restricted"}}}
    testbed.api.patch(f"/api/v1/namespaces/{testbed.namespace}", warn)
    testbed.create(job("lax", task("a", 2, after=None)))
    seen = testbed.api.wait(
        f"{testbed.core}/events",
        lambda seen: [e for e in seen["items"] if e["reason"] == "PodWarning"],
        what="reported",
    )
    warnings = [event["message"] for event in seen["items"] if event["reason"] == "PodWarning"]
    assert len(warnings) == 1, "once for all pods"
    assert warnings[0].startswith('pods of task a: would violate PodSecurity "restricted:latest"')


def test_a_failed_pod_restarts_the_job_until_the_runs_are_used_up(
    testbed: ControllerCluster, serve: Serve
) -> None:
    serve()
    policy = [{"event": "PodFailed", "action": "RestartJob"}]
    testbed.create(job("again", task("a", 2, after="200ms", code=3), policies=policy, maxRetry=2))
    failed = testbed.wait_phase("again", "Failed")
    assert failed["status"]["state"]["reason"] == "MaxRetryReached"
    assert "exited with code 3" in failed["status"]["state"]["message"]
    assert failed["status"]["retryCount"] == 2
    assert set(attempts(testbed.pods()).values()) == {"1"}, "the last run's pods stay"


def test_commands_suspend_and_resume(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    testbed.create(job("paused", task("a", 2, after=None)))
    testbed.wait_phase("paused", "Running")
    testbed.command("paused", "AbortJob")
    testbed.wait_phase("paused", "Aborted")
    assert testbed.pods() == []
    testbed.command("paused", "ResumeJob")
    resumed = testbed.wait_phase("paused", "Running")
    assert resumed["status"].get("retryCount", 0) == 0, "resuming costs no run"
    assert set(attempts(testbed.pods()).values()) == {"1"}
    commands = f"/apis/bus.volcano.sh/v1alpha1/namespaces/{testbed.namespace}/commands"
    testbed.api.wait(commands, lambda seen: not seen["items"], what="deleted")


def test_spec_suspend_suspends_and_resumes(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    testbed.create(job("dozing", task("a", 2, after=None), suspend=True))
    state = testbed.wait_phase("dozing", "Aborted")["status"]["state"]
    assert state["message"] == "spec.suspend is true"
    assert testbed.pods() == []
    testbed.api.patch(f"{testbed.jobs}/dozing", {"spec": {"suspend": False}})
    testbed.wait_phase("dozing", "Running")


def test_a_change_that_is_not_allowed_is_reported_and_ignored(
    testbed: ControllerCluster, serve: Serve
) -> None:
    serve()
    testbed.create(job("fixed", task("a", 1, after=None), maxRetry=5))
    testbed.wait_phase("fixed", "Running")
    image = {"op": "replace", "path": "/spec/tasks/0/template/spec/containers/0/image", "value": "evil:1"}
    testbed.api.patch(f"{testbed.jobs}/fixed", [image])
    testbed.api.wait(
        f"{testbed.core}/events",
        lambda seen: [e for e in seen["items"] if e["reason"] == "InvalidUpdate" and "image" in e["message"]],
        what="reported",
    )
    testbed.api.delete(f"{testbed.core}/pods/fixed-a-0")
    pods = testbed.wait_pods(lambda pods: running(pods) == 1 and attempts(pods) == {"fixed-a-0": "1"})
    assert pods[0]["spec"]["containers"][0]["image"] == "busybox:1.36.1"


def test_a_job_is_deleted_and_at_once_created_again_under_its_name(
    testbed: ControllerCluster, serve: Serve
) -> None:
    serve()
    testbed.create(trio("phoenix", after=None))
    testbed.wait_phase("phoenix", "Running")
    old = {pod["metadata"]["uid"] for pod in testbed.pods()}
    testbed.api.delete(f"{testbed.jobs}/phoenix", propagationPolicy="Background")
    uid = testbed.create(trio("phoenix", after="1s"))["metadata"]["uid"]
    testbed.wait_phase("phoenix", "Completed")
    pods = testbed.pods()
    assert len(pods) == 3
    assert not old & {pod["metadata"]["uid"] for pod in pods}
    assert {pod["metadata"]["ownerReferences"][0]["uid"] for pod in pods} == {uid}
    service = testbed.api.get(f"{testbed.core}/services/phoenix")
    assert service["metadata"]["ownerReferences"][0]["uid"] == uid


def test_what_is_deleted_or_changed_is_restored(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    testbed.create(trio("whole", after=None))
    testbed.wait_phase("whole", "Running")
    service, hosts = f"{testbed.core}/services/whole", f"{testbed.core}/configmaps/whole-svc"
    policy = f"/apis/networking.k8s.io/v1/namespaces/{testbed.namespace}/networkpolicies/whole"
    old = testbed.api.get(service)["metadata"]["uid"]
    testbed.api.delete(service)
    testbed.api.wait(service, lambda seen: seen and seen["metadata"]["uid"] != old, what="created again")
    testbed.api.patch(hosts, {"data": {"VC_WORKER_NUM": "7", "mine": "kept"}})
    healed = testbed.api.wait(hosts, lambda seen: seen["data"]["VC_WORKER_NUM"] == "2", what="healed")
    assert healed["data"]["mine"] == "kept"
    testbed.api.patch(service, {"spec": {"selector": {"stray": "x"}}})
    testbed.api.wait(service, lambda seen: "stray" not in seen["spec"]["selector"], what="healed")
    testbed.api.delete(policy)
    testbed.api.wait(policy, lambda seen: seen is not None, what="created again")
    assert running(testbed.pods()) == 3


def test_a_service_of_another_is_never_touched(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    mine = {"metadata": {"name": "taken"}, "spec": {"clusterIP": "None", "selector": {"app": "mine"}}}
    before = testbed.api.create(f"{testbed.core}/services", mine)
    testbed.create(trio("taken"))
    message = testbed.wait_reason("taken", "NameConflict")
    assert "Service taken exists and does not belong to this Job" in message
    assert testbed.pods() == []
    after = testbed.api.get(f"{testbed.core}/services/taken")
    assert after["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    testbed.api.delete(f"{testbed.core}/services/taken")
    testbed.wait_phase("taken", "Completed")


def test_replicas_change_while_the_job_runs(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    testbed.create(job("elastic", task("a", 2, after=None), plugins={"svc": []}, minAvailable=1))
    testbed.wait_phase("elastic", "Running")
    path = f"{testbed.jobs}/elastic"
    testbed.api.patch(path, [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 5}])
    testbed.wait_pods(lambda pods: running(pods) == 5)
    testbed.api.wait(
        f"{testbed.core}/configmaps/elastic-svc", lambda seen: seen["data"]["VC_A_NUM"] == "5", what="grown"
    )
    testbed.api.patch(path, [{"op": "replace", "path": "/spec/tasks/0/replicas", "value": 1}])
    pods = testbed.wait_pods(lambda pods: len(pods) == 1)
    assert pods[0]["metadata"]["name"] == "elastic-a-0"


def test_an_invalid_job_fails_with_all_its_problems(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    bad = job("bad", task("worker", 2), plugins={"pytorch": ["--port=abc"]}, minAvailable=9)
    testbed.create(bad)
    failed = testbed.wait_phase("bad", "Failed")["status"]["state"]
    assert failed["reason"] == "InvalidJob"
    assert "spec.plugins.pytorch[0]" in failed["message"]
    assert "minAvailable" in failed["message"]
    assert testbed.pods() == []


def test_a_pod_with_only_the_labels_does_not_count(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    labels = {"volcano.sh/job-name": "real", "volcano.sh/task-spec": "a", "volcano.sh/task-index": "0"}
    impostor = {
        "metadata": {"name": "impostor", "labels": labels, "annotations": labels},
        "spec": {"containers": [{"name": "c", "image": "busybox:1.36.1"}]},
    }
    testbed.api.create(f"{testbed.core}/pods", impostor)
    testbed.create(job("real", task("a", 2)))
    done = testbed.wait_phase("real", "Completed")
    assert done["status"]["succeeded"] == 2
    testbed.api.delete(f"{testbed.jobs}/real")
    left = testbed.wait_pods(lambda pods: len(pods) == 1)
    assert left[0]["metadata"]["name"] == "impostor"


def test_a_full_quota_is_the_reason_until_it_is_raised(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    quota = f"{testbed.core}/resourcequotas"
    testbed.api.create(quota, {"metadata": {"name": "few"}, "spec": {"hard": {"pods": "1"}}})
    testbed.api.wait(f"{quota}/few", lambda seen: (seen.get("status") or {}).get("hard"), what="counted")
    testbed.create(job("squeezed", task("a", 3, after=None)))
    assert "exceeded quota" in testbed.wait_reason("squeezed", "QuotaExceeded")
    testbed.api.patch(f"{quota}/few", {"spec": {"hard": {"pods": "5"}}})
    testbed.wait_phase("squeezed", "Running")


def test_the_schedulers_message_is_the_jobs_reason(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    huge = {"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1000"}}}]}
    testbed.create(job("huge", task("a", 2, pod=huge)))
    message = testbed.wait_reason("huge", "Unschedulable")
    assert "Insufficient cpu" in message
    assert "(and 1 more pod)" in message


def test_a_pod_that_the_namespace_forbids_is_the_jobs_reason(
    testbed: ControllerCluster, serve: Serve
) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    testbed.api.patch(f"/api/v1/namespaces/{testbed.namespace}", {"metadata": {"labels": labels}})
    serve()
    testbed.create(job("careless", task("a", 1)))
    assert "allowPrivilegeEscalation" in testbed.wait_reason("careless", "PodSecurity")


def test_a_missing_volume_is_the_jobs_reason(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    claim = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    testbed.create(job("stored", task("a", 1), volumes=[{"mountPath": "/data", "volumeClaim": claim}]))
    assert "PersistentVolumeClaim" in testbed.wait_reason("stored", "Volume")
    (made,) = testbed.api.list(f"{testbed.core}/persistentvolumeclaims")
    assert made["metadata"]["ownerReferences"][0]["name"] == "stored"
    (pod,) = testbed.pods()
    mounted = [
        v["persistentVolumeClaim"]["claimName"]
        for v in pod["spec"]["volumes"]
        if "persistentVolumeClaim" in v
    ]
    assert mounted == [made["metadata"]["name"]]


def test_a_scheduler_that_nobody_runs_is_the_jobs_reason(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    testbed.create(job("lonely", task("a", 1), schedulerName="nobody"))
    assert "'nobody'" in testbed.wait_reason("lonely", "NoSuchScheduler")


def test_a_finished_job_goes_when_its_time_to_live_is_over(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    testbed.create(job("brief", task("a", 1, after="100ms"), ttlSecondsAfterFinished=1))
    testbed.api.wait(f"{testbed.jobs}/brief", lambda seen: seen is None, what="gone")
    testbed.wait_pods(lambda pods: not pods)


def test_a_pod_deleted_by_hand_is_replaced(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    testbed.create(job("steady", task("a", 2, after=None)))
    testbed.wait_phase("steady", "Running")
    testbed.api.delete(f"{testbed.core}/pods/steady-a-1")
    testbed.wait_pods(lambda pods: running(pods) == 2 and attempts(pods)["steady-a-1"] == "1")


def test_a_task_waits_for_the_one_it_depends_on(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    second = task("second", 2, dependsOn={"name": ["first"]})
    testbed.create(job("ordered", task("first", 1, after="2s"), second))
    testbed.wait_phase("ordered", "Completed")
    born = {pod["metadata"]["name"]: pod["metadata"]["creationTimestamp"] for pod in testbed.pods()}
    first = next(pod for pod in testbed.pods() if pod["metadata"]["name"] == "ordered-first-0")
    assert born["ordered-second-0"] >= first["status"]["startTime"]


def test_the_pods_of_a_deleted_job_end_with_it(testbed: ControllerCluster, serve: Serve) -> None:
    controller = serve()
    testbed.create(job("doomed", task("a", 3, after=None)))
    testbed.wait_phase("doomed", "Running")
    testbed.api.delete(f"{testbed.jobs}/doomed")
    testbed.wait_pods(lambda pods: not pods)
    assert controller.writes()["delete", "pods"] <= 3, "whoever comes first, we or the garbage collector"


def test_orphaned_pods_of_a_deleted_job_continue_to_run(testbed: ControllerCluster, serve: Serve) -> None:
    serve()
    testbed.create(job("gone", task("a", 3, after=None)))
    testbed.wait_phase("gone", "Running")
    testbed.api.delete(f"{testbed.jobs}/gone", propagationPolicy="Orphan")
    testbed.wait_pods(lambda pods: not any(pod["metadata"].get("ownerReferences") for pod in pods))
    testbed.api.wait(f"{testbed.jobs}/gone", lambda seen: seen is None, what="gone")
    testbed.create(job("next", task("b", 1)))
    testbed.wait_phase("next", "Completed")
    assert running([pod for pod in testbed.pods() if pod["metadata"]["name"].startswith("gone-")]) == 3
    testbed.api.request("DELETE", f"{testbed.core}/pods")
