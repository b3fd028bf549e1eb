"""Holds one testbed's namespaces for as long as their owner lives, and takes everything down after.

``python keeper.py FOLDER OWNER_PID`` (0: no owner, the testbed stays until a request to end). Standard library only. It stands
in a session of its own, so Ctrl-C in the owner's terminal does not reach it, and watches the owner by a pidfd, so a kill -9 of
the owner does. If the keeper itself is killed, the parent-death signal takes pid 1 and with it the whole namespace; the
control groups and the folder then wait for the sweep of the next start.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import select
import signal
import subprocess
import sys
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CGROUP_PREFIX = "vcjob-testbed-"
LINK_PREFIX = "vjtb"
LOCK_FILE = "keeper.lock"
READY_FILE = "ready.json"
TIED_TO_PARENT = "setpriv --pdeathsig KILL --".split()
IN_NAMESPACES = (
    "unshare --net --mount --pid --fork --kill-child --mount-proc --propagation private --".split()
)


def cgroup_folders(identity: str) -> list[Path]:
    """The testbed's control group: one folder on version 2, one per controller on version 1."""
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        return [root / f"{CGROUP_PREFIX}{identity}"]
    return [
        controller / f"{CGROUP_PREFIX}{identity}"
        for controller in sorted(root.iterdir())
        if (controller / "cgroup.procs").exists() and not controller.is_symlink()
    ]


def make_cgroups(identity: str) -> None:
    for folder in cgroup_folders(identity):
        folder.mkdir(exist_ok=True)
        for file in ("cpuset.cpus", "cpuset.mems"):  # empty in a new group, and then no process may enter
            if (folder / file).exists() and (folder.parent / file).exists():
                (folder / file).write_text((folder.parent / file).read_text())


def remove_cgroups(identity: str, patience: float = 10) -> None:
    until = time.monotonic() + patience
    for top in cgroup_folders(identity):
        while top.exists():
            for folder in sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True):
                _try_rmdir(folder)
            _try_rmdir(top)
            if not top.exists() or time.monotonic() > until:
                break
            time.sleep(0.02)  # the kernel frees a group shortly after its last process


def _try_rmdir(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        pass


def remove_folder(folder: Path) -> None:
    for _ in range(50):
        subprocess.run(["rm", "-rf", "--one-file-system", str(folder)], stderr=subprocess.DEVNULL)
        if not folder.exists():
            return
        time.sleep(0.1)


def _child_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
    except (OSError, IndexError):
        return None


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True)


def connect_to_host(identity: str, pid: int) -> tuple[str, str]:
    """A virtual cable between the machine and the namespace, in the address block set aside for benchmarks.

    The kernel removes both ends with the namespace. There is no route beyond the machine: nothing inside can reach out.
    """
    taken = subprocess.run(["ip", "-4", "-o", "addr"], check=True, capture_output=True, text=True).stdout
    while True:
        third, fourth = random.randrange(256), random.randrange(64) * 4
        net = f"198.18.{third}"
        if f"{net}.{fourth + 1}/" not in taken:
            break
    host, inside = f"{net}.{fourth + 1}", f"{net}.{fourth + 2}"
    link = f"{LINK_PREFIX}{identity}"
    _ip("link", "add", link, "type", "veth", "peer", "name", "host0", "netns", str(pid))
    _ip("addr", "add", f"{host}/30", "dev", link)
    _ip("link", "set", link, "up")
    enter = ["nsenter", f"--net=/proc/{pid}/ns/net", "ip"]
    subprocess.run([*enter, "addr", "add", f"{inside}/30", "dev", "host0"], check=True)
    subprocess.run([*enter, "link", "set", "host0", "up"], check=True)
    return host, inside


def main(folder: Path, owner: int) -> int:
    lock = (folder / LOCK_FILE).open("w")
    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    lock.write(str(os.getpid()))
    lock.flush()
    ended_read, ended_write = os.pipe()
    os.set_blocking(ended_write, False)
    signal.set_wakeup_fd(ended_write)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        signal.signal(number, lambda *_: None)
    waiting = [ended_read]
    if owner:
        waiting.append(os.pidfd_open(owner))

    identity = folder.name
    make_cgroups(identity)
    namespace = subprocess.Popen(
        [*TIED_TO_PARENT, *IN_NAMESPACES, sys.executable, "-I", "-S", str(HERE / "pid1.py"), str(folder)],
        stdin=subprocess.DEVNULL,
    )
    try:
        if _wait_for_pid1(namespace, folder):
            pid = _child_of(namespace.pid)
            assert pid is not None
            host, inside = connect_to_host(identity, pid)
            ready = {
                "keeper": os.getpid(),
                "pid1": pid,
                "host_address": host,
                "address": inside,
                "owner": owner,
            }
            (folder / f".{READY_FILE}").write_text(json.dumps(ready))
            (folder / f".{READY_FILE}").rename(folder / READY_FILE)
            while namespace.poll() is None:
                readable, _, _ = select.select(waiting, [], [])
                if len(readable) > 1 or readable[0] != ended_read:
                    break
                if set(os.read(ended_read, 64)) & {signal.SIGTERM, signal.SIGINT, signal.SIGHUP}:
                    break
    finally:
        pid = _child_of(namespace.pid)
        if pid:
            os.kill(pid, signal.SIGKILL)
        try:
            namespace.wait(
                timeout=20
            )  # returns once every process inside is gone, for pid 1 is the last to go
        except subprocess.TimeoutExpired:
            namespace.kill()
        remove_cgroups(identity)
        if (folder / READY_FILE).exists():  # else the folder holds the only account of what went wrong
            remove_folder(folder)
    return 0


def _wait_for_pid1(namespace: subprocess.Popen[bytes], folder: Path) -> bool:
    until = time.monotonic() + 20
    while time.monotonic() < until and namespace.poll() is None:
        if (folder / "control.sock").exists():
            return True
        time.sleep(0.01)
    return False


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), int(sys.argv[2])))
