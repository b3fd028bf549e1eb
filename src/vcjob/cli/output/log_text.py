"""Log lines as they are printed: with the rank in front, and safe for a terminal where there is one.

`vcjob logs` and the screens of `vcjob run` use it. It works on whole chunks, because there may be many lines.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcjob.cli.output.style import Style
    from vcjob.sdk.handle import Chunk

_RANK_COLOURS = ("36", "32", "33", "35", "34", "96", "92", "93", "95", "94")


def log_text(
    chunk: Chunk, style: Style, *, prefix: bool = True, timestamps: bool = False, job: str = ""
) -> bytes:
    """The lines of a chunk, each with `[rank task-index]` in front, and with the job where there are several.

    The whole chunk at once, because there may be many lines. Without a prefix, files and pipes get the bytes as they
    are; with one, only the last state of a line that redraws itself, which would otherwise overwrite the prefix.
    """
    data = chunk.data
    if style.on_terminal:
        from vcjob.cli.output.terminal_text import escape_log_lines

        data = escape_log_lines(data)
    elif prefix and b"\r" in data:
        data = b"\n".join(map(_last_state, data[:-1].split(b"\n"))) + b"\n"
    mark = b""
    if prefix:
        text = f"{job} {chunk.origin.prefix}" if job else chunk.origin.prefix
        if style.paints:
            number = chunk.origin.rank if chunk.origin.rank is not None else len(text)
            text = f"\033[{_RANK_COLOURS[number % len(_RANK_COLOURS)]}m{text}\033[0m"
        mark = text.encode() + b" "
    if timestamps:
        mark += f"{timestamp(chunk) or '-'} ".encode()
    if not mark:
        return data
    return mark + data[:-1].replace(b"\n", b"\n" + mark) + b"\n"


def _last_state(line: bytes) -> bytes:
    return line.rstrip(b"\r").rpartition(b"\r")[2]


def timestamp(chunk: Chunk) -> str | None:
    """When the lines of a chunk were received, in UTC with milliseconds."""
    if chunk.received is None:
        return None
    whole, milliseconds = divmod(round(chunk.received * 1000), 1000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(whole))}.{milliseconds:03}Z"
