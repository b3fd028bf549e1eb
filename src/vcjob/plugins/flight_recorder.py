"""What `--flight-recorder` adds to the pods of ranks: torch's flight recorder, and the agent that reads it.

The agent is `vcjob.rank_agent`, mounted from a ConfigMap of the Job, so that the image needs nothing. It writes its reports
into a folder of the pod, from which `vcjob why` reads them. On this machine ranks have an agent anyway, and the local
backend takes what is added here off again (`without_agent`). Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

from vcjob.plugins.base import Container, PodDraft
from vcjob.plugins.mounts import Mounts
from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Path as Place
from vcjob.spec.problem import Problem, warning
from vcjob.wellknown.environment import FR_BUFFER_SIZE, RANK_STATE

AGENT_FOLDER, REPORT_FOLDER = "/etc/vcjob/rank-agent", "/run/vcjob/rank-state"
_FILES = ("sitecustomize.py", "agent.py", "activity.py")
_PYTHONPATH = "PYTHONPATH"
#: As in the agent. That module is not imported: it sets variables, so a program that imports vcjob could not start warm.
BUFFER_SIZE = "100"
#: The older name of TORCH_FR_BUFFER_SIZE. Either variable of the user's own wins.
_OLDER_BUFFER = "TORCH_NCCL_TRACE_BUFFER_SIZE"
#: Names of volumes.
_AGENT, _REPORTS = "vcjob-rank-agent", "vcjob-rank-state"
_MOUNTS = Mounts(
    "`--flight-recorder`",
    "a folder",
    (AGENT_FOLDER, REPORT_FOLDER),
    (_AGENT, _REPORTS),
    in_init_containers=False,
)


def agent_config_map(job: Job) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": _config_map_name(job), "namespace": job.namespace},
        "data": dict(_files()),
    }


def add_agent(draft: PodDraft) -> None:
    """Give every container of the pod the agent; init containers have no rank."""
    draft.volumes.append({"name": _AGENT, "configMap": {"name": _config_map_name(draft.job)}})
    draft.volumes.append({"name": _REPORTS, "emptyDir": {}})
    for container in draft.containers:
        # A folder for each container: their processes may have the same pids.
        mounts = [
            {"name": _AGENT, "mountPath": AGENT_FOLDER, "readOnly": True},
            {"name": _REPORTS, "mountPath": REPORT_FOLDER, "subPath": container.get("name")},
        ]
        container["volumeMounts"] = [*(container.get("volumeMounts") or []), *mounts]
        container["env"] = _environment(container)


def check_agent(job: Job, ranks: Sequence[tuple[int, Task]]) -> Iterator[Problem]:
    """What in a Job keeps the agent out of the tasks with ranks, given with their numbers."""
    yield from _MOUNTS.conflicts(job, ranks)
    for number, task in ranks:
        for where, container in task.containers(number):
            for place, entry in enumerate(container.get("env") or [] if "containers" in where else []):
                if entry.get("name") == _PYTHONPATH and entry.get("valueFrom"):
                    yield _no_agent((*where, "env", place))


def without_agent(container: Container) -> Container:
    """The container as it is without the agent; recorder settings stay."""
    if not any(entry.get("name") == RANK_STATE for entry in container.get("env") or []):
        return container
    env = []
    for entry in container["env"]:
        value = str(entry.get("value", ""))
        if entry["name"] == _PYTHONPATH and value.startswith(AGENT_FOLDER):
            value = value.removeprefix(AGENT_FOLDER).removeprefix(":")
            env += [{**entry, "value": value}] if value else []
        elif entry["name"] != RANK_STATE:
            env.append(entry)
    folders = (AGENT_FOLDER, REPORT_FOLDER)
    mounts = [each for each in container.get("volumeMounts") or [] if each.get("mountPath") not in folders]
    return {**container, "env": env, "volumeMounts": mounts}


def _environment(container: Container) -> list[dict[str, Any]]:
    env: list[dict[str, Any]] = []
    names = {entry.get("name") for entry in container.get("env") or []}
    for entry in container.get("env") or []:
        if entry.get("name") == _PYTHONPATH and not entry.get("valueFrom"):
            own = entry.get("value")
            env.append({**entry, "value": f"{AGENT_FOLDER}:{own}" if own else AGENT_FOLDER})
        else:
            env.append(entry)
    if _PYTHONPATH not in names:
        env.append({"name": _PYTHONPATH, "value": AGENT_FOLDER})
    if not names & {FR_BUFFER_SIZE, _OLDER_BUFFER}:
        env.append({"name": FR_BUFFER_SIZE, "value": BUFFER_SIZE})
    return [*env, {"name": RANK_STATE, "value": REPORT_FOLDER}]


def _config_map_name(job: Job) -> str:
    return f"{job.name}-rank-agent"


@cache
def _files() -> dict[str, str]:
    from pathlib import Path  # here, because few runs need it and it takes time to load

    from vcjob import rank_agent

    folder = Path(rank_agent.__file__).parent
    return {name: (folder / name).read_text(encoding="utf-8") for name in _FILES}


def _no_agent(where: Place) -> Problem:
    return warning(
        where,
        f"`--flight-recorder` has no effect in this container: {_PYTHONPATH} comes from `valueFrom`, to which no "
        "folder can be added",
        f"write the value of {_PYTHONPATH} here",
    )
