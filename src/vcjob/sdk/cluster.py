"""The jobs of a cluster: found, listed, started."""

from __future__ import annotations

from typing import Any

from vcjob.cluster.client.jobs import JobClient
from vcjob.cluster.client.loop_thread import LoopThread
from vcjob.errors import UserError
from vcjob.sdk.cluster_handle import ClusterHandle
from vcjob.sdk.handle import Handle
from vcjob.sdk.loading import Loaded
from vcjob.sdk.rendering import placed


class ClusterBackend:
    """One cluster, as one kubeconfig and context name it."""

    def __init__(self, context: str | None, kubeconfig: str | None) -> None:
        self._ground = JobClient.open(kubeconfig, context)
        self._portal = LoopThread(self._ground.close)
        self._options = " --on cluster"
        if context:
            self._options += f" --context {context}"
        if kubeconfig:
            self._options += f" --kubeconfig {kubeconfig}"

    def find(self, name: str, namespace: str | None) -> Handle:
        return self._handle(self._portal.call(self._ground.job(name, self._namespace(namespace))))

    def jobs(self, namespace: str | None, *, all_namespaces: bool) -> list[Handle]:
        if namespace and all_namespaces:
            raise UserError("one namespace or all of them, not both", hint="leave -n or -A out")
        wanted = None if all_namespaces else self._namespace(namespace)
        return [self._handle(job) for job in self._portal.call(self._ground.jobs(wanted))]

    def start(self, loaded: Loaded, namespace: str | None, *, strict: bool) -> Handle:
        """Create the Job of a source as the user wrote it: the cluster fills in its defaults itself."""
        job = placed(loaded.job, namespace=namespace)  # refuses a namespace that is not the Job's own
        where = job.metadata.namespace or self._namespace(None)
        given = {key: value for key, value in loaded.given[0].items() if key != "status"}
        given["metadata"] = {**given["metadata"], "namespace": where}
        companions = [*loaded.config_maps.values(), *loaded.secrets.values(), *loaded.claims.values()]
        return self._handle(self._portal.call(self._ground.create(given, where, companions, strict=strict)))

    def _namespace(self, namespace: str | None) -> str:
        return namespace or self._ground.config.namespace

    def _handle(self, job: dict[str, Any]) -> ClusterHandle:
        return ClusterHandle(self._ground, self._portal, job, self._options)
