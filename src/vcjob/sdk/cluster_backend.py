"""A cluster as a backend: Jobs are objects of its API, and its controller runs them.

The kubeconfig is read when the first request is made, so that mistakes in the Job are reported even without one.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING

from vcjob.cluster.client.permissions import denied_verbs
from vcjob.diagnosis.hang_settings import hang_seconds
from vcjob.errors import UserError
from vcjob.kube.config.config import impersonating, load, runs_in_pod
from vcjob.sdk.cluster.connection import ClusterConnection, connect
from vcjob.sdk.cluster.handle import ClusterHandle
from vcjob.sdk.handle import Handle
from vcjob.sdk.loading import Loaded
from vcjob.sdk.rendering import placed
from vcjob.spec.job import BackendName

if TYPE_CHECKING:
    from vcjob.sdk.backend import RunOptions


class ClusterBackend:
    """See `backend.Backend`. Where no namespace is named, the context's own is used.

    `open_backend` makes it. Nothing is read or sent before the first call, and connections are shared by all backends
    of the same cluster.
    """

    name: BackendName = "cluster"

    def __init__(self, context: str | None, kubeconfig: str | None) -> None:
        self._context = context
        self._kubeconfig = kubeconfig

    def find(self, name: str, namespace: str | None) -> Handle:
        cluster = self._connect()
        job = cluster.loop.call(cluster.jobs.job(name, namespace or cluster.namespace))
        return ClusterHandle(cluster, job)

    def list(self, namespace: str | None, *, all_namespaces: bool = False) -> Sequence[Handle]:
        if namespace and all_namespaces:
            raise UserError("one namespace or all of them, not both", hint="leave -n or -A out")
        cluster = self._connect()
        wanted = None if all_namespaces else namespace or cluster.namespace
        return [ClusterHandle(cluster, job) for job in cluster.loop.call(cluster.jobs.jobs(wanted))]

    def own_namespace(self) -> str:
        return self._connect().namespace

    def denied(self, namespace: str | None) -> dict[str, str]:
        cluster = self._connect()
        return cluster.loop.call(denied_verbs(cluster.jobs, namespace or cluster.namespace))

    def check_configuration(self) -> None:
        self._connect()

    def check_local_options(self, given: Mapping[str, object]) -> None:
        for name, value in given.items():
            if value:
                raise UserError(
                    f"{name} is for jobs on this machine; on a cluster the Job itself says what runs",
                    hint="leave it out, or run the Job here",
                )

    def prestart(self, *, warm: bool = False) -> AbstractContextManager[object]:
        return nullcontext()

    def start(self, loaded: Loaded, options: RunOptions) -> Handle:
        """Create the Job as the user wrote it: the cluster fills in the defaults."""
        hang_seconds(os.environ)  # refused now rather than when the Job exists and is followed
        job = placed(loaded.job, namespace=options.namespace)  # refuses a namespace that is not the Job's own
        cluster = self._connect()
        namespace = job.metadata.namespace or cluster.namespace
        given = {key: value for key, value in loaded.given[0].items() if key != "status"}
        given["metadata"] = {**given["metadata"], "namespace": namespace}
        companions = [*loaded.config_maps.values(), *loaded.secrets.values(), *loaded.claims.values()]
        creating = cluster.jobs.create(given, namespace, companions, strict=not options.allow_unknown)
        return ClusterHandle(cluster, cluster.loop.call(creating))

    def _connect(self) -> ClusterConnection:
        return connect(self._context, self._kubeconfig)


class ImpersonatingBackend(ClusterBackend):
    """A cluster as another user sees it, over connections of its own. The caller needs the right to impersonate.

    The page's server makes one for each user behind a proxy, and closes it.
    """

    def __init__(self, context: str | None, kubeconfig: str | None, user: str, groups: Sequence[str]) -> None:
        super().__init__(context, kubeconfig)
        self._connection = ClusterConnection(impersonating(load(kubeconfig, context), user, groups))

    def close(self) -> None:
        self._connection.close()

    def _connect(self) -> ClusterConnection:
        return self._connection


def check_impersonation(context: str | None, kubeconfig: str | None, *, secret: bool) -> None:
    """Raise the reason why users whom a proxy names cannot be served; `secret`: the proxy proves itself.

    In a pod of its own only the proxy reaches the loopback address. On any other machine every local user does, and
    could name whom they like.
    """
    if not secret and not runs_in_pod():
        raise UserError(
            "outside a pod --behind-proxy needs --proxy-secret-file: without it every user of this machine could act as "
            "any user of the cluster",
            hint="write a random secret to a file that only you can read, and configure the proxy to send it",
        )
    impersonating(load(kubeconfig, context), "", ())
