"""A job from its start to its end."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

import pytest

import vcjob
from tests.local.conftest import (
    PATIENCE,
    Start,
    container,
    eventually,
    job,
    left_behind,
    python,
    ranks,
    task,
    texts,
)


def test_every_rank_gets_its_place_in_the_world(finish: Start) -> None:
    handle = finish(job(*ranks("echo $RANK of $WORLD_SIZE at $MASTER_ADDR")))
    assert handle.phase == "Completed"
    assert sorted(texts(handle)) == [f"{rank} of 3 at 127.0.0.1" for rank in range(3)]


def test_lines_carry_rank_and_pod(finish: Start) -> None:
    handle = finish(job(*ranks("echo hello")))
    assert sorted(map(str, handle.logs())) == [
        "[0 master-0] hello",
        "[1 worker-0] hello",
        "[2 worker-1] hello",
    ]


def test_a_task_without_a_rank_has_a_dash(finish: Start) -> None:
    handle = finish(job(*ranks("true"), task("side", "echo ${RANK:-none} $WORLD_SIZE")))
    assert [str(line) for line in handle.logs(tasks=("side",))] == ["[- side-0] none 3"]


def test_the_status_is_a_kubernetes_object(finish: Start) -> None:
    handle = finish(job(*ranks("true")))
    document = handle.to_dict()
    assert document["kind"] == "Job"
    assert document["metadata"]["uid"] == handle.uid
    assert document["status"]["state"]["phase"] == "Completed"
    assert document["status"]["succeeded"] == 3
    json.dumps(document)


def test_nothing_is_left_after_the_end(finish: Start) -> None:
    handle = finish(job(*ranks("sleep 0.1 & true")))
    assert left_behind(handle) == []


def test_the_caller_s_environment_is_there_and_another_job_s_is_not(
    finish: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MINE", "yes")
    monkeypatch.setenv("LOCAL_RANK", "7")
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "other")
    handle = finish(
        job(
            task(
                "a",
                "echo $MINE ${LOCAL_RANK:-no} ${TORCHELASTIC_RUN_ID:-no} $PYTHONUNBUFFERED $GLOO_SOCKET_IFNAME",
            )
        )
    )
    assert texts(handle) == ["yes no no 1 lo"]


def test_every_rank_of_its_own_pod_is_local_rank_0(finish: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_RANK", "7")
    handle = finish(job(*ranks("echo $RANK: $LOCAL_RANK of $LOCAL_WORLD_SIZE")))
    assert sorted(texts(handle)) == ["0: 0 of 1", "1: 0 of 1", "2: 0 of 1"]


def test_the_environment_is_not_kept_after_the_end(finish: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_TOKEN", "very-secret-word")
    handle = finish(job(task("a", "true")))
    kept = [
        path
        for path in Path(handle.folder).rglob("*")
        if path.is_file() and b"very-secret-word" in path.read_bytes()
    ]
    assert kept == []


def test_the_store_is_for_its_owner_alone(finish: Start) -> None:
    handle = finish(job(task("a", "echo x")))
    home = Path(os.environ["VCJOB_HOME"])
    assert home.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in Path(handle.folder).rglob("*.out"))


def test_a_busy_port_is_replaced_and_said(finish: Start) -> None:
    with socket.socket() as busy:
        busy.bind(("0.0.0.0", 0))
        busy.listen()
        port = busy.getsockname()[1]
        handle = finish(job(*ranks("echo $MASTER_PORT"), plugins={"pytorch": [f"--port={port}"]}))
    used = {int(text) for text in texts(handle)}
    assert len(used) == 1 and used != {port}
    assert any(
        event["reason"] == "PortReplaced" and str(port) in event["message"] for event in handle.events()
    )
    assert handle.to_dict()["status"]["controlledResources"]["vcjob.io/master-port"] == str(used.pop())


def test_wait_for_master_holds_the_workers_back(finish: Start) -> None:
    listen = (
        "import os, socket, time; print('sleeping'); time.sleep(0.6); s = socket.socket();"
        "s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1);"
        "s.bind(('127.0.0.1', int(os.environ['MASTER_PORT']))); s.listen(); print('listening');"
        "s.accept(), s.accept()"  # each worker's probe
    )
    handle = finish(
        job(
            task("master", python(listen)),
            task("worker", "echo started", replicas=2),
            plugins={"pytorch": ["--wait-master-enabled=true", "--wait-master-timeout=20"]},
        )
    )
    assert handle.phase == "Completed"
    pods = {pod.name: pod for pod in handle.pods()}
    master = pods["job-master-0"]
    for index in range(2):
        worker = pods[f"job-worker-{index}"]
        assert [c.name for c in worker.containers] == ["wait-for-master", "main"]
        assert worker.started_at and master.started_at
        assert worker.started_at - master.started_at > 0.5
    assert texts(handle, containers=("main",)).count("started") == 2


@pytest.mark.slow
def test_a_wait_that_runs_out_fails_the_job_at_once_although_restarts_are_allowed(finish: Start) -> None:
    handle = finish(
        job(
            task("master", "sleep 30", restartPolicy="OnFailure"),
            task("worker", "true", restartPolicy="OnFailure"),
            plugins={"pytorch": ["--wait-master-enabled=true", "--wait-master-timeout=1"]},
        )
    )
    assert handle.phase == "Failed"
    report = handle.failure()
    assert report.culprit and report.culprit.container == "wait-for-master" and report.culprit.exit_code == 91


def test_host_lists_are_files_and_variables_that_mean_this_machine(finish: Start) -> None:
    handle = finish(
        job(
            *ranks(
                "echo $VC_WORKER_HOSTS $VC_WORKER_NUM; cat ${VCJOB_MOUNT_ETC_VOLCANO:-/etc/volcano}/worker.host"
            )
        )
    )
    assert texts(handle, ranks=(0,)) == ["127.0.0.1,127.0.0.1 2", "127.0.0.1", "127.0.0.1"]


def test_depends_on_starts_the_later_task_when_the_first_is_up(finish: Start) -> None:
    handle = finish(
        job(
            task("first", "sleep 0.5"),
            task("second", "true", dependsOn={"name": ["first"]}),
        )
    )
    assert handle.phase == "Completed"
    pods = {pod.task: pod for pod in handle.pods()}
    began = pods["first"].started_at
    assert began is not None and pods["second"].created_at >= began


def test_a_second_run_of_a_running_name_is_refused_and_the_first_goes_on(start: Start) -> None:
    first = start(job(task("a", "sleep 600")))
    with pytest.raises(vcjob.JobExists) as refusal:
        start(job(task("a", "true")))
    assert "already running" in refusal.value.message and refusal.value.hint
    assert eventually(lambda: first.phase == "Running")


def test_a_finished_name_starts_anew_and_the_old_run_is_kept(finish: Start) -> None:
    old = finish(job(task("a", "echo old")))
    new = finish(job(task("a", "echo new")))
    assert vcjob.find("job").uid == new.uid
    assert texts(vcjob.find(old.uid)) == ["old"]
    assert texts(new) == ["new"]


def test_jobs_are_listed_by_namespace(finish: Start) -> None:
    finish(job(task("a", "true"), name="one"))
    finish(job(task("a", "true"), name="two"), namespace="team")
    assert [handle.name for handle in vcjob.jobs()] == ["one", "two"]
    assert [handle.name for handle in vcjob.jobs("team")] == ["two"]
    with pytest.raises(vcjob.NoSuchJob, match="it exists in team") as raised:
        vcjob.find("two")
    assert raised.value.hint == "add `-n team`"


def test_a_deleted_job_leaves_no_file_and_no_process(start: Start) -> None:
    handle = start(job(*ranks("sleep 600")))
    eventually(lambda: handle.phase == "Running")
    handle.delete()
    assert not os.path.exists(handle.folder)
    assert left_behind(handle) == []
    with pytest.raises(vcjob.NoSuchJob):
        vcjob.find("job")


def test_a_job_that_outlived_its_ttl_is_gone(finish: Start) -> None:
    handle = finish(job(task("a", "true"), ttlSecondsAfterFinished=0))
    with pytest.raises(vcjob.NoSuchJob, match="ttlSecondsAfterFinished"):
        vcjob.find("job")
    assert not os.path.exists(handle.folder)


async def test_a_handle_waits_and_reads_without_blocking_the_loop(start: Start) -> None:
    handle = start(job(task("a", "echo one; sleep 0.2; echo two")))
    lines = [line.text async for line in handle.logs_async(follow=True)]
    assert lines == ["one", "two"]
    assert await handle.wait_async(PATIENCE, check=True) == "Completed"


def test_wait_raises_when_the_time_is_over_and_when_the_job_failed(start: Start) -> None:
    slow = start(job(task("a", "sleep 5"), name="slow"))
    with pytest.raises(vcjob.WaitTimeout):
        slow.wait(0.1)
    bad = start(job(task("a", "exit 3"), name="bad"))
    with pytest.raises(vcjob.JobFailed):
        bad.wait(PATIENCE, check=True)


def test_config_maps_and_secrets_beside_the_job_are_used(finish: Start) -> None:
    document = f"""
apiVersion: v1
kind: ConfigMap
metadata: {{name: settings}}
data: {{lr: "0.1"}}
---
apiVersion: v1
kind: Secret
metadata: {{name: keys}}
stringData: {{token: s3cret}}
---
{
        json.dumps(
            job(
                task(
                    "a",
                    container(
                        "echo $LR $TOKEN $token $COPY $(cat ${VCJOB_MOUNT_CONF:-/conf}/lr)",
                        env=[
                            {
                                "name": "LR",
                                "valueFrom": {"configMapKeyRef": {"name": "settings", "key": "lr"}},
                            },
                            {
                                "name": "TOKEN",
                                "valueFrom": {"secretKeyRef": {"name": "keys", "key": "token"}},
                            },
                            {"name": "COPY", "value": "<$(LR)>"},
                        ],
                        envFrom=[{"secretRef": {"name": "keys"}}],
                        volumeMounts=[{"name": "conf", "mountPath": "/conf"}],
                    ),
                    volumes=[{"name": "conf", "configMap": {"name": "settings"}}],
                )
            )
        )
    }
"""
    handle = finish(document)
    assert texts(handle) == ["0.1 s3cret s3cret <0.1> 0.1"]


@pytest.mark.slow
def test_a_named_claim_keeps_its_data_for_other_jobs_and_an_own_claim_goes_with_the_run(
    finish: Start,
) -> None:
    def with_volume(name: str, command: str, volume: Mapping[str, object]) -> dict[str, object]:
        return job(task("a", command), name=name, volumes=[{"mountPath": "/vcjob-data", **volume}])

    where = "${VCJOB_MOUNT_VCJOB_DATA:-/vcjob-data}"
    named = {"volumeClaimName": "dataset"}
    finish(with_volume("writer", f"echo rows > {where}/table", named))
    handle = finish(with_volume("reader", f"cat {where}/table", named))
    assert texts(handle) == ["rows"]
    own = {"volumeClaim": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
    assert texts(finish(with_volume("owner", f"touch {where}/x; ls {where}", own))) == ["x"]
    assert texts(finish(with_volume("owner", f"ls {where}", own))) == []


def test_a_program_that_exits_with_0_when_it_is_suspended_runs_again_after_the_resume(
    start: Start, tmp_path: Path
) -> None:
    graceful = "[ -e up ] && exit 0; trap 'touch saved; exit 0' TERM; touch up; while :; do sleep 0.05; done"
    handle = start(job(task("a", graceful)))
    eventually((tmp_path / "up").exists)
    handle.suspend()
    eventually(lambda: handle.phase == "Aborted")
    assert (tmp_path / "saved").exists() and handle.status().succeeded == 0
    handle.resume()
    assert handle.wait(PATIENCE) == "Completed"
    assert handle.status().attempt("a", 0) == 1


def test_a_job_that_its_spec_suspends_waits_to_be_resumed(start: Start) -> None:
    handle = start(job(task("a", "true"), suspend=True))
    eventually(lambda: handle.phase == "Aborted" and not handle.supervised)
    assert handle.pods() == []
