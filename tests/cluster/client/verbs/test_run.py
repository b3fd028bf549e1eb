"""`run --on cluster` and what can be seen of a job afterwards."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

import vcjob
from tests.cli.conftest import Result
from tests.cluster.client.conftest import PATIENCE, Shell, container, finish, job, next_line, task
from tests.cluster.controller.conftest import ControllerCluster
from tests.testbed.images.catalog import VCJOB as PYTHON_IMAGE
from tests.testbed.parts.node import Node
from tests.testbed.paths import REPOSITORY

pytestmark = pytest.mark.cluster
GUIDE = REPOSITORY / "tests/guides/guide.en.yaml"
SAY_RANK = container("echo rank $RANK of $WORLD_SIZE; sleep 1")
TRIO = job("trio", task("master", SAY_RANK), task("worker", SAY_RANK, replicas=2), plugins={"pytorch": []})


def test_the_guides_file_is_followed_to_its_end(shell: Shell, node: Node) -> None:
    node.load_image("guide")
    ran = shell("run", str(GUIDE))
    assert ran.code == 0, ran
    assert "[0 master-0] rank 0 got 1 back from rank 1" in ran.out
    assert "[0 master-0] rank 0 got 2 back from rank 2" in ran.out
    assert "[1 worker-0] rank 1 has received 1 from rank 0" in ran.out
    assert "[1 worker-0 wait-for-master]" in ran.out, "init steps are part of the story"
    assert "pytorch-job: Completed in" in ran.out
    ranks = [line.split()[:2] for line in ran.out.splitlines()[-3:]]
    assert ranks == [
        ["0", "pytorch-job-master-0"],
        ["1", "pytorch-job-worker-0"],
        ["2", "pytorch-job-worker-1"],
    ], "also those that were ended with the job and are gone"
    assert "pytorch-job Running" in ran.err


class TestAJobThatIsOver:
    @pytest.fixture(scope="class")
    @staticmethod
    def ran(testbed: ControllerCluster, tmp_path_factory: pytest.TempPathFactory) -> Result:
        shell = Shell(testbed, tmp_path_factory.mktemp("trio"))
        return shell("run", shell.file(TRIO))

    def test_its_progress_was_shown_while_it_ran(self, ran: Result) -> None:
        assert ran.code == 0, ran
        assert sorted(line for line in ran.out.splitlines() if line.startswith("[")) == [
            "[0 master-0] rank 0 of 3",
            "[1 worker-0] rank 1 of 3",
            "[2 worker-1] rank 2 of 3",
        ]
        assert "rank 2 worker-1 Succeeded" in ran.err

    def test_its_logs_are_those_of_all_ranks(self, ran: Result, shell: Shell) -> None:
        logs = shell("logs", "trio")
        assert sorted(logs.out.splitlines()) == sorted(
            line for line in ran.out.splitlines() if line.startswith("[")
        )
        one = shell("logs", "trio", "--rank", "2", "-o", "json")
        line = json.loads(one.out)
        assert (line["rank"], line["task"], line["index"], line["text"]) == (2, "worker", 1, "rank 2 of 3")
        assert shell("logs", "trio", "--since", "1s", "--tail", "1").out == ""

    def test_its_status_is_the_job_object(self, ran: Result, shell: Shell) -> None:
        shown = json.loads(shell("status", "trio", "-o", "json").out)
        assert shown["kind"] == "Job"
        assert shown["status"]["state"]["phase"] == "Completed"
        table = shell("status", "trio").out
        assert "trio: Completed" in table
        assert [line.split()[:4] for line in table.splitlines()[-3:]] == [
            ["0", "trio-master-0", "Succeeded", "0"],
            ["1", "trio-worker-0", "Succeeded", "0"],
            ["2", "trio-worker-1", "Succeeded", "0"],
        ]

    def test_it_is_listed(self, ran: Result, shell: Shell) -> None:
        listed = json.loads(shell("list", "-o", "json").out)
        assert listed["kind"] == "List"
        assert "trio" in [found["metadata"]["name"] for found in listed["items"]]
        rows = [line.split() for line in shell("list").out.splitlines()]
        assert ["trio", "Completed", "3/3"] in [row[:3] for row in rows]

    def test_its_events_are_those_of_the_job_and_its_pods(self, ran: Result, shell: Shell) -> None:
        said = shell("events", "trio").out
        assert "Completed: 3 of 3 pods succeeded" in said
        assert "pod trio-master-0: " in said

    def test_it_can_be_run_again_and_deleted(self, ran: Result, shell: Shell) -> None:
        before = shell.testbed.job("trio")["metadata"]["uid"]
        again = shell("run", "--detach", shell.file(TRIO))
        assert again.code == 0, again
        assert f"vcjob logs -f trio --on cluster -n {shell.testbed.namespace}" in again.out
        uid = shell.testbed.job("trio")["metadata"]["uid"]
        assert uid != before
        refused = shell("run", "--detach", shell.file(TRIO))
        assert refused.code == 2
        assert "already exists and is" in refused.err
        assert shell("delete", "trio").out == "trio: deleted\n"
        # Those of the Job before it go when the garbage collector comes to them.
        owners = {
            owner["uid"] for pod in shell.testbed.pods() for owner in pod["metadata"]["ownerReferences"]
        }
        assert uid not in owners
        gone = shell("status", "trio")
        assert gone.code == 2
        assert "no job 'trio'" in gone.err


def test_a_failing_rank_is_named_with_its_last_lines_through_all_attempts(shell: Shell) -> None:
    """Its pods are recreated in between: what the first ones wrote is still shown."""
    script = (
        'echo "try of $HOSTNAME"; sleep 1; test "$RANK" = 1 && { echo "no more data"; exit 3; }; sleep 60'
    )
    worker = task("worker", container(script))
    spec = {
        "maxRetry": 2,
        "plugins": {"pytorch": []},
        "policies": [{"event": "PodFailed", "action": "RestartJob"}],
    }
    ran = shell("run", shell.file(job("unlucky", task("master", container(script)), worker, **spec)))
    assert ran.code == 1, ran
    lines = ran.out.splitlines()
    assert lines.count("[0 master-0] try of unlucky-master-0") == 2
    assert lines.count("[1 worker-0] try of unlucky-worker-0") == 2
    assert lines.count("[1 worker-0] no more data") == 2
    assert "Restarting" in ran.err
    assert "rank 1 (worker-0) ended with exit code 3, in container main" in ran.out
    assert "    | no more data" in ran.out
    (finding,) = json.loads(shell("why", "unlucky", "-o", "json").out)["findings"]
    assert (finding["cause"], finding["ranks"]["first"]) == ("NonZeroExit", ["rank 1"])
    assert finding["message"] == "rank 1 ended with exit code 3: no more data"
    gone = shell("logs", "unlucky", "--attempt", "0")
    assert gone.code == 2
    assert "attempts with logs: 1" in gone.err


def test_ctrl_c_ends_the_job(shell: Shell) -> None:
    script = "trap 'echo bye; exit 0' TERM; echo up; while true; do sleep 0.1; done"
    process = shell.start("run", shell.file(job("broken-off", task("a", container(script)))))
    shell.testbed.wait_phase("broken-off", "Running")
    assert next_line(process) == "[- a-0] up\n"
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert ended.code == 130, ended
    assert "[- a-0] bye" in ended.out
    assert "broken-off: Terminated" in ended.out
    assert shell.testbed.phase("broken-off") == "Terminated"


def test_a_second_ctrl_c_does_not_wait_for_those_who_will_not_end(shell: Shell) -> None:
    script = "trap '' TERM; echo up; while true; do sleep 0.1; done"
    stubborn = task("a", container(script), terminationGracePeriodSeconds=600)
    process = shell.start("run", shell.file(job("stubborn", stubborn)))
    assert next_line(process) == "[- a-0] up\n"
    process.send_signal(signal.SIGINT)
    shell.testbed.wait_phase("stubborn", "Terminating")
    process.send_signal(signal.SIGINT)
    ended = finish(process)
    assert ended.code == 130, ended
    assert "left; the cluster is still ending the job 'stubborn'" in ended.err
    assert "vcjob status stubborn --on cluster -n" in ended.err
    shell.testbed.api.delete(f"{shell.testbed.core}/pods/stubborn-a-0", gracePeriodSeconds=0)


def test_other_objects_of_the_file_are_created_too(shell: Shell, tmp_path: Path) -> None:
    with_env = container("echo $GREETING", envFrom=[{"configMapRef": {"name": "words"}}])
    words = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "words"},
        "data": {"GREETING": "hello"},
    }
    file = tmp_path / "both.json"
    file.write_text(json.dumps(words) + "\n---\n" + json.dumps(job("companions", task("a", with_env))))
    ran = shell("run", str(file))
    assert ran.code == 0, ran
    assert "[- a-0] hello" in ran.out


def test_an_api_server_that_dies_costs_no_line_and_repeats_none(shell: Shell) -> None:
    count = 'i=0; while [ $i -lt 60 ]; do i=$((i+1)); echo "line $i"; sleep 0.1; done'
    process = shell.start("run", shell.file(job("counting", task("a", container(count), replicas=2))))
    first = next_line(process)
    api_server = shell.testbed.cluster.part("kube-apiserver")
    api_server.kill()
    api_server.restart()
    ran = finish(process)
    assert ran.code == 0, ran
    lines = (first + ran.out).splitlines()
    for index in (0, 1):
        own = [line for line in lines if line.startswith(f"[- a-{index}]")]
        assert own == [f"[- a-{index}] line {number}" for number in range(1, 61)]


def test_a_script_runs_on_the_cluster_and_its_stored_job_can_be_rendered(shell: Shell, node: Node) -> None:
    node.load_image("vcjob")
    place = ("--on", "cluster", "-n", shell.testbed.namespace)
    python3 = "spec.tasks[0].template.spec.containers[0].command[0]=python3"  # Debian has no `python`
    script = ("--image", PYTHON_IMAGE, "--name", "script", "--set", python3, "-m", "vcjob", "--version")
    ran = finish(shell.start_exact("run", *place, *script))
    assert ran.code == 0, ran
    assert f"[0 master-0] vcjob, version {vcjob.__version__}" in ran.out
    before = finish(shell.start_exact("render", "--gang", "none", *place, "-o", "json", *script))
    after = shell("render", "script", "--gang", "none", "-o", "json")
    pods = [[obj for obj in shown.json["items"] if obj["kind"] == "Pod"] for shown in (before, after)]
    assert pods[0][0]["spec"] == pods[1][0]["spec"]


def say_rank() -> None:
    print(f"rank {os.environ['RANK']} of {os.environ['WORLD_SIZE']}", flush=True)


def test_a_function_is_shipped_to_the_cluster(shell: Shell, node: Node) -> None:
    node.load_image("vcjob")
    job = vcjob.pytorch_job(say_rank, workers=1, image=PYTHON_IMAGE, namespace=shell.testbed.namespace)
    for each in job["spec"]["tasks"]:
        each["template"]["spec"]["containers"][0]["command"][0] = "python3"
    handle = vcjob.run(job, on="cluster", kubeconfig=str(shell.testbed.cluster.kubeconfig))
    assert handle.wait(PATIENCE) == "Completed", handle.why()
    assert sorted(line.text for line in handle.logs()) == ["rank 0 of 2", "rank 1 of 2"]


def test_the_example_from_kubeflow_runs_on_the_cluster(shell: Shell) -> None:
    ran = shell("run", str(REPOSITORY / "examples/09-from-kubeflow/job.yaml"))
    assert ran.code == 0, ran
    assert "[0 master-0] the master is rank 0 of 3" in ran.out
