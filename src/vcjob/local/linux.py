"""The few system calls that Python does not offer, with an honest answer where they do not exist.

Everything here is used between fork and exec or in long-lived small processes, so it loads the C library
once, at import, and allocates little. On macOS the guards that need Linux are simply absent.
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

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def become_subreaper() -> None:
    """Orphans among our descendants become our children, so that none can slip away."""
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


def end_descriptor(pid: int) -> int:
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
