"""What the YAML parser complains about, in plain words."""

from __future__ import annotations

import yaml

from vcjob.spec.problem import Problem

_WORDS = {
    "mapping values are not allowed in this context": (
        "a `:` stands where no value can begin",
        "check the indentation of this line, and quote text that has `: ` in it",
    ),
    "did not find expected key": (
        "a key was expected here",
        "check the indentation: keys of one mapping start in one column",
    ),
    "did not find expected '-' indicator": (
        "a list item (`- `) was expected here",
        "check the indentation: items of one list start in one column",
    ),
    "could not find expected ':'": ("a key without `:`", "write `key: value`"),
    "found character that cannot start any token": (
        "no value can begin with this character",
        "indent with spaces, not with tabs; put text that begins with @ or ` into quotes",
    ),
    "did not find expected ',' or ']'": (
        "a list `[` is not closed",
        "end it with `]`, and put `,` between items",
    ),
    "did not find expected ',' or '}'": (
        "a mapping `{` is not closed",
        "end it with `}`, and put `,` between entries",
    ),
    "found unexpected end of stream": ("the text ends too early", "close the quote or bracket"),
    "did not find expected node content": (
        "a value is missing here",
        "close the bracket, or write the value",
    ),
    "found undefined tag handle": ("an unknown YAML tag", "take the tag (`!...!`) away"),
}


def syntax_problem(bad: yaml.YAMLError, name: str) -> Problem:
    line, column = 1, 1
    message, hint = str(bad), "check that this is YAML or JSON text"
    if isinstance(bad, yaml.MarkedYAMLError) and bad.problem_mark is not None:
        line, column = bad.problem_mark.line + 1, bad.problem_mark.column + 1
        message, hint = _WORDS.get(
            str(bad.problem), (str(bad.problem), "check this line and the one before it")
        )
        if bad.context_mark is not None and bad.context_mark.line + 1 != line:
            message += f" (what it belongs to began on line {bad.context_mark.line + 1})"
    return Problem(
        severity="error",
        where=(),
        message=f"not valid YAML: {message}",
        hint=hint,
        file=name,
        line=line,
        column=column,
    )
