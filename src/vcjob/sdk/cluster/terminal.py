"""The terminal of this program while a remote command uses it: raw input, and its size.

Used by `ClusterHandle.exec`. Without a terminal nothing is changed, and the streams are passed on as they are.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def raw_terminal() -> Iterator[bool]:
    """Pass every key on as it is typed, also Ctrl-C; False, and nothing is changed, without a terminal."""
    if not (os.isatty(0) and os.isatty(1)) or sys.platform == "win32":
        yield False
        return
    import termios
    import tty

    before = termios.tcgetattr(0)
    try:
        tty.setraw(0)
        yield True
    finally:
        termios.tcsetattr(0, termios.TCSADRAIN, before)


def terminal_size() -> tuple[int, int]:
    """Columns and lines."""
    size = shutil.get_terminal_size()
    return size.columns, size.lines
