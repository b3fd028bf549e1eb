"""This machine as a backend: Jobs run as processes and are kept in the job store.

Each method loads what it needs: `vcjob run` calls `prestart` before the rest of the package is loaded, so that the
supervisor's process loads at the same time.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, closing
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vcjob.local.supervisor.prestart import PrestartedSupervisor
    from vcjob.sdk.backend import RunOptions
    from vcjob.sdk.handle import Handle
    from vcjob.sdk.loading import Loaded
    from vcjob.spec.job import BackendName


class LocalBackend:
    """See `backend.Backend`. One object starts at most one prestarted supervisor at a time.

    `open_backend` makes it. Every call opens the job store again, so it keeps nothing of a job.
    """

    name: BackendName = "local"

    def __init__(self) -> None:
        self._prestarted: PrestartedSupervisor | None = None

    def find(self, name: str, namespace: str | None) -> Handle:
        """The newest run of that name, or the run of that uid."""
        from vcjob.errors import NoSuchJob
        from vcjob.local.jobs.store import Store
        from vcjob.sdk.local.handle import LocalHandle

        store = Store()
        by_uid = store.by_uid(name) if len(name) == 36 else None
        run = by_uid or store.current(name, namespace or "default")
        if store.delete_expired(run):
            raise NoSuchJob(
                f"no job {name!r} here: it had ended, and its ttlSecondsAfterFinished is over",
                hint="`vcjob list` shows the jobs on this machine",
            )
        return LocalHandle(run)

    def list(self, namespace: str | None, *, all_namespaces: bool = False) -> Sequence[Handle]:
        """The newest run of each job; without a namespace those of all namespaces."""
        from vcjob.local.jobs.store import Store
        from vcjob.local.run.run_dir import RunDir
        from vcjob.sdk.local.handle import LocalHandle

        store = Store()
        found = [run for run in store.all(namespace) if not store.delete_expired(run)]
        return [LocalHandle(run) for run in sorted(found, key=RunDir.created)]

    def own_namespace(self) -> str:
        return "default"

    def denied(self, namespace: str | None) -> dict[str, str]:
        """None: every job here is the caller's own."""
        return {}

    def check_configuration(self) -> None:
        """This machine needs none."""

    def check_local_options(self, given: Mapping[str, object]) -> None:
        """All of them apply here."""

    def prestart(self, *, warm: bool = False) -> AbstractContextManager[object]:
        from vcjob.local.supervisor.prestart import PrestartedSupervisor

        self._prestarted = PrestartedSupervisor(warm=warm)
        return closing(self._prestarted)

    def start(self, loaded: Loaded, options: RunOptions) -> Handle:
        from vcjob.sdk.local.start import start

        prestarted, self._prestarted = self._prestarted, None
        return start(loaded, options, prestarted)
