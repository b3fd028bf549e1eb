"""The reference pages say what the code defines."""

from __future__ import annotations

from scripts.generate_reference import FOLDER, pages


def test_the_reference_pages_are_up_to_date() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    wanted = pages()
    stale = sorted(name for name in written.keys() | wanted.keys() if written.get(name) != wanted.get(name))
    assert stale == [], "run `make reference`"
