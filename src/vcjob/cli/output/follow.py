"""Following jobs that `run` has started: logs and state until the end, Ctrl-C, and the result.

Several jobs of one file are followed at once, each with its own screen. Nothing here depends on the backend.
"""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

import click

from vcjob.cli.output.style import Style
from vcjob.errors import BackendError, Interrupted, JobFailed, NoSuchJob, UserError

if TYPE_CHECKING:
    from vcjob.cli.output.screen import Screen
    from vcjob.sdk.handle import Handle

_NOTES_EVERY = 0.25
_PROGRESS_EVERY = 1.0


class FollowedJob:
    """One job on the screen. `step` shows what is new; `ended` says that there will be nothing more."""

    def __init__(self, job: Handle, reference: str, screen: Screen) -> None:
        self.job = job
        self.reference = reference
        self._screen = screen
        self._follower = job.follow()
        #: It was deleted after Ctrl-C because no controller had picked it up.
        self.discarded = False
        self._notes = 0
        self._notes_read_at = self._progress_read_at = 0.0
        self._trouble_shown = self._suspended = False

    @property
    def ended(self) -> bool:
        return self.discarded or self._follower.ended

    def step(self) -> None:
        if self.ended:
            return
        try:
            chunks = self._follower.poll()
        except BackendError as error:
            if self.job.ends_at_once:
                raise
            raise BackendError(
                f"the job {self.job.name!r} was created, but it cannot be followed: {error.message}",
                hint=f"`vcjob status {self.reference}` shows its state; {error.hint}"
                if error.hint
                else f"`vcjob status {self.reference}` shows its state",
            ) from error
        if self._screen.shows_progress and time.monotonic() - self._progress_read_at > _PROGRESS_EVERY:
            self._read_progress()
        self._screen.logs(chunks)
        if time.monotonic() - self._notes_read_at > _NOTES_EVERY or self.ended:
            self._show_notes()  # before the state, whose last line is the end of the job
        self._screen.state(self._follower.status, self._follower.pods)
        if self._follower.has_trouble() and not self._trouble_shown:
            self._trouble_shown = True
            self._screen.note(self._screen.clean(self.job.trouble()))
        suspended = self._follower.status.suspended
        if suspended and not self._suspended:
            self._screen.note(
                f"{self.job.name} is suspended; continue with `vcjob resume {self.reference}` in another shell"
            )
        self._suspended = suspended

    def wait(self) -> None:
        self._follower.wait()

    def close(self) -> None:
        self._screen.close()
        self._follower.close()

    def interrupt(self, number: int) -> Interrupted | None:
        """Answer the first, second or third Ctrl-C; returns an error if the job is not to be followed any longer."""
        if self.ended:
            return None
        name = self.job.name
        if number > 2:
            return Interrupted(f"left while the job {name!r} is being killed")
        again = "kill it" if self.job.ends_at_once else "kill its pods and leave"
        self._screen.note(
            f"ending the job; press Ctrl-C again to {again}" if number == 1 else "killing the job"
        )
        if self.job.discard_unserved():
            self.discarded = True
            self._screen.note(
                f"deleted the job {name!r}, which no controller had picked up; "
                f"`vcjob doctor --on cluster -n {self.job.namespace}` shows whether one serves the namespace"
            )
            return None
        with suppress(UserError):  # it has just ended on its own
            self.job.stop(now=number == 2)
            if number == 1 and not self.job.ends_at_once:
                self.job.wait_for_command()  # bounded: a controller that has died handles no request
        if number == 1 or self.job.ends_at_once:
            return None
        return Interrupted(
            f"left; the cluster is still ending the job {name!r}",
            hint=f"`vcjob status {self.reference}` shows its progress",
        )

    def _read_progress(self) -> None:
        from vcjob.cli.output.progress import progress_of_job

        self._progress_read_at = time.monotonic()
        self._screen.progress = str(progress_of_job(self.job, self._follower.status) or "")

    def _show_notes(self) -> None:
        """What the user should know about the job, each note once."""
        self._notes_read_at = time.monotonic()
        notes = self.job.notes()
        for note in notes[self._notes :]:
            self._screen.note(f"note: {self._screen.clean(note)}")
        self._notes = len(notes)


def follow(jobs: Sequence[tuple[Handle, str]], interrupts: Interrupts, output: str) -> None:
    """Show jobs, each with its reference, until the last one ends; the exit code says how they ended."""
    from vcjob.cli.output.screen import screen_for

    # With -o json, standard output is for the Job object alone.
    stream = sys.stdout if output == "table" else sys.stderr
    with ExitStack() as held:
        followed = []
        for job, reference in jobs:
            # With a TTL of 0 another verb would remove it before its result is shown.
            held.enter_context(job.watching())
            followed.append(
                FollowedJob(job, reference, screen_for(job.name, stream, among_others=len(jobs) > 1))
            )
        try:
            try:
                _watch(followed, interrupts)
            finally:
                for each in followed:
                    each.close()
            _finish(followed, output, interrupts)
        except NoSuchJob as error:  # another shell has deleted it
            raise JobFailed(error.message, hint=error.hint) from error


def _watch(jobs: list[FollowedJob], interrupts: Interrupts) -> None:
    answered = 0
    while running := [job for job in jobs if not job.ended]:
        for job in running:
            job.step()
        while answered < interrupts.count:
            answered += 1
            left = [error for job in running if (error := _answer(job, answered)) is not None]
            if left:
                # Every job was asked to end. What went wrong says more than that the others still end.
                raise next((error for error in left if not isinstance(error, Interrupted)), left[0])
        running[0].wait()


def _answer(job: FollowedJob, number: int) -> Exception | None:
    """Why it is not to be followed any longer: an error must not keep the other jobs from being ended."""
    try:
        return job.interrupt(number)
    except Exception as error:
        return error


def _finish(jobs: list[FollowedJob], output: str, interrupts: Interrupts) -> None:
    """Show the results; the exit code is that of a failed job unless all are Completed."""
    failed = False
    documents = []
    for followed in jobs:
        if followed.discarded:
            continue
        job = followed.job
        status = job.status()
        failed |= str(status.phase) != "Completed"
        if output == "table":
            from vcjob.cli.output.summary import summary

            sys.stdout.write("\n".join(summary(job, status, Style(sys.stdout), followed.reference)) + "\n")
        else:
            documents.append(job.to_dict())
    if documents:
        from vcjob.cli.output.objects import write_objects

        write_objects(documents, output)
    sys.stdout.flush()
    if interrupts.count:
        raise click.exceptions.Exit(Interrupted.exit_code)
    if failed:
        raise click.exceptions.Exit(JobFailed.exit_code)


class Interrupts:
    """Counts Ctrl-C and SIGTERM, so that they are answered between two steps and never in the middle of one.

    `vcjob run` uses it as a context while it starts and follows jobs; the loop that follows decides what each one
    means.
    """

    def __init__(self) -> None:
        self.count = 0

    def __enter__(self) -> Interrupts:
        self._before = {
            number: signal.signal(number, self._note) for number in (signal.SIGINT, signal.SIGTERM)
        }
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.count += 1
