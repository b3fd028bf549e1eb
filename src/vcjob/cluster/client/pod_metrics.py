"""What pods use, from the metrics API (metrics.k8s.io), which metrics-server or an adapter of Prometheus serves.

The SDK calls this for `vcjob top`. A cluster that does not serve it, and pods without figures yet, are errors in one
sentence.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from vcjob.cluster.client.error_messages import translate_api_errors
from vcjob.cluster.client.jobs import JobClient, JobKey
from vcjob.errors import BackendError
from vcjob.kube.api.objects import Meta
from vcjob.kube.api.resources import resource
from vcjob.kube.errors import NotFound, ServerError
from vcjob.plan.names import JOB_NAME
from vcjob.report.podstate import PodState
from vcjob.report.usage import RankUsage, UsageReport
from vcjob.spec import duration, quantity


class _Usage(msgspec.Struct):
    cpu: str = "0"
    memory: str = "0"


class _Container(msgspec.Struct):
    name: str = ""
    usage: _Usage = msgspec.field(default_factory=_Usage)


class _PodMetrics(msgspec.Struct):
    metadata: Meta
    window: str = ""
    containers: list[_Container] = []


_METRICS = resource("metrics.k8s.io", "v1beta1", "pods", "PodMetrics").read_as(_PodMetrics)


async def read_usage(jobs: JobClient, key: JobKey, pods: Sequence[PodState]) -> UsageReport:
    """The usage of these running pods, in the order of ranks, as the cluster measured it last."""
    try:
        with translate_api_errors(jobs.config, "read the metrics of pods", key.namespace):
            try:
                listed = await jobs.client.list(_METRICS, key.namespace, labels=f"{JOB_NAME}={key.name}")
            except (NotFound, ServerError) as error:
                raise BackendError(
                    "the cluster does not serve what pods use (metrics.k8s.io)",
                    hint="have metrics-server installed; `kubectl top pod` uses the same",
                ) from error
    except ValueError as error:
        raise BackendError(f"the metrics of the cluster cannot be understood: {error}") from error
    measured = {each.metadata.name: each for each in listed}
    found = [_usage(pod, measured[pod.name]) for pod in pods if pod.name in measured]
    if not found:
        raise BackendError("the cluster has not measured the pods yet", hint="try again in a minute")
    windows = [_seconds(each.window) for each in listed if each.window]
    found.sort(key=lambda usage: (usage.rank is None, usage.rank or 0, usage.pod))
    return UsageReport(key.name, max(windows, default=0.0), tuple(found))


def _usage(pod: PodState, metrics: _PodMetrics) -> RankUsage:
    return RankUsage(
        pod=pod.name,
        rank=pod.rank,
        node_rank=pod.node_rank,
        processes=None,
        cpu_percent=100 * sum(_number(each.usage.cpu) for each in metrics.containers),
        memory_bytes=round(sum(_number(each.usage.memory) for each in metrics.containers)),
    )


def _number(text: str) -> float:
    try:
        return quantity.parse(text).nano / quantity.NANO
    except ValueError:
        return 0.0


def _seconds(text: str) -> float:
    try:
        return duration.seconds(text)
    except ValueError:
        return 0.0
