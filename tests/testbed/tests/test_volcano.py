"""Volcano itself runs the guide's file to its end on the testbed: the reference for what the same file means here."""

from __future__ import annotations

import json
import os
import re
import time
from typing import Any

import pytest
import yaml

from tests.testbed.cluster import Cluster
from tests.testbed.comparison import comparable, differences
from tests.testbed.parts.node import Node
from tests.testbed.paths import REPOSITORY

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("node", "dns", "volcano")]

REFERENCE = REPOSITORY / "tests/reference/volcano-guide-pods.json"
# Volcano runs its plugins in random order; if svc comes before pytorch, it does not see the init container yet.
BY_CHANCE = re.compile(r"spec\.initContainers\[wait-for-master\]\.(env\[VC_|volumeMounts)")


def run_guide(cluster: Cluster, namespace: str, patience: float = 120) -> list[dict[str, Any]]:
    """Runs the guide's file to Completed and gives its pods, as they were when all were there.

    The end of the master ends the job, and then Volcano deletes the workers that are still on their last words.
    """
    job = yaml.safe_load((REPOSITORY / "tests/guides/guide.en.yaml").read_text())
    jobs, pods = (
        f"/apis/batch.volcano.sh/v1alpha1/namespaces/{namespace}/jobs",
        f"/api/v1/namespaces/{namespace}/pods",
    )
    cluster.api.create(jobs, job)
    made = cluster.api.wait(pods, lambda seen: len(seen["items"]) == 3, patience, "all made")["items"]
    cluster.api.wait(
        f"{jobs}/pytorch-job",
        lambda seen: seen.get("status", {}).get("state", {}).get("phase") == "Completed",
        patience,
        "Completed",
    )
    return sorted(made, key=lambda pod: str(pod["metadata"]["name"]))


def log_of_master(cluster: Cluster, namespace: str) -> str:
    return cluster.api.text(f"/api/v1/namespaces/{namespace}/pods/pytorch-job-master-0/log")


def test_volcano_completes_the_guides_job_and_makes_the_pods_of_the_reference(
    api_server: Cluster, namespace: str, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    node.load_image("guide")
    began = time.monotonic()
    made = [comparable(pod) for pod in run_guide(api_server, namespace)]
    seconds = time.monotonic() - began
    assert "rank 0 of 3 is done, by sockets" in log_of_master(api_server, namespace)
    if os.environ.get("VCJOB_WRITE_REFERENCE"):
        REFERENCE.write_text(json.dumps(made, indent=1, sort_keys=True) + "\n")
    known = json.loads(REFERENCE.read_text())
    assert [pod["metadata"]["name"] for pod in made] == [pod["metadata"]["name"] for pod in known]
    for one, other in zip(made, known):
        assert {
            path: pair for path, pair in differences(one, other).items() if not BY_CHANCE.match(path)
        } == {}
    with capsys.disabled():
        print(f"\n  Volcano completed the guide's job in {seconds:.1f} s", end="")


@pytest.mark.long
@pytest.mark.timeout(600)
def test_volcano_completes_the_guides_job_with_real_torch(
    api_server: Cluster, namespace: str, node: Node, capsys: pytest.CaptureFixture[str]
) -> None:
    began = time.monotonic()
    node.load_image("guide-torch")
    loaded = time.monotonic() - began
    try:
        run_guide(api_server, namespace, 240)
        assert "rank 0 of 3 is done, by torch" in log_of_master(api_server, namespace)
    finally:
        node.load_image("guide")
    with capsys.disabled():
        print(
            f"\n  image with torch loaded in {loaded:.1f} s; completed {time.monotonic() - began - loaded:.1f} s after that",
            end="",
        )
