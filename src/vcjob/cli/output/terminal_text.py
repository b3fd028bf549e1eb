"""Text that others wrote (log lines, messages, names), made safe to print on a terminal.

A terminal acts on control characters: it moves the cursor, clears the screen, changes its title or answers on standard
input. Text from a container, a file or an API server is therefore escaped before it reaches one. Files, pipes and
`-o json` get the bytes as they are; `Style.clean` and `log_text` decide which of the two applies.
"""

from __future__ import annotations

import re

_RESET = "\033[0m"
#: C0 without tab and newline, DEL, and C1.
_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f]")
#: Whatever must be examined: the same, and colours.
_COLOUR = re.compile("\033\\[[0-9;:]*m")
#: What progress bars use to redraw themselves: erase in line, cursor up or down. It has no effect here.
_REDRAW = re.compile("\033\\[[0-9]*[KAB]")
_BYTES_TO_EXAMINE = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f-\xff]")


def escape(text: str) -> str:
    """A value for one line: control characters become visible (`^[`, `\\x9b`), line breaks become spaces."""
    return _escape_controls(" ".join(text.splitlines()) if "\n" in text or "\r" in text else text)


def escape_log_line(line: str) -> str:
    """A log line as a terminal would show it in the end, without its line break.

    Of a line that redraws itself with `\\r` the last state is shown; colours stay, and end with the line.
    """
    line = next((part for part in reversed(line.split("\r")) if part), "")
    line = _REDRAW.sub("", line)
    shown, end = [], 0
    for colour in _COLOUR.finditer(line):
        shown += [_escape_controls(line[end : colour.start()]), colour[0]]
        end = colour.end()
    shown.append(_escape_controls(line[end:]))
    return "".join(shown) + (_RESET if end else "")


def escape_log_lines(data: bytes) -> bytes:
    """Whole lines. Plain text, which nearly all of it is, is passed on as it is."""
    if not _BYTES_TO_EXAMINE.search(data):
        return data
    lines = data.decode(errors="replace").split("\n")
    return "\n".join(escape_log_line(line) for line in lines).encode()


def _escape_controls(text: str) -> str:
    return _CONTROL.sub(_visible, text)


def _visible(control: re.Match[str]) -> str:
    code = ord(control[0])
    if code < 0x20:
        return f"^{chr(code + 0x40)}"
    return "^?" if code == 0x7F else f"\\x{code:02x}"
