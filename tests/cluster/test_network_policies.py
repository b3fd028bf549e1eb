"""Which NetworkPolicies keep every connection away from the master."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cluster.client.test_pod_exec import Serve, serve
from vcjob.cluster.network_policies import blocking_policies, master_labels
from vcjob.spec.job import Job

__all__ = ["serve"]
LABELS = {"volcano.sh/job-name": "train", "volcano.sh/task-spec": "master", "team": "vision"}
DENY: dict[str, Any] = {"podSelector": {}, "policyTypes": ["Ingress"]}


def policy(name: str, **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": name}, "spec": {**DENY, **spec}}


@pytest.mark.parametrize(
    ("policies", "expected"),
    [
        ([], ()),
        ([policy("deny")], ("deny",)),
        ([policy("deny"), policy("allow", ingress=[{}])], ()),
        ([policy("deny", podSelector={"matchLabels": {"team": "vision"}})], ("deny",)),
        ([policy("other", podSelector={"matchLabels": {"team": "audio"}})], ()),
        ([policy("egress", policyTypes=["Egress"])], ()),
        ([policy("unsure", podSelector={"matchExpressions": [{"key": "a", "operator": "Exists"}]})], ()),
    ],
    ids=["none", "all pods", "another one allows", "by label", "other pods", "egress only", "not evaluated"],
)
async def test_only_what_certainly_blocks_the_pod_is_reported(
    serve: Serve, policies: list[dict[str, Any]], expected: tuple[str, ...]
) -> None:
    client = (await serve({"metadata": {}, "items": policies})).client
    assert await blocking_policies(client, "team", LABELS) == expected


async def test_without_the_right_to_list_them_nothing_is_known(serve: Serve) -> None:
    assert await blocking_policies((await serve(403)).client, "team", LABELS) == ()


def test_the_labels_are_those_of_the_task_with_rank_0() -> None:
    template = {"metadata": {"labels": {"team": "vision"}}, "spec": {"containers": []}}
    tasks = [{"name": "worker", "replicas": 1}, {"name": "chief", "replicas": 1, "template": template}]
    job = Job(
        {
            "metadata": {"name": "train", "namespace": "n"},
            "spec": {"tasks": tasks, "plugins": {"pytorch": ["--master=chief"]}},
        }
    )
    assert master_labels(job) == {
        "team": "vision",
        "volcano.sh/job-name": "train",
        "volcano.sh/job-namespace": "n",
        "volcano.sh/task-spec": "chief",
    }
