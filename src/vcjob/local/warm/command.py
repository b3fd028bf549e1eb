"""Which commands a zygote can start: `python script.py …` and `python -m module …`, and no others.

The warm launcher calls `understand`; the prestart and `vcjob warm` only look for the interpreter. A command that
cannot be started warm is no error: the result is the reason as text, and the rank is started normally.
"""

from __future__ import annotations

import os
import re
from typing import NamedTuple

_PYTHON = re.compile(r"python(\d+(\.\d+)?)?")
_PLAIN_OPTIONS = frozenset("bBdEIOPqsu")
_OPTIONS_WITH_VALUE = frozenset("WX")


class PythonCommand(NamedTuple):
    """A command that a zygote can start: `interpreter options (target | -m target) args`.

    `understand` returns it; the warm launcher chooses the zygote by the interpreter and the options.
    """

    interpreter: str
    options: tuple[str, ...]
    kind: str
    target: str
    args: list[str]


def understand(argv: list[str], env: dict[str, str], cwd: str) -> PythonCommand | str:
    """The parsed command, or why a zygote cannot start it."""
    if not argv or not _PYTHON.fullmatch(os.path.basename(argv[0])):
        return f"{argv[0] if argv else 'the command'} is not Python"
    interpreter = find_program(argv[0], env, cwd)
    if interpreter is None:
        return f"{argv[0]} was not found"
    if any(not os.path.isabs(entry) for entry in env.get("PYTHONPATH", "/").split(os.pathsep)):
        return "PYTHONPATH has a relative entry"
    options: list[str] = []
    rest = list(argv[1:])
    while rest and rest[0].startswith("-") and rest[0] != "-":
        word = rest.pop(0)
        letters, valued = _split(word)
        if letters is None:
            return f"the option {word} of Python changes how the program is started"
        if valued == "m":
            module, found = word[word.index("m") + 1 :], word[: word.index("m")]
            if len(found) > 1:
                options.append(found)
            if not module and not rest:
                return "-m names no module"
            return PythonCommand(interpreter, tuple(options), "module", module or rest.pop(0), rest)
        options.append(word)
        if valued and word.endswith(valued):
            if not rest:
                return f"the option {word} of Python lacks its value"
            options.append(rest.pop(0))
    if not rest or rest[0] == "-":
        return "the program would be read from standard input"
    return PythonCommand(interpreter, tuple(options), "script", rest[0], rest[1:])


def _split(word: str) -> tuple[str | None, str]:
    """The option letters of a word, and the one among them that takes a value; None for what we do not know."""
    for place, letter in enumerate(word[1:], start=1):
        if letter == "m" or letter in _OPTIONS_WITH_VALUE:
            return word[1:place], letter
        if letter not in _PLAIN_OPTIONS:
            return None, ""
    return word[1:], ""


def find_program(name: str, env: dict[str, str], cwd: str) -> str | None:
    """The file that executing `name` would run, as an absolute path; links are not followed (venvs are links)."""
    if "/" in name:
        candidates = [os.path.join(cwd, name)]
    else:
        candidates = [
            os.path.join(cwd, folder or ".", name) for folder in env.get("PATH", os.defpath).split(os.pathsep)
        ]
    for candidate in candidates:
        if os.path.isfile(candidate) and os.access(candidate, os.X_OK):
            return os.path.normpath(candidate) if ".." not in candidate.split("/") else candidate
    return None


def canonical(interpreter: str) -> str:
    """The one of `python`, `python3` and `python3.x` in a folder that the others are links to.

    A link to another folder is not followed: that is how a venv knows that it is one.
    """
    for _ in range(8):
        try:
            target = os.readlink(interpreter)
        except OSError:
            break
        if "/" in target:
            break
        interpreter = os.path.join(os.path.dirname(interpreter), target)
    return interpreter
