"""Following, waiting for and acting on jobs of a cluster."""

from __future__ import annotations

import asyncio
import json
import signal
from typing import Any

import pytest

import vcjob
from tests.cluster.client.conftest import Shell, container, finish, job, next_line, task

pytestmark = pytest.mark.cluster
SLEEP = "trap 'exit 0' TERM; echo up; while true; do sleep 0.1; done"


def test_logs_are_followed_through_a_restart_of_the_container(shell: Shell) -> None:
    second = f"echo second; {SLEEP}"
    # The first instance ends when it is followed: of a container that had restarted before, `logs -f` shows the last one.
    wait = "while [ ! -e /kept/x ]; do sleep 0.1; done"
    script = f"[ -e /kept/x ] && {{ {second}; }}; echo first; {wait}; exit 4"
    main = container(script, volumeMounts=[{"name": "kept", "mountPath": "/kept"}])
    beside = container("echo beside", "sidecar")
    pods = task("a", main, beside, restart="OnFailure", volumes=[{"name": "kept", "emptyDir": {}}])
    assert shell("run", "--detach", shell.file(job("again", pods))).code == 0
    follower = shell.start("logs", "-f", "again")
    assert next_line(follower) == "[- a-0] first\n"
    words = ["exec", "again", "--on", "cluster", "-n", shell.testbed.namespace, "--task", "a", "--index", "0"]
    touched = finish(shell.start_exact(*words, "--", "touch", "/kept/x"))[0]
    assert touched in (
        0,
        128 + signal.SIGKILL,
    )  # the container may end, and the command with it, before that is reported
    said = [next_line(follower) for _ in range(2)]
    assert said == ["[- a-0] second\n", "[- a-0] up\n"], "the rank's own container alone"
    assert shell("logs", "again", "--tail", "1").out == "[- a-0] up\n"
    assert shell("logs", "again", "--previous").out == "[- a-0] first\n"
    assert shell("logs", "again", "-c", "sidecar").out == "[- a-0 sidecar] beside\n"
    unknown = shell("logs", "again", "-c", "nobody")
    assert unknown.code == 2
    assert "its containers are: main, sidecar" in unknown.err
    assert shell("complete", "again").out == "again: ending as Completed\n"
    assert shell("wait", "again").code == 0
    assert finish(follower) == (0, "", ""), "it ends with the job"


def test_a_job_is_suspended_resumed_waited_for_and_stopped(shell: Shell) -> None:
    assert shell("run", "-d", shell.file(job("busy", task("a", container(SLEEP), replicas=2)))).code == 0
    shell.testbed.wait_phase("busy", "Running")
    late = shell("wait", "busy", "--timeout", "1")
    assert late.code == 124
    assert "still Running after 1 s" in late.err
    resume = f"`vcjob resume busy --on cluster -n {shell.testbed.namespace}`"
    assert shell("suspend", "busy").out == f"busy: suspended; continue with {resume}\n"
    shell.testbed.wait_phase("busy", "Aborted")
    follower = shell.start("logs", "-f", "busy", "--tail", "1")
    assert shell("resume", "busy").code == 0
    shell.testbed.wait_phase("busy", "Running")
    assert {next_line(follower), next_line(follower)} == {"[- a-0] up\n", "[- a-1] up\n"}
    assert shell("stop", "busy").out == "busy: Terminated\n"
    assert finish(follower).code == 0, "it ends with the job"
    ended = shell("wait", "busy")
    assert ended.code == 1
    over = shell("suspend", "busy")
    assert over.code == 2
    assert "is over (Terminated)" in over.err


def test_the_same_handle_from_python(shell: Shell) -> None:
    kubeconfig = str(shell.testbed.cluster.kubeconfig)
    handle = vcjob.run(
        job("from-python", task("a", container("echo hello; sleep 1; echo end"))),
        on="cluster",
        kubeconfig=kubeconfig,
        namespace=shell.testbed.namespace,
    )
    assert [line.text for line in handle.logs(follow=True)] == ["hello", "end"]
    assert asyncio.run(handle.wait_async(60, check=True)) == "Completed"
    assert handle.done
    assert [pod.phase for pod in handle.pods()] == ["Succeeded"]
    found = vcjob.find("from-python", kubeconfig=kubeconfig, namespace=shell.testbed.namespace)
    assert found.uid == handle.uid
    assert found.to_dict()["status"]["succeeded"] == 1
    assert "managedFields" not in found.to_dict()["metadata"]
    assert "from-python" in [j.name for j in vcjob.jobs(shell.testbed.namespace, kubeconfig=kubeconfig)]
    everywhere = vcjob.jobs(on="cluster", kubeconfig=kubeconfig, all_namespaces=True)
    assert (handle.namespace, handle.name) in [(found.namespace, found.name) for found in everywhere]
    handle.delete()
    with pytest.raises(vcjob.NoSuchJob):
        handle.to_dict()


def test_a_restart_replaces_the_pods(shell: Shell) -> None:
    assert shell("run", "-d", shell.file(job("restarted", task("a", container(SLEEP))))).code == 0
    shell.testbed.wait_phase("restarted", "Running")
    restarted = shell("restart", "restarted", "-o", "json")
    assert json.loads(restarted.out)["metadata"]["name"] == "restarted"
    shell.testbed.wait_pods(
        lambda pods: [p for p in pods if p["metadata"]["name"] == "restarted-a-0" and attempt(p) == "1"]
    )
    assert shell("delete", "restarted").code == 0


def attempt(pod: dict[str, Any]) -> str:
    return str(pod["metadata"]["labels"]["vcjob.io/attempt"])


def test_stop_now_does_not_wait_for_those_who_will_not_end(shell: Shell) -> None:
    deaf = task("a", container("trap '' TERM; echo up; while true; do sleep 0.1; done"))
    deaf["template"]["spec"]["terminationGracePeriodSeconds"] = 600
    assert shell("run", "-d", shell.file(job("deaf", deaf))).code == 0
    shell.testbed.wait_phase("deaf", "Running")
    assert shell("stop", "deaf", "--now").out == "deaf: Terminated\n"


def test_a_job_that_its_spec_suspends_is_shown_as_such(shell: Shell) -> None:
    ran = shell("run", shell.file(job("later", task("a", container("true")), suspend=True)))
    assert ran.code == 1
    assert "suspended by spec.suspend; set it to false to continue" in ran.out
    assert "suspended by its own spec" in shell("resume", "later").err
    refused = shell("run", shell.file(job("later", task("a", container("true")))))
    assert refused.code == 2
    assert "is Aborted" in refused.err


def test_a_command_runs_next_to_a_rank(shell: Shell) -> None:
    assert shell("run", "-d", shell.file(job("inside", task("a", container(SLEEP), replicas=2)))).code == 0
    shell.testbed.wait_phase("inside", "Running")
    words = [
        "exec",
        "inside",
        "--on",
        "cluster",
        "-n",
        shell.testbed.namespace,
        "--task",
        "a",
        "--index",
        "1",
    ]
    ran = shell.start_exact(*words, "--", "sh", "-c", "hostname; exit 7")
    assert finish(ran) == (7, "inside-a-1\n", "")
    assert shell("delete", "inside").code == 0
