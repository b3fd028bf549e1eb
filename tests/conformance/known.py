"""What docs/compatibility.md says about specs: the differences that are meant."""

from __future__ import annotations

import re

from tests.testbed.paths import REPOSITORY

PAGE = REPOSITORY / "docs" / "compatibility.md"
HEADING = "## Volcano's own end-to-end specs"


def known_differences() -> set[tuple[str, str]]:
    """Suite and name of each spec that is in the page's table."""
    section = PAGE.read_text().partition(f"{HEADING}\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `(\w+)`: ([^|]+?) \|", section, re.MULTILINE)
    return {(suite, name) for suite, name in rows}
