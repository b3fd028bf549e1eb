"""One run of a job: its folder, and the only code that knows the names of the files in it.

::

    UID/
    ├── job.json        the Job as admitted, with its uid and creation time
    ├── given.yaml      the file as the user wrote it
    ├── config.json     what the run needs of the caller: environment, folder, bundle, image map; removed at its end
    ├── status.json     the Job's status, written before any step that follows from it
    ├── pods.json       every pod of every attempt, as last seen
    ├── events          one JSON line per event
    ├── findings.json   what the supervisor has found out about ranks that wait for each other
    ├── commands/       requests of other verbs, one file each, until they are recorded in the status
    ├── wake            a FIFO: a byte in it makes the supervisor read the commands at once
    ├── lock            held by the supervisor as long as it lives
    ├── settling        held by a verb while it writes what became of a run whose supervisor was killed
    ├── watched         a shared lock of those who follow the run or wait for it: it does not expire meanwhile
    ├── reserve         room that is given up when the disk is full, so that the end of the job can still be written
    ├── trouble         room reserved for the reason why the store cannot be written
    ├── supervisor.log  errors of the supervisor itself (normally empty)
    └── pods/POD/ATTEMPT/CONTAINER.out .err and their time indexes
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Iterator
from typing import Any, TypeVar

import msgspec

from vcjob.diagnosis.finding import Finding
from vcjob.errors import NoSuchJob, RunDamaged
from vcjob.lifecycle.status import Status
from vcjob.local.machine import files
from vcjob.local.machine.folders import PRIVATE_FOLDER
from vcjob.local.run import locks
from vcjob.local.run.reserve import Reserve
from vcjob.report.podstate import PodState
from vcjob.spec.job import Job
from vcjob.wellknown import reasons

T = TypeVar("T")

#: The descriptor on which a starter hands the run's lock to the supervisor.
LOCK_DESCRIPTOR = 3
#: The file with the RunConfig, and its name in runs that an earlier version started.
CONFIG_NAMES = ("config.json", "setting.json")
_TROUBLE_ROOM = 4096


class RunConfig(msgspec.Struct, omit_defaults=True):
    """What a run takes from the shell that started it.

    `vcjob run` stores it, the supervisor reads it, and it is removed at the end of the run because an environment may
    hold secrets.
    """

    env: dict[str, str] = {}
    cwd: str = "/"
    #: ConfigMaps, Secrets and PersistentVolumeClaims from the same file as the Job.
    bundle: list[dict[str, Any]] = []
    images: dict[str, list[str]] = {}
    warm: bool = False


class Event(msgspec.Struct, omit_defaults=True):
    """One line of a run's event file, in the terms of Kubernetes' events.

    The supervisor and recovery append them; `vcjob events` shows them.
    """

    time: float
    type: str
    reason: str
    message: str


class Command(msgspec.Struct, omit_defaults=True):
    """A request of a verb. `uid` makes it count once, however often a supervisor sees it."""

    uid: str
    action: str
    at: float
    by: str = ""


# msgspec resolves the fields of a type when it first needs them, and crashes if two threads do that at the same time.
for _kind in (RunConfig, Event, Command, PodState, Finding):
    msgspec.json.Decoder(_kind)


class RunDir:
    """The files of one run. A file that cannot be understood raises RunDamaged, which names the run and the fix.

    What can be shown without that file is shown: a damaged record of pods or line of events only adds to `damage`.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self.reserve = Reserve(self.path("reserve"))
        #: What is damaged, as far as it was read: file name to sentence.
        self.damage: dict[str, str] = {}

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    @property
    def uid(self) -> str:
        return os.path.basename(self.folder)

    @property
    def name(self) -> str:
        return os.path.basename(os.path.dirname(self.folder))

    @property
    def namespace(self) -> str:
        return os.path.basename(os.path.dirname(os.path.dirname(self.folder)))

    @property
    def home(self) -> str:
        """The home folder that the run belongs to: HOME/jobs/NAMESPACE/NAME/UID."""
        return os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(self.folder))))

    def exists(self) -> bool:
        return os.path.exists(self.path("job.json"))

    def _read(self, name: str, kind: type[T]) -> T | None:
        try:
            value = files.read_json(self.path(name), kind)
        except RunDamaged as error:
            raise self._damaged(name, error.__cause__) from error
        self.damage.pop(name, None)
        return value

    def _damaged(self, name: str, reason: object) -> RunDamaged:
        error = RunDamaged(
            f"the run {self.uid} of the job {self.name!r} is damaged: {self.path(name)}: {reason}",
            hint=f"`vcjob delete {self.uid}` removes this run; other jobs are not affected",
        )
        self.damage[name] = f"{error.message}; {error.hint}"
        return error

    # The Job and its status

    def job(self) -> Job:
        doc = self._read("job.json", dict[str, Any])
        if doc is None:
            raise self._removed()  # it is written before anybody can find the run, and removed first
        try:
            return Job(doc)
        except (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._damaged("job.json", error) from error

    def source_text(self) -> str | None:
        """The file as the user wrote it; None where it cannot be read."""
        try:
            with open(self.path("given.yaml"), encoding="utf-8", errors="replace") as file:
                return file.read()
        except OSError:
            return None

    def config(self) -> RunConfig:
        for name in CONFIG_NAMES:
            found = self._read(name, RunConfig)
            if found is not None:
                return found
        return RunConfig()

    def forget_environment(self) -> None:
        """Remove the caller's environment and the Secrets of the bundle from the store: the last step of a run's end."""
        for name in CONFIG_NAMES:
            _unlink(self.path(name))

    def has_environment(self) -> bool:
        """Whether it is still in the store. If the run is over, the cleanup at its end was interrupted."""
        return any(os.path.exists(self.path(name)) for name in CONFIG_NAMES)

    def status(self) -> Status | None:
        document = self._read("status.json", dict[str, Any])
        try:
            return None if document is None else Status.from_kube(document)
        except (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError) as error:
            raise self._damaged("status.json", error) from error

    def observed_status(self) -> Status:
        """The status for users: while the store cannot be written, its message says so, because it may be out of date."""
        status, trouble = self.status() or Status(), self.trouble()
        if not trouble or status.over:
            return status
        return msgspec.structs.replace(status, state=msgspec.structs.replace(status.state, message=trouble))

    def write_status(self, status: Status) -> None:
        self.reserve.write(lambda: files.write_json(self.path("status.json"), status.to_kube()))

    def pods(self) -> list[PodState]:
        """The pods as last recorded; none where the record is damaged (see `damage`)."""
        try:
            return self._read("pods.json", list[PodState]) or []
        except RunDamaged:
            return []

    def write_pods(self, pods: list[PodState], *, durable: bool = False) -> None:
        """Record the pods; `durable` when the supervisor ends, because they are not written again."""
        self.reserve.write(lambda: files.write_json(self.path("pods.json"), pods, durable=durable))

    # Events and commands

    def events(self) -> list[Event]:
        """What happened, oldest first; lines that are damaged are left out, which the last event then says."""
        events, damaged = files.read_lines(self.path("events"), Event)
        if damaged:
            error = self._damaged("events", f"{damaged} of {len(events) + damaged} lines cannot be read")
            last = events[-1].time if events else 0.0
            events.append(Event(last, "Warning", reasons.EVENTS_DAMAGED, f"{error.message}; {error.hint}"))
        return events

    def add_event(self, event: Event) -> None:
        self.reserve.write(lambda: files.append_line(self.path("events"), event))

    def findings(self) -> list[Finding]:
        """What the supervisor found while the job ran; none where the record is damaged."""
        try:
            return self._read("findings.json", list[Finding]) or []
        except RunDamaged:
            return []

    def write_findings(self, findings: list[Finding]) -> None:
        self.reserve.write(lambda: files.write_json(self.path("findings.json"), findings, durable=False))

    def remove_findings(self) -> None:
        """Remove what was found about ranks that no longer exist."""
        with contextlib.suppress(OSError):
            os.unlink(self.path("findings.json"))

    def send(self, action: str, at: float, by: str = "") -> Command:
        """Leave a request for the supervisor and wake it."""
        command = Command(uid=str(uuid.uuid4()), action=action, at=at, by=by)

        def write() -> None:
            self._make_commands_folder()
            files.write_json(self.path("commands", f"{command.uid}.json"), command)

        self.reserve.write(write)
        self.wake()
        return command

    def _make_commands_folder(self) -> None:
        """Without the folders above it: those of a run that was deleted must not be created again."""
        try:
            os.mkdir(self.path("commands"), PRIVATE_FOLDER)
        except FileExistsError:
            pass
        except FileNotFoundError:
            raise self._removed() from None
        except OSError as error:
            raise files.cannot_write(self.path("commands"), error) from error

    def commands(self) -> list[Command]:
        """The requests that wait, oldest first."""
        try:
            names = os.listdir(self.path("commands"))
        except FileNotFoundError:
            return []
        except OSError as error:
            raise files.cannot_read(self.path("commands"), error) from error
        found = []
        for name in names:
            if name.endswith(".json"):
                with contextlib.suppress(
                    RunDamaged
                ):  # it cannot be carried out, and must not block the others
                    found.append(files.read_json(self.path("commands", name), Command))
        return sorted((command for command in found if command), key=lambda c: (c.at, c.uid))

    def forget_command(self, uid: str) -> None:
        _unlink(self.path("commands", f"{uid}.json"))

    def wake(self) -> None:
        try:
            descriptor = os.open(self.path("wake"), os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            return  # no supervisor, or one without a FIFO, which reads the commands every second
        try:
            os.write(descriptor, b".")
        except OSError:
            pass
        os.close(descriptor)

    def open_wake(self) -> int | None:
        """The reading end of the FIFO, for the supervisor; None where the file system has no FIFOs."""
        path = self.path("wake")
        try:
            if not os.path.exists(path):
                os.mkfifo(path, files.PRIVATE_FILE)
            return os.open(path, os.O_RDWR | os.O_NONBLOCK)
        except OSError:
            return None

    def created(self) -> int:
        """When it was made, in nanoseconds: runs are listed in this order."""
        try:
            return os.stat(self.path("given.yaml")).st_mtime_ns
        except OSError:
            return 0

    # Who holds it

    def lock(self, wait: float = 0.03) -> int | None:
        """The lock of the one process that may act on this run, as a descriptor; None if another one has it."""
        try:
            return locks.try_hold(self.path("lock"), wait)
        except FileNotFoundError:
            raise self._removed() from None

    @contextlib.contextmanager
    def settling(self) -> Iterator[None]:
        """One verb at a time writes what became of a run without a supervisor; the next one finds it written."""
        try:
            descriptor = locks.hold(self.path("settling"))
        except FileNotFoundError:
            raise self._removed() from None
        try:
            yield
        finally:
            os.close(descriptor)

    @contextlib.contextmanager
    def watching(self) -> Iterator[None]:
        """While somebody waits for this run or follows it, it does not expire."""
        descriptor = locks.share(self.path("watched"))
        try:
            yield
        finally:
            if descriptor is not None:
                os.close(descriptor)

    def watched(self) -> bool:
        return locks.is_held(self.path("watched"), shared=True)

    def supervised(self) -> bool:
        """Does a supervisor live? A probe that takes nothing away from anybody."""
        return locks.is_held(self.path("lock"))

    def being_settled(self) -> bool:
        return locks.is_held(self.path("settling"))

    def _removed(self) -> NoSuchJob:
        return NoSuchJob(
            f"the job {self.name!r} was deleted in the meantime (run {self.uid})",
            hint="`vcjob list` shows the jobs that exist",
        )

    # A full disk, about which no new file can be written

    def take_reserve(self) -> None:
        """Take the room that is needed to write, on a full disk, how the job ended and why nothing else is written."""
        try:
            with open(self.path("trouble"), "wb") as file:
                file.write(b" " * _TROUBLE_ROOM)
        except OSError as error:
            raise files.cannot_write(self.path("trouble"), error) from error
        self.reserve.take()

    def set_trouble(self, text: str) -> None:
        data = text.encode(errors="backslashreplace")[:_TROUBLE_ROOM].ljust(_TROUBLE_ROOM)
        try:
            descriptor = os.open(self.path("trouble"), os.O_WRONLY)
            os.pwrite(descriptor, data, 0)
            os.close(descriptor)
        except OSError:
            pass  # a store that has become read-only has no place left to say it

    def trouble(self) -> str:
        return (files.read_bytes(self.path("trouble")) or b"").decode(errors="replace").strip()

    def pod_folder(self, pod: str, attempt: int) -> str:
        return self.path("pods", pod, str(attempt))


def _unlink(path: str) -> None:
    try:
        os.unlink(path)
    except FileNotFoundError:
        pass
    except OSError as error:
        raise files.cannot_write(path, error) from error
