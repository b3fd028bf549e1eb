"""The cause that is found in what torch 2.15 printed. The recordings are of one real program each."""

from __future__ import annotations

from pathlib import Path

import pytest

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.text.tracebacks import last_traceback

from .test_failure_rules import NAN, job, rank
from .test_traceback_text import PREFIXED

RECORDINGS = Path(__file__).parent / "recordings"


def recorded(name: str) -> tuple[str, ...]:
    return tuple((RECORDINGS / f"{name}.txt").read_text().splitlines())


@pytest.mark.parametrize("name", ["checkpoint_mismatch", "ddp_shapes"])
def test_sizes_that_do_not_fit_are_no_collective_that_does_not_match(name: str) -> None:
    """Both have frames in torch's distributed code, which loads a checkpoint or calls the model."""
    found = last_traceback(recorded(name))
    assert found is not None and not found.in_distributed
    (finding,) = diagnose(job(rank(0, stderr=recorded(name))))
    assert finding.cause == "Exception"


@pytest.mark.parametrize(
    ("name", "cause", "said", "hint"),
    [
        ("loader_shared_memory", "SharedMemoryFull", "No space left on device (28)", "/dev/shm"),
        ("loader_bus_error", "SharedMemoryFull", "is killed by signal: Bus error", "/dev/shm"),
        ("loader_killed", "Exception", "is killed by signal: Killed", "out-of-memory killer"),
        ("loader_crashed", "Exception", "is killed by signal: Segmentation fault", "PYTHONFAULTHANDLER=1"),
        ("spawn_killed", "Exception", "terminated with signal SIGKILL", "out-of-memory killer"),
    ],
)
def test_how_a_process_below_the_rank_ended_is_said(name: str, cause: str, said: str, hint: str) -> None:
    """A DataLoader raises "exited unexpectedly" because of the error that says how; or repeats its worker's error."""
    (finding,) = diagnose(job(rank(0, stderr=recorded(name))))
    assert finding.cause == cause and said in finding.message and hint in finding.hint
    assert said in finding.evidence[0].text and any(
        each.text.startswith("at /app/") for each in finding.evidence
    )


def test_a_worker_that_the_kernel_killed_is_a_lack_of_memory_where_the_kernel_says_so() -> None:
    (finding,) = diagnose(job(rank(0, reason="OOMKilled", stderr=recorded("loader_killed"))))
    assert finding.cause == "OutOfMemory"


@pytest.mark.parametrize(
    ("name", "cause", "message"),
    [
        ("state_dict", "Exception",
         'raised RuntimeError: Error(s) in loading state_dict for Linear: Missing key(s) in state_dict: "bias". '
         "(/app/statedict.py:3 in load)"),
        ("checkpoint_mismatch", "Exception",
         "raised torch.distributed.checkpoint.api.CheckpointException: ValueError: Size mismatch between saved "
         "torch.Size([10]) and current: torch.Size([12]) for w (/app/dcp.py:12 in <module>)"),
        ("checkpoint_missing", "FileNotFound",
         "needs a file that does not exist: torch.distributed.checkpoint.api.CheckpointException: AssertionError: metadata "
         "is None; global metadata read failed: [Errno 2] No such file or directory: '/app/none/.metadata'; rank local "
         "metadata read failed: [Errno 2] No such file or directory: '/app/none/__0.metadata'"),
        ("notebook", "Exception",
         "raised JSONDecodeError: Expecting value: line 1 column 1 (char 0) (Cell In[1]:3 in load)"),
    ],
)  # fmt: skip
def test_an_error_says_what_went_wrong_although_its_first_line_does_not(
    name: str, cause: str, message: str
) -> None:
    (finding,) = diagnose(job(rank(0, stderr=recorded(name))))
    assert (finding.cause, finding.message) == (cause, f"rank 0 {message}")


def test_the_lines_below_the_first_are_evidence() -> None:
    (finding,) = diagnose(job(rank(0, stderr=recorded("state_dict"))))
    assert finding.evidence[1].text.startswith("size mismatch for weight: copying a param with shape")
    pydantic = (
        "pydantic_core._pydantic_core.ValidationError: 1 validation error for Config",
        "lr",
        "  Field required [type=missing, input_value={}, input_type=dict]",
        "    For further information visit https://errors.pydantic.dev/2.14/v/missing",
    )
    (finding,) = diagnose(job(rank(0, stderr=(*NAN[:2], *pydantic))))
    assert [each.text for each in finding.evidence[:3]] == [pydantic[0], "lr", pydantic[2].strip()]


def test_the_line_that_shows_the_cause_is_quoted() -> None:
    lines = (
        *NAN[:2],
        "app.LoadError: 2 of 4 files",
        "a.json is empty",
        "[Errno 2] No such file or directory: 'b.json'",
    )
    (finding,) = diagnose(job(rank(0, stderr=lines)))
    assert finding.message == f"rank 0 needs a file that does not exist: {lines[-1]}"


#: boto3, called by the part of torch that saves checkpoints.
S3 = (
    *NAN[:2],
    '  File "/venv/lib/python3.11/site-packages/torch/distributed/checkpoint/state_dict_saver.py", line 27, in save',
    '  File "/venv/lib/python3.11/site-packages/torch/distributed/checkpoint/_fsspec_filesystem.py", line 27, in create_stream',
    '  File "/venv/lib/python3.11/site-packages/botocore/httpsession.py", line 4, in send',
)
#: The same below a collective of the checkpoint's.
BELOW_A_COLLECTIVE = (
    *S3[:3],
    '  File "/venv/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py", line 2714, in gather_object',
    *S3[-1:],
)


@pytest.mark.parametrize("frames", [S3, BELOW_A_COLLECTIVE])
@pytest.mark.parametrize(
    "exception",
    [
        "botocore.exceptions.ReadTimeoutError: Read timeout on endpoint URL: request timed out",
        "botocore.exceptions.ConnectionClosedError: Connection was closed before we received a valid response from "
        "endpoint URL: s3. Connection reset by peer",
    ],
)
def test_a_package_that_loses_its_own_connection_below_torch_is_the_cause(
    frames: tuple[str, ...], exception: str
) -> None:
    lost = rank(0, at=10.0, stderr=tuple(PREFIXED))
    finding = diagnose(job(lost, rank(1, at=12.0, stderr=(*frames, exception))))[0]
    assert (finding.cause, finding.ranks.first) == ("Exception", ("rank 1",))


@pytest.mark.parametrize(
    "files",
    [
        ("distributed/distributed_c10d.py", "distributed/c10d_logger.py"),
        ("distributed/tensor/_redistribute.py", "distributed/_functional_collectives.py", "_ops.py"),
        ("nn/parallel/distributed.py", "distributed/utils.py"),
        ("distributed/elastic/rendezvous/c10d_rendezvous_backend.py",),
    ],
)
def test_a_lost_connection_in_torchs_communication_is_a_complaint(files: tuple[str, ...]) -> None:
    frames = [f'  File "/venv/lib/python3.11/site-packages/torch/{file}", line 1, in f' for file in files]
    lost = rank(0, at=10.0, stderr=(*NAN[:2], *frames, "RuntimeError: Connection reset by peer"))
    finding = diagnose(job(lost, rank(1, at=12.0, stderr=tuple(NAN))))[0]
    assert finding.ranks.first == ("rank 1",)
