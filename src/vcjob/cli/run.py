"""`vcjob run`: start, follow, end."""

from __future__ import annotations

import signal
import sys
import time
from contextlib import closing, suppress
from types import FrameType, TracebackType
from typing import TYPE_CHECKING

import click

from vcjob.cli.options import allow_unknown_option, ground_options, output_option, path_of
from vcjob.cli.style import Style
from vcjob.errors import Interrupted, JobFailed, UserError

if TYPE_CHECKING:
    from vcjob.cli.screen import Screen
    from vcjob.sdk.grounds import Where
    from vcjob.sdk.handle import Follower, Handle

_NOTES_EVERY = 0.25


@click.command("run")
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@ground_options("The namespace of a Job that names none.")
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
    if where["on"] == "cluster" or where["context"] or where["kubeconfig"]:
        _run_on_cluster(
            file,
            where,
            detach=detach,
            local={"--image": images, "--warm": warm},
            allow_unknown=allow_unknown,
            output=output,
        )
        return
    from vcjob.local.supervisor.prestart import PrestartedSupervisor

    # First of all: the supervisor loads while we do.
    with closing(PrestartedSupervisor(warm=warm)) as seat:
        from vcjob.cli.problem_text import show_problems
        from vcjob.sdk.loading import load
        from vcjob.sdk.running import start

        loaded = load(path_of(file), allow_unknown=allow_unknown)
        show_problems(loaded.warnings, sys.stderr)
        with Interrupts() as interrupts:
            job = start(
                loaded,
                namespace=where["namespace"],
                image_commands=images,
                warm=warm,
                given=_text_of(file),
                seat=seat,
            )
            _see_through(job, interrupts, detach, output)


def _run_on_cluster(
    file: str, where: Where, *, detach: bool, local: dict[str, object], allow_unknown: bool, output: str
) -> None:
    from vcjob.cli.problem_text import show_problems
    from vcjob.sdk.grounds import open_backend
    from vcjob.sdk.loading import load
    from vcjob.sdk.running import refuse_local_options

    refuse_local_options(local)
    loaded = load(path_of(file), allow_unknown=allow_unknown, ground="cluster")
    show_problems(loaded.warnings, sys.stderr)
    ground = open_backend(where["on"], where["context"], where["kubeconfig"])
    assert ground is not None
    with Interrupts() as interrupts:
        job = ground.start(loaded, where["namespace"], strict=not allow_unknown)
        _see_through(job, interrupts, detach, output)


def _see_through(job: Handle, interrupts: Interrupts, detach: bool, output: str) -> None:
    if detach and not interrupts.count:
        _show_started(job, output)
    else:
        follow(job, interrupts, output)


def follow(job: Handle, interrupts: Interrupts, output: str) -> None:
    """Show a job until its end; the exit code says how it ended."""
    from vcjob.cli.screen import screen_for

    # With -o json, standard output is for the Job object alone.
    screen = screen_for(job.name, sys.stdout if output == "table" else sys.stderr)
    follower = job.follow()
    try:
        _watch(job, follower, screen, interrupts)
    finally:
        screen.close()
        follower.close()
    _finish(job, output, interrupts)


def _watch(job: Handle, follower: Follower, screen: Screen, interrupts: Interrupts) -> None:
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
            _interrupt(job, screen, answered)
        follower.rest()
    _tell_notes(job, screen, notes)


def _tell_notes(job: Handle, screen: Screen, told: int) -> int:
    """Warnings among the events, each once: what means something else here than on a cluster."""
    notes = job.notes()
    for note in notes[told:]:
        screen.note(f"note: {note}")
    return len(notes)


def _interrupt(job: Handle, screen: Screen, number: int) -> None:
    if number > 2:
        raise Interrupted(f"left while the job {job.name!r} is being killed")
    again = "kill it" if job.ends_at_once else "hurry its end and leave"
    screen.note(f"ending the job; press Ctrl-C again to {again}" if number == 1 else "killing the job")
    with suppress(UserError):  # it has just ended by itself
        job.stop(now=number == 2)
    if number == 2 and not job.ends_at_once:
        raise Interrupted(
            f"left; the cluster goes on ending the job {job.name!r}",
            hint=f"`vcjob status {job.name}{job.options}` shows how far it is",
        )


def _finish(job: Handle, output: str, interrupts: Interrupts) -> None:
    status = job.now()
    if output == "table":
        from vcjob.cli.summary import summary

        sys.stdout.write("\n".join(summary(job, status, Style(sys.stdout))) + "\n")
    else:
        from vcjob.cli.objects import write_object

        write_object(job.status(), output)
    sys.stdout.flush()
    if interrupts.count:
        raise click.exceptions.Exit(Interrupted.exit_code)
    if str(status.phase) != "Completed":
        raise click.exceptions.Exit(JobFailed.exit_code)


def _show_started(job: Handle, output: str) -> None:
    if output == "table":
        name = f"{job.name}{job.options}"
        sys.stdout.write(
            f"{job.name} started; follow it with `vcjob logs -f {name}`, end it with `vcjob stop {name}`\n"
        )
        return
    from vcjob.cli.objects import write_object

    write_object(job.status(), output)


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
