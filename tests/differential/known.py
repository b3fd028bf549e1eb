"""What docs/compatibility.md lists: the differences between the local backend and a kubelet that are known."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase

from tests.testbed.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "compatibility.md"
HEADING = "## The local backend and a kubelet"


class Known:
    """Rows of the page's table: a pattern for Jobs, a pattern for what differs, and whether it only sometimes does."""

    def __init__(self) -> None:
        section = PAGE.read_text().partition(f"{HEADING}\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| `([^`]+)` \| `([^`]+)` \| ([^|]+) \|", section, re.MULTILINE)
        self.rows = [(job, path) for job, path, _ in rows]
        self._races = {(job, path) for job, path, here in rows if here.startswith("sometimes: ")}
        self._seen: set[tuple[str, str]] = set()

    def covers(self, job: str, path: str) -> bool:
        """Whether a row lists this difference."""
        found = [row for row in self.rows if fnmatchcase(job, row[0]) and fnmatchcase(path, row[1])]
        self._seen.update(found)
        return bool(found)

    def unseen(self) -> list[tuple[str, str]]:
        """Rows that no difference needs any more."""
        return [row for row in self.rows if row not in self._seen | self._races]
