"""Which of Volcano's end-to-end specs are about Jobs, and where each of them stands."""

from __future__ import annotations

import json
import re
import subprocess
import tempfile
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.testbed.programs.builder import program

SUITES = ("admission", "jobp", "vcctl", "jobseq")

# The rest is about what vcjob does not serve: other frameworks' plugins, queues, PodGroups and pods made by hand, JobFlows,
# HyperNodes.
FILES_ABOUT_JOBS = {
    "admission": ("job_mutate_test.go", "job_validation_test.go"),
    "jobp": (
        "admission.go",
        "job_controlled_resource.go",
        "job_lifecycle.go",
        "job_restart.go",
        "job_scale_up_down.go",
        "min_success.go",
    ),
    "vcctl": ("command.go", "vcctl.go"),
    "jobseq": ("job_error_handling.go", "job_plugins.go", "pytorch_plugin.go"),
}
NOT_ABOUT_JOBS = ("queue check: open queue can be deleted",)
# These only ask the webhook and want no room on the node: several may run at once.
ROOMLESS_FILES = ("job_mutate_test.go", "job_validation_test.go", "admission.go", "vcctl.go")


@dataclass(frozen=True)
class Spec:
    suite: str
    file: str
    line: int
    name: str

    @property
    def needs_room(self) -> bool:
        return self.file not in ROOMLESS_FILES


def find_specs(kubeconfig: Path, suites: list[str], focus: re.Pattern[str]) -> list[Spec]:
    """Those about Jobs, in the order of their files; ``focus`` looks at suite, file and name."""
    found = [spec for suite in suites for spec in _listed(kubeconfig, suite)]
    return [spec for spec in found if focus.search(f"{spec.suite} {spec.file} {spec.name}")]


def _listed(kubeconfig: Path, suite: str) -> list[Spec]:
    with tempfile.TemporaryDirectory(prefix="vcjob-conformance-") as folder:
        report = Path(folder) / "specs.json"
        flags = ["--ginkgo.dry-run", "--ginkgo.no-color", f"--ginkgo.json-report={report}"]
        environment = {"KUBECONFIG": str(kubeconfig), "HOME": folder}
        command = [str(program(f"volcano-e2e-{suite}")), *flags]
        subprocess.run(command, env=environment, cwd=folder, capture_output=True, check=True, timeout=60)
        leaves = [leaf for leaf in leaves_of(report) if _is_about_jobs(suite, leaf)]
    leaves.sort(key=lambda leaf: (place_of(leaf)[0], place_of(leaf)[1]))
    specs, seen = [], Counter[str]()
    for leaf in leaves:
        file, line = place_of(leaf)
        name = str(leaf["LeafNodeText"])
        seen[name] += 1
        specs.append(Spec(suite, file, line, name if seen[name] == 1 else f"{name} ({seen[name]})"))
    return specs


def leaves_of(report: Path) -> list[dict[str, Any]]:
    """The specs of a report that Ginkgo wrote, without set-up and tear-down."""
    return [
        leaf
        for suite in json.loads(report.read_text())
        for leaf in suite["SpecReports"] or ()
        if leaf["LeafNodeType"] == "It"
    ]


def place_of(leaf: dict[str, Any]) -> tuple[str, int]:
    location = leaf["LeafNodeLocation"]
    return Path(location["FileName"]).name, int(location["LineNumber"])


def _is_about_jobs(suite: str, leaf: dict[str, Any]) -> bool:
    return place_of(leaf)[0] in FILES_ABOUT_JOBS[suite] and leaf["LeafNodeText"] not in NOT_ABOUT_JOBS
