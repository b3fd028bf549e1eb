"""The testbed as pytest fixtures; ``tests/conftest.py`` loads this file as a plugin."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.testbed import support
from tests.testbed.cluster import Cluster
from tests.testbed.parts.fake_nodes import remove_nodes
from tests.testbed.parts.node import Node
from tests.testbed.parts.part import Part
from tests.testbed.parts.volcano import Volcano


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


@pytest.fixture(scope="session")
def node(api_server: Cluster) -> Node:
    """A real node in the shared cluster; ``node.load_image("vcjob")`` for more than pause and busybox."""
    need(support.node_problem())
    return api_server.start_node()


@pytest.fixture(scope="session")
def dns(api_server: Cluster, node: Node) -> Part:
    """CoreDNS for the pods of the real node."""
    return api_server.start_dns()


@pytest.fixture
def fakes(api_server: Cluster) -> Iterator[Callable[..., list[str]]]:
    """``fakes(100)`` adds pretended nodes for the length of a test and gives their names; see ``Cluster.fakes``."""
    added: list[str] = []

    def add(count: int, **options: Any) -> list[str]:
        names = api_server.fakes(count, **options)
        added.extend(names)
        return names

    yield add
    remove_nodes(api_server.api, added)


@pytest.fixture(scope="module")
def volcano(api_server: Cluster) -> Iterator[Volcano]:
    """Volcano itself (scheduler, job controller, webhooks) in the shared cluster, gone again after the module's tests."""
    running = api_server.start_volcano("full")
    yield running
    running.stop()


@pytest.fixture
def fresh_cluster() -> Iterator[Callable[..., Cluster]]:
    """Makes clusters that a test may break: ``cluster = fresh_cluster()``; each ends with the test."""
    need(support.control_plane_problem())
    started: list[Cluster] = []

    def start(**options: Any) -> Cluster:
        started.append(Cluster.start(**options))
        return started[-1]

    yield start
    for cluster in started:
        cluster.stop()
