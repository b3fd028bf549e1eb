"""The svc plugin: lets the pods of a Job find each other by name.

It gives each pod a hostname and a subdomain, and adds their headless Service, a NetworkPolicy that admits only
pods of the same Job, and the lists of all hosts, as files under /etc/volcano and as variables.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import msgspec

from vcjob.plugins.base import Plugin, PodDraft
from vcjob.plugins.goflags import Flag, parse_flags
from vcjob.plugins.hosts import (
    address,
    host_count,
    own_hostname,
    pod_name,
    subdomain,
    sum_of_digits,
    task_hosts,
)
from vcjob.plugins.mounts import Mounts
from vcjob.spec.job import Job, Task
from vcjob.spec.names import dns_label, service_name
from vcjob.spec.problem import Problem, error, warning
from vcjob.wellknown.annotations import IF_ABSENT

MOUNT_PATH = "/etc/volcano"
#: The kernel does not start a program with a variable longer than this (`NAME=value` and a zero byte).
MAX_VARIABLE = 128 * 1024
#: The size of all host variables together; the kernel's limit for arguments and environment is 2 MiB.
MAX_VARIABLES = 1024 * 1024
#: The API server refuses a ConfigMap with more data than this.
MAX_CONFIG_MAP = 1024 * 1024

FLAGS = (
    Flag(
        "publish-not-ready-addresses",
        "bool",
        False,
        meaning="The names of pods resolve before the pods are ready.",
    ),
    Flag(
        "disable-network-policy",
        "bool",
        False,
        meaning="Create no NetworkPolicy. Where there is one, only pods of the same Job may connect to its pods.",
    ),
    Flag(
        "inject-hosts-env",
        "bool",
        True,
        meaning="Set `VC_<TASK>_HOSTS` and `VC_<TASK>_NUM` in every container. The files in /etc/volcano exist without it.",
    ),
)


class SvcOptions(msgspec.Struct, frozen=True):
    """The arguments of the svc plugin."""

    publish_not_ready_addresses: bool = False
    disable_network_policy: bool = False
    inject_hosts_env: bool = True


class SvcPlugin(Plugin[SvcOptions]):
    """Host names, host lists, a headless Service and a NetworkPolicy.

    In the registry as `svc`. The names are those of `plugins.hosts`; the local backend resolves them without a
    Service.
    """

    name: ClassVar[str] = "svc"
    order: ClassVar[int] = 20

    def parse(self, arguments: Sequence[str]) -> tuple[SvcOptions, list[Problem]]:
        read, problems = parse_flags(FLAGS, arguments)
        options = SvcOptions(
            publish_not_ready_addresses=read.boolean("publish-not-ready-addresses"),
            disable_network_policy=read.boolean("disable-network-policy"),
            inject_hosts_env=read.boolean("inject-hosts-env"),
        )
        return options, problems

    def check(self, job: Job, options: SvcOptions) -> Iterable[Problem]:
        mounts = Mounts(
            "the svc plugin",
            "its host lists",
            (MOUNT_PATH,),
            (config_map_name(job),),
            in_init_containers=True,
        )
        yield from mounts.conflicts(job, enumerate(job.tasks))
        yield from _bad_subdomains(job)
        if options.inject_hosts_env:
            yield from _warn_about_oversized(job)
        size = _data_size(job)
        if size > MAX_CONFIG_MAP:
            yield error(
                ("spec", "tasks"),
                f"the host lists of {job.replicas} pods need {size} bytes; a ConfigMap can hold {MAX_CONFIG_MAP}",
                "shorten the names of the Job and its tasks, or use fewer replicas",
            )

    def shape(self, draft: PodDraft, options: SvcOptions) -> None:
        job, task, spec = draft.job, draft.task, draft.spec
        spec["hostname"] = spec.get("hostname") or pod_name(job, task, draft.index)
        spec["subdomain"] = subdomain(job, task)
        volume = config_map_name(job)
        draft.volumes.append({"name": volume, "configMap": {"name": volume}})
        for container in draft.all_containers():
            mounts = container.get("volumeMounts") or []
            container["volumeMounts"] = [*mounts, {"name": volume, "mountPath": MOUNT_PATH}]
        if options.inject_hosts_env:
            draft.inject_shared(_host_references(job))

    def objects(self, job: Job, options: SvcOptions) -> Iterator[dict[str, Any]]:
        yield {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": config_map_name(job), "namespace": job.namespace},
            "data": host_data(job),
        }
        yield _service(job, job.name, options)
        own = {subdomain(job, task): None for task in job.tasks}
        own.pop(job.name, None)
        for name in own:
            service = _service(job, name, options)
            service["metadata"]["annotations"] = {IF_ABSENT: "true"}
            yield service
        if not options.disable_network_policy:
            yield _network_policy(job)


@lru_cache(maxsize=4)  # called for every task; building it each time would cost the square of the tasks
def _host_references(job: Job) -> dict[str, dict[str, Any]]:
    """The entry of each host variable, which refers to its key in the ConfigMap."""
    left_out = oversized(job)
    names = (name for found in _host_lists(job) for name in (found.hosts, found.number))
    return {
        name: {
            "name": name,
            "valueFrom": {"configMapKeyRef": {"name": config_map_name(job), "key": name}},
        }
        for name in names
        if name not in left_out
    }


def config_map_name(job: Job) -> str:
    return f"{job.name}-svc"


def hosts_variable(task: Task) -> str:
    return f"VC_{_underscored(task).upper()}_HOSTS"


def number_variable(task: Task) -> str:
    return f"VC_{_underscored(task).upper()}_NUM"


class _HostList(NamedTuple):
    """The names under which the hosts of one task are published, and how long the list is."""

    file: str
    hosts: str
    number: str
    total: int
    length: int


@lru_cache(maxsize=4)  # the checks, the pods and the ConfigMap of a Job need it
def _host_lists(job: Job) -> tuple[_HostList, ...]:
    return tuple(
        _HostList(
            f"{_underscored(task)}.host",
            hosts_variable(task),
            number_variable(task),
            host_count(task),
            _joined_length(job, task),
        )
        for task in job.tasks
    )


def host_data(job: Job) -> dict[str, str]:
    """The data of the ConfigMap. Lists that are too long for a variable are left out if the data does not fit otherwise."""
    data: dict[str, str] = {}
    for task, names in zip(job.tasks, _host_lists(job), strict=True):
        hosts = task_hosts(job, task)
        data[names.file] = "\n".join(hosts)
        data[names.hosts] = ",".join(hosts)
        data[names.number] = str(names.total)
    if _full_size(job) > MAX_CONFIG_MAP:
        for name in oversized(job):
            del data[name]
    return data


def _data_size(job: Job) -> int:
    """The size of `host_data`, worked out without making it."""
    size = _full_size(job)
    if size > MAX_CONFIG_MAP:
        left_out = oversized(job)
        size -= sum(len(found.hosts) + found.length for found in _host_lists(job) if found.hosts in left_out)
    return size


def _full_size(job: Job) -> int:
    return sum(
        len(found.file) + len(found.hosts) + len(found.number) + 2 * found.length + len(str(found.total))
        for found in _host_lists(job)
    )


def oversized(job: Job) -> set[str]:
    """The host variables that are too long for a program to start with."""
    left_out: set[str] = set()
    total = 0
    for found in _host_lists(job):
        size = len(found.hosts) + 2 + found.length
        if size > MAX_VARIABLE or total + size > MAX_VARIABLES:
            left_out.add(found.hosts)
        else:
            total += size
    return left_out


def _joined_length(job: Job, task: Task) -> int:
    """The length of all host names of a task, joined; worked out without making them."""
    count = host_count(task)
    if count == 0:
        return 0
    digits = 0 if own_hostname(task) else sum_of_digits(count)
    return count * (len(address(job, task, "")) + 1) - 1 + digits


def _underscored(task: Task) -> str:
    return task.name.replace("-", "_")


def _warn_about_oversized(job: Job) -> Iterator[Problem]:
    left_out = oversized(job)
    for number, task in enumerate(job.tasks if left_out else ()):
        name = hosts_variable(task)
        if name not in left_out:
            continue
        yield warning(
            ("spec", "tasks", number, "replicas"),
            f"`{name}` is not set: the names of {task.replicas} pods are too long for the environment of a program",
            f"read {MOUNT_PATH}/{_underscored(task)}.host instead",
        )


def _bad_subdomains(job: Job) -> Iterator[Problem]:
    for number, task in enumerate(job.tasks):
        name = task.pod_spec.get("subdomain")
        # The schema check has reported other characters.
        if name and dns_label(name) is None and (reason := service_name(name)):
            yield error(
                ("spec", "tasks", number, "template", "spec", "subdomain"),
                f"the subdomain `{name}` {reason}, because the svc plugin creates a Service of this name",
                "choose another subdomain, or remove it",
            )


def _job_selector(job: Job) -> dict[str, str]:
    return {"volcano.sh/job-name": job.name, "volcano.sh/job-namespace": job.namespace}


def _service(job: Job, name: str, options: SvcOptions) -> dict[str, Any]:
    spec: dict[str, Any] = {"clusterIP": "None", "selector": _job_selector(job)}
    if options.publish_not_ready_addresses:
        spec["publishNotReadyAddresses"] = True
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": job.namespace},
        "spec": spec,
    }


def _network_policy(job: Job) -> dict[str, Any]:
    same_job = {"podSelector": {"matchLabels": _job_selector(job)}}
    return {
        "apiVersion": "networking.k8s.io/v1",
        "kind": "NetworkPolicy",
        "metadata": {"name": job.name, "namespace": job.namespace},
        "spec": {**same_job, "ingress": [{"from": [same_job]}], "policyTypes": ["Ingress"]},
    }
