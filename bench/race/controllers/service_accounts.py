"""Who a contestant is: a service account, as every controller in a cluster. An API server checks a client certificate's
signature at every request, a token's only now and then: a tenth of its work would be of the race's own making."""

from __future__ import annotations

import json
from pathlib import Path

from tests.testbed.cluster import Cluster

_NAMESPACE = "kube-system"
_RIGHTS = "rbac.authorization.k8s.io"
#: Longer than any race.
_TOKEN_SECONDS = 7200


def user_of(name: str) -> str:
    """As the audit log has it."""
    return f"system:serviceaccount:{_NAMESPACE}:{name}"


def kubeconfig(cluster: Cluster, name: str, *, inner: bool = True) -> Path:
    """The account of this name, which may do everything, as a kubeconfig with its token. `inner`: for a process that
    runs next to the API server."""
    accounts = f"/api/v1/namespaces/{_NAMESPACE}/serviceaccounts"
    cluster.api.create(accounts, {"metadata": {"name": name}})
    binding = {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": _RIGHTS, "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": _NAMESPACE}],
    }
    cluster.api.create(f"/apis/{_RIGHTS}/v1/clusterrolebindings", binding)
    asked = {"spec": {"expirationSeconds": _TOKEN_SECONDS}}
    token = cluster.api.create(f"{accounts}/{name}/token", asked)["status"]["token"]
    path = cluster.identity(name, inner=inner)
    document = json.loads(path.read_text())
    document["users"][0]["user"] = {"token": token}
    path.write_text(json.dumps(document))
    return path
