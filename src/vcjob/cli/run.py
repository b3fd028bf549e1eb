"""`vcjob run`: start the Jobs of a file, stream their logs, report the result."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.job_reference import job_reference
from vcjob.cli.options import allow_unknown_option, backend_options, output_option, path_of

if TYPE_CHECKING:
    from vcjob.sdk.backend import Backend, RunOptions, Where
    from vcjob.sdk.handle import Handle
    from vcjob.sdk.loading import Loaded


@click.command("run")
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@backend_options("The namespace for Jobs that name none.")
@click.option("--job", "name", metavar="NAME", help="Only this Job of the file.  [default: all of them]")
@click.option("-d", "--detach", is_flag=True, help="Return as soon as the job is started.")
@click.option(
    "--image",
    "images",
    metavar="IMAGE=COMMAND",
    multiple=True,
    help="On this machine: the command for an image whose container has none.",
)
@click.option("--warm", is_flag=True, help="On this machine: import torch once and fork the ranks.")
@allow_unknown_option
@output_option(("table", "json", "yaml"))
def command(
    *,
    file: str,
    where: Where,
    name: str | None,
    detach: bool,
    images: tuple[str, ...],
    warm: bool,
    allow_unknown: bool,
    output: str,
) -> None:
    """Start the Jobs of a file, stream their logs, report the result.

    On this machine ranks are processes; images are not used, only `command` and `args`. On a cluster
    (--on cluster) ranks are pods. Ctrl-C ends the job cleanly, a second Ctrl-C kills its ranks; on a cluster
    the second does not wait for their end. Closing the terminal does not end the job. A job that
    somebody suspends is followed until it is resumed and ends.
    """
    from vcjob.sdk.backend import RunOptions, open_backend

    backend = open_backend(where["on"], where["context"], where["kubeconfig"])
    backend.check_local_options({"--image": images, "--warm": warm})
    # Before anything else is loaded: a local supervisor loads at the same time.
    with backend.prestart(warm=warm):
        from vcjob.cli.follow import Interrupts, follow
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
            jobs = _start(backend, loaded.select(name), options)
            named = [(job, job_reference(job, where)) for job in jobs]
            if detach and not interrupts.count:
                _show_started(named, output)
            else:
                follow(named, interrupts, output)


def _start(backend: Backend, wanted: list[Loaded], options: RunOptions) -> list[Handle]:
    started: list[Handle] = []
    try:
        for loaded in wanted:
            started.append(backend.start(loaded, options))
    except BaseException:
        if started:
            names = ", ".join(job.name for job in started)
            sys.stderr.write(f"vcjob: already started and still running: {names}\n")
        raise
    return started


def _show_started(jobs: list[tuple[Handle, str]], output: str) -> None:
    if output != "table":
        from vcjob.cli.objects import write_objects

        write_objects([job.to_dict() for job, _ in jobs], output)
        return
    for job, reference in jobs:
        sys.stdout.write(
            f"{job.name} started; follow it with `vcjob logs -f {reference}`, "
            f"end it with `vcjob stop {reference}`\n"
        )


def _text_of(file: str) -> str | None:
    """The file as the user wrote it, where it can be read a second time."""
    if file == "-":
        return None
    try:
        with open(file, encoding="utf-8-sig") as text:
            return text.read()
    except (OSError, UnicodeDecodeError):
        return None
