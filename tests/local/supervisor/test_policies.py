"""Policies on real processes: every event that a policy can name, with every action."""

from __future__ import annotations

import signal
from typing import Any

import pytest

from tests.local.conftest import PATIENCE, Start, container, eventually, job, left_behind, python, ranks, task

FINAL = {"AbortJob": "Aborted", "TerminateJob": "Terminated", "CompleteJob": "Completed"}
RESTARTS = ("RestartJob", "RestartTask", "RestartPod")
QUICK = {
    ("PodFailed", "RestartJob"),
    ("PodFailed", "RestartPod"),
    ("TaskCompleted", "CompleteJob"),
    ("TaskFailed", "TerminateJob"),
    ("PodPending", "AbortJob"),
    ("exitCode", "RestartTask"),
}
EVENTS = ("PodFailed", "TaskCompleted", "TaskFailed", "PodPending", "exitCode")

#: The first try does what the event needs; what comes after it simply runs.
TRIGGERS: dict[str, dict[str, Any]] = {
    "PodFailed": {"command": "[ -e again ] && sleep 600; touch again; exit 1"},
    "exitCode": {"command": "[ -e again ] && sleep 600; touch again; exit 42"},
    "TaskCompleted": {"command": "[ -e again ] && sleep 600; touch again; exit 0"},
    "TaskFailed": {"command": "[ -e again ] && sleep 600; touch again; exit 1",
                   "restartPolicy": "OnFailure", "maxRetry": 1},
    "PodPending": {"command": "sleep 600",
                   "initContainers": [container("[ -e again ] || { touch again; sleep 600; }", "slow")]},
}  # fmt: skip


def _document(event: str, action: str) -> dict[str, Any]:
    trigger = dict(TRIGGERS[event])
    command = trigger.pop("command")
    policy: dict[str, Any] = {"action": action}
    policy |= {"exitCode": 42} if event == "exitCode" else {"event": event}
    if event == "PodPending":
        policy["timeout"] = "300ms"
    return job(
        task("eventful", command, policies=[policy], terminationGracePeriodSeconds=1, **trigger),
        task("other", "sleep 600", terminationGracePeriodSeconds=1),
        minAvailable=1,
    )


CASES = [
    pytest.param(event, action, marks=() if (event, action) in QUICK else pytest.mark.slow)
    for event in EVENTS
    for action in (*FINAL, *RESTARTS)
]


@pytest.mark.parametrize(("event", "action"), CASES)
def test_an_event_brings_about_its_action(start: Start, event: str, action: str) -> None:
    handle = start(_document(event, action))
    if action in FINAL:
        eventually(lambda: handle.phase == FINAL[action] and not handle.supervised, what=FINAL[action])
        assert left_behind(handle) == []
        return
    again = eventually(lambda: [pod for pod in handle.pods() if pod.attempt == 1 and pod.phase == "Running"])
    restarted = {pod.task for pod in again}
    if action == "RestartJob":
        eventually(
            lambda: (
                {p.task for p in handle.pods() if p.attempt == 1 and p.phase == "Running"}
                == {"eventful", "other"}
            )
        )
    else:
        assert restarted == {"eventful"}
    eventually(lambda: handle.phase == "Running")
    assert handle.status().retry_count == 1


@pytest.mark.parametrize(
    "event", [pytest.param(event, marks=() if event == "PodFailed" else pytest.mark.slow) for event in EVENTS]
)
def test_restart_partition_restarts_the_pods_of_the_partition_and_no_others(start: Start, event: str) -> None:
    document = _document(event, "RestartPartition")
    eventful = document["spec"]["tasks"][0]
    eventful |= {
        "replicas": 4,
        "partitionPolicy": {"totalPartitions": 2, "partitionSize": 2, "minPartitions": 2},
    }
    whole_task = event in ("TaskCompleted", "TaskFailed")
    spec = eventful["template"]["spec"]
    for one in (*spec["containers"], *spec.get("initContainers", ())):
        # What sets the event off is done once: by every pod for an event of the task, else by index 3 alone.
        alone = "" if whole_task else '[ "$VC_TASK_INDEX" = 3 ] || exec sleep 600; '
        if one.get("name") == "slow":
            alone = '[ "$VC_TASK_INDEX" = 3 ] || exit 0; '
        one["command"][-1] = alone + one["command"][-1].replace("again", '"again-$VC_TASK_INDEX"')
    document["spec"]["plugins"] = {"env": []}
    if event == "PodPending":
        eventful["policies"][0]["timeout"] = "3s"  # longer than its siblings need to start on a busy machine
    if event == "TaskFailed":
        eventful["maxRetry"] = 4
    handle = start(document)
    restarted = {0, 1, 2, 3} if whole_task else {2, 3}

    def attempts() -> dict[int, int]:
        return {
            pod.index: pod.attempt
            for pod in handle.pods()
            if pod.task == "eventful" and pod.phase == "Running"
        }

    eventually(
        lambda: attempts() == {index: int(index in restarted) for index in range(4)}, what="the restart"
    )
    assert [pod.attempt for pod in handle.pods() if pod.task == "other"] == [0]


def test_a_restarted_job_goes_on_to_its_end_and_keeps_the_logs_of_both_tries(finish: Start) -> None:
    # Rank 1 fails once, when all have said their line.
    fails = "until [ -e up-0 ] && [ -e up-2 ]; do sleep 0.01; done; touch done; exit 1"
    handle = finish(
        job(
            *ranks(
                f"echo try; touch up-$RANK; [ -e done ] || {{ [ $RANK != 1 ] || {{ {fails}; }}; sleep 600; }}"
            ),
            policies=[{"event": "PodFailed", "action": "RestartJob"}],
        )
    )
    assert handle.phase == "Completed"
    assert handle.status().retry_count == 1
    assert len(list(handle.logs())) == 3
    assert len(list(handle.logs(attempt=0))) == 3
    assert len(list(handle.logs(previous=True))) == 3


def test_the_job_fails_when_its_tries_are_used_up(finish: Start) -> None:
    handle = finish(
        job(task("a", "exit 1"), policies=[{"event": "PodFailed", "action": "RestartJob"}], maxRetry=2)
    )
    assert handle.phase == "Failed"
    assert sorted(pod.attempt for pod in handle.pods()) == [0, 1]


def test_without_a_policy_a_rank_that_fails_ends_the_job_and_the_other_ranks(finish: Start) -> None:
    fails = "until [ -e up-0 ] && [ -e up-2 ]; do sleep 0.01; done; exit 9"
    handle = finish(job(*ranks(f"touch up-$RANK; [ $RANK != 1 ] || {{ {fails}; }}; exec sleep 600")))
    assert handle.phase == "Failed"
    ends = {pod.rank: pod.containers[0].ended for pod in handle.pods()}
    # The others are asked to end, and are not killed when a grace period is over.
    assert {rank: (end.exit_code, end.stopped) for rank, end in ends.items() if end} == {
        0: (128 + signal.SIGTERM, True),
        1: (9, False),
        2: (128 + signal.SIGTERM, True),
    }
    report = handle.failure()
    assert report.culprit and (report.culprit.rank, report.culprit.exit_code) == (1, 9)
    assert report.victims == ["rank 0 (master-0)", "rank 2 (worker-1)"]
    assert "rank 1" in handle.status().state.message


def test_suspend_keeps_the_job_and_resume_costs_no_retry(start: Start) -> None:
    handle = start(job(*ranks("echo up; sleep 600", workers=1)))
    eventually(lambda: handle.phase == "Running")
    handle.suspend()
    eventually(lambda: handle.phase == "Aborted" and not handle.supervised)
    assert left_behind(handle) == []
    handle.resume()
    eventually(lambda: handle.phase == "Running" and handle.status().running == 2)
    assert handle.status().retry_count == 0
    handle.complete()
    assert handle.wait(PATIENCE) == "Completed"


def test_restart_by_hand_restarts_every_pod(start: Start) -> None:
    handle = start(job(*ranks("sleep 600", workers=1)))
    eventually(lambda: handle.phase == "Running")
    handle.restart()
    eventually(lambda: sum(pod.attempt == 1 and pod.phase == "Running" for pod in handle.pods()) == 2)
    eventually(lambda: handle.phase == "Running")


def test_a_master_that_is_done_completes_the_job_and_ends_the_others(finish: Start) -> None:
    handle = finish(
        job(
            task(
                "master",
                "until [ -e up-0 ] && [ -e up-1 ]; do sleep 0.01; done",
                policies=[{"event": "TaskCompleted", "action": "CompleteJob"}],
            ),
            task("worker", "touch up-$VC_TASK_INDEX; exec sleep 600", replicas=2),
            plugins={"env": []},
        )
    )
    assert handle.phase == "Completed"
    ends = {pod.name: pod.containers[0].ended for pod in handle.pods()}
    assert {name: end.signal for name, end in ends.items() if end} == {
        "job-master-0": None,
        "job-worker-0": signal.SIGTERM,
        "job-worker-1": signal.SIGTERM,
    }
    assert left_behind(handle) == []


@pytest.mark.slow
def test_the_deadline_of_the_job_ends_it(finish: Start) -> None:
    handle = finish(job(task("a", "sleep 600"), activeDeadlineSeconds=1))
    assert handle.phase == "Failed"
    assert handle.status().state.reason == "DeadlineExceeded"


def test_ranks_that_talk_to_each_other_finish_together(finish: Start) -> None:
    """Three ranks meet at MASTER_PORT, exchange a number and check the sum."""
    program = (
        "import os, socket, struct, time\n"
        "rank, world = int(os.environ['RANK']), int(os.environ['WORLD_SIZE'])\n"
        "place = (os.environ['MASTER_ADDR'], int(os.environ['MASTER_PORT']))\n"
        "if rank == 0:\n"
        "    server = socket.socket(); server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
        "    server.bind(place); server.listen()\n"
        "    peers = [server.accept()[0] for _ in range(world - 1)]\n"
        "    total = sum(struct.unpack('i', p.recv(4))[0] for p in peers)\n"
        "    [p.sendall(struct.pack('i', total)) for p in peers]\n"
        "else:\n"
        "    while True:\n"
        "        try: peer = socket.create_connection(place); break\n"
        "        except OSError: time.sleep(0.02)\n"
        "    peer.sendall(struct.pack('i', rank)); total = struct.unpack('i', peer.recv(4))[0]\n"
        "print('sum', total)\n"
    )
    handle = finish(job(task("master", python(program)), task("worker", python(program), replicas=2)))
    assert handle.phase == "Completed"
    assert [line.text for line in handle.logs()] == ["sum 3"] * 3


def test_a_rank_that_is_restarted_although_it_succeeded_is_explained(finish: Start) -> None:
    """restartPolicy Always is the default of Kubernetes; a table with Succeeded and EXIT 0 explains nothing."""
    handle = finish(job(task("master", "true", restartPolicy="Always", maxRetry=1)))
    assert handle.phase == "Failed"
    message = handle.status().state.message
    assert "keeps restarting although no container failed" in message
    assert "set restartPolicy to OnFailure or Never" in message
