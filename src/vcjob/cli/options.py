"""Options that several verbs share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike
from typing import Any, TypeVar

import click

_OUTPUT = "vcjob.output"

Function = TypeVar("Function", bound=Callable[..., Any])


allow_unknown_option = click.option(
    "--allow-unknown", is_flag=True, help="Let fields pass that the schema does not know."
)
namespace_option = click.option("-n", "--namespace", help="The namespace of Jobs that name none.")


def job_argument(function: Function) -> Function:
    """The job that a verb is about, as `name` and `namespace`."""
    option = click.option("-n", "--namespace", help="The namespace of the job (default: default).")
    return click.argument("name", metavar="JOB")(option(function))


def output_option(formats: Sequence[str]) -> Callable[[Function], Function]:
    """`-o`: the first of the formats is the default. Errors follow the format too."""

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
    """The format that the running verb was asked for, where it got so far."""
    return None if context is None else context.meta.get(_OUTPUT)


def path_of(file: str) -> str | PathLike[str]:
    """A command line's word as a path, also where it looks like the text of a Job."""
    if "\n" in file or file.lstrip().startswith("{"):
        from pathlib import Path

        return Path(file)
    return file
