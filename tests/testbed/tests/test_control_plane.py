"""The testbed's control plane: ready soon, reachable from here, with identities and an account of requests."""

from __future__ import annotations

import subprocess

import pytest

from tests.testbed.api import Api, ApiError
from tests.testbed.cluster import Cluster
from tests.testbed.programs.builder import program

pytestmark = pytest.mark.cluster


def test_the_api_server_answers_through_its_kubeconfig(api_server: Cluster) -> None:
    said = subprocess.run(
        [program("kubectl"), "--kubeconfig", api_server.kubeconfig, "get", "namespaces", "-o", "name"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "namespace/kube-system" in said.stdout


def test_an_identity_has_only_the_rights_that_are_given_to_it(api_server: Cluster, namespace: str) -> None:
    alice = Api(api_server.identity("alice", "testers"))
    pods = f"/api/v1/namespaces/{namespace}/pods"
    with pytest.raises(ApiError) as refused:
        alice.get(pods)
    assert refused.value.code == 403
    assert 'User "alice"' in str(refused.value)
    rules = f"/apis/rbac.authorization.k8s.io/v1/namespaces/{namespace}/rolebindings"
    api_server.api.create(
        rules,
        {
            "metadata": {"name": "view"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "view"},
            "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "testers"}],
        },
    )
    api_server.api.wait(pods, lambda _: _allowed(alice, pods), what="readable by alice")


def _allowed(api: Api, path: str) -> bool:
    try:
        api.get(path)
    except ApiError:
        return False
    return True


def test_requests_are_counted_by_who_made_them(api_server: Cluster, namespace: str) -> None:
    bob = Api(api_server.identity(f"bob-{namespace}", "system:masters"))
    for _ in range(3):
        bob.get(f"/api/v1/namespaces/{namespace}/configmaps")
    key = (f"bob-{namespace}", "list", "configmaps")
    api_server.api.wait("/version", lambda _: api_server.requests()[key] >= 3, what="in the audit log")
    assert api_server.requests()[key] == 3


def test_what_runs_inside_cannot_reach_beyond_the_machine(api_server: Cluster) -> None:
    routes = api_server.cell.run("ip", "route").stdout
    assert "default" not in routes
