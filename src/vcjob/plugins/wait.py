"""The wait-for-master init container.

The program in it, `wait_for_master.sh`, ends with one of these exit codes:

==  ==================================================================================
0   the master accepts connections (or this pod is the master itself)
91  the timeout ended; the last line says what was tried, for how long and the last cause
92  the image has no program that can probe a port; the last line says what to add
93  host, port or timeout are missing or invalid
==  ==================================================================================
"""

from __future__ import annotations

from functools import cache
from typing import Any

from vcjob.wellknown import environment

CONTAINER_NAME = "wait-for-master"
WAIT_TIMEOUT_EXIT_CODE = 91
WAIT_NO_PROBE_EXIT_CODE = 92
WAIT_SETTINGS_EXIT_CODE = 93
#: With one of these, starting the container again cannot help: the pod has failed for good.
WAIT_EXIT_CODES = frozenset({WAIT_TIMEOUT_EXIT_CODE, WAIT_NO_PROBE_EXIT_CODE, WAIT_SETTINGS_EXIT_CODE})

DEFAULT_IMAGE = "busybox:1.36.1"
#: The value of the image option that means: the image of the task's first container.
SELF_IMAGE = "self"
NOBODY = 65534
# Requests are equal to limits, so that a pod of the QoS class Guaranteed keeps it.
_RESOURCES = {"cpu": "200m", "memory": "64Mi"}


@cache
def program() -> str:
    """The program without its comments, because every worker pod carries a copy."""
    from pathlib import Path  # here, because few runs need it and it takes time to load

    text = Path(__file__).with_name("wait_for_master.sh").read_text(encoding="utf-8")
    lines = (line.strip() for line in text.splitlines())
    return "\n".join(line for line in lines if line and not line.startswith("#")) + "\n"


def last_error(output: str) -> str:
    """What the program said when it gave up, without its name and without the advice behind it."""
    lines = output.strip().splitlines()
    text = (lines[-1] if lines else "").removeprefix(f"{CONTAINER_NAME}: error: ")
    said, end, _ = text.partition("); ")  # "m:1 did not answer within 3 s: refused (by nc); check that ..."
    return f"{said})" if end else text


def wait_container(pod_spec: dict[str, Any], *, image: str, timeout: int, set_user: bool) -> dict[str, Any]:
    """The container, made to be accepted under quotas and the restricted Pod Security Standard.

    It reads host and port from the variables that the pytorch plugin sets in every container.
    """
    policy = "IfNotPresent"
    if image == SELF_IMAGE:
        first: dict[str, Any] = next(iter(pod_spec.get("containers") or ()), {})
        image, policy = first.get("image") or "", first.get("imagePullPolicy") or policy
    return {
        "name": CONTAINER_NAME,
        "image": image,
        "imagePullPolicy": policy,
        "command": ["sh", "-c", program()],
        "env": [
            {"name": environment.WAIT_HOST, "value": "$(MASTER_ADDR)"},
            {"name": environment.WAIT_PORT, "value": "$(MASTER_PORT)"},
            {"name": environment.WAIT_TIMEOUT, "value": str(timeout)},
        ],
        "resources": {"requests": dict(_RESOURCES), "limits": dict(_RESOURCES)},
        "securityContext": _security_context(pod_spec.get("securityContext") or {}, set_user),
        "terminationMessagePolicy": "FallbackToLogsOnError",
    }


def _security_context(of_pod: dict[str, Any], set_user: bool) -> dict[str, Any]:
    context: dict[str, Any] = {
        "allowPrivilegeEscalation": False,
        "capabilities": {"drop": ["ALL"]},
        "readOnlyRootFilesystem": True,
        "seccompProfile": {"type": "RuntimeDefault"},
    }
    if of_pod.get("runAsUser") != 0:
        context["runAsNonRoot"] = True
    if set_user and of_pod.get("runAsUser") is None:
        context["runAsUser"] = NOBODY
    return context
