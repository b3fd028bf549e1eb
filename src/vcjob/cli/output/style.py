"""Colours and safe text for a terminal; files and pipes get neither.

Every verb that prints text has a `Style` for its stream. Text from a job or a cluster must pass through `clean`
before it is printed, because it may hold control sequences of a terminal.
"""

from __future__ import annotations

import os
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Style:
    """How text is written to one stream.

    Calling it colours our own text. `clean` makes text that others wrote safe for the terminal; it comes first.
    """

    def __init__(self, stream: TextIO) -> None:
        self.on_terminal = stream.isatty()
        #: Whether colours are used: not with NO_COLOR, and not in a file or a pipe.
        self.paints = self.on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"

    def __call__(self, text: str, *colours: str) -> str:
        if not self.paints or not colours:
            return text
        return f"\033[{';'.join(_CODES[colour] for colour in colours)}m{text}\033[0m"

    def clean(self, text: str) -> str:
        """A value for one line of the output."""
        if not self.on_terminal:
            return text
        from vcjob.cli.output.terminal_text import escape

        return escape(text)
