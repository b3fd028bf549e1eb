"""The reference pages say what the code defines."""

from __future__ import annotations

import re

import pytest

from scripts.generate_reference import (
    ARCHITECTURE,
    FOLDER,
    PLUGIN_GUIDES,
    ROOT,
    architecture,
    pages,
    plugin_guide,
)


def test_the_reference_pages_are_up_to_date() -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.md")}
    wanted = pages()
    stale = sorted(name for name in written.keys() | wanted.keys() if written.get(name) != wanted.get(name))
    assert stale == [], "run `make reference`"


def test_the_diagram_of_the_layers_is_up_to_date() -> None:
    assert ARCHITECTURE.read_text(encoding="utf-8") == architecture(), "run `make reference`"


@pytest.mark.parametrize("language", PLUGIN_GUIDES)
def test_the_table_of_the_plugins_arguments_is_up_to_date(language: str) -> None:
    written = PLUGIN_GUIDES[language].read_text(encoding="utf-8")
    assert written == plugin_guide(language), "run `make reference`"
    assert "`--nproc-per-node=8`" in written


def test_every_file_that_the_architecture_page_names_exists() -> None:
    named = re.findall(r"`((?:src|tests|examples)/[^`*]+\.\w+)`", ARCHITECTURE.read_text(encoding="utf-8"))
    assert len(named) > 80
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_file_that_the_map_of_the_tests_names_exists() -> None:
    page = ROOT / "tests" / "README.md"
    named = re.findall(r"`([\w/]+\.(?:py|txt))`", page.read_text(encoding="utf-8"))
    assert len(named) > 20
    assert [path for path in named if not (page.parent / path).is_file()] == []
