"""The gallery of a cluster, second part: programs that fail by themselves, or that cannot be started."""

from __future__ import annotations

from tests.diagnosis.gallery.failures import STACK_OVERFLOW
from tests.testbed.images.catalog import GUIDE

from .failures import Failure, Object, container, job, one, pod, python, ranks, task, waits_for_master

_MISSING_ON_ALL = """
import atexit, time
# Both fail at the same time, and none of them is gone before the other has failed.
atexit.register(time.sleep, 3)
import no_such_module
"""
_PORT_IN_USE = """
import socket
held = socket.create_server(('', 0))
socket.create_server(held.getsockname())
"""
_OTHER_PORT = """
import os, socket
socket.create_server(('', int(os.environ['MASTER_PORT']) + 1)).accept()
"""
_FILLS_THE_DISK = "open('/data/checkpoint', 'wb').write(bytes(4 << 20))"
_MOUNT = [{"name": "data", "mountPath": "/data"}]
_KILLER = "until killall -KILL python3; do sleep 0.2; done"
_SCRIPT = "printf '#!/no/such/interpreter\\n' > /data/train.sh"


def on_volume(each: Object, **volume: object) -> Object:
    """A pod with an emptyDir at /data."""
    each["volumeMounts"] = _MOUNT
    return pod(each, volumes=[{"name": "data", "emptyDir": volume}])


def killed_from_outside() -> Object:
    """Another container of the pod sends the signal; a process cannot kill the first one of its own container."""
    killer = {**container(_KILLER), "name": "killer"}
    return job(task("master", python("import time\ntime.sleep(600)"), killer, shareProcessNamespace=True))


def script(mode: str) -> Object:
    """A script of this mode whose interpreter does not exist."""
    writes = {**container(f"{_SCRIPT}; chmod {mode} /data/train.sh", volumeMounts=_MOUNT), "name": "write"}
    runs = container(["/data/train.sh"], volumeMounts=_MOUNT)
    return pod(runs, initContainers=[writes], volumes=[{"name": "data", "emptyDir": {}}])


def _first(name: str, job: Object, cause: str, message: str = "") -> Failure:
    return Failure(name, job, cause, ("rank 0",), message)


PROGRAMS = [
    Failure("import-error-on-all", ranks(python(_MISSING_ON_ALL)), "ModuleNotFound", (), "cannot import no_such_module"),
    _first("port-in-use", pod(python(_PORT_IN_USE)), "PortInUse", "Address already in use"),
    Failure(
        "master-listens-on-another-port",
        waits_for_master(python(_OTHER_PORT)),
        "MasterNotListening",
        ("rank 1",),
        "and nothing listened there",
    ),
    _first("killed-from-outside", killed_from_outside(), "Killed", "SIGKILL"),
    _first("segmentation-fault", pod(python("import ctypes\nctypes.string_at(0)")), "SegmentationFault", "SIGSEGV"),
    _first("stack-overflow", pod(python(STACK_OVERFLOW)), "SegmentationFault", "SIGSEGV"),
    _first(
        "disk-full",
        on_volume(python(_FILLS_THE_DISK), medium="Memory", sizeLimit="1Mi"),
        "DiskFull",
        "No space left on device",
    ),
    _first(
        "read-only-file-system",
        pod({**python("open('/x', 'w')"), "securityContext": {"readOnlyRootFilesystem": True}}),
        "ReadOnlyFileSystem",
        "Read-only file system: '/x'",
    ),
    _first("missing-file", pod(python("open('data/train.bin')")), "FileNotFound", "data/train.bin"),
    _first(
        "wrong-working-directory",
        one(["python3", "train.py"], image=GUIDE, workingDir="/no/such/folder"),
        "FileNotFound",
        "cannot open its script /no/such/folder/train.py",
    ),
    _first("not-executable", script("644"), "CommandNotExecutable", "/data/train.sh is not executable"),
    _first("missing-interpreter", script("755"), "CommandNotFound", "interpreter"),
]  # fmt: skip
