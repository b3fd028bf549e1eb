"""`vcjob validate`: every problem of Job files.

It prints what the SDK's `validate` returns, with the line and column of each problem. A file that cannot be read is a
problem too, so that it does not hide those of the others. The exit code is 2 if a file has errors.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from vcjob.cli.arguments.options import allow_unknown_option, output_option, path_of
from vcjob.cli.output.problem_text import counted, show_problems
from vcjob.cli.output.style import Style
from vcjob.errors import SourceError

if TYPE_CHECKING:
    from vcjob.spec.problem import Problem

INVALID = 2


@click.command("validate")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=click.Path(allow_dash=True))
@allow_unknown_option
@output_option(("table", "json", "yaml"))
@click.pass_context
def command(context: click.Context, files: tuple[str, ...], allow_unknown: bool, output: str) -> None:
    """Check Job files and list every problem.

    Every problem comes with its line and column, the reason, and what to write instead. `-` reads
    standard input. The exit code is 0 if all Jobs are valid, warnings or not, and 2 if one is not.
    """
    found = {file: _problems(file, allow_unknown) for file in dict.fromkeys(files)}
    everything = [problem for problems in found.values() for problem in problems]
    valid = not any(problem.severity == "error" for problem in everything)
    if output == "table":
        _show(found)
    else:
        answer = {"valid": valid, "problems": [problem.to_json() for problem in everything]}
        sys.stdout.write(_text(answer, output))
    context.exit(0 if valid else INVALID)


def _problems(file: str, allow_unknown: bool) -> list[Problem]:
    from vcjob.sdk import Problem, validate

    try:
        return validate(path_of(file), allow_unknown=allow_unknown)
    except SourceError as unreadable:
        # A file that cannot be read does not hide the problems of the others.
        message = unreadable.message.removeprefix(f"{file}: ")
        return [Problem(severity="error", where=(), message=message, hint=unreadable.hint, file=file)]


def _show(found: dict[str, list[Problem]]) -> None:
    style = Style(sys.stdout)
    for file, problems in found.items():
        show_problems(problems, sys.stdout)
        errors = sum(problem.severity == "error" for problem in problems)
        warnings = len(problems) - errors
        verdict = style("valid", "green") if not errors else style("not valid", "red")
        tally = ", ".join(counted(n, noun) for n, noun in ((errors, "error"), (warnings, "warning")) if n)
        sys.stdout.write(f"{file}: {verdict}{f' ({tally})' if tally else ''}\n")


def _text(answer: dict[str, object], output: str) -> str:
    if output == "json":
        from vcjob.cli.output.json_text import to_json

        return to_json(answer)
    from vcjob.sdk import to_yaml

    return to_yaml(answer)
