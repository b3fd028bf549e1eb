"""The gallery: one small Job per failure, with the cause and the rank that must be named first.

No entry needs torch; those that do are in `test_torch_failures`.
"""

from __future__ import annotations

import sys
from typing import Any, NamedTuple

from tests.local.conftest import container, job, python, ranks, task

_MOUNT = [{"name": "data", "mountPath": "/data"}]
_READ_ONLY = [{"name": "data", "mountPath": "/data", "readOnly": True}]
_SIZE = "import os, time\nopen(os.environ.get('VCJOB_MOUNT_DATA', '/data') + '/x', 'wb').write(bytes(20 << 20))\ntime.sleep(600)"
_ATEXIT = """
import atexit, os, sys, time
if os.environ['RANK'] == '1':
    atexit.register(time.sleep, 3)
    raise ValueError('loss is NaN')
while not os.path.exists('raised'):
    time.sleep(0.05)
    if os.environ['RANK'] == '2':
        time.sleep(0.5)
        open('raised', 'w')
raise RuntimeError('[gloo/transport/tcp/pair.cc:534] Connection closed by peer [127.0.0.1]:1234')
"""
_SAME_ERROR = """
import atexit, os, pathlib, time
pathlib.Path('up' + os.environ['RANK']).touch()
while len(list(pathlib.Path('.').glob('up*'))) < 3:
    time.sleep(0.02)
atexit.register(time.sleep, 1)
{}['label']
"""
_MISSING_ON_ALL = """
import pathlib, os, time
pathlib.Path('up' + os.environ['RANK']).touch()
while len(list(pathlib.Path('.').glob('up*'))) < 3:
    time.sleep(0.02)
import atexit
atexit.register(time.sleep, 1)
import no_such_module
"""
#: The C library parses this pattern recursively.
STACK_OVERFLOW = """
import ctypes
ctypes.CDLL(None).regcomp(ctypes.create_string_buffer(4096), b'(' * 1000000, 1)
"""
_S3 = """
import os, socket, time
if os.environ['RANK'] == '1':
    try:
        socket.create_connection(('127.0.0.1', 1))
    except OSError as error:
        raise RuntimeError('s3: connection refused') from error
time.sleep(600)
"""
_PORT_IN_USE = """
import socket
held = socket.socket()
held.bind(('127.0.0.1', 0))
held.listen()
socket.socket().bind(held.getsockname())
"""
_FORBIDDEN = """
import os
open('secret', 'w')
os.chmod('secret', 0)
os.getuid() or os.seteuid(65534)
open(os.path.abspath('secret'))
"""
_OTHER_PORT = """
import os, socket, time
other = socket.socket()
other.bind(('127.0.0.1', 0))
other.listen()
time.sleep(600)
"""
_EATS = "x = []\nwhile True: x.append(bytearray(8 << 20))"
#: A forked process: any other, the default from Python 3.14 on, finds no `eat` in a program without a file.
_CHILD_EATS = """
import concurrent.futures, multiprocessing

def eat():
    x = []
    while True:
        x.append(bytearray(8 << 20))

with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("fork")) as pool:
    pool.submit(eat).result()
"""
_SIGNAL = "import os, signal\nos.kill(os.getpid(), signal.{})\nsignal.pause()"
_PREFIXED = """
import sys
sys.stderr.write('''[rank0]: Traceback (most recent call last):
[rank0]:   File "/train.py", line 9, in <module>
[rank0]:     step()
[rank0]: ValueError: bad batch
[rank0]: expected 4 columns
[rank0]: got 3
''')
sys.exit(1)
"""
_WAITING = {"pytorch": ["--wait-master-enabled=true", "--wait-master-timeout=1"]}


class Failure(NamedTuple):
    """A Job that fails, the expected cause, the ranks named first, and a part of the message."""

    name: str
    job: dict[str, Any]
    cause: str
    first: tuple[str, ...] = ("rank 0",)
    message: str = ""


def one(program: str, **fields: Any) -> dict[str, Any]:
    return job(task("master", python(program, **fields)))


def command(*words: str, **fields: Any) -> dict[str, Any]:
    return job(task("master", container(list(words), **fields)))


def volume(program: str, mounts: list[dict[str, Any]], source: dict[str, Any]) -> dict[str, Any]:
    return job(
        task("master", python(program, volumeMounts=mounts), volumes=[{"name": "data", "emptyDir": source}])
    )


FAILURES = [
    Failure("exception-and-slow-exit", job(*ranks(python(_ATEXIT))), "Exception", ("rank 1",), "loss is NaN"),
    Failure(
        "same-error-on-all",
        job(*ranks(python(_SAME_ERROR))),
        "Exception",
        (),
        "failed with the same error",
    ),
    Failure("own-network-error", job(*ranks(python(_S3))), "Exception", ("rank 1",), "s3: connection refused"),
    Failure("prefixed-multi-line-traceback", one(_PREFIXED), "Exception", message="ValueError: bad batch"),
    Failure("missing-module", one("import no_such_module"), "ModuleNotFound", message="no_such_module"),
    Failure(
        "missing-module-on-all",
        job(*ranks(python(_MISSING_ON_ALL))),
        "ModuleNotFound",
        (),
        "failed with the same error",
    ),
    Failure("missing-script", command(sys.executable, "train.py"), "FileNotFound", message="train.py"),
    Failure("missing-file", one("open('data/train.bin')"), "FileNotFound", message="data/train.bin"),
    Failure("wrong-working-dir", command(sys.executable, "plain.sh", workingDir="/usr"), "FileNotFound", message="/usr/plain.sh"),
    Failure(
        "missing-working-dir",
        command(sys.executable, "train.py", workingDir="/no/such/folder"),
        "FileNotFound",
        message="train.py",
    ),
    Failure("disk-full", one("open('/dev/full', 'w').write('x' * (1 << 20))"), "DiskFull"),
    Failure("forbidden-file", one(_FORBIDDEN), "PermissionDenied"),
    Failure("volume-too-small", volume(_SIZE, _MOUNT, {"sizeLimit": "1Mi"}), "Evicted", message="EmptyDir"),
    Failure("python-recursion", one("def f(): f()\nf()"), "Exception", message="RecursionError"),
    Failure(
        "no-memory",
        one("import resource\nresource.setrlimit(resource.RLIMIT_AS, (1 << 28,) * 2)\nbytearray(1 << 30)"),
        "HostOutOfMemory",
    ),
    Failure("segmentation-fault", one("import ctypes\nctypes.string_at(0)"), "SegmentationFault"),
    Failure("native-stack-overflow", one(STACK_OVERFLOW), "SegmentationFault", message="SIGSEGV"),
    Failure("abort", one("import os\nos.abort()"), "Aborted"),
    Failure("killed", one(_SIGNAL.format("SIGKILL")), "Killed", message="SIGKILL"),
    Failure("terminated-from-outside", one(_SIGNAL.format("SIGTERM")), "Killed", message="SIGTERM"),
    Failure("bus-error", one(_SIGNAL.format("SIGBUS")), "SegmentationFault", message="SIGBUS"),
    Failure("command-not-found", command("pyhton", "train.py"), "CommandNotFound", message="pyhton"),
    Failure("command-not-found-by-shell", command("sh", "-c", "pyhton train.py"), "CommandNotFound", message="pyhton"),
    Failure("command-is-one-word", command("python train.py"), "CommandIsOneWord"),
    Failure("not-executable", command("./plain.sh"), "CommandNotExecutable"),
    Failure("missing-interpreter", command("./shebang.sh"), "CommandNotFound", message="interpreter"),
    Failure("port-in-use", one(_PORT_IN_USE), "PortInUse"),
    Failure(
        "host-does-not-resolve",
        one("import socket\nsocket.create_connection(('hub.invalid', 1))"),
        "HostNotResolved",
    ),
    Failure(
        "master-never-listens",
        job(task("master", "sleep 600"), task("worker", "true"), plugins=_WAITING),
        "MasterNotListening",
        ("rank 1",),
    ),
    Failure(
        "master-listens-on-another-port",
        job(task("master", python(_OTHER_PORT)), task("worker", "true"), plugins=_WAITING),
        "MasterNotListening",
        ("rank 1",),
    ),
    Failure("deadline", job(task("master", "sleep 600"), activeDeadlineSeconds=1), "ActiveDeadlineExceeded", ()),
    Failure(
        "liveness-probe",
        command(
            "sleep",
            "600",
            livenessProbe={"exec": {"command": ["false"]}, "periodSeconds": 1, "failureThreshold": 1},
        ),
        "ProbeFailed",
    ),
    Failure(
        "missing-config-map",
        job(task("master", "true", volumes=[{"name": "data", "configMap": {"name": "settings"}}])),
        "ContainerConfig",
        message="settings",
    ),
    Failure(
        "missing-secret",
        job(task("master", "true", volumes=[{"name": "data", "secret": {"secretName": "token"}}])),
        "ContainerConfig",
        message="token",
    ),
    Failure(
        "missing-secret-of-a-variable",
        command("true", env=[{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "token", "key": "hub"}}}]),
        "ContainerConfig",
        message="token",
    ),
    Failure(
        "init-container-fails",
        job(task("master", "true", initContainers=[container("echo 'no dataset' >&2; exit 4", "fetch")])),
        "NonZeroExit",
        message="in container fetch: no dataset",
    ),
    Failure("exit-code-with-a-last-line", command("sh", "-c", "echo gave up; exit 3"), "NonZeroExit", message="gave up"),
    Failure("silent-exit-code", command("sh", "-c", "exit 3"), "NonZeroExit", message="printed nothing"),
    Failure(
        "keeps-crashing",
        job(task("master", python("1/0"), restartPolicy="OnFailure", maxRetry=1)),
        "Exception",
        message="ZeroDivisionError",
    ),
    Failure(
        "completed-while-ranks-run",
        job(
            task("master", "sleep 0.3", policies=[{"event": "TaskCompleted", "action": "CompleteJob"}]),
            task("worker", "sleep 600", replicas=2),
        ),
        "RanksStopped",
        ("rank 1", "rank 2"),
        "2 ranks were still running",
    ),
]  # fmt: skip

#: Need a kernel and a user that may mount or create cgroups; skipped where the backend says that it cannot.
FAILURES_THAT_NEED_RIGHTS = [
    Failure("read-only-file-system", volume("open('/data/x', 'w')", _READ_ONLY, {}), "ReadOnlyFileSystem"),
    Failure(
        "memory-limit",
        one(_EATS, resources={"limits": {"memory": "64Mi"}}),
        "OutOfMemory",
        message="used more memory than its limit of 64Mi",
    ),
    Failure(
        "memory-limit-kills-a-child",
        one(_CHILD_EATS, resources={"limits": {"memory": "64Mi"}}),
        "OutOfMemory",
        message="lost a process that was killed: together they used more memory than the limit of 64Mi",
    ),
]


def on_rank_1(program: str) -> dict[str, Any]:
    """The program on rank 1; the others sleep."""
    return job(*ranks(python(f"import os, time\nif os.environ['RANK'] != '1': time.sleep(600)\n{program}")))


#: Run where vcjob as a whole has little memory and no pod has a limit.
FAILURES_OF_A_SMALL_MACHINE = [
    Failure(
        "host-out-of-memory", on_rank_1(_EATS), "HostOutOfMemory", ("rank 1",), "was killed by the kernel: the cgroup "
    ),
    Failure(
        "host-out-of-memory-kills-a-child",
        on_rank_1(_CHILD_EATS),
        "HostOutOfMemory",
        ("rank 1",),
        "lost a process that the kernel killed: the cgroup ",
    ),
]  # fmt: skip
