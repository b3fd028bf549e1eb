"""Lines in which a shell, `env` or a container runtime says that it cannot execute a file: `refusal`.

`exits` asks it about a rank that did not get to run its program. Any text is accepted; a line in no known form is None.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

#: dash: "sh: 1: ./x: not found"; bash: "run.sh: line 3: ./x: cannot execute: required file not found"; busybox: "sh: x:
#: not found"; all of them with "exec: " before the file.
_SHELL = re.compile(
    r"^(?:[^:]{0,300}sh: |[^:]{1,300}: ?(?:line )?\d{1,9}: )(?:exec: )?(?:line \d{1,9}: )?(?P<file>[^:]{0,300}): "
    r"(?P<why>(?:command )?not found|No such file or directory|Permission denied|Is a directory|Exec format error"
    r"|cannot execute.{1,80}|(?:[^:]{1,300}: )?bad interpreter: .{1,300})$"
)
_ZSH = re.compile(
    r"^[^:]{1,300}:\d{1,9}: (?P<why>command not found|no such file or directory|permission denied|exec format error): "
    r"(?P<file>.{1,300})$"
)
#: Programs that start the one that follows them: `/usr/bin/env` in the first line of a script too.
_TOOL = re.compile(
    r"^(?:\S{0,300}/)?(?:env|nohup|nice|ionice|timeout|setsid|stdbuf|taskset|chrt|xargs): "
    r"(?:failed to (?:run|execute) (?:command )?|can't execute )?"
    r"(?P<file>[^\s:]{1,300}): (?P<why>No such file or directory|Permission denied|Exec format error)$"
)
#: runc, tini.
_RUNTIME = re.compile(
    r"^(?:standard_init_linux\.go:\d{1,9}: |\[FATAL tini \(\d{1,9}\)\] )?exec (?:user process caused|(?P<file>\S{1,300}?))"
    r"(?: failed)?: (?P<why>exec format error|no such file or directory|permission denied)$",
    re.IGNORECASE,
)
#: runc starts a container only for a file that exists: one that is missing then is its interpreter.
_RUNC = re.compile(r"standard_init_linux|exec \S{1,300}: ")
_NO_FILE = "no such file or directory"
#: What bash says about a script whose interpreter does not exist.
REQUIRED_FILE = "required file not found"
_QUOTES = "'‘’\"$"
#: A carriage return at the end of a name: as it is, and as bash and `env` write it.
_RETURNS = ("\r", "\\r")
#: What is left of a line whose name ends in a carriage return.
_AFTER_RETURN = (": not found", ": command not found", ": Permission denied")


class Refusal(NamedTuple):
    """The file that could not be executed, empty where it is not named, and why, in small letters."""

    file: str
    why: str
    #: Whether a runtime says so, whose exit code can be any.
    by_runtime: bool = False

    @property
    def has_return(self) -> bool:
        """Whether the name, or that of the interpreter, ends in a carriage return.

        A terminal continues at the beginning of the line there, so nothing may be left of what was before it.
        """
        return not self.file or self.file.endswith(_RETURNS) or "^m: " in self.why


def refusal(lines: Iterable[str]) -> Refusal | None:
    """What the last of these lines in a known form says."""
    return next(filter(None, map(_read, reversed([*lines]))), None)


def _read(line: str) -> Refusal | None:
    for pattern in (_SHELL, _ZSH, _TOOL, _RUNTIME):
        if match := pattern.match(line):
            file, why = (match["file"] or "").strip(_QUOTES), match["why"].lower()
            if why == _NO_FILE and _RUNC.match(line):
                why = REQUIRED_FILE
            return Refusal(file, why, by_runtime=pattern is _RUNTIME)
    return Refusal("", line[2:].lower()) if line in _AFTER_RETURN else None
