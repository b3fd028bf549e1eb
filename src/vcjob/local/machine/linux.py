"""System calls that Python does not offer.

They are used between fork and exec and in small long-lived processes, so the C library is loaded once, at import.
On macOS those that need Linux do nothing.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys

LINUX = sys.platform == "linux"

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36

_SCHED_RESET_ON_FORK = 1
#: sched_setattr, and its counterpart to read, by the machine's name.
SCHED_CALLS = {"x86_64": (314, 315), "aarch64": (274, 275)}
_LONG_TURN_NS = 100_000_000
#: Numbers of system calls on all machines.
_PIDFD_SEND_SIGNAL, _PIDFD_OPEN = 424, 434

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def become_subreaper() -> None:
    """Orphans among our descendants become our children, so that none can escape."""
    if LINUX:
        _checked(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "subreaper")


def die_with_parent(number: int, parent: int) -> None:
    """Have the kernel send us `number` when our parent ends; end now if it already has."""
    if LINUX:
        _checked(_libc.prctl(_PR_SET_PDEATHSIG, int(number), 0, 0, 0), "parent-death signal")
    if os.getppid() != parent:
        os.kill(os.getpid(), signal.SIGKILL)


def set_process_name(name: str) -> None:
    """The short name that `ps` and `top` show."""
    if LINUX:
        _libc.prctl(_PR_SET_NAME, ctypes.create_string_buffer(name.encode()[:15]), 0, 0, 0)


class _SchedAttributes(ctypes.Structure):
    _fields_ = (
        ("size", ctypes.c_uint32),
        ("policy", ctypes.c_uint32),
        ("flags", ctypes.c_uint64),
        ("nice", ctypes.c_int32),
        ("priority", ctypes.c_uint32),
        ("runtime", ctypes.c_uint64),
        ("deadline", ctypes.c_uint64),
        ("period", ctypes.c_uint64),
    )


def request_long_time_slices() -> None:
    """Request longer time slices for this thread. If more ranks start than there are cores, they otherwise alternate
    every few milliseconds, each time with cold caches. Kernels before 6.12 ignore it."""
    call = SCHED_CALLS.get(os.uname().machine) if LINUX else None
    policy = os.sched_getscheduler(0) if LINUX else 0
    if call is not None and policy in (os.SCHED_OTHER, os.SCHED_BATCH, os.SCHED_IDLE):
        wanted = _SchedAttributes(
            size=ctypes.sizeof(_SchedAttributes),
            policy=policy,
            flags=_SCHED_RESET_ON_FORK,
            nice=os.getpriority(os.PRIO_PROCESS, 0),
            runtime=_LONG_TURN_NS,
        )
        _libc.syscall(call[0], 0, ctypes.byref(wanted), 0)


def process_descriptor(pid: int) -> int:
    """A descriptor of any process, which stays that of this one when its pid is reused; readable once it has ended.

    OSError where it does not exist. `os.pidfd_open` is missing in a Python that was built for older systems, as uv and
    conda install it.
    """
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    descriptor: int = _libc.syscall(_PIDFD_OPEN, pid, 0)
    _checked(min(descriptor, 0), f"process {pid}")
    return descriptor


def kill_process(descriptor: int) -> None:
    """Kill the process of a descriptor; OSError where it has been reaped."""
    if hasattr(signal, "pidfd_send_signal"):
        signal.pidfd_send_signal(descriptor, signal.SIGKILL)
    else:
        _checked(_libc.syscall(_PIDFD_SEND_SIGNAL, descriptor, int(signal.SIGKILL), None, 0), "kill")


def exit_descriptor(pid: int) -> int:
    """A descriptor that becomes readable when our child `pid` has ended."""
    if hasattr(os, "pidfd_open"):
        return os.pidfd_open(pid)
    import threading

    reading, writing = os.pipe()

    def watch() -> None:
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            pass
        os.close(writing)

    threading.Thread(target=watch, daemon=True).start()
    return reading
