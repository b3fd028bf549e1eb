"""Ranks that only complain about each other. The texts are recordings of torch 2.11 (nccl 2.28 on one GPU) and 2.15."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.explanation import explained
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import Observation, PodObservation
from vcjob.lifecycle.pod import Failure
from vcjob.lifecycle.status import Culprit, State, Status

from .test_failure_rules import NAN, job, rank
from .test_traceback_text import TORCHRUN

C10D = "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py"
TIMED_OUT = "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:78] Timed out waiting 6000ms for recv operation"
CLOSED = (
    "[/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:26760."
)


def failed(number: int, exception: str, at: float = 10.0, function: str = "all_reduce") -> PodObservation:
    """One that raised an exception in a function of torch.distributed."""
    lines = (
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 12, in <module>',
        f'  File "{C10D}", line 2714, in {function}',
        *exception.splitlines(),
    )
    return rank(number, at=at, stderr=tuple(f"[rank{number}]: {line}" for line in lines))


def nccl(number: int, *lines: str, at: float = 10.0, code: int = 134) -> PodObservation:
    """One that nccl's watchdog aborted; with another code one that vcjob stopped because of that."""
    if code == 134:
        return rank(number, code=code, signal=6, at=at, stderr=lines)
    return rank(number, code=code, signal=15, at=at, stopped=True, stderr=lines)


def timeout(
    number: int,
    sequence: int = 6,
    operation: str = "ALLREDUCE",
    elements: int = 4,
    group: str = "0(default_pg)",
) -> tuple[str, ...]:
    work = f"WorkNCCL(SeqNum={sequence}, OpType={operation}, NumelIn={elements}, NumelOut={elements}, Timeout(ms)=15000)"
    caught = f"[Rank {number}] Watchdog caught collective operation timeout: {work} ran for 15008 milliseconds before timing out."
    place = f"[rank{number}]:[E1118 20:37:56.519769506 ProcessGroupNCCL.cpp"
    return (
        f"{place}:689] {caught}",
        f"{place}:2303] [PG ID 0 PG GUID {group} Rank {number}]  failure detected by watchdog at work sequence id: "
        f"{sequence} PG status: last enqueued work: {sequence + 2}, last completed work: {sequence - 1}",
        f"{place}:764] [Rank {number}] To avoid data inconsistency, we are taking the entire process down.",
        f"  what():  [PG ID 0 PG GUID {group} Rank {number}] Process group watchdog thread terminated with exception: {caught}",
        "frame #1: c10d::ProcessGroupNCCL::WorkNCCL::checkTimeout() + 0x1c7 (0x7f5c in libtorch_cuda.so)",
    )


def dumped(number: int, last: int) -> str:
    """What a rank prints after another one has reported its timeout to it."""
    return (
        f"[rank{number}]:[E1118 20:38:02.795150948 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank "
        f"{number}] Received a dump signal due to a collective timeout from  rank 0 and we will try our best to dump "
        f"the debug info. Last enqueued NCCL work: {last}, last completed NCCL work: {last}.This is most likely caused"
    )


def only(*pods: PodObservation) -> Finding:
    (finding,) = diagnose(job(*pods))
    return finding


def seen(finding: Finding) -> tuple[str, Sequence[str], Sequence[str], str]:
    return finding.cause, finding.ranks.first, finding.ranks.victims, finding.confidence


def test_ranks_that_waited_for_each_other_until_the_timeout_are_not_blamed() -> None:
    finding = only(failed(0, f"RuntimeError: {TIMED_OUT}"), failed(1, f"RuntimeError: {CLOSED}", at=10.2))
    assert seen(finding) == ("CollectiveTimeout", (), ("rank 0", "rank 1"), "medium")
    assert finding.message == (
        f"rank 0 waited 6 s for another rank, and no rank shows an error of its own: RuntimeError: {TIMED_OUT} "
        "(/app/train.py:12 in <module>)"
    )
    assert "--flight-recorder=true" in finding.hint


@pytest.mark.parametrize(
    ("exception", "said"),
    [
        (f"RuntimeError: {CLOSED}", "lost the connection to another rank"),
        ("torch.distributed.DistBackendError: NCCL communicator was aborted on rank 0.", "lost the connection"),
        ("RuntimeError: Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.cc:144] no error", "could not connect"),
    ],
)  # fmt: skip
def test_ranks_that_only_lost_each_other_are_not_blamed(exception: str, said: str) -> None:
    finding = only(failed(0, exception), failed(1, exception))
    assert seen(finding) == ("ConnectionLost", (), ("rank 0", "rank 1"), "medium")
    assert said in finding.message and finding.hint


def handling(error: str, number: int, at: float = 10.0) -> PodObservation:
    """One that lost a peer in a function of torch.distributed that it called because of an error of its own."""
    lost = failed(number, f"RuntimeError: {CLOSED}", at, "barrier")
    between = ("", "During handling of the above exception, another exception occurred:", "")
    lost.stderr = (NAN[0], '  File "/app/train.py", line 9, in step', error, *between, *lost.stderr)
    return lost


@pytest.mark.parametrize(
    ("error", "cause", "said"),
    [
        ("ValueError: loss is NaN", "Exception", "raised ValueError: loss is NaN (/app/train.py:9 in step)"),
        ("torch.OutOfMemoryError: CUDA out of memory.", "CudaOutOfMemory", "ran out of GPU memory"),
    ],
)
def test_a_rank_that_lost_the_others_while_it_handled_an_error_of_its_own_is_the_first(
    error: str, cause: str, said: str
) -> None:
    """`finally: dist.barrier()`: the others wait in a collective of the next step, and notice it before."""
    finding = only(failed(0, f"RuntimeError: {CLOSED}", at=9.5), handling(error, 1))
    assert seen(finding) == (cause, ("rank 1",), ("rank 0",), "medium")
    assert said in finding.message and "while it handled that, it lost the connection" in finding.message
    assert finding.evidence[0].text == error


@pytest.mark.parametrize("others", [(), (handling("KeyError: 'cached'", 1, at=10.5),)])
def test_an_error_that_all_ranks_handled_when_they_lost_each_other_is_shown_and_no_rank_blamed(
    others: tuple[PodObservation, ...],
) -> None:
    finding = only(handling("KeyError: 'cached'", 0), *others)
    assert (finding.cause, finding.ranks.first) == ("ConnectionLost", ())
    assert "; rank 0 did while it handled KeyError: 'cached' (/app/train.py:9 in step)" in finding.message
    assert "no rank shows an error" not in finding.message


def test_below_torchrun_the_worker_that_handled_an_error_when_it_lost_the_others_is_named() -> None:
    lost = handling("KeyError: 'cached'", 3)
    lost.stderr = tuple(f"[rank3]: {line.removeprefix('[rank3]: ')}" for line in lost.stderr)
    table = TORCHRUN[TORCHRUN.index("Root Cause (first observed failure):") :]
    finding = only(rank(1, stderr=(*lost.stderr, *table)))
    assert "; rank 1 (local rank 1, global rank 3) did while it handled KeyError: 'cached'" in finding.message


def test_the_status_keeps_the_rank_that_ended_the_job_and_says_that_the_ranks_lost_each_other() -> None:
    culprit = Culprit(
        task="worker",
        index=1,
        attempt=0,
        rank=1,
        event="PodFailed",
        failure=Failure(container="main", exit_code=1),
    )
    status = Status(state=State(message="rank 1 (worker-1) failed"), culprit=culprit)
    pods = failed(0, f"RuntimeError: {CLOSED}"), failed(1, f"RuntimeError: {CLOSED}")
    changed, finding = explained(status, job(*pods))
    assert finding is not None and changed.culprit is not None
    assert (changed.culprit.rank, changed.culprit.cause) == (1, "ConnectionLost")
    assert changed.culprit.finding == finding.message


def test_a_finding_that_was_recorded_as_nobodys_fault_is_repeated_as_such() -> None:
    observation = job(failed(0, f"RuntimeError: {CLOSED}"), failed(1, f"RuntimeError: {CLOSED}"))
    observation.recorded, observation.recorded_finding = (
        ("worker", 1),
        ("ConnectionLost", "the ranks lost each other"),
    )
    assert diagnose(observation)[0].ranks.first == ()
    observation.recorded_finding = ("Exception", "rank 1 raised ValueError: loss is NaN")
    assert diagnose(observation)[0].ranks.first == ("rank 1",)


@pytest.mark.parametrize(
    "reported",
    [
        f"RuntimeError: [Rank 0]: Rank 2 failed to pass monitoredBarrier in 4000 ms\n Original exception: \n{TIMED_OUT}",
        "RuntimeError: [Rank 0]: Ranks 2 failed to pass monitoredBarrier in 4000 ms",
    ],
    ids=["first rank", "all ranks"],
)
def test_the_rank_that_a_monitored_barrier_names_is_the_cause(reported: str) -> None:
    reached = (
        "RuntimeError: Rank 1 successfully reached monitoredBarrier, but received errors while waiting for send/recv from "
        f"rank 0. Please check rank 0 logs for faulty rank.\n Original exception: \n{CLOSED}"
    )
    finding = only(
        failed(0, reported, at=10.1, function="monitored_barrier"),
        failed(1, reached, at=10.0, function="monitored_barrier"),
        rank(2, code=143, signal=15, stopped=True),
    )
    assert seen(finding) == ("CollectiveTimeout", ("rank 2",), ("rank 1", "rank 0"), "high")
    assert finding.message == "rank 2 did not reach monitored_barrier within 4 s"


def test_the_rank_that_never_called_the_collective_is_named_by_what_its_watchdog_prints() -> None:
    finding = only(
        nccl(0, *timeout(0)), nccl(1, *timeout(1), at=10.1), nccl(2, dumped(2, 5), at=10.2, code=143)
    )
    assert seen(finding) == ("CollectiveTimeout", ("rank 2",), ("rank 0", "rank 1"), "high")
    assert (
        finding.message
        == "rank 2 never called allreduce #6 of 4 elements; rank 0 and rank 1 waited 15 s in it"
    )


@pytest.mark.parametrize(
    ("odd", "message"),
    [
        (timeout(2, 7), "rank 2 waited in allreduce #7 of 4 elements where rank 0 and rank 1 waited in allreduce #6 of 4 elements"),
        (timeout(2, 4, "BROADCAST", 1), "rank 2 waited in broadcast #4 of 1 elements where"),
        (timeout(2, elements=9), "rank 2 waited in allreduce #6 of 9 elements where"),
    ],
    ids=["one call more", "another call", "another size"],
)  # fmt: skip
def test_the_rank_whose_watchdog_names_another_collective_is_the_cause(
    odd: tuple[str, ...], message: str
) -> None:
    finding = only(nccl(0, *timeout(0)), nccl(1, *timeout(1), at=10.1), nccl(2, *odd, at=10.2))
    assert seen(finding) == ("CollectiveMismatch", ("rank 2",), ("rank 0", "rank 1"), "high")
    assert finding.message.startswith(message)


@pytest.mark.parametrize(
    "second",
    [timeout(1), timeout(1, 9, group="1(tp)"), timeout(1, 9, "RECV")],
    ids=["the same collective", "another group", "between two ranks"],
)
def test_watchdogs_that_cannot_be_told_apart_blame_no_rank(second: tuple[str, ...]) -> None:
    finding = only(nccl(0, *timeout(0)), nccl(1, *second, at=10.1))
    assert seen(finding) == ("CollectiveTimeout", (), ("rank 0", "rank 1"), "medium")
    assert finding.message == (
        "rank 0 and rank 1 waited 15 s in allreduce #6 of 4 elements, and torch's watchdog ended them"
    )


def test_below_torchrun_the_watchdogs_of_one_pod_are_compared_too() -> None:
    table = tuple(line.replace("exitcode  : 1", "exitcode  : -6") for line in TORCHRUN[5:])
    lines = (*timeout(1)[:3], *timeout(2, 4, "BROADCAST", 1)[:3], *timeout(3)[:3], *table)
    finding = only(rank(0, stderr=lines))
    assert (finding.cause, finding.ranks.first) == ("CollectiveMismatch", ("rank 0",))
    assert finding.message.startswith("rank 0 (global rank 2) waited in broadcast #4")


def test_a_rank_that_nccl_ended_because_a_peer_was_gone_is_not_the_cause() -> None:
    gone = (
        "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated with exception: NCCL "
        "error: remote process exited or there was a network error, NCCL version 2.28.9",
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
        "Last error:",
        "socketProgress: Connection closed by remote peer localhost<52070>",
    )
    finding = only(nccl(0, *gone), rank(2, code=3, at=11.0, stdout=("no data",)))
    assert (finding.cause, finding.ranks.first) == ("NonZeroExit", ("rank 2",))


@pytest.mark.parametrize(
    "place", ["", "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] "]
)
def test_a_rank_whose_own_timeout_closed_its_connections_is_not_the_cause(place: str) -> None:
    """gloo says so on the next call, after it gave up waiting once."""
    closed = f"RuntimeError: {place}Application timeout caused pair closure"
    finding = diagnose(job(failed(0, closed), rank(1, at=10.5, stderr=tuple(NAN))))[0]
    assert (finding.cause, finding.ranks.first) == ("Exception", ("rank 1",))
    assert diagnose(job(failed(0, closed), failed(1, f"RuntimeError: {CLOSED}")))[0].cause == "ConnectionLost"


def test_an_error_of_a_ranks_own_counts_before_what_watchdogs_say() -> None:
    finding = only(nccl(0, *timeout(0), at=10.0), rank(1, at=12.0, stderr=tuple(NAN)))
    assert (finding.cause, finding.ranks.first) == ("Exception", ("rank 1",))


def test_a_watchdog_that_made_no_progress_is_a_timeout() -> None:
    stuck = (
        "[rank0]:[E1116 12:10:00.1 ProcessGroupNCCL.cpp:1552] [PG ID 0 PG GUID 0(default_pg) Rank 0] ProcessGroupNCCL's "
        "watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",
        "[rank0]:[F1116 12:18:00.1 ProcessGroupNCCL.cpp:1563] [PG ID 0 PG GUID 0(default_pg) Rank 0] Terminating the "
        "process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.",
    )
    finding = only(nccl(0, *stuck))
    assert finding.cause == "CollectiveTimeout" and "heartbeat monitor" in finding.message


def test_of_complaints_the_one_that_explains_itself_counts() -> None:
    """Three ranks joined of four: the master counts them, and a worker only lost the master."""
    worker = "torch.distributed.DistNetworkError: Connection was likely closed. Did the remote server shutdown or crash?"
    master = "torch.distributed.DistStoreError: Timed out after 31 seconds waiting for clients. 3/4 clients joined."
    finding = only(
        failed(1, worker, at=10.0, function="init_process_group"),
        failed(0, master, at=10.5, function="init_process_group"),
    )
    assert (finding.cause, finding.ranks.first) == ("WorldSizeMismatch", ("rank 0",))


CLIENT = "torch.distributed.DistNetworkError: The client socket has timed out after 6000ms while trying to connect to ({}, 23456)."
WARNED = "[W1118 20:34:39.468512114 socket.cpp:764] [c10d] {}"


def worker(number: int, host: str, *warnings: str) -> PodObservation:
    pod = failed(number, CLIENT.format(host), at=10 + number / 10, function="init_process_group")
    pod.stderr = (*(WARNED.format(text) for text in warnings), *pod.stderr)
    return pod


@pytest.mark.parametrize(
    ("host", "warning", "cause", "confidence"),
    [
        ("127.0.0.1", "", "MasterNotListening", "high"),
        ("job-master-0.job", "", "MasterNotListening", "medium"),
        ("job-master-0.job", "The client socket has failed to connect to [m]:23456 (errno: 111 - Connection refused).",
         "MasterNotListening", "high"),
        ("job-master-0.job", "The client socket has failed to connect to [m]:23456 (errno: 113 - No route to host).",
         "MasterUnreachable", "high"),
        ("job-master-0.job", "The IPv6 network addresses of (job-master-0.job, 23456) cannot be retrieved (gai error: -2 - "
         "Name or service not known).", "MasterNameNotResolved", "high"),
    ],
)  # fmt: skip
def test_workers_that_do_not_reach_the_master_say_why(
    host: str, warning: str, cause: str, confidence: str
) -> None:
    finding = only(*(worker(number, host, *filter(None, [warning])) for number in (1, 2)))
    assert seen(finding) == (cause, ("rank 1", "rank 2"), (), confidence)
    assert f"rank 1 could not connect to the master at {host}:23456 within 6 s" in finding.message
    assert "svc plugin" in finding.hint


def test_a_master_that_failed_is_the_cause_of_workers_that_do_not_reach_it() -> None:
    finding = only(worker(1, "127.0.0.1"), rank(0, at=11.0, stderr=tuple(NAN)))
    assert (finding.cause, finding.ranks.first) == ("Exception", ("rank 0",))


def test_a_warning_of_the_start_is_not_why_a_rank_was_killed() -> None:
    warned = WARNED.format(
        "The client socket has failed to connect to [m]:23456 (errno: 111 - Connection refused)."
    )
    killed = rank(1, code=137, signal=9, at=10.1, stderr=(warned,))
    finding = only(failed(0, f"RuntimeError: {CLOSED}"), killed)
    assert (finding.cause, finding.ranks.first) == ("Killed", ("rank 1",))


def test_a_thousand_complaints_are_one_finding() -> None:
    observation: Observation = job(*(failed(number, f"RuntimeError: {CLOSED}") for number in range(1000)))
    (finding,) = diagnose(observation)
    assert finding.cause == "ConnectionLost" and len(finding.ranks.victims) == 1000
    assert len(finding.message) < 400
