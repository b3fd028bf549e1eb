"""`vcjob init`: write a Job file with comments, as a start.

The Job is made by the SDK, as `vcjob run` makes it for a script; `sdk.authoring.job_file` adds the comments. An
existing file is only replaced with `--force`.
"""

from __future__ import annotations

import os
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vcjob.cli.arguments.run_arguments import RunCommand
from vcjob.cli.arguments.script_options import ScriptOptions, script_options
from vcjob.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Sequence

_HELLO = "import os; print('rank', os.environ['RANK'], 'of', os.environ['WORLD_SIZE'])"


@click.command("init", cls=RunCommand)
@click.argument("target", metavar="[SCRIPT]", required=False)
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "-f", "--file", default="job.yaml", show_default=True, help="The file to write; `-` is standard output."
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--image", metavar="IMAGE", help="The image of the pods on a cluster.")
@script_options
def command(
    *,
    target: str | None,
    arguments: tuple[str, ...],
    file: str,
    force: bool,
    image: str | None,
    script: ScriptOptions,
) -> None:
    """Write a Job file with comments for a Python script, ready to run and to edit.

    It is the Job that `vcjob run` starts for the same script: a master, and workers with --workers. Without SCRIPT
    it has one worker, and every rank prints its number.
    """
    from vcjob.sdk.authoring.job_file import commented_yaml

    text = commented_yaml(_job(target, arguments, image, script), "job.yaml" if file == "-" else file)
    if file == "-":
        sys.stdout.write(text)
        return
    _write(file, text, force=force)
    sys.stdout.write(f"{file} written; run it with `vcjob run {shlex.quote(file)}`\n")


def _job(
    target: str | None, arguments: Sequence[str], image: str | None, script: ScriptOptions
) -> dict[str, Any]:
    from vcjob.sdk.authoring.building import pytorch_job
    from vcjob.sdk.authoring.scripting import script_job

    if target is None:
        if script.module or script.nproc or script.gpus:
            raise UserError("name the script or module", hint="for example `vcjob init --gpus 2 train.py`")
        return pytorch_job(
            script.name or "hello",
            command=["python", "-c", _HELLO],
            image=image,
            workers=1 if script.workers is None else script.workers,
            restarts=script.restarts or 0,
        )
    if not script.module and not target.endswith(".py"):
        raise UserError(f"{target} is not a Python script", hint="for example `vcjob init train.py`")
    return script_job(
        None if script.module else target,
        module=target if script.module else None,
        args=arguments,
        image=image,
        **script.arguments(),
    )


def _write(file: str, text: str, *, force: bool) -> None:
    """Write the whole file or nothing; an existing file is replaced with `force` only."""
    path = Path(file)
    if path.is_dir():
        raise UserError(f"{file} is a folder", hint="give the path of a file with -f")
    if path.exists() and not force:
        raise UserError(f"{file} already exists", hint="replace it with --force, or choose another with -f")
    path = Path(os.path.realpath(file))  # the file that a symbolic link names, not the link
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8")
        draft.replace(path)
    except OSError as error:
        draft.unlink(missing_ok=True)
        raise UserError(
            f"{file} cannot be written: {error.strerror}", hint="choose another with -f"
        ) from None
