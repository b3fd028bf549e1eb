"""Python exceptions with a known remedy, and all others."""

from __future__ import annotations

import re

from vcjob.diagnosis.rules.verdict import Verdict
from vcjob.diagnosis.suspect import Suspect
from vcjob.wellknown import causes

_MODULE = re.compile(r"(?:ModuleNotFoundError|ImportError): No module named '?([\w.]+)")
_SCRIPT = re.compile(r"can't open file '([^']+)'|can't open file \"([^\"]+)\"")
#: Pattern in the exception, cause, sentence, hint.
_KNOWN: tuple[tuple[re.Pattern[str], str, str, str], ...] = (
    (
        re.compile(r"CUDA out of memory|CUDA error: out of memory|OutOfMemoryError"),
        causes.CUDA_OUT_OF_MEMORY,
        "ran out of GPU memory",
        "use a smaller batch, activation checkpointing or FSDP; `vcjob top` shows who uses the GPU",
    ),
    (
        re.compile(
            r"No CUDA GPUs are available|Found no NVIDIA driver|not compiled with CUDA|CUDA_VISIBLE_DEVICES|invalid device ordinal"
        ),
        causes.CUDA_UNAVAILABLE,
        "needs a GPU, and torch finds none",
        "request nvidia.com/gpu in resources.limits, or use the gloo backend on CPUs",
    ),
    (
        re.compile(r"Duplicate GPU detected"),
        causes.GPU_SHARED,
        "uses the same GPU as another rank of its nccl group",
        "give every rank one GPU (nvidia.com/gpu: 1), and call torch.cuda.set_device(LOCAL_RANK) below torchrun",
    ),
    (
        re.compile(r"No space left on device|Errno 28\b"),
        causes.DISK_FULL,
        "found no space left on a disk",
        "free space, write to a larger volume, or raise the sizeLimit of the emptyDir",
    ),
    (
        re.compile(r"Read-only file system|Errno 30\b"),
        causes.READ_ONLY_FILE_SYSTEM,
        "wrote to a read-only file system",
        "write to a mounted volume, or set readOnly: false",
    ),
    (
        re.compile(r"EADDRINUSE|Address already in use|Errno 98\b"),
        causes.PORT_IN_USE,
        "could not listen: the port is used by another process",
        "choose another --port for the pytorch plugin, or end the other process",
    ),
    (
        re.compile(
            r"Name or service not known|Temporary failure in name resolution|getaddrinfo|could not be resolved|hostname cannot be retrieved"
        ),
        causes.MASTER_NAME_NOT_RESOLVED,
        "could not resolve a host name",
        "keep the svc plugin on, so that pods have names; check MASTER_ADDR",
    ),
    (
        re.compile(
            r"(?:op|collective|shape|dtype|size)s?[^.]{0,40}mismatch|mismatch[^.]{0,40}(?:collective|shape|size)"
            r"|Detected mismatch between collectives|op\.preamble\.length <= op\.nbytes",
            re.IGNORECASE,
        ),
        causes.COLLECTIVE_MISMATCH,
        "took part in a collective that does not match the other ranks' call",
        "every rank must call the same collectives in the same order with the same shapes",
    ),
    (
        re.compile(r"PermissionError|Errno 13\b"),
        causes.PERMISSION_DENIED,
        "may not access a file",
        "check the owner and mode of the file, and the pod's securityContext",
    ),
    (
        re.compile(r"FileNotFoundError|Errno 2\b"),
        causes.FILE_NOT_FOUND,
        "needs a file that does not exist",
        "check the path, the working directory (workingDir) and the volumes",
    ),
)


def missing_module(suspect: Suspect) -> Verdict | None:
    found = _MODULE.search(suspect.reason)
    if found is None:
        return None
    module = found[1]
    return Verdict(
        causes.MODULE_NOT_FOUND,
        f"cannot import {module}: it is not installed in the rank's Python",
        f"install it there (`pip install {module.split('.')[0]}`), or use an environment or image that has it",
    )


def missing_script(suspect: Suspect) -> Verdict | None:
    found = _SCRIPT.search(suspect.last_line)
    if found is None:
        return None
    return Verdict(
        causes.FILE_NOT_FOUND,
        f"cannot open its script {found[1] or found[2]}",
        "check the path and the working directory (workingDir, or where `vcjob run` was called)",
    )


def known(suspect: Suspect) -> Verdict | None:
    text = suspect.traceback.text if suspect.traceback else suspect.reason
    for pattern, cause, what, hint in _KNOWN:
        if pattern.search(text):
            return Verdict(cause, f"{what}: {suspect.reason}", hint)
    return None


def any_exception(suspect: Suspect) -> Verdict | None:
    found = suspect.traceback
    if found is None:
        return None
    place = f" ({found.own_frame})" if found.own_frame else ""
    return Verdict(causes.EXCEPTION, f"raised {found.exception}{place}")
