"""`vcjob render`: the objects that a Job becomes, from the code that creates them.

`RunSource` loads the Job, `sdk.rendering` makes its plan, and the objects are written one by one. A target that is no
file can be the name of a job. No object is created; a cluster is contacted only for a job by name.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from vcjob.cli.arguments.completing import complete_jobs_and_files, complete_tasks
from vcjob.cli.arguments.numbers import WholeNumber
from vcjob.cli.arguments.options import allow_unknown_option, backend_options, output_option
from vcjob.cli.arguments.run_arguments import RunCommand
from vcjob.cli.arguments.run_source import RunSource
from vcjob.cli.arguments.script_options import ScriptOptions, change_options, script_options
from vcjob.errors import NoSuchJob, SourceError, UserError

if TYPE_CHECKING:
    from vcjob.plan.gang import GangName
    from vcjob.plan.plan import Plan
    from vcjob.sdk.backend import Where
    from vcjob.sdk.loading import Loaded

GANGS = ("volcano", "none", "coscheduling")


@click.command("render", cls=RunCommand)
@click.argument(
    "target",
    metavar="FILE|SCRIPT|JOB",
    type=click.Path(allow_dash=True),
    shell_complete=complete_jobs_and_files,
)
@click.argument("arguments", metavar="[ARGS]...", nargs=-1, type=click.UNPROCESSED)
@click.option(
    "--gang",
    type=click.Choice(GANGS),
    default=GANGS[0],
    show_default=True,
    help="How pods are grouped for the scheduler.",
)
@click.option("--uid", help="The uid of the Job; all zeros where it has none.")
@click.option("--task", shell_complete=complete_tasks, help="Only the pods of this task.")
@click.option("--index", type=WholeNumber(min=0), help="Only the pod with this index in the task.")
@click.option("--defaulted", is_flag=True, help="The Job itself after admission, with its defaults.")
@script_options
@change_options
@click.option("--image", metavar="IMAGE", help="Script: the image of its pods on a cluster.")
@backend_options("The namespace for Jobs that name none, or of a job that was started.")
@allow_unknown_option
@output_option(("yaml", "json"))
def command(
    *,
    target: str,
    arguments: tuple[str, ...],
    gang: GangName,
    uid: str | None,
    task: str | None,
    index: int | None,
    defaulted: bool,
    script: ScriptOptions,
    image: str | None,
    sets: tuple[str, ...],
    env: tuple[str, ...],
    where: Where,
    allow_unknown: bool,
    output: str,
) -> None:
    """Print the objects that a Job creates on a cluster, in the order of creation.

    ConfigMap, Service, NetworkPolicy, PodGroup and volume claims come first, then the pods by task and
    index. `-` reads standard input. For a script, the Job is the one that `vcjob run` would start;
    everything after the script is passed to it. If no file has this name, it is the name of a job that was started, here
    or with --on cluster.
    """
    if index is not None and task is None:
        raise click.UsageError("--index needs --task")
    if defaulted and task is not None:
        raise click.UsageError("--defaulted and --task cannot be used together")
    from vcjob.sdk.rendering import plans

    images = () if image is None else (image,)
    loaded = _load(RunSource(target, arguments, script, images, sets, env, None, allow_unknown), where)
    if loaded.warnings:
        from vcjob.cli.output.problem_text import show_problems

        show_problems(loaded.warnings, sys.stderr)
    planned = plans(loaded.jobs, gang=gang, uid=uid, namespace=where["namespace"])
    if defaulted:
        _write((_encoded(plan.job.doc) for plan in planned), output, single=len(planned) == 1)
    elif task is None:
        _write((text for plan in planned for text in plan.render_json()), output)
    else:
        _write(_pods(planned, task, index), output, single=index is not None)


def _load(source: RunSource, where: Where) -> Loaded:
    from vcjob.sdk.backend import open_backend

    if source.is_script:
        return source.load(open_backend(where["on"], where["context"], where["kubeconfig"]).name)
    if source.images:
        raise UserError(
            f"--image is for a Python script, and {source.target} is a Job file",
            hint="change the image in the file, or with --set",
        )
    try:
        return source.load(None)
    except SourceError as error:
        if not _is_name(source.target):
            raise
        try:
            return source.load(None, _stored(source.target, where))
        except NoSuchJob:
            raise SourceError(
                f"{error.message}, and no job of that name", hint="`vcjob list` shows the jobs"
            ) from None


def _is_name(target: str) -> bool:
    """Whether it can be the name or the uid of a job, and no file has that name."""
    import os

    return target != "-" and "/" not in target and "." not in target and not os.path.lexists(target)


def _stored(name: str, where: Where) -> dict[str, Any]:
    from vcjob.sdk import find

    document = find(name, **where).to_dict()
    return {key: value for key, value in document.items() if key != "status"}


def _pods(planned: list[Plan], task: str, index: int | None) -> Iterator[bytes]:
    having = [plan for plan in planned if plan.job.task(task)]
    if not having:
        known = ", ".join(task.name for plan in planned for task in plan.job.tasks)
        raise UserError(f"there is no task {task!r}", hint=f"the tasks are: {known}")
    if index is not None and len(having) > 1:
        names = ", ".join(plan.job.name for plan in having)
        raise UserError(f"several Jobs have a task {task!r}: {names}", hint="keep one of them in the file")
    for plan in having:
        found = plan.job.task(task)
        assert found is not None
        for number in range(found.replicas) if index is None else (index,):
            yield plan.pod_json(task, number)


def _encoded(document: dict[str, Any]) -> bytes:
    import msgspec

    return msgspec.json.encode(document)


def _write(objects: Iterator[bytes], output: str, *, single: bool = False) -> None:
    """Write as it comes: a plan of many pods is never held as a whole."""
    import msgspec

    if output == "yaml":
        from vcjob.sdk.yaml_text import to_yaml_stream

        sys.stdout.writelines(to_yaml_stream(map(msgspec.json.decode, objects)))
        return
    from vcjob.cli.output.json_text import to_json, to_json_list

    if single:
        sys.stdout.writelines(to_json(msgspec.json.decode(text)) for text in objects)
    else:
        sys.stdout.writelines(to_json_list(objects))
