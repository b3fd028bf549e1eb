"""Hooks of MkDocs for `make docs`: they adapt pages that are written for a reader of the repository to the site.

The site has a language switch, so the link to the other language is removed. Files outside docs/ are not part of the
site, so links to them become plain text. A line break between two Chinese characters would be shown as a space, so it is removed.
Anchors of headings keep Chinese characters, as on GitHub; those of Python-Markdown do not.
"""

from __future__ import annotations

import posixpath
import re
from importlib import import_module
from typing import Any

_OTHER_LANGUAGE = re.compile(r"^\[(?:中文|English)\]\([^)]*\)\n+", re.MULTILINE)
_CHINESE = r"[\u3000-\u303f\u4e00-\u9fff\uff00-\uffef]"
_BREAK = re.compile(rf"(?<={_CHINESE})\n *(?={_CHINESE})")
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s#]+)(#[^)]*)?\)")


def on_config(config: Any) -> Any:
    """The settings with anchors as GitHub makes them. MkDocs calls this once for every language."""
    slugs = import_module("pymdownx.slugs")  # only the site needs this package
    config.mdx_configs.setdefault("toc", {})["slugify"] = slugs.slugify(case="lower")
    return config


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """The text of a page as the site shows it. MkDocs calls this for every page."""
    folder = posixpath.dirname(page.file.src_uri)
    return outside_links_as_text(join_chinese_lines(_OTHER_LANGUAGE.sub("", markdown)), folder)


def join_chinese_lines(markdown: str) -> str:
    """Remove single line breaks between Chinese characters."""
    return _BREAK.sub("", markdown)


def outside_links_as_text(markdown: str, folder: str) -> str:
    """Replace links that lead out of docs/ by their text; `folder` is that of the page inside docs/."""

    def text_of(match: re.Match[str]) -> str:
        target = posixpath.normpath(posixpath.join(folder, match[2]))
        return match[1] if target.startswith("../") else match[0]

    return _LINK.sub(text_of, markdown)
