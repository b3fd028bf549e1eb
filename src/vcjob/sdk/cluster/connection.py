"""The connection to one cluster that its handles share: an API client and the thread whose event loop runs it.

`connect` keeps one per kubeconfig and context. The kubeconfig files are checked at every call, so that `kubectl config
use-context` takes effect at once; handles made before keep the cluster of their job.

A forked child has neither the thread nor connections that it may use, so it opens its own on first use; the
parent's objects are kept untouched there, because their destructors would close what the parent still uses.
"""

from __future__ import annotations

import os
from functools import lru_cache
from pathlib import Path

from vcjob.cluster.client.jobs import JobClient
from vcjob.cluster.client.loop_thread import LoopThread
from vcjob.kube.config.config import ClusterConfig, kubeconfig_files, load

_inherited: list[tuple[JobClient, LoopThread]] = []


class ClusterConnection:
    """The client and the thread of one cluster.

    Used by `cluster_backend` and `handle`; every coroutine of `jobs` runs on `loop`. After a fork the child makes its
    own.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self.namespace = config.namespace
        self._open()

    @property
    def jobs(self) -> JobClient:
        self._reopen_after_fork()
        return self._jobs

    @property
    def loop(self) -> LoopThread:
        self._reopen_after_fork()
        return self._loop

    def _reopen_after_fork(self) -> None:
        if os.getpid() != self._pid:
            _inherited.append((self._jobs, self._loop))
            self._open()

    def close(self) -> None:
        """Close the connections and end the thread; requests in progress are cancelled."""
        self._loop.close()

    def _open(self) -> None:
        self._pid = os.getpid()
        self._jobs = JobClient(self._config)
        self._loop = LoopThread(self._jobs.close)


def connect(context: str | None, kubeconfig: str | None) -> ClusterConnection:
    """The cluster that kubectl would use with the same options at this time."""
    files = tuple((str(file), _version(file)) for file in kubeconfig_files(kubeconfig))
    return _connect(context, kubeconfig, files)


@lru_cache(maxsize=8)
def _connect(context: str | None, kubeconfig: str | None, _files: object) -> ClusterConnection:
    return ClusterConnection(load(kubeconfig, context))


def _version(file: Path) -> tuple[int, int, int] | None:
    """What changes whenever a file is written; None where it cannot be read (`load` says why)."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns
