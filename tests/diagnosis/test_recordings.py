"""The cause that is found in what real programs printed below torchrun and other launchers, and in both streams.

The recordings in `recordings` are of torch 2.15 with two workers that fail.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.text.torchrun import of_first_worker
from vcjob.diagnosis.text.tracebacks import last_traceback, reason_line

from .test_failure_rules import NAN, job, rank
from .test_traceback_text import PREFIXED

RECORDINGS = Path(__file__).parent / "recordings"


def first(*pods: Any) -> Finding:
    return diagnose(job(*pods))[0]


@pytest.mark.parametrize("name", ["torchrun_record", "torchrun_tee", "torchrun_role"])
def test_the_worker_below_torchrun_raised(name: str) -> None:
    """`@record` puts the traceback into torchrun's table; `--tee` a prefix with the role before every line."""
    lines = (RECORDINGS / f"{name}.txt").read_text().splitlines()
    for said in (lines, lines[-40:]) if name == "torchrun_record" else (lines,):
        finding = first(rank(0, stderr=tuple(said)))
        assert finding.cause == "Exception"
        assert finding.message in (
            "rank 0 (local rank 0, global rank 0) raised ValueError: bad batch (/home/me/record.py:4 in main)",
            "rank 0 (local rank 1, global rank 1) raised ValueError: loss is NaN (/home/me/plainw.py:2 in <module>)",
        )


def test_lines_of_workers_that_torchrun_prefixed_are_told_apart() -> None:
    """Both raise at the same moment, before they have a process group."""
    lines = (RECORDINGS / "torchrun_tee.txt").read_text().splitlines()
    other = [f"[default0]:{line}" for line in (*NAN[:2], "KeyError: 'label'", *["INFO:root:step 1"] * 2)]
    mixed = [line for pair in zip(lines[:5], other, strict=True) for line in pair]
    finding = first(rank(0, stderr=(*mixed, *lines[5:])))
    assert finding.message.startswith("rank 0 (local rank 1, global rank 1) raised ValueError: loss is NaN")


def test_below_torchrun_a_complaint_is_reported_where_no_worker_raised_an_error_of_its_own() -> None:
    lost = [line.replace("[rank1]", f"[rank{number}]") for number in range(2) for line in PREFIXED]
    table = (RECORDINGS / "torchrun_tee.txt").read_text().splitlines()[5:]
    finding = first(rank(0, stderr=(*lost, *table)))
    assert finding.cause == "ConnectionLost"
    assert (
        "Connection closed by peer" in finding.message and "(/home/me/train.py:30 in main)" in finding.message
    )


def test_below_torchrun_the_worker_that_exited_by_itself_is_named_although_others_complain() -> None:
    """It raised nothing: it printed why on stdout and exited with 3. The others print tracebacks about it."""
    lost = [line.replace("[rank1]", f"[rank{number}]") for number in (0, 2) for line in PREFIXED]
    table = (RECORDINGS / "torchrun_tee.txt").read_text().replace("exitcode  : 1 ", "exitcode  : 3 ")
    stderr = (*lost, *table.splitlines()[5:])
    pod = rank(0, stderr=stderr, stdout=("step 1", "no shards left"))
    pod.output = (*lost[:4], *pod.stdout, *stderr[4:])
    finding = first(pod, rank(1, stderr=tuple(PREFIXED)))
    assert (finding.cause, finding.ranks.first) == ("NonZeroExit", ("rank 0",))
    assert finding.message == "rank 0 (local rank 1, global rank 1) ended with exit code 3: no shards left"
    assert all("Connection closed" not in each.text for each in finding.evidence)
    killed = table.replace("exitcode  : 3 ", "exitcode  : -9 ").splitlines()[5:]
    finding = first(rank(0, stderr=(*lost, *killed)))
    assert finding.cause == "Killed"
    assert all("Connection closed" not in each.text for each in finding.evidence)


def test_below_torchrun_a_worker_whose_traceback_is_above_the_lines_that_are_read_is_no_cause() -> None:
    """It raised first, and each of the others has printed a traceback since. Meanwhile the end of the cause is recorded."""
    lost = [line.replace("[rank1]", f"[rank{number}]") for number in (0, 2) for line in PREFIXED]
    stderr = (*lost, *(RECORDINGS / "torchrun_tee.txt").read_text().splitlines()[5:])
    pod = rank(0, at=5.0, stderr=stderr, stdout=("step 1",))
    pod.output = (*pod.stdout, *stderr)
    finding = first(pod, rank(1, at=6.0, code=137, signal=9))
    assert (finding.cause, finding.ranks.first) == ("Killed", ("rank 1",))
    assert first(pod).cause == "ConnectionLost"
    assert "Connection closed by peer" in reason_line(of_first_worker(stderr))


def test_a_note_of_the_log_below_an_exception_is_no_evidence() -> None:
    lines = (
        *NAN,
        "expected 4 columns",
        "[2026-11-19 21:10:21,910 INFO] tracker flushed",
        '{"level": "info", "message": "end"}',
    )
    texts = [each.text for each in first(rank(0, stderr=lines)).evidence]
    assert texts[:2] == ["ValueError: loss is NaN", "expected 4 columns"]
    assert not any("tracker flushed" in text or "level" in text for text in texts)


@pytest.mark.parametrize("prefix", ["[default0]:[rank0]: ", "[trainer0]:", "[my-role.3]: [rank12]: "])
def test_prefixes_of_roles_and_ranks_are_taken_off_together(prefix: str) -> None:
    found = last_traceback([prefix + line for line in NAN])
    assert found is not None and found == last_traceback(
        [f"[rank0]: {line}" for line in NAN] if "rank" in prefix else NAN
    )
    assert (found.exception, str(found.own_frame)) == ("ValueError: loss is NaN", "train.py:41 in <module>")


def test_a_prefixed_traceback_behind_a_bar_is_found() -> None:
    lines = [f"[rank0]: {line}" for line in NAN]
    assert last_traceback([f"  5%|5    | 5/100 [00:01<00:19,  4.99it/s]{lines[0]}", *lines[1:]]) is not None


def test_colours_do_not_hide_a_traceback() -> None:
    """As Python 3.13 writes it with FORCE_COLOR."""
    lines = [
        "Traceback (most recent call last):",
        '  File \x1b[35m"train.py"\x1b[0m, line \x1b[35m41\x1b[0m, in \x1b[35m<module>\x1b[0m',
        "\x1b[1;35mValueError\x1b[0m: \x1b[35mloss is NaN\x1b[0m",
    ]
    assert last_traceback(lines) == last_traceback(NAN)


def test_the_frame_of_rich_is_read() -> None:
    lines = (
        "╭──────────── Traceback (most recent call last) ─────────────╮",
        "│ /home/me/train.py:12 in <module>                           │",
        "│                                                            │",
        "│ ❱ 12 main()                                                │",
        "│                                                            │",
        "│ /venv/lib/python3.11/site-packages/torch/x.py:100 in wraps │",
        "╰────────────────────────────────────────────────────────────╯",
        "ValueError: loss is NaN",
    )
    message = "rank 0 raised ValueError: loss is NaN (/home/me/train.py:12 in <module>)"
    assert first(rank(0, stderr=lines)).message == message
    logged = (
        "[21:31:35] INFO     start                                                   train.py:7",
        "           ERROR    training crashed                                        train.py:11",
        *(f"{'':20}{line:<70}" for line in lines),
    )
    assert first(rank(0, stdout=logged)).message == message, "as its handler of logs writes it"


def test_a_traceback_that_the_log_changed_is_read() -> None:
    """As logging with a prefix for every line, a log in JSON, and loguru write it."""
    prefixed = [f"2026-11-19 12:00:0{place},123 ERROR train: {line}" for place, line in enumerate(NAN)]
    tagged = [f"[1,0]<stderr>:{line}" for line in NAN]
    record = {"levelname": "ERROR", "message": "failed", "exc_info": "\n".join(NAN)}
    nested = {"level": "error", "exception": {"stack": "\n".join(NAN)}}
    caught = [NAN[0], "", f"> {NAN[1].strip()}", "    main()", "    └ <function main at 0x7f12>", "", NAN[2]]
    rest = {"level": "info", "message": "closed"}
    for lines in (prefixed, tagged, [json.dumps(record)], [json.dumps(nested), json.dumps(rest)], caught):
        finding = first(rank(0, stderr=tuple(lines)))
        assert finding.message == "rank 0 raised ValueError: loss is NaN (train.py:41 in <module>)"


def test_a_log_that_only_looks_like_json_is_text() -> None:
    for line in (
        '{"a": "Traceback (most recent call last):',
        '{"a": ["Traceback (most recent call last):"]}',
    ):
        assert first(rank(0, stderr=(line,))).message == f"rank 0 ended with exit code 1: {line}"


def test_a_class_may_have_a_name_in_chinese() -> None:
    finding = first(rank(0, stderr=(*NAN[:2], "数据错误: 损坏的样本")))
    assert finding.message == "rank 0 raised 数据错误: 损坏的样本 (train.py:41 in <module>)"


def test_what_launchers_print_below_does_not_hide_the_error() -> None:
    mpirun = (
        "Primary job  terminated normally, but 1 process returned",
        "a non-zero exit code. Per user-direction, the job has been aborted.",
        "mpirun detected that one or more processes exited with non-zero status, thus causing",
        "the job to be terminated. The first process to do so was:",
        "  Process name: [[1234,1],0]",
        "  Exit code:    1",
    )
    assert first(rank(0, stderr=(*NAN, *mpirun))).cause == "Exception"
    deepspeed = "[2026-11-19 12:00:01,123] [ERROR] [launch.py:322:sigkill_handler] ['train.py'] exits with return code = -9"
    assert first(rank(0, code=247, stderr=(deepspeed,))).cause == "Killed"
    assert first(rank(0, code=247, stderr=(*PREFIXED, deepspeed))).cause == "Killed", (
        "the others lost a killed process"
    )
    assert first(rank(0, stderr=(*NAN, deepspeed.replace("-9", "1")))).cause == "Exception"


ACCELERATE = (
    "Traceback (most recent call last):",
    '  File "/venv/bin/accelerate", line 8, in <module>',
    "    sys.exit(main())",
    '  File "/venv/lib/python3.11/site-packages/accelerate/commands/launch.py", line 703, in simple_launcher',
    "    raise subprocess.CalledProcessError(returncode=process.returncode, cmd=cmd)",
)


def test_a_launchers_error_is_not_the_error_of_its_process() -> None:
    failed = (
        "subprocess.CalledProcessError: Command '['python', 'train.py']' returned non-zero exit status 1."
    )
    killed = "subprocess.CalledProcessError: Command '['python', 'train.py']' died with <Signals.SIGKILL: 9>."
    raised = first(rank(0, stderr=(*NAN, *ACCELERATE, failed)))
    assert raised.message == "rank 0 raised ValueError: loss is NaN (train.py:41 in <module>)"
    said = first(rank(0, stderr=("the dataset is missing", *ACCELERATE, failed)))
    assert said.message == "rank 0 ended with exit code 1: the dataset is missing"
    ended = first(rank(0, stderr=(*NAN, *["INFO step 3"] * 9, *ACCELERATE, killed)))
    assert ended.cause == "Killed"
    assert first(rank(0, stderr=("step 3", *ACCELERATE, killed))).cause == "Killed"
    assert first(rank(0, stderr=(*ACCELERATE, failed))).cause == "Exception"


def test_an_error_of_a_program_that_started_another_is_its_own() -> None:
    mine = (*NAN[:2], "subprocess.CalledProcessError: Command '['ffmpeg']' returned non-zero exit status 1.")
    assert "ffmpeg" in first(rank(0, stderr=("decoding", *mine))).message


CONNECTING = (
    "[W1116 12:00:00.1 socket.cpp:755] [c10d] The client socket has failed to connect to [job-master-0.job]:23456 "
    "(errno: 111 - Connection refused)."
)


@pytest.mark.parametrize(
    ("end", "cause"),
    [
        ({"code": 137, "signal": 9}, "Killed"),
        ({"code": 139, "signal": 11}, "SegmentationFault"),
        ({"code": 137, "reason": "OOMKilled"}, "OutOfMemory"),
        ({"code": 3, "stdout": ("the dataset is missing",)}, "NonZeroExit"),
        ({"code": 3}, "NonZeroExit"),
    ],
)
def test_a_rank_that_was_killed_is_no_victim_of_the_peer_that_noticed_it(
    end: dict[str, Any], cause: str
) -> None:
    """Its only output is a warning that torch printed while it connected; the peer's end was recorded before its own."""
    peer = rank(0, at=10.0, stderr=tuple(PREFIXED))
    finding = first(peer, rank(1, at=10.4, stderr=(CONNECTING,), **end))
    assert (finding.cause, finding.ranks.first, finding.ranks.victims) == (cause, ("rank 1",), ("rank 0",))


def test_a_worker_that_a_signal_ended_raised_nothing() -> None:
    """Another worker below the same torchrun had handled an error before."""
    lines = (
        (RECORDINGS / "torchrun_tee.txt")
        .read_text()
        .replace("exitcode  : 1 ", "exitcode  : -9 ")
        .splitlines()
    )
    finding = first(rank(0, stderr=(*NAN, "retrying", *lines[5:])))
    assert finding.cause == "Killed" and finding.message.startswith("rank 0 (local rank 1, global rank 1)")


def test_an_exception_that_torchs_hook_printed_ended_the_rank_although_a_signal_came_later() -> None:
    """It hung while it exited, and somebody killed it."""
    lines = tuple(f"[rank0]: {line}" for line in NAN)
    assert first(rank(0, code=137, signal=9, stderr=(*lines, "INFO a", "INFO b"))).cause == "Exception"


def test_what_stdout_kept_until_the_end_does_not_hide_the_exception_in_one_log() -> None:
    """A cluster has one log, and Python writes what is left of stdout when it ends."""
    steps = tuple(f"step {number}" for number in range(30))
    assert first(rank(0, stdout=(*NAN, *steps))).cause == "Exception"
    late = rank(0, at=100.0, error_at=10.0, stdout=(*NAN, *steps, "no data"))
    assert first(late).message == "rank 0 ended with exit code 1: no data"


def test_the_streams_are_read_in_the_order_in_which_they_arrived() -> None:
    notes, steps = ("INFO loading",), ("step 1", "cannot go on")
    pod = rank(
        0,
        code=3,
        stderr=(*notes, "INFO done"),
        stdout=steps,
        output=("step 1", *notes, "INFO done", "cannot go on"),
    )
    assert first(pod).message == "rank 0 ended with exit code 3: cannot go on"


def test_steps_on_stdout_long_after_a_traceback_on_stderr_show_that_it_was_handled() -> None:
    steps = tuple(f"step {number}" for number in range(9))
    fields: dict[str, Any] = {
        "stderr": (*NAN, "no data left"),
        "stdout": steps,
        "output": (*NAN, *steps, "no data left"),
    }
    assert (
        first(rank(0, at=60.0, error_at=10.0, **fields)).message
        == "rank 0 ended with exit code 1: no data left"
    )
    assert first(rank(0, at=11.0, error_at=10.0, **fields)).cause == "Exception"


def test_errors_that_differ_only_in_numbers_are_the_same_error() -> None:
    def full(number: int) -> tuple[str, ...]:
        said = f"GPU {number} has a total capacity of 79.15 GiB of which {number}.06 GiB is free. Process {100 + number}"
        return (*NAN[:2], f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. {said}")

    finding = first(*(rank(number, at=10 + number / 10, stderr=full(number)) for number in range(3)))
    assert finding.cause == "CudaOutOfMemory"
    assert finding.ranks.first == ("rank 0", "rank 1", "rank 2") and finding.ranks.victims == ()
    other = rank(1, at=11.0, stderr=(*NAN[:2], "ValueError: loss is inf"))
    assert first(rank(0, stderr=tuple(NAN)), other).ranks.first == ("rank 0",)


def test_a_reason_is_not_an_error_that_the_program_handled() -> None:
    handled = ["ERROR:root:upload failed", *NAN, "INFO:root:step 1", "INFO:root:step 2", "no data left"]
    assert reason_line(handled) == "no data left"
    assert reason_line([*handled[:4], "uploading"]) == "ValueError: loss is NaN"
