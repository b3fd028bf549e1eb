"""Reads the Python stacks of ranks in pods, with py-spy: of the image, or of another image in an ephemeral container.

The SDK calls this for `vcjob stacks`. Whatever prevents a stack from being read becomes the rank's `problem`, one
sentence; a missing right, or that no pod can be read, is an error. An ephemeral container ends after the dump, but stays in the pod's list.
"""

from __future__ import annotations

import asyncio
import re
import secrets
from collections.abc import Sequence
from contextlib import aclosing
from typing import Any

from vcjob.cluster.client.error_messages import translate_api_errors
from vcjob.cluster.client.jobs import JobClient
from vcjob.cluster.client.pod_exec import capture_in_pod
from vcjob.diagnosis.py_spy import NOT_PYTHON, main_thread, problem_of
from vcjob.diagnosis.stacks import RankStack, StackReport
from vcjob.errors import BackendError, VcjobError
from vcjob.kube.api.resources import PODS, Document
from vcjob.kube.errors import Forbidden, Unauthorized
from vcjob.report.podstate import PodState

_SECONDS = 20.0
_START_SECONDS = 60.0
_AT_ONCE = 8
_NO_PY_SPY = 127
#: A dump of every Python process of the container, each below a line with its pid and its variables RANK and
#: TORCHELASTIC_RUN_ID.
_PROGRAM = """
command -v py-spy >/dev/null 2>&1 || exit 127
for folder in /proc/[0-9]*; do
    program=$(readlink "$folder/exe" 2>/dev/null) || continue
    case ${program##*/} in python*) ;; *) continue ;; esac
    pid=${folder#/proc/}
    rank=$(tr '\\0' '\\n' <"$folder/environ" 2>/dev/null | sed -n 's/^RANK=//p')
    elastic=$(tr '\\0' '\\n' <"$folder/environ" 2>/dev/null | sed -n 's/^TORCHELASTIC_RUN_ID=.*/elastic/p')
    printf '\\n@vcjob-stack %s %s %s\\n' "$pid" "${rank:--}" "${elastic:--}"
    py-spy dump --json --pid "$pid" 2>&1
done
exit 0
"""
_SECTION = re.compile(rb"^@vcjob-stack (\d{1,10}) (\S+) (\S+)\n", re.MULTILINE)
_RANK = re.compile(rb"\d{1,10}")
_PULL_PROBLEMS = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "CreateContainerError")


async def read_stacks(
    jobs: JobClient, pods: Sequence[PodState], namespace: str, image: str | None
) -> StackReport:
    """The stack of every rank in these running pods. `image`: has py-spy, for pods whose own image has not.

    An error of one pod is the problem of its ranks; if no pod can be read, the first error is raised.
    """
    slots = asyncio.Semaphore(_AT_ONCE)
    errors: list[VcjobError] = []

    async def read(pod: PodState) -> list[RankStack]:
        async with slots:
            try:
                return await _stacks_of_pod(jobs, pod, namespace, image)
            except VcjobError as error:
                if isinstance(error.__cause__, (Forbidden, Unauthorized)):
                    raise  # it is the same for every pod
                errors.append(error)
                problem = f"{error.message}; {error.hint}" if error.hint else error.message
                return [RankStack(pod.name, pod.rank, problem=problem)]

    found = [stack for each in await asyncio.gather(*map(read, pods)) for stack in each]
    if errors and len(errors) == len(pods):
        raise errors[0]
    return StackReport(tuple(sorted(found, key=lambda s: (s.rank is None, s.rank or 0, s.pod))))


async def _stacks_of_pod(
    jobs: JobClient, pod: PodState, namespace: str, image: str | None
) -> list[RankStack]:
    running = [each for each in pod.containers if each.started_at is not None and each.ended is None]
    main = next((each.name for each in running if each.role == "main"), "")
    try:
        async with asyncio.timeout(_SECONDS):
            code, output = await _exec(jobs, pod, namespace, main)
        if code == _NO_PY_SPY and image is not None:
            async with asyncio.timeout(_START_SECONDS):
                code, output = await _by_ephemeral_container(jobs, pod, namespace, main, image)
    except TimeoutError:
        return [RankStack(pod.name, pod.rank, problem="py-spy did not finish in time")]
    if code == _NO_PY_SPY:
        where = f"the image {image}" if image is not None else "its image"
        advice = "" if image is not None else "; add it, or name an image that has it with --image"
        return [RankStack(pod.name, pod.rank, problem=f"{where} has no py-spy{advice}")]
    return stacks_in(output, pod)


async def _exec(jobs: JobClient, pod: PodState, namespace: str, container: str) -> tuple[int, bytes]:
    try:
        return await capture_in_pod(jobs, pod.name, namespace, container, ["sh", "-c", _PROGRAM])
    except BackendError as error:
        if "executable file not found" in error.message:
            return _NO_PY_SPY, b""  # no shell either
        raise


def stacks_in(output: bytes, pod: PodState) -> list[RankStack]:
    """The ranks in the program's output: the workers of torchrun, else the first Python process."""
    starts = list(_SECTION.finditer(output))
    ends = [match.start() for match in starts[1:]] + [len(output)]
    dumps = [
        (int(match[1]), match[2], match[3] == b"elastic", output[match.end() : end])
        for match, end in zip(starts, ends, strict=False)
    ]
    dumps.sort()
    workers: dict[int, tuple[int, bytes]] = {}
    for pid, rank, elastic, text in dumps:
        if elastic and _RANK.fullmatch(rank):
            workers.setdefault(int(rank), (pid, text))
    if workers:
        return [_stack(pod.name, rank, pid, text) for rank, (pid, text) in sorted(workers.items())]
    if not dumps:
        return [RankStack(pod.name, pod.rank, problem=NOT_PYTHON)]
    pid, _, _, text = dumps[0]
    return [_stack(pod.name, pod.rank, pid, text)]


def _stack(pod: str, rank: int | None, pid: int, text: bytes) -> RankStack:
    frames = main_thread(text.strip(), pid)
    if frames is None:
        problem = problem_of(text.decode(errors="replace"), in_container=True)
        return RankStack(pod, rank, pid, problem=problem)
    return RankStack(pod, rank, pid, frames)


async def _by_ephemeral_container(
    jobs: JobClient, pod: PodState, namespace: str, target: str, image: str
) -> tuple[int, bytes]:
    name = f"vcjob-stacks-{secrets.token_hex(3)}"
    container: Document = {
        "name": name,
        "image": image,
        "imagePullPolicy": "IfNotPresent",
        "targetContainerName": target,
        "command": ["sh", "-c", _PROGRAM],
        "securityContext": {"runAsUser": 0, "runAsNonRoot": False, "capabilities": {"add": ["SYS_PTRACE"]}},
    }
    with translate_api_errors(jobs.config, "add ephemeral containers to pods", namespace):
        await jobs.client.patch(
            PODS,
            pod.name,
            {"spec": {"ephemeralContainers": [container]}},
            namespace,
            kind="strategic",
            subresource="ephemeralcontainers",
        )
        code = await _ended(jobs, pod.name, namespace, name)
        lines = jobs.client.logs(pod.name, namespace, container=name, limit_bytes=4 << 20)
        async with aclosing(lines):
            return code, b"\n".join([line async for line in lines])


async def _ended(jobs: JobClient, pod: str, namespace: str, container: str) -> int:
    """Wait for the end of the container and return its exit code."""
    while True:
        found: dict[str, Any] = await jobs.client.get(PODS, pod, namespace)
        for status in (found.get("status") or {}).get("ephemeralContainerStatuses") or []:
            state = status.get("state") or {}
            if status.get("name") != container:
                continue
            if ended := state.get("terminated"):
                return int(ended.get("exitCode") or 0)
            waiting = state.get("waiting") or {}
            if waiting.get("reason") in _PULL_PROBLEMS:
                raise BackendError(
                    f"the ephemeral container cannot start: {waiting['reason']}: {waiting.get('message', '')}",
                    hint="check the image that --image names",
                )
        await asyncio.sleep(0.3)
