"""Turns an error of the YAML parser into a problem with a plain message and a hint.

`yaml_reader` calls it for text that is not valid YAML. An error that is not in the table keeps the parser's message.
"""

from __future__ import annotations

import re

import yaml

from vcjob.spec.problem import Problem

_MESSAGES = {
    "mapping values are not allowed in this context": (
        "unexpected `:`",
        "check the indentation of this line, and put text that contains `: ` in quotes",
    ),
    "did not find expected key": (
        "expected a key here",
        "check the indentation: the keys of a mapping start in the same column",
    ),
    "did not find expected '-' indicator": (
        "expected a list item (`- `) here",
        "check the indentation: the items of a list start in the same column",
    ),
    "could not find expected ':'": ("a key has no `:`", "write `key: value`"),
    "found character that cannot start any token": (
        "a value cannot start with this character",
        "indent with spaces, not tabs, and put text that starts with @ or ` in quotes",
    ),
    "did not find expected ',' or ']'": (
        "a list `[` is not closed",
        "end it with `]`, and put `,` between items",
    ),
    "did not find expected ',' or '}'": (
        "a mapping `{` is not closed",
        "end it with `}`, and put `,` between entries",
    ),
    "found unexpected end of stream": ("the file ends unexpectedly", "close the quote or bracket"),
    "did not find expected node content": (
        "a value is missing here",
        "close the bracket, or write the value",
    ),
    "found undefined tag handle": ("unknown YAML tag", "remove the tag (`!...!`)"),
}

#: Characters of a Chinese or Japanese keyboard where YAML has one of its own: after a key, before it, around a value.
_FULL_WIDTH = re.compile(
    r"""^\ *(?:-\ )?[A-Za-z][\w./-]{0,100}\ ?(?P<colon>：)|^\ *(?P<space>\u3000)"""
    r"""|[\[{,:]\ ?(?P<open>[“”‘’［｛])|["'\]}“”](?P<comma>，)""",
    re.VERBOSE | re.ASCII,
)
_PLAIN = dict(zip("：\u3000“”‘’［｛，", (":", " ", '"', '"', "'", "'", "[", "{", ","), strict=True))
#: Where such characters are text: a comment, and what is below the head of a block scalar.
_COMMENT = re.compile(r"(?:^|\s)#.*")
_BLOCK_HEAD = re.compile(r"[:-] +[|>][-+1-9]{0,2}$")
#: How many lines before an error are searched for such a character.
_LINES = 50


def syntax_problem(bad: yaml.YAMLError, name: str, text: str = "") -> Problem:
    line, column = 1, 1
    message, hint = str(bad), "check that this is YAML or JSON text"
    if isinstance(bad, yaml.MarkedYAMLError) and bad.problem_mark is not None:
        line, column = bad.problem_mark.line + 1, bad.problem_mark.column + 1
        message, hint = _MESSAGES.get(
            str(bad.problem), (str(bad.problem), "check this line and the one before it")
        )
        begin = line
        if bad.context_mark is not None and bad.context_mark.line + 1 != line:
            begin = bad.context_mark.line + 1
            message += f" (the surrounding block starts on line {begin})"
        hint = _full_width_hint(text, begin, line, column) or hint
    return Problem(
        severity="error",
        where=(),
        message=f"not valid YAML: {message}",
        hint=hint,
        file=name,
        line=line,
        column=column,
    )


def _full_width_hint(text: str, first: int, last: int, column: int) -> str | None:
    """The line, from `first` to the error, with a full-width character in the place of one of YAML's.

    Quotes, brackets and commas are valid text in most places: they are the cause only where the error follows them.
    """
    text_below = -1  # the indentation of the head of a block scalar, where one has begun
    for number, whole in enumerate(text.split("\n", last)[first - 1 : last], first):
        line = _COMMENT.sub("", whole[:1000]).rstrip(" \r")
        indentation = len(line) - len(line.lstrip(" "))
        if 0 <= text_below < indentation or not line:
            continue
        text_below = indentation if _BLOCK_HEAD.search(line) else -1
        if number < last - _LINES:
            continue
        for found in _FULL_WIDTH.finditer(line):
            kind = found.lastgroup or ""
            if kind in ("open", "comma") and (number < last or found.start(kind) >= column):
                continue
            letter = found[kind]
            if kind == "space":
                return f"write spaces in place of the full-width space (U+3000) on line {number}"
            return (
                f"write `{_PLAIN[letter]}` in place of the full-width character `{letter}` on line {number}"
            )
    return None
