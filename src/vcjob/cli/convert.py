"""`vcjob convert`: a Volcano Job from a PyTorchJob or TrainJob.

It prints what `sdk.authoring.convert` returns; notes and problems go to standard error. The exit code is 2 if the new
Job is not valid, but it is printed all the same. No cluster is contacted.
"""

from __future__ import annotations

import sys

import click

from vcjob.cli.arguments.options import output_option
from vcjob.cli.output.style import Style
from vcjob.errors import InvalidJob


@click.command("convert")
@click.argument("file", metavar="FILE", type=click.Path(allow_dash=True))
@output_option(("yaml", "json"))
@click.pass_context
def command(context: click.Context, file: str, output: str) -> None:
    """Print the Volcano Jobs for the Kubeflow PyTorchJobs and TrainJobs of a file.

    What has no equivalent is listed on standard error; `-` reads standard input. The exit code is 2 if a
    Job that was written is not valid.
    """
    from vcjob.cli.arguments.options import path_of
    from vcjob.cli.output.problem_text import show_problems
    from vcjob.sdk import convert_jobs, validate
    from vcjob.sdk.yaml_text import to_yaml_stream

    converted = convert_jobs(path_of(file))
    if output == "yaml":
        sys.stdout.writelines(to_yaml_stream(converted.documents))
    else:
        from vcjob.cli.output.objects import write_objects

        write_objects(converted.documents, output)
    sys.stdout.flush()
    style = Style(sys.stderr)
    for note in converted.notes:
        sys.stderr.write(f"{style('note', 'bold', 'yellow')}: {style.clean(f'{note.path} {note.message}')}\n")
    problems = [
        problem
        for document in converted.documents
        if document.get("kind") == "Job"
        for problem in validate(document)
    ]
    show_problems(problems, sys.stderr)
    if any(problem.severity == "error" for problem in problems):
        context.exit(InvalidJob.exit_code)
