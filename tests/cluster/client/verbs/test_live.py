"""`stacks`, `top`, `timeline` and progress of a job that runs on a real node."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from tests.cli.conftest import Result
from tests.cluster.client.conftest import PATIENCE, Shell, container, job, task
from tests.cluster.controller.conftest import ControllerCluster
from tests.testbed.images.catalog import GUIDE, PY_SPY
from tests.testbed.parts.node import Node

pytestmark = pytest.mark.cluster
_PROGRAM = """
import os, time

def compute():
    while True:
        time.sleep(0.05)

print('vcjob-progress: step=30 total=120 loss=0.5', flush=True)
compute()
"""


def python(image: str, words: tuple[str, ...] = ("python3", "-c", _PROGRAM)) -> dict[str, object]:
    return {**container("", image=image), "command": list(words)}


@pytest.fixture(scope="module")
def running(testbed: ControllerCluster, node: Node) -> Iterator[ControllerCluster]:
    """Rank 0 has py-spy, rank 1 is Python without it, rank 2 is no Python."""
    for image in ("guide", "py-spy"):
        node.load_image(image)
    tasks = [
        task("master", python(PY_SPY)),
        task("worker", python(GUIDE)),
        task("side", container("sleep 600")),
    ]
    testbed.create(job("live", *tasks, plugins={"pytorch": []}))
    testbed.wait_phase("live", "Running", patience=PATIENCE)
    yield testbed
    testbed.api.delete(f"{testbed.jobs}/live")


def lines(result: Result) -> list[str]:
    assert result.code == 0, result
    return sorted(result.out.splitlines())


@pytest.mark.usefixtures("running")
class TestAJobThatRuns:
    def test_its_stacks_are_read_where_the_image_has_py_spy(self, shell: Shell) -> None:
        assert lines(shell("stacks", "live")) == [
            "rank 0 is in compute, <string>:6",
            "rank 1, live-side-0 cannot be read: its image has no py-spy; add it, or name an image that has it with "
            "--image",
        ]

    def test_an_ephemeral_container_reads_the_others(self, shell: Shell) -> None:
        assert lines(shell("stacks", "live", "--image", PY_SPY)) == [
            "live-side-0 cannot be read: its process is not Python",
            "ranks 0-1 are in compute, <string>:6",
        ]

    def test_an_image_that_cannot_be_pulled_is_one_sentence(self, shell: Shell) -> None:
        result = shell("stacks", "live", "--rank", "1", "--image", "nowhere.invalid/none:1")
        assert result.code == 3 and "the ephemeral container cannot start" in result.err, result
        assert "Traceback" not in result.err

    def test_without_a_metrics_api_top_says_so(self, shell: Shell) -> None:
        result = shell("top", "live")
        assert (result.code, result.out) == (3, "")
        assert "the cluster does not serve what pods use (metrics.k8s.io)" in result.err

    def test_its_timeline_has_the_wait_for_a_node_and_the_run(self, shell: Shell) -> None:
        found = json.loads(shell("timeline", "live", "-o", "json").out)
        kinds = {span["kind"] for pod in found["pods"] for span in pod["spans"]}
        assert "Running" in kinds and kinds <= {"Waiting", "Scheduling", "Startup", "Running"}, kinds
        assert [pod["name"] for pod in found["pods"]] == ["rank 0 (master-0)", "rank 1 (worker-0)", "side-0"]

    def test_whoever_follows_it_writes_its_progress_and_everybody_sees_it(self, shell: Shell) -> None:
        process = shell.start("logs", "live", "-f")
        path = f"{shell.testbed.jobs}/live"
        try:
            shell.testbed.api.wait(
                path,
                lambda seen: "vcjob.io/progress" in seen["metadata"].get("annotations", {}),
                PATIENCE,
                "annotated",
            )
        finally:
            process.terminate()
            process.communicate()
        assert "step 30/120 (25%)" in shell("status", "live").out
        assert "25%" in shell("list").out

    def test_a_rank_that_does_not_run_and_an_unknown_job_are_one_sentence(self, shell: Shell) -> None:
        for verb in ("stacks", "top"):
            result = shell(verb, "live", "--rank", "7")
            assert result.code == 2 and "no running pod has the rank 7" in result.err, result
        for verb in ("stacks", "top", "timeline", "why"):
            result = shell(verb, "absent")
            assert result.code == 2 and "no job 'absent'" in result.err, result
            assert "Traceback" not in result.err


def test_a_finished_job_has_no_stacks(shell: Shell) -> None:
    assert shell("run", shell.file(job("over", task("a", container("sleep 2"))))).code == 0
    for verb in ("stacks", "top"):
        result = shell(verb, "over")
        assert result.code == 2 and "no pod of the job 'over' is running: it is Completed" in result.err, (
            result
        )
    assert shell("why", "over").out == "over is Completed; no problem was found: 1 of 1 pods succeeded\n"
    assert "running 2.0s" in shell("timeline", "over").out or "running 3.0s" in shell("timeline", "over").out
