"""The reference pages say what the code defines."""

from __future__ import annotations

import re

import pytest

from scripts import chinese
from scripts.generate_reference import (
    ARCHITECTURE,
    CHINESE_PERFORMANCE,
    FOLDERS,
    PLUGIN_GUIDES,
    ROOT,
    architecture,
    chinese_performance,
    pages,
    plugin_guide,
)
from vcjob.plugins.pytorch_options import COUNTED_BY_TORCHRUN

LANGUAGES = list(FOLDERS)


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_reference_pages_are_up_to_date(language: str) -> None:
    written = {path.name: path.read_text(encoding="utf-8") for path in FOLDERS[language].glob("*.md")}
    wanted = pages(language)
    stale = sorted(name for name in written.keys() | wanted.keys() if written.get(name) != wanted.get(name))
    assert stale == [], "run `make reference`"


def test_every_text_of_the_reference_has_a_chinese_translation_and_no_other() -> None:
    pages("zh")
    plugin_guide("zh")
    assert chinese.untranslated() == [], "add it to scripts/chinese.toml and run `make reference`"
    assert chinese.unused() == [], "remove it from scripts/chinese.toml"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_diagram_of_the_layers_is_up_to_date(language: str) -> None:
    written = ARCHITECTURE[language].read_text(encoding="utf-8")
    assert written == architecture(language), "run `make reference`"


def test_the_web_page_has_the_chinese_meanings_of_causes_and_reasons() -> None:
    assert chinese.MEANINGS.read_text(encoding="utf-8") == chinese.meanings(), "run `make reference`"


def test_the_chinese_page_on_performance_has_the_tables_of_the_english_one() -> None:
    written = CHINESE_PERFORMANCE.read_text(encoding="utf-8")
    assert written == chinese_performance(), "run `make reference`"


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_table_of_the_plugins_arguments_is_up_to_date(language: str) -> None:
    written = PLUGIN_GUIDES[language].read_text(encoding="utf-8")
    assert written == plugin_guide(language), "run `make reference`"
    row = next(line for line in written.splitlines() if "`--nproc-per-node=8`" in line)
    assert [value for value in COUNTED_BY_TORCHRUN if f"`{value}`" not in row] == []


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_file_that_the_architecture_page_names_exists(language: str) -> None:
    page = ARCHITECTURE[language].read_text(encoding="utf-8")
    named = re.findall(r"`((?:src|tests|examples)/[^`*]+\.\w+)`", page)
    assert len(named) > 80
    assert [path for path in named if not (ROOT / path).is_file()] == []


def test_every_file_that_the_map_of_the_tests_names_exists() -> None:
    page = ROOT / "tests" / "README.md"
    named = re.findall(r"`([\w/]+\.(?:py|txt))`", page.read_text(encoding="utf-8"))
    assert len(named) > 20
    assert [path for path in named if not (page.parent / path).is_file()] == []
