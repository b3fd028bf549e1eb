"""Options and arguments that several verbs share: the job, its backend, the format of the output.

The verbs use them as decorators. Nothing here may load a backend, because help and completion import it too.
`cli.main` asks for the format of the output, so that errors are in the same one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from os import PathLike
from typing import Any, TypeVar, cast

import click

from vcjob.cli.arguments.completing import complete_jobs

_OUTPUT = "vcjob.output"

Function = TypeVar("Function", bound=Callable[..., Any])


allow_unknown_option = click.option(
    "--allow-unknown", is_flag=True, help="Accept fields that the schema does not know."
)


def backend_options(namespace_help: str) -> Callable[[Function], Function]:
    """The backend, the namespace and the cluster, passed to the verb as one `where` (see `sdk.backend.Where`)."""

    def decorate(function: Function) -> Function:
        @wraps(function)
        def with_where(*arguments: Any, **options: Any) -> Any:
            names = ("on", "namespace", "context", "kubeconfig")
            return function(*arguments, where={name: options.pop(name) for name in names}, **options)

        decorated: Any = with_where
        for option in (
            click.option("--kubeconfig", metavar="FILE", help="The kubeconfig file of the cluster."),
            click.option("--context", help="The context of the kubeconfig."),
            click.option("-n", "--namespace", help=namespace_help),
            click.option(
                "--on",
                type=click.Choice(["local", "cluster"]),
                help="This machine (the default), or a Kubernetes cluster.",
            ),
        ):
            decorated = option(decorated)
        return cast(Function, decorated)

    return decorate


def job_argument(function: Function) -> Function:
    """The job that a verb acts on, passed to it as `name` and `where`."""
    options = backend_options("The namespace of the job (default: default, or the context's).")
    return click.argument("name", metavar="JOB", shell_complete=complete_jobs)(options(function))


def output_option(formats: Sequence[str]) -> Callable[[Function], Function]:
    """`-o`: the first format is the default. Errors use the format too."""

    def remember(context: click.Context, _: click.Parameter, value: str) -> str:
        context.meta[_OUTPUT] = value
        return value

    return click.option(
        "-o",
        "--output",
        type=click.Choice(list(formats)),
        default=formats[0],
        show_default=True,
        callback=remember,
        is_eager=True,
        help="The format of the output.",
    )


def output_of(context: click.Context | None) -> str | None:
    """The output format of the verb, if its options were parsed."""
    return None if context is None else context.meta.get(_OUTPUT)


def typed_output(arguments: Sequence[str]) -> str | None:
    """The format in a command line that could not be parsed."""
    for place, word in enumerate(arguments):
        if word in ("-o", "--output"):
            return arguments[place + 1] if place + 1 < len(arguments) else None
        if word.startswith(("--output=", "-o")) and not word.startswith("--on"):
            return word.removeprefix("--output=").removeprefix("-o")
        if word == "--":
            return None
    return None


def path_of(file: str) -> str | PathLike[str]:
    """An argument as a path, even if it looks like the text of a Job."""
    if "\n" in file or file.lstrip().startswith("{"):
        from pathlib import Path

        return Path(file)
    return file
