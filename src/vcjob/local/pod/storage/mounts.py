"""Mounts that one process and its children see, and nobody else.

A target that does not exist is created in an overlay over its nearest existing parent, or, at the top of the tree, in a
new root that contains everything of the old one. Files of the machine are never changed, and the mounts vanish with the
last process that sees them. Errors are OSErrors that name the mount.

This file imports nothing of vcjob: a warm server loads it by its path, in an interpreter that may not have vcjob.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcjob.local.pod.launch import Mount

_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_MS_RDONLY = 1
_MS_REMOUNT = 32
_MS_BIND = 4096
_MS_REC = 16384
_MS_PRIVATE = 1 << 18
_MNT_DETACH = 2

#: A folder that every Linux has; in our own namespace it is covered temporarily, to build layers in it.
_SCRATCH = "/dev/shm"  # noqa: S108 - covered before anything is written there


libc = ctypes.CDLL(None, use_errno=True)


def checked(result: int, what: str) -> None:
    if result != 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")


def enter_mounts(mounts: Iterable[Mount]) -> None:
    """Move this process into a new mount namespace and mount everything there."""
    mounts = list(mounts)
    _private_namespace()
    # Opened before any overlay exists: a folder below an overlay would no longer be the shared one.
    sources = [os.open(mount.source, os.O_PATH) for mount in mounts]
    missing = {_first_missing(mount.target) for mount in mounts}
    at_top = sorted(path for path in missing if path and os.path.dirname(path) == "/")
    if at_top:
        _new_root(at_top)
    for mount, source in zip(mounts, sources):
        _make_target(mount)
        if mount.memory is None:
            _bind(f"/proc/self/fd/{source}", mount.target)
        else:
            _new_tmpfs(mount.target, mount.memory)
        os.close(source)
        if mount.read_only:
            flags = _MS_REMOUNT | _MS_BIND | _MS_RDONLY
            checked(
                libc.mount(None, os.fsencode(mount.target), None, flags, None), f"read-only {mount.target}"
            )


def _private_namespace() -> None:
    """A new mount namespace; for other users than root in a user namespace that maps the user to itself."""
    user, group = os.geteuid(), os.getegid()
    if user == 0:
        checked(libc.unshare(_CLONE_NEWNS), "mount namespace")
    else:
        checked(libc.unshare(_CLONE_NEWUSER | _CLONE_NEWNS), "user namespace")
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{user} {user} 1")
        _write("/proc/self/gid_map", f"{group} {group} 1")
    checked(libc.mount(b"none", b"/", None, _MS_REC | _MS_PRIVATE, None), "private mounts")


def _first_missing(target: str) -> str | None:
    """The topmost folder on the way to the target that does not exist."""
    if os.path.lexists(target):
        return None
    while not os.path.lexists(os.path.dirname(target)):
        target = os.path.dirname(target)
    return target


def _new_root(folders: list[str]) -> None:
    """A root with everything of the old one and these folders in addition."""
    covered = os.open(_SCRATCH, os.O_RDONLY | os.O_DIRECTORY)
    names = os.listdir("/")
    checked(libc.mount(b"vcjob", _SCRATCH.encode(), b"tmpfs", 0, b"mode=0755,size=1m"), "a new root")
    for name in names:
        old, new = f"/{name}", f"{_SCRATCH}/{name}"
        if os.path.islink(old):
            os.symlink(os.readlink(old), new)
        elif os.path.isdir(old):
            os.mkdir(new)
            _bind(old, new)
        else:
            os.close(os.open(new, os.O_CREAT | os.O_WRONLY, 0o644))
            _bind(old, new)
    # Not recursive: what covers it now is the new root itself.
    shown = f"/proc/self/fd/{covered}".encode()
    checked(libc.mount(shown, (_SCRATCH + _SCRATCH).encode(), None, _MS_BIND, None), _SCRATCH)
    os.close(covered)
    for folder in folders:
        os.mkdir(_SCRATCH + folder)
    os.chroot(_SCRATCH)
    os.chdir("/")


def _make_target(mount: Mount) -> None:
    folder = os.path.isdir(mount.source)
    if os.path.lexists(mount.target):
        return
    wanted = mount.target if folder else os.path.dirname(mount.target)
    existing = wanted
    while not os.path.isdir(existing):
        existing = os.path.dirname(existing)
    if not _is_ours(existing):
        _overlay(existing)
    os.makedirs(wanted, exist_ok=True)
    if not folder:
        os.close(os.open(mount.target, os.O_CREAT | os.O_WRONLY, 0o644))


def _is_ours(folder: str) -> bool:
    """Whether it is on our new root or overlay, so that a new entry changes nothing of the machine."""
    nearest, ours = "", False
    with open("/proc/self/mountinfo", errors="surrogateescape") as file:
        for line in file:
            place = line.split()[4]
            inside = folder == place or folder.startswith(place.rstrip("/") + "/")
            if inside and len(place) >= len(nearest):
                nearest, ours = place, " - overlay vcjob " in line or " - tmpfs vcjob " in line
    return ours


def _overlay(folder: str) -> None:
    """A writable layer over `folder`, kept in memory."""
    options = b"mode=0700,size=16m"
    checked(libc.mount(b"tmpfs", _SCRATCH.encode(), b"tmpfs", 0, options), "scratch for an overlay")
    try:
        upper, work = f"{_SCRATCH}/upper", f"{_SCRATCH}/work"
        os.mkdir(upper)
        os.mkdir(work)
        os.chmod(upper, os.stat(folder).st_mode & 0o7777)
        layers = os.fsencode(f"lowerdir={folder},upperdir={upper},workdir={work}")
        checked(libc.mount(b"vcjob", os.fsencode(folder), b"overlay", 0, layers), f"overlay over {folder}")
    finally:
        checked(libc.umount2(_SCRATCH.encode(), _MNT_DETACH), "scratch for an overlay")


def _new_tmpfs(target: str, size: int) -> None:
    options = f"mode=1777,size={size}" if size else "mode=1777"
    checked(libc.mount(b"tmpfs", os.fsencode(target), b"tmpfs", 0, options.encode()), f"tmpfs at {target}")


def _bind(source: str, target: str) -> None:
    flags = _MS_BIND | _MS_REC
    checked(libc.mount(os.fsencode(source), os.fsencode(target), None, flags, None), f"mount {target}")


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)
