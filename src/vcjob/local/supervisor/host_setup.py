"""What a run needs of this machine: a free master port, local host names, its ConfigMaps and Secrets, claim folders.

The supervisor calls it once, before the first pod. Nothing here starts or stops anything; the port is held by a claim.
"""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Mapping
from typing import Any

from vcjob.local.machine.claims import Claim
from vcjob.local.machine.ports import take_port
from vcjob.local.pod import environment
from vcjob.local.pod.environment import HostContext
from vcjob.local.run.run_dir import RunConfig, RunDir
from vcjob.plan.plan import Plan
from vcjob.plugins import hosts
from vcjob.spec.job import Job


def host_pattern(job: Job) -> re.Pattern[str]:
    """Matches the address of every pod of the job, in its short and its longer forms."""
    names = []
    for task in job.tasks:
        own = hosts.own_hostname(task)
        name = re.escape(own) if own else re.escape(hosts.pod_name(job, task, "")) + r"\d+"
        names.append(f"{name}\\.{re.escape(hosts.subdomain(job, task))}")
    longer = rf"(?:\.{re.escape(job.namespace)}(?:\.svc(?:\.cluster\.local)?)?)?"
    return re.compile(rf"(?<![\w.-])(?:{'|'.join(names) or '(?!)'}){longer}(?![\w-])")


def planned_port(plan: Plan) -> int | None:
    """The MASTER_PORT that the Job names; None where its value is not a port."""
    for task in plan.job.tasks:
        if not task.replicas:
            continue
        for container in plan.pod(task.name, 0)["spec"]["containers"]:
            for entry in container.get("env") or []:
                text = str(entry.get("value", "")) if entry["name"] == "MASTER_PORT" else ""
                if re.fullmatch("[0-9]{1,9}", text) and 1 <= int(text) <= 65535:
                    return int(text)
    return None


def find_port(plan: Plan) -> tuple[int | None, int | None, Claim | None]:
    """The Job's port, the port that is used here, and the claim on the latter."""
    port = planned_port(plan)
    if port is None:
        return None, None, None
    here, held = take_port(port)
    return port, here, held


def make_host_context(
    run: RunDir, plan: Plan, config: RunConfig, port: int | None, local_port: int | None
) -> HostContext:
    pattern = host_pattern(plan.job)
    config_maps: dict[str, Mapping[str, str | bytes]] = {}
    secrets: dict[str, Mapping[str, bytes]] = {}
    for obj in config.bundle:
        name = (obj.get("metadata") or {}).get("name") or ""
        if obj.get("kind") == "ConfigMap":
            config_maps[name] = environment.config_map_data(obj)
        elif obj.get("kind") == "Secret":
            secrets[name] = environment.secret_data(obj)
    for obj in plan.objects():
        if obj["kind"] == "ConfigMap":
            config_maps[obj["metadata"]["name"]] = _with_local_hosts(obj.get("data") or {}, pattern)
    return HostContext(
        env=environment.inherited(config.env),
        config_maps=config_maps,
        secrets=secrets,
        hosts=pattern,
        port=port,
        local_port=local_port,
        node=socket.gethostname(),
        run_uid=run.uid,
    )


def _with_local_hosts(data: Mapping[str, Any], pattern: re.Pattern[str]) -> dict[str, str]:
    return {key: pattern.sub(environment.LOCALHOST, value) for key, value in data.items()}


def claim_folders(run: RunDir, plan: Plan) -> Callable[[str], str]:
    """Where a volume claim is kept: with the run if the Job itself makes it, else for all jobs of the namespace."""
    shared = os.path.join(run.home, "claims", plan.job.namespace)
    made = {obj["metadata"]["name"] for obj in plan.objects() if obj["kind"] == "PersistentVolumeClaim"}

    def folder(name: str) -> str:
        return run.path("claims", name) if name in made else os.path.join(shared, name)

    return folder
