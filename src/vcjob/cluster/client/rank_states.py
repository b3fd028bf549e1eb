"""Reads what the agents of ranks in pods have reported (`--flight-recorder` of the pytorch plugin), with the caller's rights.

The SDK calls this for `vcjob why` and while it follows a job. One small shell program per pod prints its reports; few run
at the same time, each has a time limit, and what it may print is limited. A pod that cannot be read becomes a sentence in
`problems`; a missing right is a BackendError.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from typing import NamedTuple

from vcjob.cluster.client.jobs import JobClient
from vcjob.cluster.client.pod_exec import capture_in_pod
from vcjob.diagnosis.observation import RankState
from vcjob.diagnosis.rank_report import decode_report
from vcjob.errors import VcjobError
from vcjob.kube.errors import Forbidden, Unauthorized
from vcjob.plugins.flight_recorder import REPORT_FOLDER
from vcjob.report.podstate import PodState

_AT_ONCE = 8
_SECONDS = 20.0
_LARGEST = 1 << 20
_NO_FOLDER = 3
#: Clocks that differ by less are taken as equal: `date` counts whole seconds, and the answer takes time.
_SAME_TIME = 2.0
_PAUSED = frozenset("Tt")
_PROGRAM = f"""
cd {REPORT_FOLDER} 2>/dev/null || exit {_NO_FOLDER}
printf '@vcjob-time %s\\n' "$(date +%s)"
for file in rank-state.*.json; do
    pid=${{file#rank-state.}} pid=${{pid%.json}} state=
    [ -r "/proc/$pid/status" ] || continue
    while read -r name value rest; do
        [ "$name" = State: ] && state=$value && break
    done <"/proc/$pid/status"
    printf '\\n@vcjob-rank %s\\n' "${{state:--}}"
    head -c {_LARGEST} "$file"
done
exit 0
"""
_TIME = re.compile(rb"@vcjob-time (\d{1,15})\n")
_SECTION = re.compile(rb"^@vcjob-rank (\S)\n(.*)$", re.MULTILINE)


class ReadStates(NamedTuple):
    """The states of the ranks that have reported, in the order of ranks, and why others could not be read.

    The search for hangs needs them. A pod that cannot be read is a problem for the user, not an error.
    """

    states: list[RankState]
    problems: tuple[str, ...] = ()


async def read_rank_states(jobs: JobClient, pods: Sequence[PodState], namespace: str) -> ReadStates:
    """The state of every rank in these running pods."""
    slots = asyncio.Semaphore(_AT_ONCE)

    async def read(pod: PodState) -> ReadStates:
        async with slots:
            return await _states_of_pod(jobs, pod, namespace)

    found = await asyncio.gather(*map(read, pods))
    states = sorted((state for each in found for state in each.states), key=lambda state: state.rank)
    return ReadStates(states, tuple(problem for each in found for problem in each.problems))


async def _states_of_pod(jobs: JobClient, pod: PodState, namespace: str) -> ReadStates:
    running = [each for each in pod.containers if each.started_at is not None and each.ended is None]
    main = next((each for each in running if each.role == "main"), None)
    if main is None:
        return ReadStates([])
    try:
        async with asyncio.timeout(_SECONDS):
            command = ["sh", "-c", _PROGRAM]
            code, output = await capture_in_pod(jobs, pod.name, namespace, main.name, command)
    except TimeoutError:
        return ReadStates([], (f"{pod.name} did not answer within {_SECONDS:.0f} s",))
    except VcjobError as error:
        if isinstance(error.__cause__, (Forbidden, Unauthorized)):
            raise  # it is the same for every pod
        no_shell = "executable file not found" in error.message
        said = f"the image of {pod.name} has no shell" if no_shell else f"{pod.name}: {error.message}"
        return ReadStates([], (said,))
    if code == _NO_FOLDER:
        return ReadStates([], (f"{pod.name} was started without `--flight-recorder`",))
    if code != 0:
        said = output[-200:].decode(errors="replace").strip()
        return ReadStates([], (f"the reports of {pod.name} cannot be read: {said or f'exit code {code}'}",))
    return ReadStates(states_in(output, time.time(), main.started_at or 0.0))


def states_in(output: bytes, now: float, started_at: float) -> list[RankState]:
    """The states in the program's output, in the caller's time. A report from before the container's start is left out."""
    time_there = _TIME.match(output)
    if time_there is None:
        return []
    shift = now - int(time_there[1]) - 0.5
    shift = 0.0 if abs(shift) < _SAME_TIME else shift
    found = []
    for section in _SECTION.finditer(output):
        report = decode_report(section[2], shift)
        if report is not None and not report.state.ended and report.at - shift >= started_at - 1:
            paused = section[1].decode() in _PAUSED
            found.append(report.state_with(report.idle_since, report.quiet_since, paused=paused))
    return found
