"""What native code and Python's `faulthandler` print while a process crashes."""

from __future__ import annotations

import pytest

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.text.crash import crash_of

from .test_failure_rules import NAN, job, rank
from .test_traceback_text import TORCHRUN

#: Recorded with CPython 3.13: a thread, and the one that crashed, deep in torch.
FAULT = (
    "Fatal Python error: Segmentation fault",
    "",
    "Thread 0x00007f711fd476c0 (most recent call first):",
    '  File "/app/data.py", line 3 in worker',
    '  File "/usr/lib/python3.13/threading.py", line 992 in run',
    "",
    "Current thread 0x00007f71209f7b80 (most recent call first):",
    '  File "/venv/lib/python3.13/site-packages/torch/_ops.py", line 1158 in __call__',
    '  File "/app/ops.py", line 7 in bad_op',
    *('  File "/venv/lib/python3.13/site-packages/torch/nn/modules/module.py", line 1787 in _call_impl',)
    * 20,
    '  File "/app/train.py", line 99 in <module>',
    "",
    "Extension modules: numpy._core._multiarray_umath, torch._C (total: 20)",
)
CUDA = (
    "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
    "For debugging consider passing CUDA_LAUNCH_BLOCKING=1",
    "Compile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.",
    "",
    "Exception raised from c10_cuda_check_implementation at ../c10/cuda/CUDAException.cpp:43 (most recent call first):",
    "frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x57 (0x7f in libc10.so)",
)


def crashed(number: int, *lines: str) -> Finding:
    (finding,) = diagnose(job(rank(0, code=128 + number, signal=number, stderr=lines)))
    return finding


def terminated(what: str) -> Finding:
    called = "terminate called after throwing an instance of 'c10::Error'"
    return crashed(6, called, f"  what():  {what}", *CUDA)


@pytest.mark.parametrize("prefix", ["", "[default1]:"])
def test_the_python_line_that_crashed_is_named_and_need_not_be_asked_for(prefix: str) -> None:
    finding = crashed(11, *(prefix + line for line in FAULT))
    assert finding.message == "rank 0 crashed in native code (SIGSEGV) at /app/ops.py:7 in bad_op"
    assert "PYTHONFAULTHANDLER" not in finding.hint
    assert [each.text for each in finding.evidence] == [
        FAULT[0],
        "at /app/ops.py:7 in bad_op",
        "at /venv/lib/python3.13/site-packages/torch/_ops.py:1158 in __call__",
    ]


def test_a_crash_without_python_frames_still_asks_for_them() -> None:
    finding = crashed(
        11, FAULT[0], "", "Current thread 0x00007f71209f7b80 (most recent call first):", "  <no Python frame>"
    )
    assert (
        finding.message == "rank 0 crashed in native code (SIGSEGV)" and "PYTHONFAULTHANDLER" in finding.hint
    )


def test_a_process_that_crashed_below_the_rank_is_quoted_by_the_line_that_says_so() -> None:
    (finding,) = diagnose(job(rank(0, code=1, stderr=FAULT)))
    assert finding.message == f"rank 0 ended with exit code 1: {FAULT[0]}"


@pytest.mark.parametrize(
    ("what", "cause", "hint"),
    [
        ("CUDA error: out of memory", "CudaOutOfMemory", "smaller batch"),
        ("CUDA error: device-side assert triggered", "Aborted", "CUDA_LAUNCH_BLOCKING=1"),
        ("std::bad_alloc", "HostOutOfMemory", "more memory"),
        ("the index is broken", "Aborted", "PYTHONFAULTHANDLER=1"),
    ],
)
def test_the_message_of_an_exception_in_native_code_is_the_reason(what: str, cause: str, hint: str) -> None:
    finding = terminated(what)
    assert finding.cause == cause and hint in finding.hint
    assert what in finding.message or cause == "HostOutOfMemory"
    assert what in finding.evidence[-1].text and len(finding.evidence) == 2


@pytest.mark.parametrize(
    "said",
    [
        "free(): invalid pointer",
        "double free or corruption (!prev)",
        "*** stack smashing detected ***: terminated",
        "python: /src/ops.cc:12: void step(): Assertion `size > 0' failed.",
        "F20261119 12:00:01.123456 12 ops.cc:99] Check failed: data != nullptr",
        "terminate called without an active exception",
    ],
)
def test_the_check_that_aborted_native_code_is_the_reason(said: str) -> None:
    finding = crashed(6, said, "*** Check failure stack trace: ***")
    assert finding.message == f"rank 0 was aborted by native code (SIGABRT): {said}"


def test_a_thread_that_outlives_the_interpreter_has_a_hint() -> None:
    finding = crashed(6, "epoch 5: loss 0.1691", "terminate called without an active exception")
    assert finding.cause == "Aborted" and "destroy_process_group()" in finding.hint


def test_what_a_program_says_about_its_data_is_no_check_of_native_code() -> None:
    finding = crashed(6, "corrupted sample 7 is skipped", "step 8")
    assert finding.message == "rank 0 was aborted by native code (SIGABRT)"
    finding = crashed(6, "corrupted size vs. prev_size while consolidating")
    assert finding.message.endswith(": corrupted size vs. prev_size while consolidating")


def test_what_is_printed_about_no_crash_is_empty() -> None:
    assert crash_of(["step 1", "ValueError: x"]) == ("", (), "")
    assert crash_of([]).own_frame is None


def below_torchrun(code: int, *lines: str) -> Finding:
    """What two workers of a pod printed with `--tee`; torchrun saw rank 3, the second of them, fail first."""
    table = [line.replace("exitcode  : 1", f"exitcode  : -{code}") for line in TORCHRUN[5:]]
    (finding,) = diagnose(job(rank(0, stderr=(*lines, *table))))
    return finding


def test_the_crash_of_another_worker_is_not_that_of_the_first() -> None:
    mine = [f"[default1]:{line}" for line in FAULT]
    other = [
        f"[default0]:{line}"
        for line in (FAULT[0].replace("Segmentation fault", "Aborted"), "", FAULT[6], FAULT[-3])
    ]
    worker = "rank 0 (local rank 1, global rank 3)"
    assert below_torchrun(11, *mine, *other).message == (
        f"{worker} crashed in native code (SIGSEGV) at /app/ops.py:7 in bad_op"
    )
    assert below_torchrun(11, *other).message == f"{worker} crashed in native code (SIGSEGV)"


def test_the_watchdog_of_another_worker_makes_no_complaint_of_the_first_crash() -> None:
    """A rank whose error is only a complaint would stand behind one that failed later."""
    watchdog = (
        "[rank2]: Process group watchdog thread terminated with exception: NCCL error: remote process exited"
    )
    table = [line.replace("exitcode  : 1", "exitcode  : -6") for line in TORCHRUN[5:]]
    crashed = rank(0, stderr=(watchdog, "[rank3]: Fatal Python error: Aborted", *table))
    assert diagnose(job(crashed, rank(1, at=11.0, stderr=tuple(NAN))))[0].ranks.first == ("rank 0",)


def test_what_native_code_says_about_a_peer_is_a_complaint_whatever_was_printed_last() -> None:
    what = "  what():  [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234"
    lost = rank(0, code=134, signal=6, stderr=(what, "saving what is left"))
    assert diagnose(job(lost, rank(1, at=11.0, stderr=tuple(NAN))))[0].ranks.first == ("rank 1",)
