"""The few system calls that Python does not offer, with an honest answer where they do not exist.

Everything here is used between fork and exec or in long-lived small processes, so it loads the C library
once, at import, and allocates little. On macOS the guards that need Linux are simply absent.
"""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import threading
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcjob.local.launch import Mount

LINUX = sys.platform == "linux"

_PR_SET_PDEATHSIG = 1
_PR_SET_NAME = 15
_PR_SET_CHILD_SUBREAPER = 36
_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY = 1
_MS_REMOUNT = 32
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18

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
    reading, writing = os.pipe()

    def watch() -> None:
        try:
            os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        except ChildProcessError:
            pass
        os.close(writing)

    threading.Thread(target=watch, daemon=True).start()
    return reading


def enter_mounts(mounts: Iterable[Mount]) -> None:
    """Move this process into a mount namespace of its own and put the mounts there.

    A target that does not exist gets its folder in an overlay over the nearest folder that does: the
    machine's own files are never touched.
    """
    private_mounts()
    for mount in mounts:
        _make_target(mount)
        _bind(mount.source, mount.target)
        if mount.read_only:
            _checked(
                _libc.mount(None, mount.target.encode(), None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY, None),
                f"read-only {mount.target}",
            )


def private_mounts() -> None:
    """A mount namespace of our own; in a user namespace that maps us to ourselves where we are not root."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        _checked(_libc.unshare(_CLONE_NEWNS), "mount namespace")
    else:
        _checked(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "user namespace")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    _checked(_libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "private mounts")


def _make_target(mount: Mount) -> None:
    folder = os.path.isdir(mount.source)
    if os.path.lexists(mount.target):
        return
    wanted = mount.target if folder else os.path.dirname(mount.target)
    existing = wanted
    while not os.path.isdir(existing):
        existing = os.path.dirname(existing)
    if existing == "/":
        raise OSError(30, f"{mount.target}: the folder does not exist and the root folder is not changed")
    if existing != wanted or not folder:
        _overlay(existing)
    os.makedirs(wanted, exist_ok=True)
    if not folder:
        os.close(os.open(mount.target, os.O_CREAT | os.O_WRONLY, 0o644))


def _overlay(folder: str) -> None:
    """A writable layer over `folder`, kept in memory and seen by this process and its children alone."""
    scratch = b"/dev/shm"  # mounted over, in our own namespace: nothing is shared
    _checked(_libc.mount(b"tmpfs", scratch, b"tmpfs", 0, b"mode=0700,size=16m"), "scratch for an overlay")
    try:
        upper, work = "/dev/shm/upper", "/dev/shm/work"  # noqa: S108
        os.mkdir(upper)
        os.mkdir(work)
        options = f"lowerdir={folder},upperdir={upper},workdir={work}".encode()
        _checked(_libc.mount(b"overlay", folder.encode(), b"overlay", 0, options), f"overlay over {folder}")
    finally:
        _checked(_libc.umount2(scratch, 2), "scratch for an overlay")


def _bind(source: str, target: str) -> None:
    _checked(_libc.mount(source.encode(), target.encode(), None, _MS_BIND | _MS_REC, None), f"mount {target}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
