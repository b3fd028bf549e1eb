"""`vcjob run`: start, follow, end."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

import click

from vcjob.cli.job_reference import job_reference
from vcjob.cli.options import allow_unknown_option, backend_options, output_option, path_of
from vcjob.cli.style import Style
from vcjob.errors import Interrupted, JobFailed, UserError

if TYPE_CHECKING:
    from vcjob.cli.screen import Screen
    from vcjob.sdk.backend import Where
    from vcjob.sdk.handle import Follower, Handle

_NOTES_EVERY = 0.25


@click.command("run")
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@backend_options("The namespace of a Job that names none.")
@click.option("-d", "--detach", is_flag=True, help="Return at once; the job goes on by itself.")
@click.option(
    "--image",
    "images",
    metavar="IMAGE=COMMAND",
    multiple=True,
    help="On this machine: what to run for an image without a command.",
)
@click.option("--warm", is_flag=True, help="On this machine: import torch once and fork the ranks.")
@allow_unknown_option
@output_option(("table", "json", "yaml"))
def command(
    *,
    file: str,
    where: Where,
    detach: bool,
    images: tuple[str, ...],
    warm: bool,
    allow_unknown: bool,
    output: str,
) -> None:
    """Run a Job: start it, follow it, and say what came of it.

    On this machine its ranks are processes and its images are not used: `command` and `args` are. On a
    cluster (--on cluster) its ranks are pods. Ctrl-C ends the job cleanly, a second Ctrl-C at once; on a
    cluster the second hurries its end and does not wait for it. Closing the terminal does not end it.
    """
    from vcjob.sdk.backend import RunOptions, open_backend

    backend = open_backend(where["on"], where["context"], where["kubeconfig"])
    backend.check_local_options({"--image": images, "--warm": warm})
    # Before anything else is loaded: a local supervisor loads at the same time.
    with backend.prestart(warm=warm):
        from vcjob.cli.problem_text import show_problems
        from vcjob.sdk.loading import load

        loaded = load(path_of(file), allow_unknown=allow_unknown, backend=backend.name)
        show_problems(loaded.warnings, sys.stderr)
        options = RunOptions(
            namespace=where["namespace"],
            allow_unknown=allow_unknown,
            image_commands=images,
            warm=warm,
            text=_text_of(file),
        )
        with Interrupts() as interrupts:
            job = backend.start(loaded, options)
            reference = job_reference(job, where)
            if detach and not interrupts.count:
                _show_started(job, reference, output)
            else:
                follow(job, reference, interrupts, output)


def follow(job: Handle, reference: str, interrupts: Interrupts, output: str) -> None:
    """Show a job until its end; the exit code says how it ended."""
    from vcjob.cli.screen import screen_for

    # With -o json, standard output is for the Job object alone.
    screen = screen_for(job.name, sys.stdout if output == "table" else sys.stderr)
    with job.watching():  # with a TTL of 0 another verb would remove it before its result is shown
        follower = job.follow()
        try:
            _watch(job, reference, follower, screen, interrupts)
        finally:
            screen.close()
            follower.close()
        _finish(job, reference, output, interrupts)


def _watch(job: Handle, reference: str, follower: Follower, screen: Screen, interrupts: Interrupts) -> None:
    notes = trouble = answered = 0
    asked = 0.0
    while not follower.ended:
        screen.logs(follower.look())
        screen.state(follower.status, follower.pods)
        if time.monotonic() - asked > _NOTES_EVERY:
            notes, asked = _tell_notes(job, screen, notes), time.monotonic()
        if follower.stuck() and not trouble:
            trouble = 1
            screen.note(job.trouble())
        while answered < interrupts.count:
            answered += 1
            _interrupt(job, reference, screen, answered)
        follower.rest()
    _tell_notes(job, screen, notes)


def _tell_notes(job: Handle, screen: Screen, told: int) -> int:
    """Warnings among the events, each once: what means something else here than on a cluster."""
    notes = job.notes()
    for note in notes[told:]:
        screen.note(f"note: {note}")
    return len(notes)


def _interrupt(job: Handle, reference: str, screen: Screen, number: int) -> None:
    if number > 2:
        raise Interrupted(f"left while the job {job.name!r} is being killed")
    again = "kill it" if job.ends_at_once else "hurry its end and leave"
    screen.note(f"ending the job; press Ctrl-C again to {again}" if number == 1 else "killing the job")
    with suppress(UserError):  # it has just ended by itself
        job.stop(now=number == 2)
    if number == 2 and not job.ends_at_once:
        raise Interrupted(
            f"left; the cluster goes on ending the job {job.name!r}",
            hint=f"`vcjob status {reference}` shows how far it is",
        )


def _finish(job: Handle, reference: str, output: str, interrupts: Interrupts) -> None:
    status = job.status()
    if output == "table":
        from vcjob.cli.summary import summary

        sys.stdout.write("\n".join(summary(job, status, Style(sys.stdout), reference)) + "\n")
    else:
        from vcjob.cli.objects import write_object

        write_object(job.to_dict(), output)
    sys.stdout.flush()
    if interrupts.count:
        raise click.exceptions.Exit(Interrupted.exit_code)
    if str(status.phase) != "Completed":
        raise click.exceptions.Exit(JobFailed.exit_code)


def _show_started(job: Handle, reference: str, output: str) -> None:
    if output == "table":
        sys.stdout.write(
            f"{job.name} started; follow it with `vcjob logs -f {reference}`, "
            f"end it with `vcjob stop {reference}`\n"
        )
        return
    from vcjob.cli.objects import write_object

    write_object(job.to_dict(), output)


def _text_of(file: str) -> str | None:
    """The file as the user wrote it, where it can be read a second time."""
    if file == "-":
        return None
    try:
        with open(file, encoding="utf-8-sig") as text:
            return text.read()
    except (OSError, UnicodeDecodeError):
        return None


class Interrupts:
    """Counts Ctrl-C (and SIGTERM) instead of breaking off in the middle of something."""

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
