"""GPUs of this machine: which exist, which the caller may use, and which pod has which.

A GPU is claimed machine-wide for a pod and passed to it by its UUID, which names the same card in every numbering.
The pods of a gang get all GPUs that they need, or none.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from vcjob.local.machine.claims import Claim, claim
from vcjob.spec import quantity
from vcjob.spec.job import Job

RESOURCE = "nvidia.com/gpu"
_LINE = re.compile(r"^\s*(GPU|MIG)\b.*\(UUID:\s*([^)\s]+)\)")


def has_nvidia(env: Mapping[str, str]) -> bool:
    """Whether nvidia-smi, and so probably a driver, is installed."""
    folders = (env.get("PATH") or os.defpath).split(os.pathsep)
    return any(os.access(os.path.join(folder, "nvidia-smi"), os.X_OK) for folder in folders)


def hides_gpus(env: Mapping[str, str]) -> bool:
    """Whether pods that request no GPU see none: not where the caller chose which GPUs there are."""
    return "CUDA_VISIBLE_DEVICES" not in env and has_nvidia(env)


def device_files() -> list[str]:
    """The devices of GPUs that nvidia-smi does not list: without it, those of AMD, and those of Windows under WSL."""
    return [path for path in ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg") if os.path.exists(path)]


def list_gpus(env: Mapping[str, str]) -> list[str]:
    """The UUIDs of the GPUs that CUDA_VISIBLE_DEVICES of the caller allows; all where it is not set."""
    import subprocess

    try:
        answer = subprocess.run(
            ["nvidia-smi", "-L"], env=dict(env), capture_output=True, text=True, timeout=20, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    if answer.returncode != 0:
        return []
    return _allowed(_devices(answer.stdout), env.get("CUDA_VISIBLE_DEVICES"))


def _devices(listing: str) -> list[str]:
    """One entry per card, in its order; a card that is split into MIG devices counts as those."""
    found: list[str] = []
    whole: str | None = None
    for line in listing.splitlines():
        match = _LINE.match(line)
        if not match:
            continue
        if match[1] == "GPU":
            whole = match[2]
            found.append(whole)
        else:
            if found and found[-1] == whole:
                found.pop()
                whole = None
            found.append(match[2])
    return found


def _allowed(devices: list[str], visible: str | None) -> list[str]:
    if visible is None:
        return devices
    chosen: list[str] = []
    for word in visible.split(","):
        word = word.strip()
        if word.lstrip("-").isdigit():
            if not 0 <= int(word) < len(devices):
                break  # as CUDA does: an invalid entry ends the list
            chosen.append(devices[int(word)])
        else:
            match = [device for device in devices if word and device.startswith(word)]
            if not match:
                break
            chosen.append(match[0])
    return chosen


def gpus_of(pod_spec: dict[str, Any]) -> int:
    """How many GPUs a pod requests: its containers together, or an init container if that needs more."""
    together = sum(_asked(container) for container in pod_spec.get("containers") or [])
    return max([together, *(_asked(container) for container in pod_spec.get("initContainers") or [])])


def gpus_at_once(job: Job) -> int:
    """How many GPUs the job needs at once: all tasks that start together, or the largest later one."""
    each = [(bool(task.depends_on), gpus_of(task.pod_spec) * task.replicas) for task in job.tasks]
    return max([sum(count for later, count in each if not later), *(count for _, count in each)], default=0)


def _asked(container: dict[str, Any]) -> int:
    resources = container.get("resources") or {}
    amount = (
        (resources.get("limits") or {}).get(RESOURCE) or (resources.get("requests") or {}).get(RESOURCE) or 0
    )
    return quantity.parse(amount).value


class GpuPool:
    """The GPUs that this job holds until its end, and which of its pods has which.

    `GpuAllocator` takes GPUs from it. A GPU is claimed from the machine when a pod first needs it; if another job has
    it, nothing changes.
    """

    def __init__(self, devices: Sequence[str]) -> None:
        self.devices = list(devices)
        self._held: dict[str, Claim] = {}
        self._given: dict[str, list[str]] = {}

    def take(self, wishes: Mapping[str, int]) -> bool:
        """Assign every pod (by its uid) as many as it requests; if that is not possible, change nothing and return False."""
        wishes = {pod: count for pod, count in wishes.items() if count and pod not in self._given}
        used = {device for devices in self._given.values() for device in devices}
        free = [device for device in self._held if device not in used]
        needed = sum(wishes.values())
        if len(free) < needed and not self._claim_more(needed - len(free)):
            return False
        free = [device for device in self.devices if device in self._held and device not in used]
        for pod, count in wishes.items():
            self._given[pod], free = free[:count], free[count:]
        return True

    def _claim_more(self, count: int) -> bool:
        # One job at a time, or two gangs could each hold half of the GPUs forever.
        turn = claim("gpu/taking")
        if turn is None:
            return False
        taken: dict[str, Claim] = {}
        try:
            for device in self.devices:
                held = None if device in self._held else claim(f"gpu/{device}")
                if held is not None:
                    taken[device] = held
                if len(taken) == count:
                    self._held.update(taken)
                    return True
        finally:
            turn.release()
        for held in taken.values():
            held.release()
        return False

    def of(self, pod: str) -> list[str]:
        return self._given.get(pod, [])

    def give_back(self, pod: str) -> None:
        """The pod has ended; another pod of this job may use its GPUs."""
        self._given.pop(pod, None)
