"""Volcano's own client works against this controller."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.controller.conftest import Controller, ControllerCluster
from tests.cluster.controller.jobs import job, task
from tests.testbed.programs.builder import program

pytestmark = pytest.mark.cluster


def test_vcctl_runs_lists_views_suspends_resumes_and_deletes(
    testbed: ControllerCluster, serve: Callable[..., Controller], fakes: Callable[..., Any], tmp_path: Path
) -> None:
    fakes(2)
    serve()
    file = tmp_path / "job.yaml"
    made = job("by-vcctl", task("a", 2, after=None))
    made["metadata"]["namespace"] = testbed.namespace
    file.write_text(json.dumps(made))

    def vcctl(verb: str, *arguments: str) -> str:
        command = [str(program("vcctl")), "job", verb, "--kubeconfig", str(testbed.cluster.kubeconfig)]
        done = subprocess.run([*command, *arguments], capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    here = ("-n", testbed.namespace)
    vcctl("run", "-f", str(file), *here)
    testbed.wait_phase("by-vcctl", "Running")
    listed = vcctl("list", *here)
    assert "by-vcctl" in listed and "Running" in listed
    assert "by-vcctl" in vcctl("view", "-N", "by-vcctl", *here)
    vcctl("suspend", "-N", "by-vcctl", *here)
    testbed.wait_phase("by-vcctl", "Aborted")
    vcctl("resume", "-N", "by-vcctl", *here)
    testbed.wait_phase("by-vcctl", "Running")
    vcctl("delete", "-N", "by-vcctl", *here)
    testbed.api.wait(f"{testbed.jobs}/by-vcctl", lambda seen: seen is None, what="gone")
    testbed.wait_pods(lambda pods: not pods)
