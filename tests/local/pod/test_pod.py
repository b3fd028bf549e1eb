"""A pod on this machine follows the rules of a kubelet: containers, restarts, probes, hooks, deadlines."""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.local.conftest import PATIENCE, Start, container, eventually, job, left_behind, python, task, texts
from tests.ports import port_of, reserve_port
from vcjob.local.machine import process
from vcjob.report.podstate import Ended
from vcjob.sdk.local.handle import LocalHandle


def _ended(handle: LocalHandle) -> Ended:
    ended = handle.pods()[0].containers[0].ended
    assert ended is not None
    return ended


def test_init_containers_run_in_order_before_the_rest(finish: Start, tmp_path: Path) -> None:
    init = [container(f"echo {name} >> order", name) for name in ("one", "two")]
    finish(job(task("a", "echo main >> order", initContainers=init)))
    assert (tmp_path / "order").read_text().split() == ["one", "two", "main"]


def test_a_failed_init_container_fails_the_pod_and_nothing_behind_it_runs(
    finish: Start, tmp_path: Path
) -> None:
    handle = finish(job(task("a", "touch ran", initContainers=[container("exit 4", "check")])))
    assert handle.phase == "Failed"
    assert not (tmp_path / "ran").exists()
    culprit = handle.failure().culprit
    assert culprit and (culprit.container, culprit.exit_code) == ("check", 4)


def test_a_sidecar_runs_beside_and_is_ended_after_the_main_container(finish: Start, tmp_path: Path) -> None:
    sidecar = container(
        "trap 'echo side ended >> order; exit 0' TERM; touch up; while :; do sleep 0.05; done",
        "side",
        restartPolicy="Always",
    )
    main = "while [ ! -e up ]; do sleep 0.01; done; echo main ended >> order"
    handle = finish(job(task("a", main, initContainers=[sidecar])))
    assert handle.phase == "Completed"
    assert (tmp_path / "order").read_text().splitlines() == ["main ended", "side ended"]


def test_a_sidecar_that_dies_is_started_again(finish: Start, tmp_path: Path) -> None:
    sidecar = container("echo x >> starts; sleep 0.1; exit 1", "side", restartPolicy="Always")
    handle = finish(
        job(
            task(
                "a",
                "while [ $(cat starts 2>/dev/null | wc -l) -lt 2 ]; do sleep 0.02; done",
                initContainers=[sidecar],
            )
        )
    )
    assert handle.phase == "Completed"


def test_on_failure_starts_the_container_again_in_the_same_pod(finish: Start) -> None:
    handle = finish(
        job(task("a", "echo try; [ -e done ] || { touch done; exit 1; }", restartPolicy="OnFailure"))
    )
    assert handle.phase == "Completed"
    (pod,) = handle.pods()
    assert pod.restarts == 1 and pod.attempt == 0
    assert texts(handle, previous=True) == ["try"]
    assert texts(handle) == ["try"]


@pytest.mark.slow
def test_crashes_are_retried_later_and_later_until_max_retry(finish: Start) -> None:
    handle = finish(job(task("master", container("exit 7"), restartPolicy="OnFailure", maxRetry=2)))
    assert handle.phase == "Failed"
    (pod,) = handle.pods()
    assert pod.restarts == 2
    culprit = handle.failure().culprit
    assert culprit and culprit.exit_code == 7


@pytest.mark.slow
def test_term_comes_first_and_kill_when_the_grace_is_over(start: Start) -> None:
    stubborn = "trap 'echo asked' TERM; echo up; while :; do sleep 0.05; done"
    handle = start(job(task("a", stubborn, terminationGracePeriodSeconds=1)))
    eventually(lambda: texts(handle) == ["up"])
    began = time.monotonic()
    handle.stop()
    assert handle.wait(PATIENCE) == "Terminated"
    assert time.monotonic() - began > 0.9
    assert "asked" in texts(handle)
    assert _ended(handle).signal == 9
    assert left_behind(handle) == []


def test_pre_stop_runs_before_the_signal(start: Start, tmp_path: Path) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", "echo hook >> order"]}}}
    program = "trap 'echo term >> order; exit 0' TERM; touch up; while :; do sleep 0.02; done"
    handle = start(job(task("a", container(program, lifecycle=hook))))
    eventually((tmp_path / "up").exists)
    handle.stop()
    handle.wait(PATIENCE)
    assert (tmp_path / "order").read_text().split() == ["hook", "term"]


def test_a_failing_post_start_ends_the_container(finish: Start) -> None:
    hook = {"postStart": {"exec": {"command": ["false"]}}}
    handle = finish(job(task("a", container("sleep 20", lifecycle=hook))))
    assert handle.phase == "Failed"
    assert "postStart" in str(_ended(handle).message)


@pytest.mark.slow
def test_a_pod_that_takes_too_long_fails_by_its_deadline(finish: Start) -> None:
    handle = finish(job(task("a", "sleep 20", activeDeadlineSeconds=1)))
    assert handle.phase == "Failed"
    (pod,) = handle.pods()
    assert pod.reason == "DeadlineExceeded"


@pytest.fixture
def reserved() -> Iterator[socket.socket]:
    with reserve_port() as held:
        yield held


@pytest.mark.parametrize(
    "kind", ["exec", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("tcpSocket", "httpGet"))]
)
def test_a_readiness_probe_decides_when_a_pod_is_ready(
    start: Start, tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    server = (
        "import http.server, os, time\n"
        "while not os.path.exists('go'): time.sleep(0.01)\n"
        "open('ready', 'w').close()\n"
        "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), http.server.SimpleHTTPRequestHandler)\n"
        "open('port', 'w').write(str(s.server_port))\n"
        "s.serve_forever()\n"
    )
    if kind == "exec":
        check = {"exec": {"command": ["test", "-e", "ready"]}}
        program = python(server, readinessProbe={**check, "periodSeconds": 1})
        document = job(task("a", program))
    else:
        port = port_of(request.getfixturevalue("reserved"))
        action = {"tcpSocket": {"port": "web"}, "httpGet": {"port": "web", "path": "/"}}[kind]
        probe = {kind: action, "periodSeconds": 1}
        program = python(
            server.replace("('127.0.0.1', 0)", f"('127.0.0.1', {port})"),
            ports=[{"containerPort": port, "name": "web"}],
            readinessProbe=probe,
        )
        document = job(task("a", program))
    handle = start(document)
    eventually(lambda: handle.pods() and handle.pods()[0].phase == "Running")
    assert not handle.pods()[0].ready
    (tmp_path / "go").touch()
    eventually(lambda: handle.pods()[0].ready)


@pytest.mark.slow
def test_a_failed_liveness_probe_restarts_the_container(finish: Start) -> None:
    probe = {"exec": {"command": ["test", "-e", "alive"]}, "periodSeconds": 1, "failureThreshold": 1}
    handle = finish(
        job(
            task(
                "a",
                container(
                    "[ -e alive ] && exit 0; trap 'touch alive; exit 1' TERM; sleep 600 & wait",
                    livenessProbe={**probe, "initialDelaySeconds": 1},
                ),
                restartPolicy="OnFailure",
            )
        )
    )
    assert handle.phase == "Completed"
    (pod,) = handle.pods()
    assert pod.restarts == 1
    assert pod.containers[0].last is not None and "liveness" in str(pod.containers[0].last.message)


@pytest.mark.slow
def test_a_startup_probe_holds_back_what_comes_behind_a_sidecar(finish: Start, tmp_path: Path) -> None:
    probe = {"exec": {"command": ["test", "-e", "warm"]}, "periodSeconds": 1}
    sidecar = container(
        "sleep 0.3; echo warm >> order; touch warm; sleep 600",
        "side",
        restartPolicy="Always",
        startupProbe=probe,
    )
    finish(job(task("a", "echo main >> order", initContainers=[sidecar])))
    assert (tmp_path / "order").read_text().split() == ["warm", "main"]


def test_what_a_container_leaves_in_its_group_or_detached_ends_with_it(finish: Start) -> None:
    fork = (
        "import os, sys, time\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    if os.fork() == 0:\n"
        "        time.sleep(600)\n"
        "    os._exit(0)\n"
        "if os.fork() == 0:\n"
        "    time.sleep(600)\n"
        "time.sleep(0.2)\n"
    )
    handle = finish(job(task("a", python(fork))))
    assert handle.phase == "Completed"
    assert left_behind(handle) == []


def test_several_containers_of_a_pod_run_together_and_the_first_failure_counts(finish: Start) -> None:
    handle = finish(job(task("a", container("sleep 0.3; exit 2", "late"), container("exit 5", "early"))))
    assert handle.phase == "Failed"
    culprit = handle.failure().culprit
    assert culprit and (culprit.container, culprit.exit_code) == ("early", 5)
    assert [line.prefix for line in handle.logs()] == []


def test_variables_come_from_the_pod_s_own_fields_and_resources(finish: Start) -> None:
    env = [
        {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        {"name": "TASK", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['volcano.sh/task-spec']"}}},
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "MEM", "valueFrom": {"resourceFieldRef": {"resource": "requests.memory", "divisor": "1Mi"}}},
        {"name": "BOTH", "value": "$(POD)/$(TASK) $$(POD) $(NOT_THERE)"},
    ]
    program = container(
        ["sh", "-c", 'echo $(IP) $MEM "$BOTH"'], env=env, resources={"requests": {"memory": "64Mi"}}
    )
    handle = finish(job(task("a", program)))
    assert texts(handle) == ["127.0.0.1 64 job-a-0/a $(POD) $(NOT_THERE)"]


def test_a_program_may_have_a_name_that_the_kernel_cuts_within_a_character(
    finish: Start, tmp_path: Path
) -> None:
    script = tmp_path / "run-训练脚本.sh"
    script.write_text("#!/bin/sh\necho done\n")
    script.chmod(0o755)
    handle = finish(job(task("a", container([str(script)]))))
    assert (handle.phase, texts(handle)) == ("Completed", ["done"])


def test_an_empty_dir_is_shared_by_the_containers_of_one_pod(finish: Start) -> None:
    mount = [{"name": "scratch", "mountPath": "/vcjob-test-scratch/deep"}]
    where = "${VCJOB_MOUNT_VCJOB_TEST_SCRATCH_DEEP:-/vcjob-test-scratch/deep}"
    handle = finish(
        job(
            task(
                "a",
                container(f"cat {where}/note", volumeMounts=mount),
                initContainers=[container(f"echo kept > {where}/note", "write", volumeMounts=mount)],
                volumes=[{"name": "scratch", "emptyDir": {}}],
            )
        )
    )
    assert texts(handle) == ["kept"]
    assert not Path("/vcjob-test-scratch").exists()


def test_a_missing_config_map_is_a_sentence_and_not_a_hang(finish: Start) -> None:
    env = [{"name": "X", "valueFrom": {"configMapKeyRef": {"name": "nowhere", "key": "k"}}}]
    handle = finish(job(task("a", container("true", env=env))))
    assert handle.phase == "Failed"
    assert "'nowhere' does not exist" in str(handle.pods()[0].message)


def test_a_missing_working_dir_is_said_and_the_caller_s_folder_taken(finish: Start, tmp_path: Path) -> None:
    handle = finish(job(task("a", container("pwd", workingDir="/nowhere/at/all"))))
    assert texts(handle) == [str(tmp_path)]
    assert any("/nowhere/at/all" in note for note in handle.notes())


def test_a_killed_shim_is_noticed_and_its_pod_leaves_nothing(start: Start) -> None:
    import os
    import signal

    detach = "import os, time\nif os.fork() == 0:\n    os.setsid()\ntime.sleep(600)\n"
    handle = start(job(task("a", python(detach))))
    eventually(
        lambda: len([p for p in left_behind(handle) if process.mark_of(p, process.MARK_CONTAINER)]) == 2
    )
    os.kill(eventually(lambda: handle.pods() and handle.pods()[0].shim), signal.SIGKILL)
    assert handle.wait(PATIENCE) == "Failed"
    assert handle.pods()[0].reason == "PodLost"
    eventually(lambda: left_behind(handle) == [], what="the end of everything it had started")


@pytest.mark.skipif(sys.platform != "linux", reason="memory limits need cgroups")
def test_a_rank_over_its_memory_limit_is_called_oom_killed_where_limits_can_be_held(finish: Start) -> None:
    eat = "b = bytearray(200 * 1024 * 1024)\nimport time\ntime.sleep(0.2)\n"
    handle = finish(job(task("a", python(eat, resources={"limits": {"memory": "64Mi"}}))))
    if any("cgroup" in note for note in handle.notes()):
        assert handle.phase == "Completed"  # said, not silently ignored
    else:
        assert handle.phase == "Failed"
        culprit = handle.failure().culprit
        assert culprit and culprit.reason == "OOMKilled"


def test_marks_are_in_the_environment_of_every_process(start: Start) -> None:
    handle = start(job(task("a", "sleep 600")))
    pid = eventually(
        lambda: handle.pods() and handle.pods()[0].containers and handle.pods()[0].containers[0].pid
    )
    assert process.mark_of(pid, process.MARK_POD) == handle.pods()[0].uid


@pytest.mark.slow
def test_a_stopped_shim_does_not_save_its_pod_from_a_kill(start: Start) -> None:
    import os
    import signal

    handle = start(job(task("a", "sleep 600")))
    eventually(lambda: handle.pods() and handle.pods()[0].phase == "Running")
    shim = handle.pods()[0].shim
    assert shim is not None
    os.kill(shim, signal.SIGSTOP)
    handle.stop(now=True)
    assert handle.wait(PATIENCE) == "Terminated"
    assert left_behind(handle) == []


def test_the_reason_of_a_failed_job_carries_the_last_words_of_the_rank(finish: Start) -> None:
    handle = finish(job(task("master", "echo noise; echo 'no such dataset' >&2; exit 2")))
    assert "no such dataset" in handle.status().state.message
