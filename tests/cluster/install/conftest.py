"""Separate clusters for the tests of installing, because an installation concerns the whole cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.testbed import support
from tests.testbed.cluster import Cluster
from tests.testbed.fixtures import need
from tests.testbed.images.catalog import VCJOB
from tests.testbed.programs.builder import program

JOBS = "/apis/batch.volcano.sh/v1alpha1/namespaces/default/jobs"
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
CHART = Path(__file__).parents[3] / "charts/vcjob"
GUIDE = Path(__file__).parents[2] / "guides/guide.en.yaml"
Done = subprocess.CompletedProcess[str]


class InstalledCluster:
    """A cluster, and the commands with which a user operates it."""

    def __init__(self, cluster: Cluster) -> None:
        self.cluster = cluster
        self.api = cluster.api
        self._environment = {**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.folder)}

    def vcjob(self, *arguments: str) -> Done:
        command = [sys.executable, "-m", "vcjob.cli.main", *arguments]
        return subprocess.run(command, env=self._environment, capture_output=True, text=True, timeout=240)

    def install(self, *arguments: str) -> Done:
        return self.vcjob("install", "--image", VCJOB, *arguments)

    def kubectl(self, *arguments: str, text: str | None = None) -> Done:
        return subprocess.run(
            [str(program("kubectl")), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            input=text,
            timeout=60,
        )

    def helm(self, *arguments: str) -> Done:
        return subprocess.run(
            [str(program("helm")), *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
        )

    def versions(self) -> dict[str, str]:
        """The resource version of every object of an installation."""
        kinds = (
            "crd,ns,sa,roles,rolebindings,clusterroles,clusterrolebindings,secrets,services,deployments,pdb,"
            "netpol,priorityclasses,mutatingwebhookconfigurations,validatingwebhookconfigurations"
        )
        listed = self.kubectl(
            "get", kinds, "-A", "-o", "name", "-l", "app.kubernetes.io/managed-by=vcjob",
            "--output=jsonpath={range .items[*]}{.kind}/{.metadata.name} {.metadata.resourceVersion} {.metadata.generation}\n{end}",
        )  # fmt: skip
        assert listed.returncode == 0, listed.stderr
        # A Deployment's and a definition's status is written by others: their generation counts.
        return {
            name: (rest[-1] if name.startswith(("Deployment/", "CustomResourceDefinition/")) else rest[0])
            for name, *rest in (line.split() for line in listed.stdout.splitlines())
        }


@pytest.fixture(scope="module")
def bare() -> Iterator[InstalledCluster]:
    """A control plane without nodes."""
    need(support.control_plane_problem())
    with Cluster.start() as cluster:
        yield InstalledCluster(cluster)


@pytest.fixture(scope="module")
def real() -> Iterator[InstalledCluster]:
    """A cluster with a real node that has our image and the guide's."""
    need(support.node_problem())
    with Cluster.start() as cluster:
        cluster.start_node("vcjob", "guide")
        cluster.start_dns()
        yield InstalledCluster(cluster)


def phase_of(job: Any) -> str:
    return str(((job or {}).get("status") or {}).get("state", {}).get("phase", ""))
