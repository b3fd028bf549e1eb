"""Every error that vcjob raises on purpose.

::

    VcjobError                     message, hint, exit_code
    ├── UserError                  2: the request cannot be carried out as given
    │   ├── SourceError            a file cannot be read or is not YAML or JSON
    │   ├── InvalidJob             the Job has errors; carries every problem
    │   ├── NoSuchJob              no job of that name exists
    │   └── JobExists              a job of that name is running
    ├── JobFailed                  1: the job ran and did not complete
    ├── BackendError               3: the backend (this machine, the cluster) is not usable
    │   ├── Denied                 the user lacks the right to do this
    │   └── StoreError             the job store cannot be read or written
    │       └── RunDamaged         a file of one run cannot be understood; other runs are not affected
    ├── WaitTimeout                124: `wait --timeout` ran out
    └── Interrupted                130: the user pressed Ctrl-C

``vcjob.kube.errors`` adds its own subclasses of BackendError.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar

from vcjob.wellknown import exit_codes

if TYPE_CHECKING:
    from vcjob.report.failure import FailureReport
    from vcjob.sdk.handle import Handle
    from vcjob.spec.problem import Problem


class VcjobError(Exception):
    """An error with a message for users and, where possible, a hint how to fix it.

    The command line shows both and exits with `exit_code`; any other exception is an internal error there. In a
    traceback the hint is a note below the message. Errors can be pickled, so that they cross processes.
    """

    exit_code: ClassVar[int] = exit_codes.JOB_FAILED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint
        if hint is not None:
            self.add_note(f"hint: {hint}")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled without calling `__init__` again, whose arguments differ from class to class."""
        return _unpickle, (type(self), self.args), self.__dict__


class UserError(VcjobError):
    """The request cannot be carried out as given: a bad argument, file, Job or name.

    Raised before anything has changed. Repeating the request does not help; the hint says what to write instead.
    """

    exit_code = exit_codes.USAGE


class SourceError(UserError):
    """A file that cannot be read, or is not text at all.

    Raised by `load` and `validate`. Text that is no YAML, or no Job, is an InvalidJob instead, or a list of problems.
    """


class InvalidJob(UserError):
    """A Job that was refused; `problems` has all its errors and warnings.

    The message quotes the first three errors; the command line shows all of them with their places.
    """

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        errors = [p for p in self.problems if p.severity == "error"]
        shown = "; ".join(f"{p.path}: {p.message}" if p.path else p.message for p in errors[:3])
        more = f" (and {len(errors) - 3} more)" if len(errors) > 3 else ""
        super().__init__(f"the Job is not valid: {shown}{more}")


class NoSuchJob(UserError):
    """No job of that name exists on this backend.

    A handle raises it too when its job is deleted, also if another job has the name by then.
    """


class JobExists(UserError):
    """A job of that name is running, so it cannot be started again.

    Both backends raise it when a Job is started; nothing has been created then.
    """


class JobFailed(VcjobError):
    """The job ran and did not complete, or was deleted while somebody waited for it.

    `phase` is its last phase, `report` says which rank failed first and why, `handle` gives its logs; each is None
    where it is not known. A copy in another process has no handle.
    """

    exit_code = exit_codes.JOB_FAILED

    def __init__(
        self,
        message: str,
        *,
        hint: str | None = None,
        phase: str | None = None,
        report: FailureReport | None = None,
        handle: Handle | None = None,
    ) -> None:
        super().__init__(message, hint=hint)
        self.phase = phase
        self.report = report
        self.handle = handle

    def __reduce__(self) -> tuple[object, ...]:
        kind, args, state = super().__reduce__()
        assert isinstance(state, dict)
        return kind, args, {**state, "handle": None}


class BackendError(VcjobError):
    """The backend cannot be used: no cluster, no permission, or a machine that lacks something.

    The Job and the request may be right: they can work later or elsewhere. The errors of the Kubernetes client
    (`vcjob.kube.errors`) are subclasses.
    """

    exit_code = exit_codes.BACKEND


class Denied(BackendError):
    """The user lacks the right to do this on the cluster.

    Raised where the API server answers a user's request with 403; the message says what may not be done.
    """


class StoreError(BackendError):
    """The job store on this machine cannot be read or written.

    A full disk, missing permissions or a file system without locks: it concerns all jobs, except as a `RunDamaged`.
    """


class RunDamaged(StoreError):
    """A file of one run cannot be understood; the message names it, the hint says how to remove that run.

    Other runs are not affected: `list` shows the run with a warning, and the run can still be deleted.
    """


class WaitTimeout(VcjobError):
    """`wait --timeout` ran out before the job ended.

    Also raised by `Handle.wait` and `wait_all` with a timeout. The job continues.
    """

    exit_code = exit_codes.TIMEOUT


class Interrupted(VcjobError):
    """The user pressed Ctrl-C.

    The command line raises it while it follows a job, so that the exit code is 130 and no traceback is shown.
    """

    exit_code = exit_codes.INTERRUPTED


def _unpickle(kind: type[VcjobError], args: tuple[object, ...]) -> VcjobError:
    return kind.__new__(kind, *args)
