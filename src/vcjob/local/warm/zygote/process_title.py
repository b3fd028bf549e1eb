"""Sets the command line and the environment that other processes see of a rank (ps, /proc/PID/environ).

Both are memory of the process; prctl(PR_SET_MM) gives the kernel their new addresses. Called once per rank.
"""

from __future__ import annotations

import ctypes
import os

_PR_SET_NAME = 15
_PR_SET_MM = 35
_PR_SET_MM_MAP = 14


class _Map(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_uint64) for name in (
            "start_code", "end_code", "start_data", "end_data", "start_brk", "brk", "start_stack",
            "arg_start", "arg_end", "env_start", "env_end", "auxv",
        )),
        ("auxv_size", ctypes.c_uint32),
        ("exe_fd", ctypes.c_uint32),
    ]  # fmt: skip


def show(argv: list[str], env: dict[str, str], name: str) -> bool:
    """Show these to others; False where the kernel does not let us (then they see the zygote's)."""
    arguments = b"".join(os.fsencode(word) + b"\0" for word in argv)
    variables = b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in env.items())
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(_PR_SET_NAME, ctypes.create_string_buffer(os.fsencode(name)[:15]), 0, 0, 0)
    libc.malloc.restype = libc.sbrk.restype = ctypes.c_void_p
    size = len(arguments) + len(variables)
    start = libc.malloc(ctypes.c_size_t(size))  # never given back: it is the title as long as we live
    if not start:
        return False
    ctypes.memmove(start, arguments + variables, size)
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rsplit(b")", 1)[1].split()

    def field(number: int) -> int:  # as numbered in proc(5), from the third on
        return int(fields[number - 3])

    middle, end = start + len(arguments), start + size
    wanted = _Map(
        field(26), field(27), field(45), field(46), field(47), libc.sbrk(0), field(28),
        start, middle, middle, end, 0, 0, 0xFFFFFFFF,
    )  # fmt: skip
    answer = libc.prctl(
        _PR_SET_MM, _PR_SET_MM_MAP, ctypes.byref(wanted), ctypes.c_size_t(ctypes.sizeof(wanted)), 0
    )
    return int(answer) == 0
