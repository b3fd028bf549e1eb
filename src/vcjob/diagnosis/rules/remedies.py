"""Messages of exceptions with a known remedy: tables that `exceptions` searches in this order. They only hold data.

The searched text has at most `LONGEST_TEXT` characters, and each pattern takes time in proportion to it.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from vcjob.diagnosis.finding import Confidence
from vcjob.wellknown import causes


class Remedy(NamedTuple):
    """`what` completes the sentence "rank 1 …".

    `of_torch`: only an error of torch's communication means this; `names`: what the message must name as well.
    """

    pattern: re.Pattern[str]
    cause: str
    what: str
    hint: str
    confidence: Confidence = "high"
    of_torch: bool = False
    names: re.Pattern[str] | None = None


_SMALL_SHM = (
    "give /dev/shm more memory: mount an emptyDir with medium: Memory there, locally `mount -o remount,size=8g "
    "/dev/shm`; or use fewer DataLoader workers"
)
_NO_COMPILER = "install gcc where the rank runs, or set CC to a C compiler"
_BLOCKING = "run again with CUDA_LAUNCH_BLOCKING=1 to see the line that failed"

_BACKEND = re.compile(r"gloo|nccl|ProcessGroup|c10d", re.IGNORECASE)
_MISMATCH = (
    causes.COLLECTIVE_MISMATCH,
    "took part in a collective that does not match the other ranks' call",
    "every rank must call the same collectives in the same order with the same shapes",
)

#: A name that does not resolve, as Python, curl, torch and gloo say it.
UNRESOLVED = re.compile(
    r"Name or service not known|No address associated with hostname|Temporary failure in name resolution|getaddrinfo"
    r"|could not be resolved|hostname cannot be retrieved|NameResolutionError|Could not resolve host"
    r"|unable to resolve host|bad address '"
)


def _raised(name: str, number: int) -> str:
    """The error itself, also as the cause of another; not a message that has its name somewhere."""
    return rf"(?:^|: )[\w.]{{0,200}}\b{name}(?::|$)|\b{name}\({number},|\[Errno {number}\]"


REMEDIES: tuple[Remedy, ...] = (
    Remedy(
        re.compile(
            r"(?:CUDA|NPU|XPU) out of memory|CUDA error: out of memory|(?<!ray\.exceptions\.)OutOfMemoryError|Cuda failure.{0,40}out of memory"
            r"|(?:CUBLAS|CUDNN)_STATUS_ALLOC_FAILED"
        ),
        causes.CUDA_OUT_OF_MEMORY,
        "ran out of GPU memory",
        "use a smaller batch, activation checkpointing or FSDP; `vcjob top` shows who uses the GPU",
    ),
    Remedy(
        re.compile(r"invalid device ordinal"),
        causes.TOO_FEW_GPUS,
        "uses a GPU that it does not have",
        "request as many GPUs (nvidia.com/gpu) as the pod has processes, and select them by LOCAL_RANK, not by RANK",
    ),
    Remedy(
        re.compile(
            r"driver on your system is too old|CUDA driver version is insufficient|[Dd]river/library version mismatch"
            r"|unsupported display driver"
        ),
        causes.CUDA_UNAVAILABLE,
        "cannot use its GPU: the NVIDIA driver does not fit",
        "update the driver of the node, or use a build of torch for an older CUDA",
    ),
    Remedy(
        re.compile(
            r"No CUDA GPUs are available|Found no NVIDIA driver|not compiled with CUDA|no GPUs found"
            r"|torch\.cuda\.is_available\(\) is False|CUDA unknown error|no CUDA-capable device|system not yet initialized"
            r"|requires at least one CUDA device"
        ),
        causes.CUDA_UNAVAILABLE,
        "needs a GPU, and torch finds none",
        "request nvidia.com/gpu in resources.limits, or use the gloo backend on CPUs",
    ),
    Remedy(
        re.compile(r"Duplicate GPU detected"),
        causes.GPU_SHARED,
        "uses the same GPU as another rank of its nccl group",
        "give every rank one GPU (nvidia.com/gpu: 1), and call torch.cuda.set_device(LOCAL_RANK) below torchrun",
    ),
    Remedy(
        re.compile(
            r"killed by signal: Bus error|out of shared memory|insufficient shared memory"
            r"|creating shared memory segment|unable to allocate shared memory"
            r"|unable to (?:write to|resize|mmap|allocate).{0,60}</torch_"
        ),
        causes.SHARED_MEMORY_FULL,
        "found too little shared memory",
        _SMALL_SHM,
    ),
    Remedy(
        re.compile(r"No space left on device|Disk quota exceeded|\[Errno (?:28|122)\]"),
        causes.DISK_FULL,
        "found no space left on a disk",
        "free space, write to a larger volume, or raise the sizeLimit of the emptyDir, or the quota",
    ),
    Remedy(
        re.compile(r"PytorchStreamWriter failed writing|unexpected pos \d{1,18} vs \d{1,18}"),
        causes.DISK_FULL,
        "could not write a checkpoint, usually because the disk is full",
        "free space, write to a larger volume, or raise the sizeLimit of the emptyDir, or the quota",
        "medium",
    ),
    Remedy(
        re.compile(r"Read-only file system|\[Errno 30\]"),
        causes.READ_ONLY_FILE_SYSTEM,
        "wrote to a read-only file system",
        "write to a mounted volume, or set readOnly: false",
    ),
    Remedy(
        re.compile(r"EADDRINUSE|Address already in use|\[Errno 98\]"),
        causes.PORT_IN_USE,
        "could not listen: the port is used by another process",
        "choose another --port for the pytorch plugin, or end the other process",
        of_torch=True,
    ),
    Remedy(
        re.compile(r"EADDRINUSE|[Aa]ddress already in use|\[Errno 98\]"),
        causes.PORT_IN_USE,
        "could not listen: the port is used by another process",
        "use another port, and in every rank a port of its own, such as 8000 + RANK: ranks on one machine share its ports",
    ),
    Remedy(
        re.compile(r"Ping failed, invalid value returned from server"),
        causes.PORT_IN_USE,
        "found another program at the master's port",
        "choose another --port for the pytorch plugin, and check MASTER_ADDR and MASTER_PORT",
        of_torch=True,
    ),
    Remedy(
        UNRESOLVED,
        causes.MASTER_NAME_NOT_RESOLVED,
        "could not resolve the master's name",
        "keep the svc plugin on, so that pods have names; check MASTER_ADDR",
        of_torch=True,
    ),
    Remedy(
        re.compile(
            r"Detected mismatch between collectives|op\.preamble\.length <= op\.nbytes|Message truncated : received",
            re.IGNORECASE,
        ),
        *_MISMATCH,
        of_torch=True,
    ),
    Remedy(
        re.compile(
            r"(?:op|collective|shape|dtype|size)s?[^.\n]{0,40}mismatch(?! for)"
            r"|mismatch(?! for)[^.\n]{0,40}(?:collective|shape|size)",
            re.IGNORECASE,
        ),
        *_MISMATCH,
        of_torch=True,
        names=_BACKEND,
    ),
    Remedy(
        re.compile(
            r"can't start new thread|pthread_create failed|Resource temporarily unavailable|RLIMIT_NPROC"
        ),
        causes.PROCESS_LIMIT,
        "could not start a process or thread",
        "use fewer DataLoader workers and a smaller OMP_NUM_THREADS, or raise the limit of processes (`ulimit -u`, the "
        "kubelet's podPidsLimit)",
    ),
    Remedy(
        re.compile(_raised("PermissionError", 13), re.MULTILINE),
        causes.PERMISSION_DENIED,
        "may not access a file",
        "check the owner and mode of the file, and the pod's securityContext",
    ),
    Remedy(
        re.compile(r"No such file or directory: '(?:gcc|cc|c\+\+|g\+\+)'"),
        causes.FILE_NOT_FOUND,
        "needs a C compiler, and there is none",
        _NO_COMPILER,
    ),
    Remedy(
        re.compile(_raised("FileNotFoundError", 2), re.MULTILINE),
        causes.FILE_NOT_FOUND,
        "needs a file that does not exist",
        "check the path, the working directory (workingDir) and the volumes",
    ),
)

#: Pattern and hint of exceptions that have no cause of their own.
HINTS: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(
            r"(?:killed by signal: |terminated with signal )(?:Killed|SIGKILL|Unknown signal 9)|BrokenProcessPool"
            r"|died with <Signals\.SIGKILL"
        ),
        "the kernel's out-of-memory killer is the usual sender: see the kernel log (`dmesg | grep -i oom`); use fewer "
        "processes, such as DataLoader workers, or raise resources.limits.memory",
    ),
    (
        re.compile(
            r"(?:killed by signal: |terminated with signal )"
            r"(?:Segmentation fault|Aborted|Floating point|Illegal instr|SIGSEGV|SIGABRT|SIGBUS|SIGFPE|SIGILL)"
        ),
        "set PYTHONFAULTHANDLER=1 to see the Python line at which the process crashed; a DataLoader with num_workers=0 "
        "crashes in the rank itself",
    ),
    (
        re.compile(r"device-side assert"),
        f"{_BLOCKING}; the usual reason is a label or an index that is out of range",
    ),
    (re.compile(r"illegal memory access|misaligned address|unspecified launch failure"), _BLOCKING),
    (
        re.compile(
            r"uncorrectable (?:ECC|NVLink) error|GPU is lost|CUDA-capable devices? (?:is|are) busy or unavailable"
        ),
        "the GPU is faulty, or another process uses it alone: see `nvidia-smi -q` and the kernel log (`dmesg | grep -i "
        "xid`), reset the GPU or take its node out of service",
    ),
    (
        re.compile(r"Cannot re-initialize CUDA in forked subprocess"),
        "use CUDA only in the process that was started last: start workers with the method `spawn`, and keep tensors in "
        "data sets on the CPU",
    ),
    (
        re.compile(r"CUBLAS_STATUS_NOT_INITIALIZED|CUDNN_STATUS_|CUBLAS_STATUS_EXECUTION_FAILED"),
        f"the GPU had no memory left, or an earlier call failed: use a smaller batch, or {_BLOCKING}",
    ),
    (
        re.compile(r"Mismatched NCCL version"),
        "use the same image, or the same versions of torch and nccl, for all ranks",
    ),
    (
        re.compile(r"ibv_(?:reg_mr|create|open|alloc)"),
        "raise the limit of locked memory (`ulimit -l unlimited`) and check the InfiniBand device (`ibv_devinfo`); "
        "NCCL_IB_DISABLE=1 uses TCP instead",
    ),
    (
        re.compile(r"no kernel image is available"),
        "use a build of torch, or of the extension, for the architecture of this GPU",
    ),
    (
        re.compile(r"doesn't support bf16|bf16 is not supported|BFloat16 is not supported", re.IGNORECASE),
        "use fp16 or fp32: bf16 needs an Ampere GPU or a newer one",
    ),
    (
        # Python 3.14 raises no BdbQuit at the end of the input: the debugger asks, and ends the program.
        re.compile(
            r"EOF when reading a line|^EOFError$|BdbQuit|StdinNotImplementedError|^Quitting pdb will kill the process\."
        ),
        "a rank has no standard input: pass answers as arguments or environment variables, and remove breakpoint()",
    ),
    (
        re.compile(r"api_key not configured"),
        "set WANDB_API_KEY in the env of the ranks, or WANDB_MODE=offline",
    ),
    (
        re.compile(
            r"PytorchStreamReader failed|Ran out of input|SafetensorError: Error while deserializing header"
            r"|zip archive: failed finding central directory"
        ),
        "the file is incomplete or no checkpoint: use an earlier one, and write to another name that is renamed at the end",
    ),
    (
        re.compile(r"Weights only load failed[^\n]{0,1000}\nPlease file an issue with the following"),
        "the file is often incomplete, or no checkpoint, such as a Git LFS pointer: check its size and its first bytes; "
        "only for a file that you trust: torch.load(..., weights_only=False)",
    ),
    (
        re.compile(r"Weights only load failed"),
        "only for a file that you trust: torch.load(..., weights_only=False)",
    ),
    (
        re.compile(
            r"gated repo|\b40[13] Client Error|Repository Not Found|is not a valid model identifier"
            r"|doesn't exist on the Hub"
        ),
        "check the name, accept the terms on the page of the model, and set HF_TOKEN in the env of the ranks",
    ),
    (
        re.compile(r"\b429 Client Error|Too Many Requests"),
        "download once and share the files (HF_HOME on a volume), and set HF_TOKEN for a higher limit",
    ),
    (
        re.compile(r"CERTIFICATE_VERIFY_FAILED|SSLError"),
        "set SSL_CERT_FILE and REQUESTS_CA_BUNDLE to the certificates of your network",
    ),
    (
        re.compile(
            r"We couldn't connect to|LocalEntryNotFoundError|Max retries exceeded|HTTPSConnectionPool"
            r"|Network is unreachable|Could not connect to the endpoint|urlopen error"
        ),
        "check the network and HTTPS_PROXY; without internet access mount a filled cache, and set HF_HOME and "
        "HF_HUB_OFFLINE=1",
    ),
    (
        re.compile(r"terminate called without an active exception"),
        "a thread of native code was still at work when the program ended, which torch's gloo threads can be after the last "
        "collective: drop the DistributedDataParallel model and call torch.distributed.destroy_process_group() at the end",
    ),
    (
        re.compile(r"undefined symbol"),
        "the package was built for another version of torch or CUDA: install a build for this one",
    ),
    (
        re.compile(
            r"Unable to locate credentials|default credentials were not found|(?<!psutil\.)AccessDenied"
        ),
        "give the ranks the credentials of the object store: environment variables, a Secret, or the service account",
    ),
    (
        re.compile(r"version `GLIBC(?:XX)?_[\d.]{1,20}' not found"),
        "the program was built for a newer system: use a newer image, or install a build for this one",
    ),
    (
        re.compile(r"invalid ELF header|wrong ELF class|Exec format error"),
        "the file is for another kind of machine: install a build for the architecture of the node (`uname -m`)",
    ),
    (
        re.compile(r"numpy\.dtype size changed|numpy\.core\.multiarray failed to import"),
        "a package was built for another version of numpy: install versions that fit (often `pip install 'numpy<2'`)",
    ),
    (
        re.compile(r"cannot open shared object file"),
        "install the library where the rank runs, or add its folder to LD_LIBRARY_PATH",
    ),
    (
        re.compile(r"CUDA_HOME environment variable is not set|nvcc.{0,20}not found"),
        "use an image with the CUDA toolkit (its name often ends in -devel), and set CUDA_HOME",
    ),
    (re.compile(r"Failed to find C compiler"), _NO_COMPILER),
    (
        re.compile(r"doesn't have NCCL built in"),
        "use the gloo backend, or a build of torch with CUDA",
    ),
    (
        re.compile(r"no socket interface found|Unable to find address for"),
        "set NCCL_SOCKET_IFNAME or GLOO_SOCKET_IFNAME to a network interface that exists where the rank runs (`ip addr`)",
    ),
    (
        re.compile(r"Rendezvous(?:Timeout|Connection)Error"),
        "check that every pod runs torchrun with the same --nnodes and with --rdzv-endpoint=$MASTER_ADDR:$MASTER_PORT",
    ),
    (
        re.compile(r"Too many open files"),
        "raise the limit of open files (`ulimit -n`), or use fewer DataLoader workers",
    ),
    (
        re.compile(r"Expected to have finished reduction in the prior iteration"),
        "a parameter has no part in the loss: remove it, or use DistributedDataParallel(..., "
        "find_unused_parameters=True); TORCH_DISTRIBUTED_DEBUG=DETAIL names the parameters",
    ),
    (
        re.compile(r"DDP expects same model|appears not to match sizes of the same param"),
        "build the same model, with the same sizes, on every rank",
    ),
)
