"""`vcjob run`: start the Jobs of a file, or a Python script as a Job, stream their logs, report the result.

`RunSource` loads the Jobs, the backend of the SDK starts them, and `output.follow` shows them until they end. The
exit code is 1 if a job did not complete. If one Job cannot be started, those that were started continue and are
named.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.options import allow_unknown_option, backend_options, output_option
from vcjob.cli.arguments.run_arguments import RunCommand
from vcjob.cli.arguments.run_source import RunSource
from vcjob.cli.arguments.script_options import ScriptOptions, change_options, script_options
from vcjob.cli.output.job_reference import job_reference
from vcjob.errors import UserError

if TYPE_CHECKING:
    from vcjob.sdk.backend import Backend, RunOptions, Where
    from vcjob.sdk.handle import Handle
    from vcjob.sdk.loading import Loaded


@click.command("run", cls=RunCommand)
@click.argument("target", metavar="FILE|SCRIPT", type=click.Path(allow_dash=True))
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@backend_options("The namespace for Jobs that name none.")
@click.option("--job", metavar="NAME", help="Only this Job of the file.  [default: all of them]")
@click.option("-d", "--detach", is_flag=True, help="Return as soon as the job is started.")
@script_options
@change_options
@click.option(
    "--image",
    "images",
    metavar="IMAGE[=COMMAND]",
    multiple=True,
    help="Script: the image of its pods on a cluster. Job file, on this machine: the command for an image whose "
    "container has none.",
)
@click.option("--dry-run", is_flag=True, help="Print the Job instead of starting it.")
@click.option(
    "--on-hang",
    type=click.Choice(["warn", "restart", "fail"]),
    help="What to do when ranks wait for a rank that is stuck. On a cluster it needs --flight-recorder of the pytorch "
    "plugin, and has an effect while this command follows the job.  [default: warn]",
)
@click.option("--warm", is_flag=True, help="On this machine: import torch once and fork the ranks.")
@allow_unknown_option
@output_option(("table", "json", "yaml"))
def command(
    *,
    target: str,
    arguments: tuple[str, ...],
    where: Where,
    job: str | None,
    detach: bool,
    script: ScriptOptions,
    sets: tuple[str, ...],
    env: tuple[str, ...],
    images: tuple[str, ...],
    dry_run: bool,
    on_hang: str | None,
    warm: bool,
    allow_unknown: bool,
    output: str,
) -> None:
    """Start the Jobs of a file, or a Python script as a Job, stream their logs, report the result.

    A script runs as one rank, or with --workers N as N + 1 ranks; everything after it belongs to it:
    `vcjob run --workers 2 train.py --epochs 3`. After a Job file, arguments for the program of every rank
    follow `--`. torchrun's options --nnodes, --nproc-per-node, --standalone and --max-restarts work for scripts.

    On this machine ranks are processes; images are not used, only `command` and `args`. On a cluster
    (--on cluster) ranks are pods. Ctrl-C ends the job cleanly, a second Ctrl-C kills its ranks; on a cluster
    the second does not wait for their end. Closing the terminal does not end the job. A job that
    somebody suspends is followed until it is resumed and ends.
    """
    from vcjob.sdk.backend import RunOptions, open_backend

    backend = open_backend(where["on"], where["context"], where["kubeconfig"])
    if on_hang:
        sets = (*sets, f"metadata.annotations[vcjob.io/on-hang]={on_hang}")
    source = RunSource(target, arguments, script, images, sets, env, job, allow_unknown)
    backend.check_local_options({"--image": source.image_commands, "--warm": warm})
    if on_hang and detach and backend.name == "cluster":
        raise UserError(
            "on a cluster --on-hang acts only while this command follows the Job, and --detach ends it at once",
            hint="leave one of them out",
        )
    if dry_run:
        from vcjob.cli.output.objects import write_objects

        loaded = source.load(backend.name)
        write_objects([each.given[0] for each in loaded.select(job)], "yaml" if output == "table" else output)
        return
    # Before anything else is loaded: a local supervisor loads at the same time.
    with backend.prestart(warm=warm):
        from vcjob.cli.output.follow import Interrupts, follow
        from vcjob.cli.output.problem_text import show_problems

        loaded = source.load(backend.name)
        show_problems(loaded.warnings, sys.stderr)
        options = RunOptions(
            namespace=where["namespace"],
            allow_unknown=allow_unknown,
            image_commands=source.image_commands,
            warm=warm,
            text=None if source.changed else _text_of(target),
        )
        with Interrupts() as interrupts:
            jobs = _start(backend, loaded.select(job), options)
            named = [(handle, job_reference(handle, where)) for handle in jobs]
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
        from vcjob.cli.output.objects import write_objects

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
