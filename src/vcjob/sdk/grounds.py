"""Where jobs run: this machine, or a cluster. Nothing of a cluster is loaded until one is named."""

from __future__ import annotations

import os
from functools import lru_cache
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from vcjob.errors import UserError

if TYPE_CHECKING:
    from vcjob.sdk.cluster import ClusterBackend

BackendName: TypeAlias = Literal["local", "cluster"]


class Where(TypedDict):
    """The arguments by which every function of the SDK is told where."""

    on: BackendName | None
    namespace: str | None
    context: str | None
    kubeconfig: str | None


def open_backend(
    on: BackendName | None, context: str | None, kubeconfig: str | None
) -> ClusterBackend | None:
    """The cluster that is meant; None: this machine. Naming a context or a kubeconfig means a cluster."""
    if on == "local" and (context or kubeconfig):
        raise UserError(
            "a context and a kubeconfig name a cluster, not this machine", hint="say --on cluster"
        )
    if on == "cluster" or (on is None and (context or kubeconfig)):
        return _open(context, kubeconfig, os.environ.get("KUBECONFIG"))
    if on not in (None, "local"):
        raise UserError(f"there is no ground {on!r}", hint="say local or cluster")
    return None


@lru_cache(maxsize=8)
def _open(context: str | None, kubeconfig: str | None, _variable: str | None) -> ClusterBackend:
    from vcjob.sdk.cluster import ClusterBackend

    return ClusterBackend(context, kubeconfig)
