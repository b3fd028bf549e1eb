"""The documentation site: it builds without warnings and without other hosts, and every page is in the menu."""

from __future__ import annotations

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


def build(folder: Path, *options: str | Path) -> subprocess.CompletedProcess[str]:
    """As `make docs` does it; the site is in `folder`/site."""
    pytest.importorskip(
        "mkdocs_static_i18n", reason="the packages of requirements/pages.txt are not installed"
    )
    command = [ROOT / "scripts/build-site", sys.executable, "--site-dir", folder / "site", *options]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120)


@pytest.mark.slow
def test_the_site_builds_without_warnings_and_loads_nothing_from_other_hosts(tmp_path: Path) -> None:
    done = build(tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    for name in ("index.html", "quick-start/index.html", "zh/index.html", "zh/pytorch-plugin/index.html"):
        page = (tmp_path / "site" / name).read_text(encoding="utf-8")
        assert re.findall(r"<(?:script|img)[^>]+src=\"(?:https?:)?//[^\"]*", page) == []
        assert re.findall(r"<link[^>]+stylesheet[^>]+href=\"(?:https?:)?//[^\"]*", page) == []
    assert "快速入门" in (tmp_path / "site/zh/index.html").read_text(encoding="utf-8")
    assert 'id="在集群上检测卡住"' in (tmp_path / "site/zh/diagnosis/index.html").read_text(encoding="utf-8")


@pytest.mark.slow
@pytest.mark.parametrize(("anchor", "code"), [("卡住时", 0), ("没有", 1)])
def test_a_link_to_an_anchor_that_does_not_exist_fails_the_build(
    tmp_path: Path, anchor: str, code: int
) -> None:
    docs = tmp_path / "docs"
    (docs / "zh").mkdir(parents=True)
    (docs / "index.md").write_text("# Start\n", encoding="utf-8")
    (docs / "zh/index.md").write_text(f"# 卡住时\n\n[x](#{anchor})\n", encoding="utf-8")
    settings = {
        "INHERIT": str(ROOT / "mkdocs.yml"),
        "docs_dir": str(docs),
        "hooks": [str(ROOT / "scripts/site_hooks.py")],
        "nav": [{"Start": "index.md"}],
        "not_in_nav": "",
    }
    (tmp_path / "mkdocs.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    done = build(tmp_path, "--config-file", tmp_path / "mkdocs.yml")
    assert done.returncode == code, done.stderr
    assert ("there is no such anchor on this page" in done.stderr) == bool(code)
