"""All jobs of one home folder, by namespace and name; each has its newest run and earlier ones.

The SDK's local backend creates, finds, expires and deletes runs here. What is inside a run's folder is the business of
`RunDir`. One lock per job name guards creation and removal, and a run is removed under its own lock too, so that no
verb removes a run that somebody supervises. Raises NoSuchJob, JobExists, or StoreError with the path and the reason.
"""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import time
from collections.abc import Iterator
from typing import Any

from vcjob.errors import JobExists, NoSuchJob, StoreError
from vcjob.lifecycle.status import Phase, Status
from vcjob.local.jobs.recovery import settle, sweep
from vcjob.local.machine import files
from vcjob.local.run import home, locks
from vcjob.local.run.run_dir import CONFIG_NAMES, RunConfig, RunDir

#: A removed run is renamed with this suffix before its files are removed: other processes see all of it or nothing.
_REMOVED = ".removed"
_LOCK_WAIT = 2.0


class Store:
    """The jobs under `folder`, a home folder (by default the user's own).

    The local side of the SDK uses it; any number of processes may, at the same time. StoreError if the folder cannot
    be used, NoSuchJob for an unknown name.
    """

    def __init__(self, folder: str | None = None) -> None:
        self.folder = folder or home.home_folder()

    @classmethod
    def of(cls, run: RunDir) -> Store:
        """The store that a run belongs to."""
        return cls(run.home)

    def _job_folder(self, namespace: str, name: str) -> str:
        """Raises NoSuchJob for a name that would lead out of the store: names also arrive from the web page."""
        if not (_is_entry(namespace) and _is_entry(name)):
            raise NoSuchJob(
                f"no job can have the name {f'{namespace}/{name}'!r}",
                hint="`vcjob list` shows the jobs that exist",
            )
        return os.path.join(home.jobs_folder(self.folder), namespace, name)

    def create(self, doc: dict[str, Any], config: RunConfig, given: str) -> tuple[RunDir, int]:
        """A new run, and its lock for the supervisor to inherit, so that the run always has an owner.

        `doc` is the Job with its uid set. Raises JobExists if a run of that name is still running; one that has
        ended stays in the store as an earlier run.
        """
        metadata = doc["metadata"]
        namespace, name, uid = metadata.get("namespace") or "default", metadata["name"], metadata["uid"]
        home.make_home(self.folder)
        folder = self._job_folder(namespace, name)
        with self._locked(folder, create=True):
            _sweep(folder)
            before = self._current(folder)
            if before is not None and before.supervised() and not before.being_settled():
                reference = name if namespace == "default" else f"{name} -n {namespace}"
                raise JobExists(
                    f"the job {name!r} is already running",
                    hint=f"see it with `vcjob status {reference}`, end it with `vcjob stop {reference}`, "
                    "or give this one another name: --name for a script, metadata.name in a Job file",
                )
            if before is not None:
                settle(before)  # processes that a killed supervisor left must not meet the new run
            run = RunDir(os.path.join(folder, uid))
            try:
                return run, self._write(run, doc, config, given)
            except BaseException:
                shutil.rmtree(run.folder, ignore_errors=True)
                raise

    def _write(self, run: RunDir, doc: dict[str, Any], config: RunConfig, given: str) -> int:
        files.make_folder(run.folder)
        files.write_atomic(run.path("given.yaml"), given.encode())
        files.write_json(run.path(CONFIG_NAMES[0]), config)
        run.take_reserve()
        lock = run.lock()
        if lock is None:
            raise StoreError(f"the run {run.uid} is held by another process")
        try:
            files.write_json(run.path("job.json"), doc)  # last: a folder with it is a complete run
            self._point(os.path.dirname(run.folder), run.uid)
        except BaseException:
            os.close(lock)
            raise
        return lock

    def current(self, name: str, namespace: str = "default") -> RunDir:
        """The newest run of that name, or NoSuchJob."""
        run = self._current(self._job_folder(namespace, name))
        if run is None:
            raise self._no_such_job(name, namespace)
        return run

    def older(self, name: str, namespace: str = "default") -> list[RunDir]:
        """The earlier runs of that name, newest first."""
        folder = self._job_folder(namespace, name)
        newest = self._current(folder)
        runs = [run for run in self._runs(folder) if newest is None or run.uid != newest.uid]
        return sorted(runs, key=RunDir.created, reverse=True)

    def by_uid(self, uid: str) -> RunDir | None:
        if not _is_entry(uid):
            return None
        for namespace, name in self._names():
            run = RunDir(os.path.join(self._job_folder(namespace, name), uid))
            if run.exists():
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

    def delete(self, run: RunDir) -> None:
        """Remove a run: the newest one together with the earlier runs of that name, an earlier one alone.

        Raises JobExists, and removes nothing, if one of them is running: stop it first.
        """
        folder = os.path.dirname(run.folder)
        with contextlib.suppress(FileNotFoundError), self._locked(folder):
            self._remove(run)
        self._erase_removed(folder)

    def discard(self, run: RunDir) -> None:
        """Remove a new run that could not be started; the run before it is the newest again."""
        with contextlib.suppress(FileNotFoundError), self._locked(os.path.dirname(run.folder)):
            _rename_away(run.folder)
            _sweep(os.path.dirname(run.folder))

    def delete_expired(self, run: RunDir) -> bool:
        """Remove a run that has outlived its ttlSecondsAfterFinished; False if it has not, or if somebody follows it.

        A run that cannot be read or removed stays, and is no error here: others are still to be listed.
        """
        try:
            return self._delete_expired(run)
        except NoSuchJob:  # another process has just removed it
            return True
        except (JobExists, StoreError):  # reading it gives the reason
            return False

    def _delete_expired(self, run: RunDir) -> bool:
        """Which run is the newest, whether it is supervised and when it ended are read under the lock: a run that is
        started at the same time is never removed with the old one."""
        ttl = run.job().spec.ttl_seconds_after_finished
        if ttl is None or run.supervised() or not _outlived(settle(run), ttl):
            return False
        folder = os.path.dirname(run.folder)
        with contextlib.suppress(FileNotFoundError), self._locked(folder):
            if run.exists():
                if run.supervised() or run.watched() or not _outlived(run.status() or Status(), ttl):
                    return False
                self._remove(run)
        self._erase_removed(folder)
        return True

    def _remove(self, run: RunDir) -> None:
        """Make a run invisible; the caller holds the lock of the job, and calls `_erase_removed` without it."""
        folder = os.path.dirname(run.folder)
        newest = self._current(folder)
        runs = [run]
        if newest is not None and newest.uid == run.uid:
            runs += [each for each in self._runs(folder) if each.uid != run.uid]
        with contextlib.ExitStack() as held:
            for each in runs:
                if os.path.isdir(each.folder):
                    held.callback(os.close, _own(each))
            sweep(*runs)  # a lost run may have processes, which nobody can find without its folder
            for each in reversed(runs):  # the newest last: if we are interrupted, it can be deleted again
                _rename_away(each.folder)

    def _erase_removed(self, folder: str) -> None:
        """Remove the files of removed runs, without the lock of the job: this may take long, and nobody else needs them."""
        for path in _removed_runs(folder):
            shutil.rmtree(path, ignore_errors=True)
            if os.path.isdir(path):
                try:
                    shutil.rmtree(path)
                except FileNotFoundError:
                    pass  # another process removes the same files
                except OSError as error:
                    raise files.cannot_write(path, error) from error
        with contextlib.suppress(FileNotFoundError, StoreError), self._locked(folder):
            _sweep(folder)

    def _names(self) -> Iterator[tuple[str, str]]:
        jobs = home.jobs_folder(self.folder)
        for namespace in _entries(jobs):
            try:
                names = _entries(os.path.join(jobs, namespace))
            except StoreError:  # listed without its name: reading it gives the reason
                names = ["?"]
            for name in names:
                yield namespace, name

    def _runs(self, folder: str) -> list[RunDir]:
        found = (RunDir(os.path.join(folder, entry)) for entry in _entries(folder) if entry != "current")
        return [run for run in found if run.exists()]

    def _current(self, folder: str) -> RunDir | None:
        """The run that `current` points to; the newest one if an interrupted verb left no valid link."""
        try:
            run = RunDir(os.path.join(folder, os.readlink(os.path.join(folder, "current"))))
            if run.exists():
                return run
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.EINVAL):
                return RunDir(os.path.join(folder, "current"))  # reading it gives the reason
        return max(self._runs(folder), key=RunDir.created, default=None)

    def _point(self, folder: str, uid: str) -> None:
        temporary = os.path.join(folder, f"current.{os.getpid()}.tmp")
        try:
            os.symlink(uid, temporary)
            os.replace(temporary, os.path.join(folder, "current"))
            files.sync_folder(folder)
        except OSError as error:
            raise files.cannot_write(folder, error) from error

    @contextlib.contextmanager
    def _locked(self, folder: str, *, create: bool = False) -> Iterator[None]:
        """Hold the lock of a job name; the last one to leave an empty folder removes it."""
        descriptor = None
        while descriptor is None:
            if create:
                files.make_folder(folder)
            try:
                descriptor = locks.hold(os.path.join(folder, "lock"))
            except FileNotFoundError:  # the folder was removed, by us or by another process
                if not create:
                    raise
        try:
            yield
        finally:
            try:
                if not self._runs(folder):
                    _remove_empty(folder)
            finally:
                os.close(descriptor)

    def _no_such_job(self, name: str, namespace: str) -> NoSuchJob:
        names = list(self._names())
        elsewhere = sorted(space for space, known in names if known == name and space != namespace)
        if elsewhere:
            message = f"no job {name!r} in the namespace {namespace!r} (it exists in {', '.join(elsewhere)})"
            return NoSuchJob(message, hint=f"add `-n {elsewhere[0]}`")
        message = f"no job {name!r} here"
        owners = [known for space, known in names if space == namespace and _may_own(known, name)]
        if owners:
            return NoSuchJob(message, hint=f"for a pod of the job {max(owners, key=len)!r}, give that name")
        return NoSuchJob(message, hint="`vcjob list` shows the jobs that exist")


def _is_entry(name: str) -> bool:
    """Whether a folder of the store can hold an entry of this name."""
    return name not in ("", ".", "..") and "/" not in name and "\0" not in name


def _may_own(job: str, pod: str) -> bool:
    """Whether a pod of this name could belong to the job: JOB-TASK-INDEX."""
    task, dash, index = pod.removeprefix(f"{job}-").rpartition("-")
    return pod.startswith(f"{job}-") and bool(task and dash) and index.isdecimal()


def _outlived(status: Status, ttl: int) -> bool:
    ended = status.over or (status.phase is Phase.ABORTED and status.suspended_by != "spec")
    return ended and status.finished is not None and time.time() >= status.finished + ttl


def _own(run: RunDir) -> int:
    """The lock of a run that is to be removed."""
    if run.being_settled():
        with run.settling():
            pass  # the other verb may take some seconds
    lock = run.lock(_LOCK_WAIT)
    if lock is None:
        raise JobExists(f"the run {run.uid} is still running", hint=f"end it with `vcjob stop {run.uid}`")
    return lock


def _entries(folder: str) -> list[str]:
    try:
        return sorted(entry for entry in os.listdir(folder) if not entry.endswith((".tmp", _REMOVED)))
    except (FileNotFoundError, NotADirectoryError):
        return []
    except OSError as error:
        raise files.cannot_read(folder, error) from error


def _removed_runs(folder: str) -> list[str]:
    try:
        return [os.path.join(folder, entry) for entry in os.listdir(folder) if entry.endswith(_REMOVED)]
    except FileNotFoundError:
        return []


def _rename_away(folder: str) -> None:
    try:
        os.rename(folder, folder + _REMOVED)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise files.cannot_write(folder, error) from error


def _sweep(folder: str) -> None:
    """Remove what a removal or an interrupted creation left; the caller holds the lock of the job."""
    for entry in os.listdir(folder):
        path = os.path.join(folder, entry)
        with contextlib.suppress(OSError):
            if entry.endswith(".tmp") or (entry == "current" and not os.path.exists(path)):
                os.unlink(path)
            elif entry.endswith(_REMOVED) or (os.path.isdir(path) and not RunDir(path).exists()):
                shutil.rmtree(path)


def _remove_empty(folder: str) -> None:
    """The lock goes last; a process that made a new one in the meantime keeps the folder."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, "lock"))
        os.rmdir(folder)
