"""Hangs of a job on a cluster: reads the reports of its ranks and applies the rules that the local supervisor applies.

Called by the cluster handle for `vcjob why`, and by its follower. It needs the argument `--flight-recorder` of the pytorch
plugin and the caller's own right to run commands in pods; what is missing is a sentence, never an error.
Stragglers are not reported: they show in milliseconds, and the clocks of nodes differ by as much.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from vcjob.cluster.client.jobs import JobClient
from vcjob.cluster.client.rank_states import ReadStates, read_rank_states
from vcjob.diagnosis.diagnose import LIVE_RULES, diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.hang_settings import hang_seconds
from vcjob.diagnosis.observation import Observation
from vcjob.diagnosis.rules import straggler
from vcjob.errors import VcjobError
from vcjob.plugins.pytorch_options import parse_options
from vcjob.report.podstate import PodState
from vcjob.spec.job import Job

_RULES = tuple(rule for rule in LIVE_RULES if rule is not straggler.straggler)
_NOT_READ = "hangs cannot be detected: "
NO_REPORTS = (
    _NOT_READ
    + "no rank has reported its collectives; its program has not imported torch.distributed yet, or its "
    "Python ignores PYTHONPATH (-I, -E)"
)


class Hangs(NamedTuple):
    """The findings, and the sentence that says what could not be read.

    The result of one search; without findings and without a problem, no rank hangs.
    """

    findings: list[Finding]
    problem: str = ""


def missing_recorder(job: Job) -> str | None:
    """Why the ranks of the Job report nothing; empty where they do, None where no rank can wait for another."""
    if "pytorch" not in job.spec.plugins:
        return None
    options, _ = parse_options(job.spec.plugins["pytorch"] or ())
    ranks = sum(task.replicas for task in job.tasks if task.name in (options.master, options.worker))
    if ranks < 2 and not options.nproc_per_node:
        return None
    return (
        ""
        if options.flight_recorder
        else f"{_NOT_READ}add --flight-recorder=true to the arguments of pytorch"
    )


async def find_hangs(
    jobs: JobClient, observation: Observation, pods: Sequence[PodState], namespace: str
) -> Hangs:
    """What the rules find in the reports of these running pods."""
    seconds = hang_seconds(os.environ)
    if seconds is None or not pods:
        return Hangs([])
    try:
        read = await read_rank_states(jobs, pods, namespace)
    except VcjobError as error:
        return Hangs([], _NOT_READ + error.message)
    observation.hang_after = seconds
    observation.rank_states = read.states
    return Hangs(diagnose(observation, _RULES), _problem(read))


def _problem(read: ReadStates) -> str:
    if read.problems:
        more = f" (and {len(read.problems) - 1} more)" if len(read.problems) > 1 else ""
        return f"{_NOT_READ}{read.problems[0]}{more}"
    return "" if read.states else NO_REPORTS
