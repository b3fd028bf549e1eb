"""Shows an error on standard error: as text with a hint, or as JSON with `-o json`.

`cli.main` calls it for every `VcjobError`, and returns the exit code of the error. Errors of click, and internal
errors, are shown by `cli.main` itself.
"""

from __future__ import annotations

import sys

from vcjob.cli.output.problem_text import counted, show_problems
from vcjob.cli.output.style import Style
from vcjob.errors import InvalidJob, VcjobError


def show_failure(failure: VcjobError, output: str | None) -> None:
    if output == "json":
        _show_json(failure)
        return
    style = Style(sys.stderr)
    message = style.clean(failure.message)
    if isinstance(failure, InvalidJob):
        show_problems(failure.problems, sys.stderr)
        errors = sum(problem.severity == "error" for problem in failure.problems)
        message = f"the Job is not valid ({counted(errors, 'error')})"
    sys.stderr.write(f"{style('error', 'bold', 'red')}: {message}\n")
    if failure.hint:
        sys.stderr.write(f"{style('hint', 'bold', 'cyan')}: {style.clean(failure.hint)}\n")


def _show_json(failure: VcjobError) -> None:
    from vcjob.cli.output.json_text import to_json

    error: dict[str, object] = {"message": failure.message, "hint": failure.hint}
    if isinstance(failure, InvalidJob):
        error["problems"] = [problem.to_json() for problem in failure.problems]
    sys.stderr.write(to_json({"error": error}))
