"""Colours, where a person is looking."""

from __future__ import annotations

import os
from typing import TextIO

_CODES = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}


class Style:
    """Paints text for a terminal, and leaves it as it is for a file, a pipe or with NO_COLOR set."""

    def __init__(self, stream: TextIO) -> None:
        self.on_terminal = stream.isatty()
        self._paints = (
            self.on_terminal and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
        )

    def __call__(self, text: str, *colours: str) -> str:
        if not self._paints or not colours:
            return text
        return f"\033[{';'.join(_CODES[colour] for colour in colours)}m{text}\033[0m"
