"""The record of a run lags behind its logs: what a killed supervisor had not yet written down is found all the same."""

from __future__ import annotations

import os

from tests.local.conftest import Start, eventually, job, kill_supervisor, ranks, task, texts
from vcjob.local.run.run_dir import RunDir
from vcjob.sdk.local.handle import LocalHandle


def _kill_supervisor(handle: LocalHandle) -> RunDir:
    kill_supervisor(handle)
    run = RunDir(handle.folder)
    eventually(lambda: not run.supervised())
    return run


def test_lines_of_containers_that_are_not_in_the_record_are_shown(start: Start) -> None:
    handle = start(job(*ranks("echo here; sleep 600")))
    eventually(lambda: len(texts(handle)) == 3)
    run = _kill_supervisor(handle)
    pods = run.pods()
    for pod in pods:
        pod.containers = []
    run.write_pods(pods)
    assert sorted(line.prefix for line in handle.logs()) == ["[0 master-0]", "[1 worker-0]", "[2 worker-1]"]
    assert handle.status().failed == 3


def test_pods_that_are_not_in_the_record_are_shown(start: Start) -> None:
    handle = start(job(*ranks("echo here; sleep 600"), plugins={"pytorch": ["--wait-master-enabled"]}))
    eventually(lambda: len(texts(handle, ranks=(0,))) == 1)
    eventually(lambda: len({line.rank for line in handle.logs(containers=("wait-for-master",))}) == 2)
    run = _kill_supervisor(handle)
    before = run.pods()
    run.write_pods([])
    after = handle.pods()
    assert [(pod.name, pod.uid, pod.rank) for pod in after] == [
        (pod.name, pod.uid, pod.rank) for pod in before
    ]
    assert all(pod.phase == "Failed" for pod in after)
    assert [c.name for c in after[1].containers][:1] == ["wait-for-master"]
    assert texts(handle, ranks=(0,)) == ["here"]
    assert handle.status().failed == 3


def test_a_folder_that_is_no_pod_of_the_job_is_left_alone(start: Start) -> None:
    handle = start(job(task("a", "echo here; sleep 600")))
    eventually(lambda: len(texts(handle)) == 1)
    run = _kill_supervisor(handle)
    for name in ("job-a-7", "job-b-0", "other", "job-a-x"):
        os.makedirs(run.path("pods", name, "0"))
    assert [pod.name for pod in handle.pods()] == ["job-a-0"]
