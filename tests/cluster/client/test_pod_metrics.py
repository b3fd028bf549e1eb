"""`vcjob top` on a cluster: what the metrics API answers, read into the report of both backends."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.cluster.client.test_pod_exec import Serve, serve
from vcjob.cluster.client.jobs import JobKey
from vcjob.cluster.client.pod_metrics import read_usage
from vcjob.cluster.client.pod_view import PodView
from vcjob.errors import BackendError
from vcjob.report.podstate import PodState
from vcjob.report.progress import Progress
from vcjob.report.usage import with_step_rates
from vcjob.sdk.cluster.pods import pod_state
from vcjob.sdk.cluster.progress import step_rates

__all__ = ["serve"]
KEY = JobKey("train", "team", "uid")
PODS = [
    PodState("worker", 0, "train-worker-0", "u1", rank=1),
    PodState("master", 0, "train-master-0", "u0", rank=0),
]


def measured(pod: str, *usages: tuple[str, str]) -> dict[str, Any]:
    containers = [
        {"name": f"c{i}", "usage": {"cpu": cpu, "memory": memory}} for i, (cpu, memory) in enumerate(usages)
    ]
    return {"metadata": {"name": pod}, "window": "15.2s", "containers": containers}


async def test_the_containers_of_a_pod_are_added_up_and_ranks_are_in_order(serve: Serve) -> None:
    items = [
        measured("train-worker-0", ("500m", "1Gi")),
        measured("train-master-0", ("1500000000n", "100Mi"), ("1", "100Mi")),
        measured("other", ("9", "9Gi")),
    ]
    report = await read_usage(await serve({"metadata": {}, "items": items}), KEY, PODS)
    found = [(each.name, each.cpu_percent, each.memory_text, each.processes) for each in report.ranks]
    assert found == [("rank 0", 250.0, "200Mi", None), ("rank 1", 50.0, "1.0Gi", None)]
    assert report.seconds == 15.2


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (404, "the cluster does not serve what pods use"),
        pytest.param(503, "the cluster does not serve what pods use", marks=pytest.mark.slow),
        (403, "you may not read the metrics of pods"),
        ({"metadata": {}, "items": []}, "the cluster has not measured the pods yet"),
    ],
)
async def test_what_cannot_be_read_is_one_sentence(
    serve: Serve, answer: int | dict[str, Any], message: str
) -> None:
    with pytest.raises(BackendError, match=message):
        await read_usage(await serve(answer), KEY, PODS)


async def test_the_written_progress_is_the_step_rate_of_rank_0(serve: Serve) -> None:
    items = [measured("train-worker-0", ("1", "1Gi")), measured("train-master-0", ("1", "1Gi"))]
    report = await read_usage(await serve({"metadata": {}, "items": items}), KEY, PODS)
    shown = with_step_rates(report, step_rates(PODS, Progress(step=3, rate=2.5)))
    assert [each.steps_per_second for each in shown.ranks] == [2.5, None]
    assert not with_step_rates(report, step_rates(PODS, Progress(loss=0.5))).has_steps


def test_the_rank_of_a_pod_with_torchrun_is_a_node_rank() -> None:
    def read(*names: str) -> PodState:
        env = [{"name": name, "value": "1"} for name in names]
        pod = {"metadata": {"name": "train-worker-0"}, "spec": {"containers": [{"name": "main", "env": env}]}}
        return pod_state(msgspec.convert(pod, PodView))

    assert read("RANK", "PET_NODE_RANK").node_rank and not read("RANK").node_rank
