"""What a shell offers when Tab is pressed: the names of jobs and tasks, and the fields of a Job.

Called by click for arguments that name these functions. A shell must not hang or show an error because of a key, so a
cluster gets a limited time to answer, and a failure means that nothing is offered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

import click

from vcjob.errors import VcjobError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

#: A cluster that takes longer to answer is not waited for.
_SECONDS = 3.0


def complete_jobs(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The jobs of the backend that the command line names so far."""

    def names() -> Iterable[str]:
        from vcjob.sdk.finding import jobs

        return {handle.name: None for handle in reversed(jobs(**_where(context)))}

    return _matching(names, incomplete)


def complete_jobs_and_files(
    context: click.Context, parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """The jobs, then the files of this folder: the script for bash offers its own files only where nothing else matches."""
    from click.shell_completion import CompletionItem

    names = complete_jobs(context, parameter, incomplete)
    if not names:
        return parameter.type.shell_complete(context, parameter, incomplete)
    files = sorted(file.name for file in Path().glob(f"{incomplete}*") if file.name[0] != ".")
    return [CompletionItem(name) for name in names + files]


def complete_tasks(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The tasks of the job that the command line names."""
    # In a line that ends with an option without its value, click does not assign the arguments.
    name = context.params.get("name") or context.params.get("target") or next(iter(context.args), None)
    if not isinstance(name, str):
        return []

    def names() -> Iterable[str]:
        from vcjob.sdk.finding import find

        return find(name, **_where(context)).replicas_by_task()

    return _matching(names, incomplete)


def complete_fields(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """The fields of the field that the text names so far: `spec.tas` gives `spec.tasks`."""

    def paths() -> Iterable[str]:
        from vcjob.sdk.authoring.explaining import explain

        parent = incomplete.rpartition(".")[0]
        return [f"{parent}.{name}" if parent else name for name in explain(parent).fields]

    return _matching(paths, incomplete)


def _where(context: click.Context) -> dict[str, Any]:
    return {name: context.params.get(name) for name in ("on", "namespace", "context", "kubeconfig")}


def _matching(names: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    found: list[str] = []

    def collect() -> None:
        try:
            found.extend(name for name in names() if name.startswith(incomplete))
        except VcjobError:
            return

    worker = Thread(target=collect, daemon=True)
    worker.start()
    worker.join(_SECONDS)
    return list(found)
