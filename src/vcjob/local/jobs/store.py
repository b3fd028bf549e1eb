"""All jobs of this home, by namespace and name; each with its newest run and the older ones."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
from collections.abc import Iterator
from typing import Any

from vcjob.errors import JobExists, NoSuchJob, StoreError
from vcjob.local.jobs.recovery import settle
from vcjob.local.machine import files
from vcjob.local.run import home
from vcjob.local.run.run_dir import RunConfig, RunDir


class Store:
    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or home.home_folder()

    @classmethod
    def of(cls, run: RunDir) -> Store:
        """The store that a run stands in: HOME/jobs/NAMESPACE/NAME/UID."""
        folder = run.folder
        for _ in range(4):
            folder = os.path.dirname(folder)
        return cls(folder)

    def _job_folder(self, namespace: str, name: str) -> str:
        return os.path.join(home.jobs_folder(self.folder), namespace, name)

    def create(self, doc: dict[str, Any], setting: RunConfig, given: str) -> tuple[RunDir, int]:
        """A new run, and its lock for the supervisor to inherit: there is no moment without an owner.

        `doc` is the Job with its uid set. A job of that name that is still running is refused; one that has
        ended stays in the store as an older run.
        """
        metadata = doc["metadata"]
        namespace, name, uid = metadata.get("namespace") or "default", metadata["name"], metadata["uid"]
        home.make_home(self.folder)
        folder = self._job_folder(namespace, name)
        files.make_folder(folder)
        with self._locked(folder):
            before = self._current(folder)
            if before is not None and before.supervised() and not before.being_settled():
                raise JobExists(
                    f"the job {name!r} is already running",
                    hint=f"see it with `vcjob status {name}`, end it with `vcjob stop {name}`, "
                    "or give this one another name (metadata.name)",
                )
            if before is not None:
                settle(before)  # what a killed supervisor left must not meet the new run
            run = RunDir(os.path.join(folder, uid))
            files.make_folder(run.folder)
            files.write_atomic(run.path("given.yaml"), given.encode())
            files.write_json(run.path("setting.json"), setting)
            run.reserve_trouble()
            lock = run.lock()
            if lock is None:
                raise StoreError(f"the run {uid} of the job {name!r} is held by another process")
            files.write_json(run.path("job.json"), doc)  # last: a folder with it is a whole one
            self._point(folder, uid)
        return run, lock

    def current(self, name: str, namespace: str = "default") -> RunDir:
        run = self._current(self._job_folder(namespace, name))
        if run is None:
            raise NoSuchJob(self._unknown(name, namespace), hint="`vcjob list` shows the jobs that are here")
        return run

    def older(self, name: str, namespace: str = "default") -> list[RunDir]:
        """The earlier runs of that name, newest first."""
        folder = self._job_folder(namespace, name)
        newest = self._current(folder)
        runs = [run for run in self._runs(folder) if newest is None or run.uid != newest.uid]
        return sorted(runs, key=RunDir.created, reverse=True)

    def by_uid(self, uid: str) -> RunDir | None:
        for namespace, name in self._names():
            run = RunDir(os.path.join(self._job_folder(namespace, name), uid))
            if os.path.exists(run.path("job.json")):
                return run
        return None

    def all(self, namespace: str | None = None) -> list[RunDir]:
        """The newest run of every job."""
        found = (
            self._current(self._job_folder(space, name))
            for space, name in self._names()
            if namespace is None or space == namespace
        )
        return [run for run in found if run is not None]

    def delete(self, run: RunDir, *, older_too: bool = True) -> None:
        """Forget a job (all its runs) or one run. What is still running is not touched: end it first."""
        folder = os.path.dirname(run.folder)
        with self._locked(folder):
            newest = self._current(folder)
            if newest is not None and newest.uid == run.uid:
                _unlink(os.path.join(folder, "current"))
            doomed = self._runs(folder) if older_too else [run]
            for each in doomed:
                _unlink(each.path("job.json"))  # first: half a folder is no run
                _remove(each.folder)
            if older_too:
                _remove(folder)

    def _names(self) -> Iterator[tuple[str, str]]:
        jobs = home.jobs_folder(self.folder)
        for namespace in _entries(jobs):
            for name in _entries(os.path.join(jobs, namespace)):
                yield namespace, name

    def _runs(self, folder: str) -> list[RunDir]:
        return [
            RunDir(os.path.join(folder, entry))
            for entry in _entries(folder)
            if entry != "current" and os.path.exists(os.path.join(folder, entry, "job.json"))
        ]

    def _current(self, folder: str) -> RunDir | None:
        try:
            uid = os.readlink(os.path.join(folder, "current"))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StoreError(f"the job store cannot be read: {folder}: {error.strerror}") from error
        run = RunDir(os.path.join(folder, uid))
        return run if os.path.exists(run.path("job.json")) else None

    def _point(self, folder: str, uid: str) -> None:
        temporary = os.path.join(folder, f"current.{os.getpid()}.tmp")
        try:
            os.symlink(uid, temporary)
            os.replace(temporary, os.path.join(folder, "current"))
            files.sync_folder(folder)
        except OSError as error:
            raise files.cannot_write(folder, error) from error

    @contextlib.contextmanager
    def _locked(self, folder: str) -> Iterator[None]:
        try:
            descriptor = os.open(os.path.join(folder, "lock"), os.O_RDWR | os.O_CREAT, files.PRIVATE_FILE)
        except OSError as error:
            raise files.cannot_write(folder, error) from error
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield
        finally:
            os.close(descriptor)

    def _unknown(self, name: str, namespace: str) -> str:
        elsewhere = sorted(space for space, known in self._names() if known == name and space != namespace)
        if elsewhere:
            return f"no job {name!r} in the namespace {namespace!r} (there is one in {', '.join(elsewhere)})"
        return f"no job {name!r} here"


def _entries(folder: str) -> list[str]:
    try:
        return sorted(entry for entry in os.listdir(folder) if not entry.endswith(".tmp"))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise StoreError(f"the job store cannot be read: {folder}: {error.strerror}") from error


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise files.cannot_write(path, error) from error


def _remove(folder: str) -> None:
    try:
        shutil.rmtree(folder)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise files.cannot_write(folder, error) from error
