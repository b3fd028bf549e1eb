"""The documentation site: it builds without warnings and without other hosts, and every page is in the menu."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from scripts.site_hooks import join_chinese_lines, outside_links_as_text

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"


def test_links_out_of_the_docs_become_text_and_others_stay() -> None:
    text = "[a](../examples/a.yaml) [b](local.md#x) ![c](images/c.svg) [d](https://example.com)"
    assert outside_links_as_text(text, "") == (
        "a [b](local.md#x) ![c](images/c.svg) [d](https://example.com)"
    )
    assert outside_links_as_text("[a](../local.md) [b](../../README.md)", "zh") == "[a](../local.md) b"


def test_line_breaks_between_chinese_characters_are_removed() -> None:
    assert join_chinese_lines("一行，\n   二行\n\n三\n- 四\nfive") == "一行，二行\n\n三\n- 四\nfive"


def test_every_page_is_in_the_menu() -> None:
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = set(re.findall(r"^ +- [^:]+: ([\w/-]+\.md)$", text, re.MULTILINE))
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert listed == {page for page in pages if not page.startswith(("zh/", "decisions/0"))}


def test_every_title_of_the_menu_has_a_chinese_translation() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))
    languages = next(each["i18n"] for each in settings["plugins"] if "i18n" in each)["languages"]
    titles = [title for section in settings["nav"] for title in section]
    titles += [
        title for section in settings["nav"] for pages in section.values() for page in pages for title in page
    ]
    assert [title for title in titles if title not in languages[1]["nav_translations"]] == []


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    pytest.importorskip(
        "mkdocs_static_i18n", reason="the packages of requirements/pages.txt are not installed"
    )
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "mkdocs",
            "build",
            "--quiet",
            "--strict",
            "--site-dir",
            str(tmp_path / "site"),
        ],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for name in ("index.html", "quick-start/index.html", "zh/index.html", "zh/pytorch-plugin/index.html"):
        page = (tmp_path / "site" / name).read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img)[^>]+src=\"(?:https?:)?//[^\"]*", page) == []
        assert re.findall(r"<link[^>]+stylesheet[^>]+href=\"(?:https?:)?//[^\"]*", page) == []
    assert "快速入门" in (tmp_path / "site/zh/index.html").read_text(encoding="utf-8")
