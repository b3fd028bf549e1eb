"""Compares the output of ``vcjob render`` for the guide's file with the pods that Volcano created from it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import Any

from tests.testbed.comparison import comparable, differences
from tests.testbed.paths import REPOSITORY

RENDER = [sys.executable, "-c", "import sys; from vcjob.cli.main import main; sys.exit(main())", "render"]


def documented() -> list[str]:
    """The paths in the table of docs/compatibility.md."""
    page = (REPOSITORY / "docs/compatibility.md").read_text()
    return re.findall(r"^\| `((?:metadata|spec)\S+)` \|", page, re.MULTILINE)


def covers(pattern: str, path: str) -> bool:
    return re.fullmatch(re.escape(pattern).replace(r"\*", ".*"), path) is not None


def found() -> dict[str, dict[str, tuple[object, object]]]:
    guide = str(REPOSITORY / "tests/guides/guide.en.yaml")
    said = subprocess.run([*RENDER, guide, "-o", "json"], capture_output=True, text=True, check=True)
    ours: list[dict[str, Any]] = [item for item in json.loads(said.stdout)["items"] if item["kind"] == "Pod"]
    theirs = json.loads((REPOSITORY / "tests/reference/volcano-guide-pods.json").read_text())
    assert [pod["metadata"]["name"] for pod in ours] == [pod["metadata"]["name"] for pod in theirs]
    return {pod["metadata"]["name"]: differences(other, comparable(pod)) for pod, other in zip(ours, theirs)}


def test_every_difference_from_volcanos_pods_is_documented_and_no_documented_one_is_gone() -> None:
    seen = {path for pod in found().values() for path in pod}
    patterns = documented()
    assert [path for path in sorted(seen) if not any(covers(pattern, path) for pattern in patterns)] == []
    assert [pattern for pattern in patterns if not any(covers(pattern, path) for path in seen)] == []


def test_the_pod_of_the_master_differs_in_the_attempt_and_the_local_rank_only() -> None:
    assert set(found()["pytorch-job-master-0"]) == {
        "spec.containers[master].env[LOCAL_RANK].name",
        "spec.containers[master].env[LOCAL_RANK].value",
        "spec.containers[master].env[LOCAL_WORLD_SIZE].name",
        "spec.containers[master].env[LOCAL_WORLD_SIZE].value",
        "metadata.annotations.vcjob.io/attempt",
        "metadata.labels.vcjob.io/attempt",
    }
