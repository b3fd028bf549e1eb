"""The two clusters: Volcano in full, and ours with Volcano's scheduler. Both have the same real node."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from tests.testbed.cluster import Cluster
from tests.testbed.images.catalog import VCJOB

# Some specs ask for more than the two processors that a small machine has.
PROCESSORS = 4
BACKENDS = ("volcano", "ours")


@contextmanager
def testbed(name: str) -> Iterator[Cluster]:
    with Cluster.start(audit=False) as cluster:
        cluster.start_node("sleeper", *(["vcjob"] if name == "ours" else []), pretended_cpus=PROCESSORS)
        cluster.start_dns()
        if name == "volcano":
            cluster.start_volcano("full")
        else:
            cluster.start_volcano("without-jobs")
            _install(cluster)
        yield cluster


def _install(cluster: Cluster) -> None:
    """As a user would: our controller and webhook as pods, our definitions in the place of Volcano's."""
    flags = [
        "--image",
        VCJOB,
        "--beside-volcano",
        "--replace-crds",
        "--failure-policy",
        "Fail",
        "--wait",
        "240",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "vcjob.cli.main", "install", *flags],
        env={**os.environ, "KUBECONFIG": str(cluster.kubeconfig), "HOME": str(cluster.folder)},
        capture_output=True,
        text=True,
        timeout=300,
    )
    if done.returncode:
        raise SystemExit(f"vcjob install: exit {done.returncode}\n{done.stdout}{done.stderr}")
