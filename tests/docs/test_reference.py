"""The reference pages say what the code defines."""

from __future__ import annotations

import re

from scripts.generate_reference import ARCHITECTURE, FOLDER, ROOT, architecture, pages


def test_the_reference_pages_are_up_to_date() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    wanted = pages()
    stale = sorted(name for name in written.keys() | wanted.keys() if written.get(name) != wanted.get(name))
    assert stale == [], "run `make reference`"


def test_the_diagram_of_the_layers_is_up_to_date() -> None:
    assert ARCHITECTURE.read_text(encoding="utf-8") == architecture(), "run `make reference`"


def test_every_file_that_the_architecture_page_names_exists() -> None:
    named = re.findall(r"`((?:src|tests|examples)/[^`*]+\.\w+)`", ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(named) > 80
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_file_that_the_map_of_the_tests_names_exists() -> None:
    page = ROOT / "tests" / "README.md"
    named = re.findall(r"`([\w/]+\.(?:py|txt))`", page.read_text(encoding="utf-8"))
    assert len(named) > 20
    assert [path for path in named if not (page.parent / path).is_file()] == []
