"""Runs specs, each in a process of its own: bounded in time, and what one leaves behind does not meet the next."""

from __future__ import annotations

import contextlib
import re
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tests.conformance.specs import Spec, leaves_of, place_of
from tests.testbed.api import Api, ApiError
from tests.testbed.cluster import Cluster
from tests.testbed.programs.builder import program

AT_ONCE = 4
GRACE = 5
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"
PRIORITIES = "/apis/scheduling.k8s.io/v1/priorityclasses"
NAMESPACES = "/api/v1/namespaces"
NODES = "/api/v1/nodes"


@dataclass(frozen=True)
class Outcome:
    """``verdict`` is passed, failed, skipped (by the spec itself) or timed out."""

    verdict: str
    seconds: float
    message: str = ""


class Runner:
    def __init__(self, cluster: Cluster, folder: Path, limit: float) -> None:
        self._cluster = cluster
        self._api: Api = cluster.api
        self._folder = folder
        self._limit = limit
        self._before = {path: self._names(path) for path in (NAMESPACES, QUEUES, PRIORITIES)}

    def run(self, specs: list[Spec], tell: Callable[[Spec, Outcome], None]) -> dict[Spec, Outcome]:
        outcomes: dict[Spec, Outcome] = {}
        for group in groups(specs):
            with ThreadPoolExecutor(AT_ONCE) as pool:
                for spec, outcome in zip(group, pool.map(self._run_one, group), strict=True):
                    outcomes[spec] = outcome
                    tell(spec, outcome)
            self._tidy()
        return outcomes

    def _run_one(self, spec: Spec) -> Outcome:
        folder = self._folder / spec.suite / f"{Path(spec.file).stem}-{spec.line}"
        folder.mkdir(parents=True, exist_ok=True)
        report = folder / "report.json"
        report.unlink(missing_ok=True)
        began = time.monotonic()
        with (folder / "output.txt").open("wb") as output:
            process = subprocess.Popen(
                self._command(spec, report),
                env=self._environment(folder),
                cwd=folder,
                stdout=output,
                stderr=output,
            )
            try:
                process.wait(self._limit + 6 * GRACE)
            except subprocess.TimeoutExpired:
                pass
            finally:
                process.kill()
                process.wait()
        return judged(report, spec, time.monotonic() - began)

    def _command(self, spec: Spec, report: Path) -> list[str]:
        return [
            # A spec does not outlive the run.
            *("setpriv", "--pdeathsig", "KILL", "--"),
            str(program(f"volcano-e2e-{spec.suite}")),
            f"--ginkgo.focus-file=/{re.escape(spec.file)}:{spec.line}",
            f"--ginkgo.timeout={self._limit:.0f}s",
            f"--ginkgo.grace-period={GRACE}s",
            f"--ginkgo.json-report={report}",
            "--ginkgo.no-color",
        ]

    def _environment(self, folder: Path) -> dict[str, str]:
        return {
            "KUBECONFIG": str(self._cluster.kubeconfig),
            "VC_BIN": str(program("vcctl").parent),
            "ARTIFACTS_PATH": str(folder),
            "HOME": str(folder),
            "PATH": "/usr/bin:/bin",
        }

    def _tidy(self) -> None:
        """A spec that was cut short leaves its namespace, queues, priority classes and taints."""
        for node in self._api.list(NODES):
            if node["spec"].get("taints"):
                self._api.patch(f"{NODES}/{node['metadata']['name']}", {"spec": {"taints": None}})
        for path, before in self._before.items():
            for name in self._names(path) - before:
                with contextlib.suppress(ApiError):
                    if path == QUEUES:
                        self._api.patch(f"{path}/{name}/status", {"status": {"state": "Closed"}})
                    self._api.delete(f"{path}/{name}")
        for name in self._names(NAMESPACES) - self._before[NAMESPACES]:
            with contextlib.suppress(TimeoutError):  # what holds it up shows in the specs to come
                self._api.wait(f"{NAMESPACES}/{name}", lambda seen: seen is None, 120, "gone")

    def _names(self, path: str) -> set[str]:
        return {item["metadata"]["name"] for item in self._api.list(path)}


def groups(specs: Iterable[Spec]) -> Iterator[list[Spec]]:
    """What may run side by side, in the given order."""
    roomless: list[Spec] = []
    for spec in specs:
        if not spec.needs_room:
            roomless.append(spec)
            continue
        if roomless:
            yield roomless
            roomless = []
        yield [spec]
    if roomless:
        yield roomless


def judged(report: Path, spec: Spec, seconds: float) -> Outcome:
    try:
        leaf = next(leaf for leaf in leaves_of(report) if place_of(leaf) == (spec.file, spec.line))
    except (OSError, ValueError, StopIteration):
        return Outcome("failed", seconds, "the suite wrote no report of it; see output.txt")
    state = str(leaf["State"])
    if state == "passed":
        return Outcome("passed", seconds)
    failure = leaf.get("Failure") or {}
    place = failure.get("Location") or {}
    where = f"{Path(place.get('FileName', '')).name}:{place.get('LineNumber', '')}"
    message = f"{where} {' '.join(str(failure.get('Message', '')).split())}"
    return Outcome(
        {"skipped": "skipped", "pending": "skipped", "timedout": "timed out"}.get(state, "failed"),
        seconds,
        message,
    )
