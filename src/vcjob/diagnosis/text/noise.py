"""Lines of a program's output that say nothing about why it ended, and lines that show that it went on.

Used where tracebacks are read (`reader`) and where the last lines of a rank are chosen. Any text is accepted;
of each line only the beginning is searched.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

#: Characters of a line that are searched.
_SEARCHED = 400
#: torch's own log: warnings and notes of every part, and all that torchrun's agent says; frames of native code.
_TORCH_LOG = re.compile(
    r"\[?[WI]\d{4} \d\d:|[EF]\d{4} \d\d:\d\d:\d\d\.\d{1,9} \d{1,9} torch/distributed/|frame #\d+: |Exception raised from "
)
#: What programs print while they end, whatever the reason: experiment trackers, launchers, libraries. `^`: a search is
#: as cheap as a match.
_CHATTER = re.compile(
    r"^(?:(?:wandb: (?!ERROR)|COMET (?:INFO|WARNING)|(?:mlflow|swanlab|ClearML)\b.{0,20}:|\[neptune\]|🏃 |🧪 )"
    r"|\[[^\]]{1,40}\] \[(?:INFO|ERROR)\] \[launch\.py:"
    r"|\S{1,253}:\d{1,9}:\d{1,9} \[\d{1,4}\] NCCL INFO"
    r"|Set the environment variable HYDRA_FULL_ERROR"
    r"|\[notice\] (?:A new release of pip|To update, run:)"
    r"|mpi(?:run|exec) (?:detected that|noticed that)|Primary job  ?terminated|a non-zero exit code\. Per user-direction"
    r"|the job to be terminated\. The first|Process name: \[\[|Exit code: {1,20}\d{1,3}$"
    r"|huggingface/tokenizers: |To disable this warning, you can either"
    r"|- (?:Avoid using `tokenizers`|Explicitly set the environment variable TOKENIZERS))"
)
#: Lines that follow every error of CUDA, and what `faulthandler` prints about the stack of a crash.
_STANDARD = re.compile(
    r"CUDA kernel errors might be asynchronously reported|For debugging consider passing CUDA_LAUNCH_BLOCKING"
    r"|Compile with `TORCH_USE_CUDA_DSA`|Device-side assertion tracking was not enabled|Search for `cuda"
    r"|(?:Current thread|Thread) 0x[0-9a-f]|Current thread's C stack|Stack \(most recent call first\)|<no Python frame>"
    r"|File \"[^\"]{1,380}\", line \d{1,9} in |Binary file \"|Extension modules: |Python runtime state: "
)
#: `warnings.warn`: the place, the category and the message; the line of code below it is indented.
_WARNING = re.compile(r"^(?:\S{1,300}:\d{1,9}: \w{0,60}|[A-Z]\w{1,60})Warning: ")
#: A progress bar of tqdm, whose final state is printed when it is closed.
_BAR = re.compile(r"\d%\||\d\d:\d\d<")
_RULER = frozenset("=-_* ─━│╭╮╰╯")
#: A record of a program's log below an error, or a number of a step: training goes on.
_PROGRESS = re.compile(
    r"\b(?:INFO|DEBUG|WARN|WARNING)\b|\b(?:[Ss]tep|STEP|[Ee]poch|EPOCH|[Ii]ter|[Ii]teration|[Bb]atch)s?\b\W{0,3}\d"
)
#: The level of a record: a word in capitals, of structlog in brackets, or a value of a record in JSON.
_LEVEL = r"\b(?:{0})\b|(?i:\[(?:{0}) {{0,8}}\]|\"(?:level|levelname|severity)\": ?\"(?:{0})\")"
_MINOR_RECORD = re.compile(_LEVEL.format("INFO|DEBUG"))
_ERROR_RECORD = re.compile(_LEVEL.format("ERROR|CRITICAL|FATAL"))
_COLOUR = re.compile(r"\x1b\[[0-9;]{0,20}m")
#: Exit handlers may print this many lines and log records. A program that prints more still runs.
_EXIT_LINES, _EXIT_RECORDS = 5, 1


def without_colour(line: str) -> str:
    """The line without colour codes: Python and rich colour tracebacks if they are configured to."""
    return _COLOUR.sub("", line) if "\x1b" in line else line


def is_noise(line: str) -> bool:
    """Whether a line, without the prefixes of ranks, can be no reason for the end of a program."""
    start = line[:_SEARCHED].strip()
    return (
        _RULER.issuperset(start)
        or _TORCH_LOG.match(start) is not None
        or _CHATTER.match(start) is not None
        or _STANDARD.match(start) is not None
        or _WARNING.match(start) is not None
        or _BAR.search(start) is not None
    )


def is_minor_record(line: str) -> bool:
    """Whether it is a note of the program's own log, which is rarely the reason."""
    return _MINOR_RECORD.search(line[:_SEARCHED]) is not None


def is_error_record(line: str) -> bool:
    """Whether it is an error in the program's own log."""
    return _ERROR_RECORD.search(line[:_SEARCHED]) is not None


def is_warning(line: str) -> bool:
    """Whether the line below it, if it is indented, shows the code that caused a warning."""
    return _WARNING.match(line[:_SEARCHED].strip()) is not None


def without_noise(lines: Iterable[str]) -> list[str]:
    """The lines that may be a reason, stripped."""
    said: list[str] = []
    warned = False
    for line in lines:
        code = warned and line.startswith((" ", "\t"))
        warned = is_warning(line)
        if not code and not is_noise(line):
            said.append(line.strip())
    return said


def shows_progress(message: Iterable[str], after: Iterable[str]) -> bool:
    """Whether what was printed below an exception shows that the program went on.

    `message`: lines that directly follow the exception, and may belong to its message; `after`: the other lines.
    """
    below = without_noise(after)
    records = sum(
        _PROGRESS.search(line[:_SEARCHED]) is not None for line in (*without_noise(message), *below)
    )
    return records > _EXIT_RECORDS or len(below) > _EXIT_LINES
