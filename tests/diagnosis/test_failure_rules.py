"""Which rank failed first, and why."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from vcjob.diagnosis import suspect
from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.observation import End, Observation, PodObservation
from vcjob.diagnosis.text.frames import Traceback
from vcjob.diagnosis.text.tracebacks import last_traceback

from .test_traceback_text import NCCL, PREFIXED, TORCHRUN

NAN = [
    "Traceback (most recent call last):",
    '  File "train.py", line 41, in <module>',
    "ValueError: loss is NaN",
]


def rank(number: int, code: int = 1, at: float = 10.0, **fields: Any) -> PodObservation:
    end: dict[str, Any] = {"exit_code": code, "finished_at": at}
    end.update(
        {name: fields.pop(name) for name in ("signal", "reason", "stopped", "message") if name in fields}
    )
    pod = PodObservation(
        f"job-worker-{number}", "worker", number, number, phase="Failed" if code else "Succeeded"
    )
    pod.end = End(**end)
    for name, value in fields.items():
        setattr(pod, name, value)
    return pod


def job(*pods: PodObservation, phase: str = "Failed") -> Observation:
    return Observation("job", "local", phase, pods=list(pods))


def test_a_complaint_about_a_peer_that_ended_first_is_not_the_cause() -> None:
    """rank 1 raises, and its experiment tracker takes three seconds to exit; rank 2 notices and is gone before."""
    slow = rank(1, at=13.0, stderr=tuple(NAN), error_at=10.0)
    finding = diagnose(job(slow, rank(2, at=10.2, stderr=tuple(PREFIXED))))[0]
    assert (finding.cause, finding.ranks.first, finding.ranks.victims) == (
        "Exception",
        ("rank 1",),
        ("rank 2",),
    )
    assert "loss is NaN" in finding.message and "train.py:41" in finding.message


def test_a_complaint_of_an_installed_trainer_is_not_the_cause() -> None:
    """All its frames are in site-packages, and the text does not name torch."""
    trainer = [
        "Traceback (most recent call last):",
        '  File "/venv/bin/tune", line 8, in <module>',
        '  File "/venv/lib/python3.11/site-packages/torchtune/recipe.py", line 30, in main',
    ]
    sends = '  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2714, in all_reduce'
    lost = rank(0, at=10.0, stderr=(*trainer, sends, "RuntimeError: Connection reset by peer"))
    raised = rank(1, at=12.0, error_at=11.0, stderr=(*trainer, "ValueError: loss is NaN"))
    finding = diagnose(job(lost, raised))[0]
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 1",), ("rank 0",))
    assert "torchtune/recipe.py:30 in main" in finding.message


@pytest.mark.parametrize(
    "link",
    [
        "The above exception was the direct cause of the following exception:",
        "During handling of the above exception, another exception occurred:",
    ],
)
def test_an_error_that_follows_from_a_complaint_is_not_the_cause(link: str) -> None:
    """A trainer wraps the error, or its clean-up fails."""
    wrapped = (*PREFIXED, "", f"[rank2]: {link}", "", *NAN[:2], "app.TrainingError: step 3 failed")
    raised = rank(1, at=12.0, error_at=11.0, stderr=tuple(NAN))
    finding = diagnose(job(rank(2, at=10.0, stderr=wrapped), raised))[0]
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 1",), ("rank 2",))
    (lost,) = diagnose(job(rank(2, at=10.0, stderr=wrapped)))
    assert lost.cause == "ConnectionLost" and "Connection closed by peer" in lost.message


@pytest.mark.parametrize("kind", ["ConnectionError", "RuntimeError"])
def test_a_network_error_of_the_program_is_its_own_error(kind: str) -> None:
    s3 = [
        "Traceback (most recent call last):",
        '  File "data.py", line 3, in load',
        f"{kind}: s3: connection refused",
    ]
    first = rank(0, at=9.0, stderr=tuple(s3))
    finding = diagnose(job(first, rank(1, at=9.5, stderr=tuple(PREFIXED))))[0]
    assert (finding.cause, finding.ranks.first) == ("Exception", ("rank 0",))
    assert diagnose(job(first))[0].cause == "Exception"


def test_ranks_with_the_same_error_share_one_finding() -> None:
    finding = diagnose(job(*(rank(number, at=10 + number / 10, stderr=tuple(NAN)) for number in range(3))))[0]
    assert finding.ranks.first == ("rank 0", "rank 1", "rank 2")
    assert finding.message.endswith("rank 1 and rank 2 failed with the same error")


def test_a_signal_of_vcjobs_own_is_never_a_cause() -> None:
    stopped = rank(0, code=143, at=9.0, signal=15, stopped=True)
    finding = diagnose(job(stopped, rank(1, at=10.0, stderr=tuple(NAN))))[0]
    assert finding.ranks.first == ("rank 1",)
    assert diagnose(job(stopped)) == []


def test_torchruns_table_is_not_the_reason() -> None:
    finding = diagnose(job(rank(0, stderr=tuple(TORCHRUN))))[0]
    assert (
        finding.message
        == "rank 0 (local rank 1, global rank 3) raised KeyError: 'label' (/app/train.py:7 in <module>)"
    )


def test_below_torchrun_the_worker_that_raised_is_named_although_a_victim_ended_first() -> None:
    """Two workers of one pod: rank 2 raises and exits slowly, rank 3 loses its connection; their lines interleave."""
    raised = [f"[rank2]: {line}" for line in NAN]
    lost = [
        f"[rank3]: {line}"
        for line in (*NAN[:2], "RuntimeError: [gloo/pair.cc:534] Connection closed by peer")
    ]
    mixed = [line for pair in zip(raised, lost, strict=True) for line in pair]
    finding = diagnose(job(rank(1, stderr=(*mixed, *TORCHRUN[6:]))))[0]
    assert finding.cause == "Exception"
    assert (
        finding.message == "rank 1 (global rank 2) raised ValueError: loss is NaN (train.py:41 in <module>)"
    )


def test_below_torchrun_the_worker_that_a_signal_ended_is_named() -> None:
    table = [line.replace("exitcode  : 1", "exitcode  : -11") for line in TORCHRUN[5:]]
    finding = diagnose(job(rank(0, stderr=tuple(table))))[0]
    assert (finding.cause, finding.message) == (
        "SegmentationFault",
        "rank 0 (local rank 1, global rank 3) crashed in native code (SIGSEGV)",
    )


@pytest.mark.parametrize(
    ("fields", "cause"),
    [
        ({"code": 137, "reason": "OOMKilled", "memory_limit": "1Gi"}, "OutOfMemory"),
        ({"reason": "OOMKilled", "stderr": ("Killed",)}, "OutOfMemory"),
        ({"reason": "OOMKilled"}, "OutOfMemory"),
        ({"reason": "OOMKilled", "stderr": tuple(NAN)}, "Exception"),  # a child was killed, which did no harm
        ({"reason": "OOMKilled", "stderr": (*NAN[:2], "RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. ")}, "OutOfMemory"),
        ({"code": 137, "signal": 9, "reason": "HostOutOfMemory"}, "HostOutOfMemory"),
        ({"reason": "HostOutOfMemory", "stderr": (*NAN[:2], "RuntimeError: DataLoader worker (pid(s) 7) exited unexpectedly")}, "HostOutOfMemory"),
        ({"code": 137, "signal": 9}, "Killed"),
        ({"code": 139, "signal": 11}, "SegmentationFault"),
        ({"code": 134, "signal": 6}, "Aborted"),
        ({"code": 127, "stderr": ("sh: pyhton: not found",)}, "CommandNotFound"),
        ({"code": 128, "reason": "StartError", "command": ("python train.py",)}, "CommandIsOneWord"),
        ({"code": 126, "command": ("./run.sh",)}, "CommandNotExecutable"),
        ({"stderr": ("ModuleNotFoundError: No module named 'torch'",)}, "ModuleNotFound"),
        ({"code": 2, "stderr": ("python: can't open file '/x/train.py': [Errno 2] No such file or directory",)}, "FileNotFound"),
        ({"stderr": ("OSError: [Errno 28] No space left on device: 'ckpt'",)}, "DiskFull"),
        ({"stderr": ("OSError: [Errno 30] Read-only file system: '/data'",)}, "ReadOnlyFileSystem"),
        ({"stderr": ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB",)}, "CudaOutOfMemory"),
        ({"stderr": ("RuntimeError: No CUDA GPUs are available",)}, "CudaUnavailable"),
        ({"stderr": ("DistNetworkError: EADDRINUSE: address already in use, port: 23456",)}, "PortInUse"),
        ({"code": 3, "stdout": ("giving up",)}, "NonZeroExit"),
    ],
)  # fmt: skip
def test_a_failure_has_its_cause(fields: dict[str, Any], cause: str) -> None:
    code = fields.pop("code", 1)
    assert isinstance(code, int)
    findings = diagnose(job(rank(0, code=code, **fields)))
    assert [finding.cause for finding in findings] == [cause]


@pytest.mark.parametrize(
    ("command", "word"), [("torchrun", "part of PyTorch"), ("pyhton", "check the command")]
)
def test_a_command_that_is_missing_has_a_hint_that_fits_it(command: str, word: str) -> None:
    missing = f"command '{command}': not found on this machine"
    pod = rank(0, code=128, reason="StartError", message=missing, command=(command, "train.py"))
    (finding,) = diagnose(job(pod))
    assert finding.cause == "CommandNotFound" and word in finding.hint


@pytest.mark.parametrize(
    "message",
    [
        "nothing to run: no command, and image 'torch' is not mapped",
        "its volumes cannot be made: Permission denied: /data/checkpoints",
        'error mounting "/data" to rootfs at "/ckpt": no such file or directory',
    ],
)
def test_a_container_that_did_not_start_says_why_and_does_not_blame_its_command(message: str) -> None:
    pod = rank(0, code=128, reason="StartError", message=message, command=("python", "train.py"))
    (finding,) = diagnose(job(pod))
    assert (finding.cause, finding.message) == ("StartError", f"rank 0 could not start: {message}")


def test_a_program_that_exits_with_128_did_start() -> None:
    (finding,) = diagnose(job(rank(0, code=128, reason="Error")))
    assert finding.cause == "NonZeroExit"


@pytest.mark.parametrize("recorded", [5.0, 6.5], ids=["before", "a little after its peers complain"])
def test_a_rank_that_leaves_early_is_the_cause_of_its_peers_complaints(recorded: float) -> None:
    finding = diagnose(job(rank(0, code=0, at=recorded), rank(1, at=6.0, stderr=tuple(PREFIXED))))[0]
    assert (finding.cause, finding.ranks.first) == ("RankExitedEarly", ("rank 0",))
    assert finding.hint.endswith("`vcjob logs job --rank 0`"), "nothing else of what it printed is shown"


def test_a_completed_job_with_stopped_ranks_says_so() -> None:
    observation = job(rank(0, code=0), rank(1, code=143, stopped=True), phase="Completed")
    finding = diagnose(observation)[0]
    assert finding.cause == "RanksStopped" and finding.message.startswith("1 rank was still running")


def test_a_job_that_completes_although_a_rank_failed_has_no_finding() -> None:
    assert diagnose(job(rank(0, code=0), rank(1, stderr=tuple(NAN)), phase="Completed")) == []


def test_an_error_that_a_rank_raised_because_it_was_ended_is_not_the_cause() -> None:
    ended = rank(0, code=1, at=10.0, stopped=True, stderr=tuple(NAN), error_at=9.5)
    assert ended.end is not None
    ended.end = msgspec.structs.replace(ended.end, stopped_at=9.0)
    assert diagnose(job(ended)) == []
    ended.error_at = 8.5
    assert [finding.cause for finding in diagnose(job(ended))] == ["Exception"]


def test_a_thousand_failed_ranks_are_read_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counting(lines: Sequence[str]) -> Traceback | None:
        read.append(len(lines))
        return last_traceback(lines)

    monkeypatch.setattr(suspect, "last_traceback", counting)
    lines = (*(f"step {number}" for number in range(100)), *NAN)
    pods = [rank(number, at=10 + number / 1000, stderr=lines, error_at=10.0) for number in range(1000)]
    finding = diagnose(job(*pods))[0]
    assert finding.ranks.first[0] == "rank 0"
    assert len(read) == 1000


def test_two_ranks_on_one_gpu_are_not_called_a_mismatch() -> None:
    finding = diagnose(job(rank(0, stderr=tuple(NCCL)), rank(1, stderr=tuple(NCCL))))[0]
    assert finding.cause == "GpuShared"
    assert "both on CUDA device 60" in finding.message and "one GPU" in (finding.hint or "")


def test_the_collective_that_nccls_watchdog_ended_is_named() -> None:
    said = (
        "[rank1]:[E1116 11:59:45.036630155 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation "
        "timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=20000) ran for 20017 "
        "milliseconds before timing out.",
        "[rank1]:[E1116 12:00:45.037798355 ProcessGroupNCCL.cpp:764] [Rank 1] To avoid data inconsistency, we are "
        "taking the entire process down.",
        "frame #4: <unknown function> + 0x129ecc (0x7fd5a6129ecc in /lib/x86_64-linux-gnu/libc.so.6)",
    )
    stopped = rank(0, code=143, signal=15, stopped=True)
    finding = diagnose(job(stopped, rank(1, code=134, signal=6, stderr=said)))[0]
    assert finding.cause == "CollectiveTimeout"
    assert "rank 1 waited 20 s in allreduce #2 of 9 elements" in finding.message
    assert not any("frame #" in each.text for each in finding.evidence)


def test_a_healthy_job_has_no_finding() -> None:
    running = PodObservation("job-worker-0", "worker", 0, 0, phase="Running", stderr=tuple(PREFIXED))
    assert diagnose(job(running, phase="Running")) == []
    assert diagnose(job(rank(0, code=0), phase="Completed")) == []


def test_a_pending_job_has_its_reason_and_a_hint() -> None:
    observation = Observation("job", "cluster", "Pending", "QuotaExceeded", "exceeded quota: few")
    finding = diagnose(observation)[0]
    assert (finding.cause, finding.confidence) == (
        "QuotaExceeded",
        "high",
    ) and "ResourceQuota" in finding.hint


def test_a_pod_that_only_waits_for_others_of_its_gang_has_a_hint_about_the_gang() -> None:
    said = "j-a-0: Pod team/j-a-0 can possibly be assigned to n1, once minAvailable is satisfied (and 2 more pods)"
    finding = diagnose(Observation("job", "cluster", "Pending", "Unschedulable", said))[0]
    assert finding.hint.startswith("all pods of the gang must fit at the same time")


def waited(code: int, said: str, **fields: Any) -> PodObservation:
    advice = "; check that the pod of the master runs" if code == 91 else ""
    text = f"wait-for-master: waiting\nwait-for-master: error: {said}{advice}"
    return rank(1, code=code, container="wait-for-master", message=text, **fields)


@pytest.mark.parametrize(
    ("pod", "cause", "message"),
    [
        (
            waited(91, "m:1 did not answer within 3 s: refused (by nc)"),
            "MasterNotListening",
            "rank 1 waited 3 s for the master at m:1, and nothing listened there",
        ),
        (
            waited(91, "m:1 did not answer within 3 s: no answer (by nc)"),
            "MasterUnreachable",
            "rank 1 waited 3 s for the master at m:1, which did not answer",
        ),
        (
            waited(91, "m:1 did not answer within 3 s: not permitted (by nc)"),
            "MasterUnreachable",
            "rank 1 waited 3 s for the master at m:1, which did not answer: not permitted",
        ),
        (
            waited(91, "m:1 did not answer within 3 s: the name does not resolve (by nc)"),
            "MasterNameNotResolved",
            "rank 1 waited 3 s for the master at m:1, whose name does not resolve",
        ),
        (
            waited(91, "m:1 did not answer within 3 s: refused (by nc)", blocked_by=("deny",)),
            "MasterUnreachable",
            "rank 1 waited 3 s for the master at m:1, to which the NetworkPolicy deny allows no connection",
        ),
        (
            waited(92, "the image has no tool to probe m:1"),
            "NoProbeTool",
            "rank 1 cannot wait for the master: the image has no tool to probe m:1",
        ),
    ],
    ids=["refused", "no answer", "other", "no name", "policy", "no tool"],
)
def test_a_wait_for_the_master_says_what_kept_it_from_the_master(
    pod: PodObservation, cause: str, message: str
) -> None:
    """Also without logs: the kubelet keeps the last lines of this container in its status."""
    finding = diagnose(job(pod))[0]
    assert (finding.cause, finding.message) == (cause, message)


def test_a_pod_that_its_own_deadline_ended_was_not_killed_by_somebody() -> None:
    said = "Pod was active on the node longer than the specified deadline"
    reported, marked = rank(0, code=137, signal=9, message=said), rank(0, code=137, signal=9)
    marked.reason = "DeadlineExceeded"
    assert [diagnose(job(pod))[0].cause for pod in (reported, marked)] == ["ActiveDeadlineExceeded"] * 2


@pytest.mark.parametrize("phase", ["Failed", "Restarting", "Terminated", "Aborted"])
def test_an_evicted_pod_is_the_cause_of_an_end_or_a_restart(phase: str) -> None:
    evicted = PodObservation("job-worker-0", "worker", 0, 1, phase="Running", node="n1")
    evicted.reason, evicted.message = "EvictionByEvictionAPI", "Eviction API: evicting"
    finding = diagnose(job(evicted, phase=phase))[0]
    assert (finding.cause, finding.ranks.first) == ("Evicted", ("rank 1",))
    assert diagnose(job(evicted, phase="Running")) == [], "it is replaced"


def test_a_lost_node_is_named_with_its_ranks() -> None:
    pods = [
        PodObservation(f"job-worker-{n}", "worker", n, n, phase="Running", node=f"n{n % 2}", node_lost=n > 0)
        for n in range(3)
    ]
    finding = diagnose(job(*pods, phase="Running"))[0]
    assert finding.cause == "NodeLost" and finding.ranks.first == ("rank 1", "rank 2")
    assert finding.message == "the nodes n0 and n1 of rank 1 and rank 2 do not respond"


def test_what_was_found_when_it_happened_counts_where_the_logs_are_gone() -> None:
    """The rank that raised was running when the job failed, so its pod is deleted; a victim's log is left."""
    culprit = rank(1, stopped=True)
    observation = job(culprit, rank(2, stderr=tuple(PREFIXED)))
    observation.recorded = ("worker", 1)
    observation.recorded_finding = ("Exception", "rank 1 raised ValueError: loss is NaN")
    finding = diagnose(observation)[0]
    assert (finding.cause, finding.message) == ("Exception", "rank 1 raised ValueError: loss is NaN")
    assert (finding.ranks.first, finding.ranks.victims) == (("rank 1",), ("rank 2",))


def test_a_crash_without_output_keeps_its_hint_although_it_was_recorded() -> None:
    observation = job(rank(1, code=139, signal=11))
    observation.recorded = ("worker", 1)
    observation.recorded_finding = ("SegmentationFault", "rank 1 crashed in native code (SIGSEGV)")
    finding = diagnose(observation)[0]
    assert finding.cause == "SegmentationFault" and "PYTHONFAULTHANDLER" in finding.hint
