"""Names, labels and annotations of everything a Job owns.

Names are a function of the Job alone, so that the same Job always gets the same objects and a crash between
two steps never creates a second one.
"""

from __future__ import annotations

from typing import Any, Protocol

from vcjob.spec.job import API_VERSION, KIND, Job

DNS_LABEL_MAX = 63

TASK_INDEX = "volcano.sh/task-index"
TASK_SPEC = "volcano.sh/task-spec"
JOB_NAME = "volcano.sh/job-name"
JOB_NAMESPACE = "volcano.sh/job-namespace"
QUEUE_NAME = "volcano.sh/queue-name"
JOB_VERSION = "volcano.sh/job-version"
JOB_RETRY_COUNT = "volcano.sh/job-retry-count"
TEMPLATE_UID = "volcano.sh/template-uid"
PARTITION_ID = "volcano.sh/partition-id"
PREEMPTABLE = "volcano.sh/preemptable"
COOLDOWN_TIME = "volcano.sh/cooldown-time"
REVOCABLE_ZONE = "volcano.sh/revocable-zone"
JDB_MIN_AVAILABLE = "volcano.sh/jdb-min-available"
JDB_MAX_UNAVAILABLE = "volcano.sh/jdb-max-unavailable"
NUMA_TOPOLOGY_POLICY = "volcano.sh/numa-topology-policy"
GROUP_NAME = "scheduling.k8s.io/group-name"
COSCHEDULING_GROUP = "scheduling.x-k8s.io/pod-group"


DEFAULT_QUEUE = "default"
DEFAULT_SCHEDULER = "volcano"


def queue(job: Job) -> str:
    return job.spec.queue or DEFAULT_QUEUE


class Named(Protocol):
    """A Job, or a reference to one: both tell the names of its PodGroups."""

    @property
    def name(self) -> str: ...

    @property
    def uid(self) -> str: ...


def pod_group_name(job: Named) -> str:
    return f"{job.name}-{job.uid}"


def short_pod_group_name(job: Named) -> str:
    """The name of the PodGroup where it must also be a label value."""
    name = pod_group_name(job)
    return name if len(name) <= DNS_LABEL_MAX else _shortened(job.name, _digest(job.uid))


def claim_name(job: Job, mount_path: str) -> str:
    return f"{job.name}-pvc-{_digest(job.uid + mount_path)}"


def volume_name(job: Job, mount_path: str) -> str:
    """The name of a pod's volume; it must be a DNS label, so a long Job name is shortened."""
    return _shortened(job.name, _digest(job.uid + mount_path))


def owner_reference(job: Job) -> dict[str, Any]:
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": job.name,
        "uid": job.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _shortened(name: str, digest: str) -> str:
    return f"{name[: DNS_LABEL_MAX - len(digest) - 1].rstrip('-.')}-{digest}"


def _digest(text: str) -> str:
    import hashlib  # here, because it loads the system's crypto library and only Jobs with volumes need it

    return hashlib.sha256(text.encode()).hexdigest()[:12]
