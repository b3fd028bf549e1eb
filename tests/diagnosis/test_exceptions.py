"""Exceptions with a known cause or hint. The texts are what torch 2.15, nccl, CPython and Hugging Face print."""

from __future__ import annotations

import pytest

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.finding import Finding

from .test_failure_rules import NAN, job, rank
from .test_traceback_text import TORCHRUN


def raised(exception: str, file: str = "/venv/lib/python3.11/site-packages/lib/code.py") -> tuple[str, ...]:
    return (
        "Traceback (most recent call last):",
        '  File "/app/train.py", line 60, in main',
        f'  File "{file}", line 100, in f',
        *exception.splitlines(),
    )


def found(*lines: str) -> Finding:
    (finding,) = diagnose(job(rank(0, stderr=lines)))
    return finding


@pytest.mark.parametrize(
    ("exception", "cause"),
    [
        ("RuntimeError: Error(s) in loading state_dict for Net:\n\tsize mismatch for fc.weight: copying a param", "Exception"),
        ("ValueError: shape mismatch: value array of shape (3,) could not be broadcast", "Exception"),
        ("ValueError: vocab size mismatch between tokenizer and model", "Exception"),
        ("RuntimeError: Detected mismatch between collectives on ranks. Rank 0 is running collective: "
         "CollectiveFingerPrint(SequenceNumber=1, OpType=ALLREDUCE), in torch.distributed", "CollectiveMismatch"),
        ("RuntimeError: [enforce fail at gloo/transport/tcp/pair.cc:456] op.preamble.length <= op.nbytes. 20 vs 16",
         "CollectiveMismatch"),
        ("RuntimeError: DataLoader worker (pid 12) is killed by signal: Bus error. It is possible that dataloader's "
         "workers are out of shared memory.", "SharedMemoryFull"),
        ("RuntimeError: unable to write to file </torch_42_1>: No space left on device (28)", "SharedMemoryFull"),
        ("RuntimeError: unable to mmap 4096 bytes from file </torch_42_1>: Cannot allocate memory (12)", "SharedMemoryFull"),
        ("RuntimeError: CUDA error: invalid device ordinal\nGPU device may be out of range", "TooFewGpus"),
        ("ValueError: set CUDA_VISIBLE_DEVICES to at most 4 devices", "Exception"),
        ("ValueError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!", "CudaUnavailable"),
        ("RuntimeError: nccl2 requires at least one CUDA device", "CudaUnavailable"),
        ("RuntimeError: The NVIDIA driver on your system is too old (found version 11040).", "CudaUnavailable"),
        ("RuntimeError: Attempting to deserialize object on a CUDA device but torch.cuda.is_available() is False.",
         "CudaUnavailable"),
        ("RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", "CudaOutOfMemory"),
        ("ray.exceptions.RayTaskError(OutOfMemoryError): ray::train()", "CudaOutOfMemory"),
        ("torch.OutOfMemoryError: Allocation on device", "CudaOutOfMemory"),
        ("ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.", "Exception"),
        ("RuntimeError: Failed to initialize NVML: Driver/library version mismatch", "CudaUnavailable"),
        ("numpy._core._exceptions._ArrayMemoryError: Unable to allocate 8.00 TiB for an array", "HostOutOfMemory"),
        ("RuntimeError: can't start new thread", "ProcessLimit"),
        ("KeyError: 'PermissionError'", "Exception"),
        ("ValueError: bad config: expected FileNotFoundError handler", "Exception"),
        ("AssertionError: got Errno 28 in response", "Exception"),
        ("ValueError: the answer has\nErrno 30", "Exception"),
        ("PermissionError: /data/ckpt is locked", "PermissionDenied"),
        ("PermissionError", "PermissionDenied"),
        ("gcsfs.retry.PermissionError: bucket", "PermissionDenied"),
        ("app.LoadError: could not load: FileNotFoundError: shard 3", "FileNotFound"),
        ("app.LoadError: FileNotFoundError(2, 'No such file or directory')", "FileNotFound"),
        ("app.LoadError: 1 of 4 files\nFileNotFoundError: shard 3", "FileNotFound"),
        ("OSError: [Errno 122] Disk quota exceeded: '/data/ckpt.pt'", "DiskFull"),
        ("RuntimeError: [enforce fail at inline_container.cc:671] . unexpected pos 704 vs 598", "DiskFull"),
        ("torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 1, "
         "useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use", "PortInUse"),
        ("OSError: [Errno 98] Address already in use", "PortInUse"),
        ("RuntimeError: NPU out of memory. Tried to allocate 20.00 MiB (NPU 0; 29.50 GiB total capacity)", "CudaOutOfMemory"),
        ("torch.distributed.DistNetworkError: Ping failed, invalid value returned from server. Expected: 29325, Got: 13",
         "PortInUse"),
    ],
)  # fmt: skip
def test_an_exception_has_its_cause(exception: str, cause: str) -> None:
    finding = found(*raised(exception))
    assert finding.cause == cause
    assert bool(finding.hint) is (cause != "Exception")


NCCL = "torch.distributed.DistBackendError: NCCL error in: /pytorch/NCCLUtils.hpp:268, unhandled error\n"


@pytest.mark.parametrize(
    ("detail", "cause"),
    [
        ("ncclSystemError: System call failed.\nLast error:\nError while creating shared memory segment /dev/shm/nccl-5m "
         "(size 9637888)", "SharedMemoryFull"),
        ("ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nCuda failure 2 'out of memory'",
         "CudaOutOfMemory"),
    ],
)  # fmt: skip
def test_what_nccl_lacks_on_one_rank_is_no_complaint_about_another(detail: str, cause: str) -> None:
    """Its peer complains earlier, because its own output was written earlier."""
    lost = raised("RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:34")
    pods = rank(0, at=9.0, stderr=lost), rank(1, at=10.0, stderr=raised(NCCL + detail))
    finding = diagnose(job(*pods))[0]
    assert (finding.cause, finding.ranks.first) == (cause, ("rank 1",))


def test_a_host_that_the_program_needs_is_not_the_master() -> None:
    said = (
        "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='huggingface.co', port=443): Max retries "
        "exceeded with url: /x (Caused by NameResolutionError(\"Failed to resolve 'huggingface.co' ([Errno -2] Name or "
        'service not known)"))'
    )
    finding = found(*raised(said))
    assert finding.cause == "HostNotResolved" and "huggingface.co" in finding.message
    assert "HF_HUB_OFFLINE" in finding.hint
    assert found(*raised("socket.gaierror: [Errno -2] Name or service not known")).cause == "HostNotResolved"


@pytest.mark.parametrize(
    "line",
    [
        "wget: unable to resolve host address ‘data.internal’",
        "wget: unable to resolve host address 'data.internal'",
        "wget: bad address 'data.internal'",
        "curl: (6) Could not resolve host: data.internal",
        "ssh: Could not resolve hostname data.internal: Name or service not known",
        "fatal: unable to access 'https://data.internal/x/': Could not resolve host: data.internal",
    ],
)
def test_a_host_that_a_tool_cannot_resolve_is_named(line: str) -> None:
    finding = found(line)
    assert finding.cause == "HostNotResolved" and "could not resolve data.internal:" in finding.message


@pytest.mark.parametrize(
    ("signal", "name", "hint"),
    [(13, "SIGPIPE", "other end"), (24, "SIGXCPU", "ulimit -t"), (25, "SIGXFSZ", "ulimit -f"), (31, "SIGSYS", "seccomp")],
)  # fmt: skip
def test_a_signal_that_the_kernel_sends_for_what_the_program_did_says_what_that_is(
    signal: int, name: str, hint: str
) -> None:
    (finding,) = diagnose(job(rank(0, code=128 + signal, signal=signal)))
    assert (finding.cause, finding.message) == ("Killed", f"rank 0 was ended by {name}")
    assert hint in finding.hint


@pytest.mark.parametrize(
    ("first", "cause", "said"),
    [
        ("ModuleNotFoundError: No module named 'flash_attn'", "ModuleNotFound", "cannot import flash_attn"),
        ("MemoryError", "HostOutOfMemory", "could not allocate memory: MemoryError"),
        ("FileNotFoundError: [Errno 2] No such file: 'x'", "FileNotFound", "FileNotFoundError: [Errno 2]"),
    ],
)
def test_an_exception_that_was_raised_from_another_one_has_its_cause(
    first: str, cause: str, said: str
) -> None:
    wrapped = raised("RuntimeError: the model cannot be built")
    caused = "The above exception was the direct cause of the following exception:"
    finding = found(*raised(first), "", caused, "", *wrapped)
    assert finding.cause == cause and said in finding.message
    handled = "During handling of the above exception, another exception occurred:"
    assert found(*raised(first), "", handled, "", *wrapped).cause == "Exception"


def test_a_name_that_torch_cannot_resolve_is_the_masters() -> None:
    said = (
        "torch.distributed.DistNetworkError: The IPv6 network addresses of (job-master-0.job, 23456) cannot be "
        "retrieved (gai error: -2 - Name or service not known)."
    )
    finding = found(*raised(said, "/venv/lib/python3.11/site-packages/torch/distributed/rendezvous.py"))
    assert finding.cause == "MasterNameNotResolved" and "svc plugin" in finding.hint


@pytest.mark.parametrize(
    ("exception", "hint"),
    [
        ("RuntimeError: CUDA error: device-side assert triggered", "CUDA_LAUNCH_BLOCKING=1"),
        ("RuntimeError: CUDA error: uncorrectable ECC error encountered", "nvidia-smi"),
        ("OSError: You are trying to access a gated repo.\n401 Client Error.", "HF_TOKEN"),
        ("huggingface_hub.errors.HfHubHTTPError: 429 Client Error: Too Many Requests for url: https://x", "HF_HOME"),
        ("requests.exceptions.SSLError: HTTPSConnectionPool(host='x', port=443): Max retries exceeded (Caused by "
         "SSLError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed'))", "SSL_CERT_FILE"),
        ("OSError: We couldn't connect to 'https://huggingface.co' to load the files", "HF_HUB_OFFLINE=1"),
        ("ValueError: Your setup doesn't support bf16/gpu. You need torch>=1.10, using Ampere GPU", "fp16"),
        ("ImportError: libGL.so.1: cannot open shared object file: No such file or directory", "LD_LIBRARY_PATH"),
        ("ImportError: /venv/flash_attn_2_cuda.so: undefined symbol: _ZN3c104cuda9SetDeviceEi", "another version of torch"),
        ("OSError: CUDA_HOME environment variable is not set. Please set it to your CUDA install root.", "-devel"),
        ("torch._inductor.exc.InductorError: RuntimeError: Failed to find C compiler. Please specify via CC", "gcc"),
        ("RuntimeError: Distributed package doesn't have NCCL built in", "gloo"),
        ("EOFError: Ran out of input", "use an earlier one"),
        ("RuntimeError: PytorchStreamReader failed reading zip archive: failed finding central directory", "use an earlier one"),
        ("botocore.exceptions.NoCredentialsError: Unable to locate credentials", "a Secret"),
        ("ImportError: libc.so.6: version `GLIBC_2.34' not found (required by /x.so)", "newer image"),
        ("OSError: [Errno 8] Exec format error: '/app/tool'", "uname -m"),
        ("RuntimeError: Cannot re-initialize CUDA in forked subprocess.", "`spawn`"),
        ("wandb.errors.UsageError: api_key not configured (no-tty). call wandb.login()", "WANDB_API_KEY"),
        ("concurrent.futures.process.BrokenProcessPool: A process in the process pool was terminated abruptly", "dmesg"),
        ("RuntimeError: unable to open shared memory object </torch_1_2> in read-write mode: Too many open files (24)",
         "ulimit -n"),
        ("_pickle.UnpicklingError: Weights only load failed. In PyTorch 2.6, we changed the default value\n"
         "Please file an issue with the following so that we can make `weights_only=True` compatible with your use case: "
         "WeightsUnpickler error: ", "Git LFS pointer"),
        ("_pickle.UnpicklingError: Weights only load failed. This file can still be loaded, to do so you have two options\n"
         "\t(2) Alternatively, to load with `weights_only=True` please check the recommended steps", "only for a file that you trust"),
        ("RuntimeError: Expected to have finished reduction in the prior iteration before starting a new one.",
         "find_unused_parameters=True"),
    ],
)  # fmt: skip
def test_an_exception_without_a_cause_of_its_own_says_what_to_do(exception: str, hint: str) -> None:
    finding = found(*raised(exception))
    assert finding.cause == "Exception" and hint in finding.hint


def test_a_process_that_may_not_be_read_is_no_object_store() -> None:
    assert found(*raised("psutil.AccessDenied: (pid=1, name='init')")).hint == ""
    denied = "botocore.exceptions.ClientError: An error occurred (AccessDenied) when calling the GetObject operation"
    assert "credentials" in found(*raised(denied)).hint


def test_a_port_of_the_program_is_not_the_masters() -> None:
    assert "8000 + RANK" in found(*raised("OSError: [Errno 98] Address already in use")).hint
    said = "torch.distributed.DistNetworkError: The server socket has failed to listen: EADDRINUSE"
    assert "--port for the pytorch plugin" in found(*raised(said)).hint


def test_what_the_rank_lacks_for_infiniband_is_no_complaint_about_another() -> None:
    detail = "ncclSystemError: System call failed or device error.\nLast error:\nCall to ibv_create_qp failed"
    finding = found(*raised(NCCL + detail))
    assert finding.cause == "Exception" and "ulimit -l" in finding.hint


def test_the_failed_assertion_of_a_kernel_is_shown() -> None:
    kernel = (
        "Loss.cu:250: nll_loss: block: [0,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed."
    )
    finding = found(kernel, *raised("RuntimeError: CUDA error: device-side assert triggered"))
    assert finding.evidence[-1].text == kernel


def test_a_missing_compiler_is_a_missing_file_with_a_hint_of_its_own() -> None:
    finding = found(*raised("FileNotFoundError: [Errno 2] No such file or directory: 'gcc'"))
    assert (finding.cause, "set CC" in finding.hint) == ("FileNotFound", True)
    assert "needs a C compiler" in finding.message
    other = found(*raised("FileNotFoundError: [Errno 2] No such file or directory: 'gcc.txt'"))
    assert (other.cause, "set CC" in other.hint) == ("FileNotFound", False)


@pytest.mark.parametrize(
    ("line", "module"),
    [
        ("/venv/bin/python: No module named package.train", "package.train"),
        ("/venv/bin/python3.11: No module named email.__main__; 'email' is a package and cannot be directly executed",
         "email.__main__"),
        ("/venv/bin/python: Error while finding module specification for 'package.train' (ModuleNotFoundError: No module "
         "named 'package')", "package.train"),
    ],
)  # fmt: skip
def test_a_module_that_python_cannot_run_is_named(line: str, module: str) -> None:
    finding = found(line)
    assert finding.cause == "ModuleNotFound" and f"the module {module}:" in finding.message
    assert "PYTHONPATH" in finding.hint


@pytest.mark.parametrize(
    ("exception", "name"),
    [
        ("KeyboardInterrupt", "SIGINT"),
        (
            "torch.distributed.elastic.multiprocessing.api.SignalException: Process 7 got signal: 15",
            "SIGTERM",
        ),
    ],
)
def test_a_signal_that_became_an_exception_is_named(exception: str, name: str) -> None:
    """And a peer that lost its connection earlier is not the cause."""
    lost = raised("RuntimeError: [gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:34")
    pods = rank(0, at=9.0, stderr=lost), rank(1, at=10.0, stderr=raised(exception))
    finding = diagnose(job(*pods))[0]
    assert (finding.cause, finding.ranks.first) == ("Killed", ("rank 1",))
    assert f"ended by {name}" in finding.message


GIT = raised("subprocess.CalledProcessError: Command 'git' returned non-zero exit status 128.")


def test_a_program_whose_failure_was_handled_does_not_hide_what_the_workers_of_torchrun_said_later() -> None:
    table = [line.replace("exitcode  : 1", "exitcode  : 3") for line in TORCHRUN[5:]]
    finding = found(*GIT, "step 1", "step 2", "fatal: the dataset is missing", *table)
    assert finding.message.endswith(": fatal: the dataset is missing")


def test_the_evidence_of_a_failed_program_is_what_that_program_printed() -> None:
    finding = found("fatal: no tag", *GIT, "step 1", "step 2", "fatal: no branch", *GIT)
    assert finding.evidence[-1].text == "fatal: no branch"


CHILD = ("Process SpawnProcess-1:", NAN[0], '  File "t.py", line 7, in work', "KeyError: 'x'")
LOGGED = (NAN[0], '  File "train.py", line 5, in load', "OSError: no cache")


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ((*LOGGED, *["INFO step 3"] * 6, *CHILD), "raised KeyError: 'x' (t.py:7 in work)"),
        ((*CHILD, *["INFO step 3"] * 6, *NAN), "raised ValueError: loss is NaN (train.py:41 in <module>)"),
        ((*NAN, *CHILD), "raised ValueError: loss is NaN (train.py:41 in <module>)"),
    ],
    ids=["handled before", "own after", "own before"],
)
def test_the_exception_of_a_child_process_counts_where_the_program_went_on_from_its_own(
    lines: tuple[str, ...], message: str
) -> None:
    assert diagnose(job(rank(0, stderr=lines)))[0].message == f"rank 0 {message}"
