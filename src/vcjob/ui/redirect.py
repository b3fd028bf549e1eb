"""A private file that sends the browser to the server's URL, so that the token never is an argument of a process.

The arguments of every process are visible to all users of a machine, and a browser receives what it opens as one.
`vcjob ui` opens the file instead; only its own user can read it, and it is deleted when the server ends, also by
SIGTERM or SIGHUP. A file that cannot be written raises OSError.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from html import escape
from pathlib import Path

#: Where snaps are, such as the Firefox of Ubuntu.
SNAPS = Path("/snap")


@contextmanager
def redirect_to(url: str) -> Iterator[str]:
    """The file's own URL, for as long as the block runs.

    A browser in a snap has a /tmp of its own, and of the home directory it may read what is not hidden.
    """
    home = Path.home()
    place = home if SNAPS.is_dir() and os.access(home, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="vcjob-ui-", dir=place, ignore_cleanup_errors=True) as folder:
        file = Path(folder, "open.html")
        with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as out:
            out.write(_page(url))
        yield file.as_uri()


def _page(url: str) -> str:
    target = escape(url, quote=True)
    return (
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="referrer" content="no-referrer">'
        f'<meta http-equiv="refresh" content="0; url={target}"><title>vcjob</title>'
        f'<p><a href="{target}">vcjob</a></p></html>\n'
    )
