"""The gallery of a cluster: one small Job per failure, with the cause and the rank that must be named first.

Pods run on the real node of the testbed unless their Job says otherwise; a fake node (kwok) takes the pods whose
failure the scheduler or the control plane produces. All Jobs run at the same time, in one namespace per kind of rule.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from tests.testbed.images.catalog import ASH, GUIDE
from tests.testbed.parts.fake_nodes import MARK

Object = dict[str, Any]

#: Namespaces: without rules, with a ResourceQuota, with the restricted pod security level, without traffic to pods.
PLAIN, QUOTA, RESTRICTED, ISOLATED = "plain", "quota", "restricted", "isolated"
#: Fake nodes: one that keeps its taint, one that is lost while pods run on it.
TAINTED_NODE, LOST_NODE = "tainted", "lost"

_TOLERATED: Object = {"tolerations": [{"key": MARK, "operator": "Exists"}]}
_ON_TAINTED: Object = {**_TOLERATED, "nodeSelector": {"kubernetes.io/hostname": f"{TAINTED_NODE}-0"}}
_UNREACHABLE = {
    "key": "node.kubernetes.io/unreachable",
    "operator": "Exists",
    "effect": "NoExecute",
    "tolerationSeconds": 1,
}
_RAISES = """
import os, time
if os.environ['RANK'] == '1':
    raise ValueError('loss is NaN')
time.sleep(600)
"""
#: Wait until rank 1 ends the connection.
_CONNECT = """\
while True:
    try:
        peer = socket.create_connection((os.environ['MASTER_ADDR'].replace('master-0', 'worker-0'), port))
        break
    except OSError:
        time.sleep(0.2)
peer.recv(1)
"""
#: Rank 1 raises and is slow to exit; its peers lose their connection to it and end before it.
_RAISES_AND_EXITS_SLOWLY = f"""
import atexit, os, socket, time
rank, port = int(os.environ['RANK']), int(os.environ['MASTER_PORT'])
if rank == 1:
    peer = socket.create_server(('', port)).accept()[0]
    atexit.register(time.sleep, 20)
    peer.close()
    raise ValueError('loss is NaN')
{_CONNECT}time.sleep(1)
raise RuntimeError('[gloo/transport/tcp/pair.cc:534] Connection closed by peer')
"""
_EXITS_EARLY = f"""
import os, socket, sys, time
rank, port = int(os.environ['RANK']), int(os.environ['MASTER_PORT'])
if rank == 1:
    socket.create_server(('', port)).accept()
    sys.exit(0)
{_CONNECT}time.sleep(8)  # a busy kubelet reports the end of the other rank seconds later
raise RuntimeError('[gloo/transport/tcp/pair.cc:534] Connection closed by peer')
"""
#: A policy is enforced some time after a pod has its address; until then a connection would succeed.
_LISTENS_LATE = "import os, socket, time\ntime.sleep(20)\nsocket.create_server(('', int(os.environ['MASTER_PORT']))).accept()"
#: Long enough for the master's pod to have an address on a busy node: before that its name does not resolve.
_WAIT = ["--wait-master-enabled=true", "--wait-master-timeout=60"]


class Failure(NamedTuple):
    """A Job that fails or stays pending; `on_job` is a part of the Job's message, or of an event on the Job."""

    name: str
    job: Object
    cause: str
    first: tuple[str, ...] = ()
    message: str = ""
    on_job: str = ""
    namespace: str = PLAIN
    #: What is done to the first pod of this task once it runs: "evict" or "lose-node".
    then: tuple[str, str] | None = None


def container(command: str | list[str], **fields: Any) -> Object:
    words = ["sh", "-c", command] if isinstance(command, str) else command
    return {"name": "main", "image": "busybox:1.36.1", "command": words, **fields}


def python(program: str) -> Object:
    return container(["python3", "-c", program], image=GUIDE)


def task(name: str, *containers: Object, replicas: int = 1, **pod: Any) -> Object:
    spec = {
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 1,
        "containers": list(containers),
        **pod,
    }
    return {"name": name, "replicas": replicas, "template": {"spec": spec}}


def job(*tasks: Object, **spec: Any) -> Object:
    spec.setdefault("schedulerName", "default-scheduler")
    if any(each["name"] == "master" for each in tasks):
        spec.setdefault("plugins", {"pytorch": []})
    return {"spec": {"tasks": list(tasks), **spec}}


def one(command: str | list[str], **fields: Any) -> Object:
    return job(task("master", container(command, **fields)))


def requests(**amounts: str) -> Object:
    return {"requests": amounts, "limits": amounts}


def ranks(each: Object, workers: int = 1) -> Object:
    return job(task("master", each), task("worker", each, replicas=workers))


def pod(each: Object, **fields: Any) -> Object:
    return job(task("master", each, **fields))


SLEEP = container("sleep 600")
#: Jobs without a problem: the phase that each reaches. They run next to the failing ones and must have no finding.
HEALTHY = {
    "waits": (ranks(container("sleep 600")), "Running"),
    "slow-start": (job(task("master", SLEEP, initContainers=[{**SLEEP, "name": "fetch"}])), "Pending"),
    "completes": (ranks(container("echo Warning: connection refused, retrying; sleep 1")), "Completed"),
    "retries": (
        job(task("master", container("[ -e /d/x ] && exit 0; touch /d/x; exit 3", volumeMounts=[
            {"name": "d", "mountPath": "/d"}]), restartPolicy="OnFailure", volumes=[{"name": "d", "emptyDir": {}}])),
        "Completed",
    ),
}  # fmt: skip
_MOUNT = [{"name": "data", "mountPath": "/data"}]


def waits_for_master(master: Object) -> Object:
    return job(task("master", master), task("worker", SLEEP), plugins={"pytorch": _WAIT})


def with_claim(name: str) -> Object:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
    return pod(container("true", volumeMounts=_MOUNT), volumes=volumes)


FAILURES = [
    Failure("image", one("true", image="nowhere.invalid/none:1"), "ImagePull", message="nowhere.invalid/none:1"),
    Failure("command", one(["pyhton", "train.py"]), "CommandNotFound", ("rank 0",), "pyhton"),
    Failure("command-is-one-word", one(["python train.py"]), "CommandIsOneWord", ("rank 0",)),
    Failure("cpu", one("true", resources=requests(cpu="900")), "Unschedulable", message="Insufficient cpu"),
    Failure(
        "gpu",
        one("true", resources=requests(**{"nvidia.com/gpu": "8"})),
        "Unschedulable",
        message="Insufficient nvidia.com/gpu",
    ),
    Failure("selector", pod(SLEEP, nodeSelector={"disk": "ssd"}), "Unschedulable", message="selector"),
    Failure(
        "taint",
        pod(SLEEP, nodeSelector={"kubernetes.io/hostname": f"{TAINTED_NODE}-0"}),
        "Unschedulable",
        message="untolerated taint",
    ),
    Failure("quota", one("true"), "QuotaExceeded", message="exceeded quota: few", namespace=QUOTA),
    Failure(
        "config-map",
        one("true", envFrom=[{"configMapRef": {"name": "settings"}}]),
        "ContainerConfig",
        message='configmap "settings" not found',
    ),
    Failure(
        "secret",
        pod(container("true", volumeMounts=_MOUNT), volumes=[{"name": "data", "secret": {"secretName": "token"}}]),
        "Volume",
        message='secret "token" not found',
    ),
    Failure("claim-not-bound", with_claim("unbound"), "Volume", message="unbound immediate PersistentVolumeClaims"),
    Failure("claim-missing", with_claim("absent"), "Volume", message='persistentvolumeclaim "absent" not found'),
    Failure("pod-security", one("true"), "PodSecurity", message="violates PodSecurity", namespace=RESTRICTED),
    Failure(
        "scheduler",
        job(task("master", SLEEP), schedulerName="no-such-scheduler"),
        "NoSuchScheduler",
        message="no-such-scheduler",
    ),
    Failure(
        "gang",
        job(
            task("master", container("true", resources=requests(cpu="12")), **_ON_TAINTED),
            task("worker", container("true", resources=requests(cpu="12")), replicas=2, **_ON_TAINTED),
            schedulerName="volcano",
        ),
        "Unschedulable",
        message="Insufficient cpu",
    ),
    Failure(
        "eviction",
        {"spec": {**ranks(SLEEP)["spec"], "policies": [{"event": "PodEvicted", "action": "TerminateJob"}]}},
        "Evicted",
        ("rank 1",),
        on_job="rank 1 (worker-0) was evicted: Eviction API: evicting",
        then=("evict", "worker"),
    ),
    Failure(
        "node-lost",
        job(
            task("master", SLEEP),
            task(
                "worker",
                SLEEP,
                nodeSelector={"kubernetes.io/hostname": f"{LOST_NODE}-0"},
                tolerations=[*_TOLERATED["tolerations"], _UNREACHABLE],
            ),
        ),
        "NodeLost",
        ("rank 1",),
        f"{LOST_NODE}-0",
        "node-lost-worker-0: its node lost-0 does not respond",
        then=("lose-node", "worker"),
    ),
    Failure(
        "network-policy",
        job(
            task("master", python(_LISTENS_LATE)),
            task("worker", SLEEP),
            plugins={"pytorch": _WAIT, "svc": ["--disable-network-policy=true"]},
        ),
        "MasterUnreachable",
        ("rank 1",),
        namespace=ISOLATED,
    ),
    Failure(
        "no-probe",
        job(
            task("master", SLEEP),
            task("worker", SLEEP),
            plugins={"pytorch": [*_WAIT, f"--wait-master-image={ASH}"]},
        ),
        "NoProbeTool",
        ("rank 1",),
    ),
    Failure(
        "memory-limit",
        one("x=$(head -c 300m /dev/zero | tr '\\0' x)", resources=requests(memory="48Mi")),
        "OutOfMemory",
        ("rank 0",),
        "limit of 48Mi",
        "more memory than its limit",
    ),
    Failure("exception", ranks(python(_RAISES), 2), "Exception", ("rank 1",), "ValueError: loss is NaN", "exited with code 1; ValueError: loss is NaN"),
    Failure(
        "exception-and-slow-exit",
        ranks(python(_RAISES_AND_EXITS_SLOWLY)),
        "Exception",
        ("rank 1",),
        "ValueError: loss is NaN",
    ),
    Failure("exit-code", one("echo gave up; exit 3"), "NonZeroExit", ("rank 0",), "exit code 3: gave up", "exited with code 3; gave up"),
    Failure("exits-early", ranks(python(_EXITS_EARLY)), "RankExitedEarly", ("rank 1",), "exit code 0"),
    Failure(
        "deadline",
        job(task("master", SLEEP), activeDeadlineSeconds=2),
        "ActiveDeadlineExceeded",
    ),
    Failure(
        "pod-deadline",
        job(task("master", SLEEP, activeDeadlineSeconds=2)),
        "ActiveDeadlineExceeded",
        ("rank 0",),
    ),
    Failure(
        "master-never-listens",
        waits_for_master(SLEEP),
        "MasterNotListening",
        ("rank 1",),
    ),
    Failure(
        "name",
        pod(python("import socket\nsocket.create_connection(('data.invalid', 1))")),
        "HostNotResolved",
        ("rank 0",),
    ),
    Failure(
        "crash-loop",
        job(task("master", container("echo no dataset; exit 4"), restartPolicy="OnFailure")),
        "NonZeroExit",
        ("rank 0",),
        "no dataset",
        "container main keeps failing",
    ),
]  # fmt: skip
