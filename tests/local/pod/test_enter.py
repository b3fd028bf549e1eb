"""A command enters the namespaces of a rank also for a user who is not root."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import ctypes, os, sys
from vcjob.errors import BackendError
from vcjob.local.pod.storage import mounts
from vcjob.local.pod.enter import run_in_container
from vcjob.report.podstate import ContainerState, PodState

if os.geteuid() == 0:
    try:
        os.setgid(12345)
        os.setuid(12345)
    except PermissionError:
        print("becoming another user needs root with CAP_SETUID")
        raise SystemExit(77)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)  # PR_SET_DUMPABLE: /proc/PID is ours again
reader, writer = os.pipe()
rank = os.fork()
if rank == 0:
    try:
        mounts._private_namespace()
    except OSError as error:
        os.write(writer, f"no namespaces: {error}".encode())
        os._exit(0)
    os.chdir("/usr")
    os.set_inheritable(writer, True)
    environment = {"VCJOB_POD_UID": "uid", "RANK": "1", "PATH": f"{sys.argv[2]}:/usr/bin:/bin"}
    os.execve("/bin/sh", ["sh", "-c", f"echo up >&{writer}; exec sleep 600"], environment)
os.close(writer)
answer = os.read(reader, 200).decode()
if answer != "up\\n":
    print(answer)
    raise SystemExit(77)
with open(f"/proc/{rank}/stat") as file:
    started = int(file.read().rsplit(")", 1)[1].split()[19])
pod = PodState(task="a", index=0, name="pod", uid="uid")
container = ContainerState(name="main", role="main", pid=rank, pid_start=started)
script = f"echo $RANK $PWD; [ $(readlink /proc/self/ns/mnt) = $(readlink /proc/{rank}/ns/mnt) ] && exit 5"
try:
    code = run_in_container(pod, container, ["no-such-command"] if sys.argv[1] == "unknown" else ["sh", "-c", script])
except BackendError as error:
    print(error)
    code = 3
os.kill(rank, 9)
raise SystemExit(code)
"""


def run(which: str, folder: str) -> tuple[int, str, str]:
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, which, folder],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    if ran.returncode == 77:
        pytest.skip(ran.stdout.strip())
    return ran.returncode, ran.stdout, ran.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_a_user_who_is_not_root_enters_the_namespaces_of_a_rank() -> None:
    assert run("known", "/bin") == (5, "1 /usr\n", "")


@pytest.mark.skipif(sys.platform != "linux", reason="namespaces are Linux's")
def test_an_unknown_command_is_not_found_even_if_a_folder_on_the_path_may_not_be_read(tmp_path: Path) -> None:
    (tmp_path / "private").mkdir(mode=0o000)
    message = "command 'no-such-command': not found in pod\n"
    assert run("unknown", str(tmp_path / "private")) == (3, message, "")
