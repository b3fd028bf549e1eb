"""The testbed as pytest fixtures; ``tests/conftest.py`` loads this file as a plugin."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator

import pytest

from . import support
from .cluster import Cluster


def need(problem: str | None) -> None:
    """Skips with the reason, or fails with it where VCJOB_TESTBED=require says that nothing may be skipped."""
    if problem and support.is_required():
        pytest.fail(f"the testbed is required here, but {problem}", pytrace=False)
    if problem:
        pytest.skip(problem)


@pytest.fixture(scope="session")
def api_server() -> Iterator[Cluster]:
    """A real control plane for the whole test run (see tests/testbed/__init__.py for what it offers)."""
    need(support.control_plane_problem())
    with Cluster.start() as cluster:
        yield cluster


@pytest.fixture
def namespace(api_server: Cluster) -> Iterator[str]:
    """A fresh namespace of the shared cluster, deleted afterwards (its deletion is not waited for)."""
    name = f"test-{secrets.token_hex(4)}"
    api_server.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
    account = f"/api/v1/namespaces/{name}/serviceaccounts/default"
    api_server.api.wait(account, lambda seen: seen is not None, what="made by the controller manager")
    yield name
    api_server.api.delete(f"/api/v1/namespaces/{name}")


@pytest.fixture
def fresh_cluster() -> Iterator[Callable[[], Cluster]]:
    """Makes clusters that a test may break: ``cluster = fresh_cluster()``; each ends with the test."""
    need(support.control_plane_problem())
    started: list[Cluster] = []

    def start() -> Cluster:
        started.append(Cluster.start())
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()
