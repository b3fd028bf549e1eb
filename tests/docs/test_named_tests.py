"""Where a page names a test, the test is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
NAMED = re.compile(r"`(tests/[\w/.]+\.py)?(?:::(\w+))?`")


def named(page: Path) -> list[tuple[str, str]]:
    """File and function; a function without a file is of the file before it."""
    found, file = [], ""
    for match in NAMED.finditer(page.read_text()):
        file = match[1] or file
        if match[0] != "``" and file:
            found.append((file, match[2] or ""))
    return found


@pytest.mark.parametrize("page", sorted((ROOT / "docs").rglob("*.md")), ids=lambda page: page.name)
def test_the_tests_that_a_page_names_are_there(page: Path) -> None:
    for file, function in named(page):
        text = (ROOT / file).read_text()
        assert not function or f"def {function}(" in text, f"{file}::{function}"


def test_the_page_on_security_names_some() -> None:
    assert len(named(ROOT / "docs/security.md")) > 10
