"""A hang of real ranks on a real node: `vcjob why` and a following `vcjob run` name the rank that is behind.

The ranks run the torch of this machine (`host_torch`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster import host_torch
from tests.cluster.client.conftest import PATIENCE, Shell, container, finish, job, next_line, task
from tests.cluster.controller.conftest import ControllerCluster
from tests.testbed.fixtures import need
from tests.testbed.parts.node import Node

pytestmark = [pytest.mark.cluster, pytest.mark.torch, pytest.mark.slow, pytest.mark.timeout(400)]

SECONDS = "4"
_PROGRAM = """
import os, time, torch, torch.distributed as dist
dist.init_process_group('gloo')
for _ in range(3):
    dist.all_reduce(torch.ones(4))
if os.environ['RANK'] == '2':
    time.sleep(600)
dist.all_reduce(torch.ones(4))
"""


def hanging(name: str, *arguments: str, seconds: str = SECONDS) -> dict[str, Any]:
    """Three ranks; rank 2 never reaches the fourth all_reduce."""
    rank = host_torch.torch_container(_PROGRAM, PYTHONPATH="/mine", VCJOB_HANG_AFTER=seconds)
    volumes = host_torch.VOLUMES
    tasks = [task("master", rank, volumes=volumes), task("worker", rank, replicas=2, volumes=volumes)]
    return job(name, *tasks, plugins={"pytorch": list(arguments)})


@pytest.fixture(scope="module")
def loaded(testbed: ControllerCluster, node: Node) -> Iterator[ControllerCluster]:
    need(host_torch.problem())
    node.load_image("guide")
    before = os.environ.get("VCJOB_HANG_AFTER")
    os.environ["VCJOB_HANG_AFTER"] = SECONDS
    yield testbed
    os.environ.pop("VCJOB_HANG_AFTER")
    if before is not None:
        os.environ["VCJOB_HANG_AFTER"] = before


def test_a_following_run_warns_why_names_the_rank_and_on_hang_ends_the_job(
    shell: Shell, loaded: ControllerCluster
) -> None:
    process = shell.start("run", shell.file(hanging("hangs", "--flight-recorder=true")))
    part = "rank 2 never reached all_reduce #4; all others have waited in it for "
    lines: list[str] = []
    try:
        while not lines or (lines[-1] and part not in lines[-1]):
            lines.append(next_line(process, errors=True))
        assert part in lines[-1], lines
        result = shell("why", "hangs", "-o", "json")
        assert result.code == 0, result
        (finding,) = json.loads(result.out)["findings"]
        assert (finding["cause"], finding["message"].startswith(part)) == ("RankBehind", True), finding
        assert finding["ranks"] == {"first": ["rank 2"], "victims": ["rank 0", "rank 1"]}
        assert any(each["text"] == "rank 2 is in <module>, <string>:7" for each in finding["evidence"]), (
            finding
        )
        pod = loaded.api.get(f"/api/v1/namespaces/{loaded.namespace}/pods/hangs-worker-0")
        env = {each["name"]: each.get("value") for each in pod["spec"]["containers"][0]["env"]}
        assert env["PYTHONPATH"].endswith(":/mine") and env["TORCH_FR_BUFFER_SIZE"] == "100"
        change = {"metadata": {"annotations": {"vcjob.io/on-hang": "fail"}}}
        loaded.api.patch(f"{loaded.jobs}/hangs", change)
        ended = finish(process)
    finally:
        process.kill()
    assert loaded.api.get(f"{loaded.jobs}/hangs")["status"]["state"]["phase"] == "Terminated", ended
    said = "".join([*lines, ended.out, ended.err])
    assert said.count(part) == 1, said  # it warns once
    loaded.api.delete(f"{loaded.jobs}/hangs")


@pytest.mark.long
def test_a_hang_is_reported_soon_with_default_settings(
    loaded: ControllerCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Within thirty seconds, as `tests/sdk/test_cluster_hangs.py` shows with a clock of its own; later on a busy machine."""
    monkeypatch.setenv("VCJOB_HANG_AFTER", "")  # as if it were not set
    shell = Shell(loaded, tmp_path)
    process = shell.start("run", shell.file(hanging("soon", "--flight-recorder=true", seconds="")))
    part = "rank 2 never reached all_reduce #4; all others have waited in it for "
    lines: list[str] = []
    try:
        while not lines or (lines[-1] and part not in lines[-1]):
            lines.append(next_line(process, errors=True))
    finally:
        process.kill()
    waited = re.search(rf"{part}(\d+) s", lines[-1])
    assert waited is not None and 20 <= int(waited[1]) <= 90, lines
    loaded.api.delete(f"{loaded.jobs}/soon")


def test_without_the_argument_one_sentence_says_what_is_missing(
    shell: Shell, testbed: ControllerCluster
) -> None:
    ranks = [task("master", container("sleep 600")), task("worker", container("sleep 600"))]
    testbed.create(job("plain", *ranks, plugins={"pytorch": []}))
    testbed.wait_phase("plain", "Running", patience=PATIENCE)
    result = shell("why", "plain")
    assert result.code == 0 and "no problem was found" in result.out, result
    assert (
        result.err
        == "note: hangs cannot be detected: add --flight-recorder=true to the arguments of pytorch\n"
    )
    testbed.api.delete(f"{testbed.jobs}/plain")
