"""GPUs of this machine: which there are, which the caller may use, and which pod has which.

A GPU is claimed machine-wide for a pod and given to it by its UUID, which means the same card in every
numbering. A gang gets all it needs or nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from vcjob.local.claims import Claim, claim
from vcjob.spec import quantity

RESOURCE = "nvidia.com/gpu"
_LINE = re.compile(r"^\s*(GPU|MIG)\b.*\(UUID:\s*([^)\s]+)\)")


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
    """How many GPUs a pod asks for: its containers together, or more if an init container needs more."""
    together = sum(_asked(container) for container in pod_spec.get("containers") or [])
    return max([together, *(_asked(container) for container in pod_spec.get("initContainers") or [])])


def _asked(container: dict[str, Any]) -> int:
    resources = container.get("resources") or {}
    amount = (
        (resources.get("limits") or {}).get(RESOURCE) or (resources.get("requests") or {}).get(RESOURCE) or 0
    )
    return quantity.parse(amount).value


class GpuPool:
    """The GPUs that this job holds, by pod."""

    def __init__(self, devices: Sequence[str]) -> None:
        self.devices = list(devices)
        self._held: dict[str, list[tuple[str, Claim]]] = {}

    def take(self, wishes: Mapping[str, int]) -> bool:
        """Give every pod (by its uid) as many as it wishes, or change nothing and say no."""
        wishes = {pod: count for pod, count in wishes.items() if count and pod not in self._held}
        needed = sum(wishes.values())
        if not needed:
            return True
        # One taker at a time, or two gangs could hold half each for ever.
        turn = claim("gpu/taking")
        if turn is None:
            return False
        free: list[tuple[str, Claim]] = []
        try:
            for device in self.devices:
                held = claim(f"gpu/{device}")
                if held is not None:
                    free.append((device, held))
                if len(free) == needed:
                    break
        finally:
            turn.release()
        if len(free) < needed:
            for _, held in free:
                held.release()
            return False
        for pod, count in wishes.items():
            self._held[pod], free = free[:count], free[count:]
        return True

    def of(self, pod: str) -> list[str]:
        return [device for device, _ in self._held.get(pod, [])]

    def give_back(self, pod: str) -> None:
        for _, held in self._held.pop(pod, []):
            held.release()
