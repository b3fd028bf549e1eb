"""`vcjob render`: the objects that a Job becomes, from the code that creates them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from vcjob.cli.arguments.options import allow_unknown_option, namespace_option, output_option, path_of
from vcjob.errors import UserError

if TYPE_CHECKING:
    from vcjob.plan.gang import GangName
    from vcjob.plan.plan import Plan

GANGS = ("volcano", "none", "coscheduling")


@click.command("render")
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@click.option(
    "--gang",
    type=click.Choice(GANGS),
    default=GANGS[0],
    show_default=True,
    help="How pods are grouped for the scheduler.",
)
@click.option("--uid", help="The uid of the Job; all zeros where it has none.")
@click.option("--task", help="Only the pods of this task.")
@click.option("--index", type=click.IntRange(min=0), help="Only the pod with this index in the task.")
@click.option("--defaulted", is_flag=True, help="The Job itself after admission, with its defaults.")
@namespace_option
@allow_unknown_option
@output_option(("yaml", "json"))
def command(
    *,
    file: str,
    gang: GangName,
    uid: str | None,
    task: str | None,
    index: int | None,
    defaulted: bool,
    namespace: str | None,
    allow_unknown: bool,
    output: str,
) -> None:
    """Print the objects that a Job creates on a cluster, in the order of creation.

    ConfigMap, Service, NetworkPolicy, PodGroup and volume claims come first, then the pods by task and
    index. `-` reads standard input.
    """
    if index is not None and task is None:
        raise click.UsageError("--index needs --task")
    if defaulted and task is not None:
        raise click.UsageError("--defaulted and --task exclude each other")
    from vcjob.sdk import load
    from vcjob.sdk.rendering import plans

    loaded = load(path_of(file), allow_unknown=allow_unknown)
    if loaded.warnings:
        from vcjob.cli.output.problem_text import show_problems

        show_problems(loaded.warnings, sys.stderr)
    planned = plans(loaded.jobs, gang=gang, uid=uid, namespace=namespace)
    if defaulted:
        _write((_encoded(plan.job.doc) for plan in planned), output, single=len(planned) == 1)
    elif task is None:
        _write((text for plan in planned for text in plan.render_json()), output)
    else:
        _write(_pods(planned, task, index), output, single=index is not None)


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
