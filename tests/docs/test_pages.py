"""The pages are correct: links and anchors exist, commands and Jobs work, both languages have the same content."""

from __future__ import annotations

import ast
import json
import os
import re
import tomllib
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pytest
import yaml

import vcjob
from tests.docs.pages import ENGLISH_PAGES, PAGES, ROOT, blocks, name_of

LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and MkDocs make them of English headings."""
    plain = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)", plain, re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | set(re.findall(r'<a id="([\w-]+)"></a>', plain))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_anchor_of_a_page_exists(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        linked = page.parent / target if target else page
        assert anchor in anchors(linked), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_job_in_a_page_is_valid(page: Path, tmp_path: Path) -> None:
    plugins = re.findall(r"^(\w+) = ", "".join(block.text for block in blocks(page, "toml")), re.MULTILINE)
    for block in blocks(page, "yaml"):
        if block.text.startswith("# values.yaml"):  # of the Helm chart: tests/cluster/install/test_chart.py
            values = yaml.safe_load((ROOT / "charts/vcjob/values.yaml").read_text(encoding="utf-8"))
            assert yaml.safe_load(block.text).keys() <= values.keys()
            continue
        assert yaml.safe_load(block.text)["kind"] == "Job", "a complete Job, which the reader can run"
        (tmp_path / "job.yaml").write_text(block.text, encoding="utf-8")
        messages = {problem.message for problem in vcjob.validate(tmp_path / "job.yaml")}
        assert messages <= {f"there is no plugin `{name}`" for name in plugins}


def test_every_json_toml_and_python_block_can_be_read() -> None:
    readers: dict[str, Callable[[str], object]] = {
        "json": json.loads,
        "toml": tomllib.loads,
        "python": ast.parse,
    }
    for block in (block for page in PAGES for block in blocks(page)):
        readers.get(block.kind, str)(block.text)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_name_of_the_sdk_in_a_page_exists(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    names = re.findall(r"(?<![\w/.-])vcjob\.(?!yaml\b)([A-Za-z]\w*)(?!\w*[/-])", text)
    methods = re.findall(r"\bhandle\.(\w+)\(", text)
    assert [name for name in names if name not in vcjob.__all__ and not find_spec(f"vcjob.{name}")] == []
    assert [name for name in methods if not hasattr(vcjob.Handle, name)] == []


def test_no_page_names_a_folder_of_the_machine_that_wrote_it() -> None:
    folder = re.compile(r"/(?:home|root|work|tmp)/[\w.]+")
    assert {name_of(page) for page in PAGES if folder.search(page.read_text(encoding="utf-8"))} == set()


@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("examples/*/job.yaml")))
def test_every_example_is_valid_but_for_a_plugin_that_is_not_installed(name: str) -> None:
    problems = vcjob.validate(ROOT / "examples" / name / "job.yaml")
    errors = [problem.message for problem in problems if problem.severity == "error"]
    assert errors == [] or name == "plugin-package"


def test_both_languages_of_the_readme_show_the_same_commands() -> None:
    def commands(page: str) -> list[str]:
        text = "\n".join(block.text for block in blocks(ROOT / page, "console"))
        return [re.sub(r"\s+#.*", "", line) for line in text.replace(".zh.yaml", ".en.yaml").splitlines()]

    assert commands("README.md") == commands("README.zh.md")


DOCS, EXAMPLES = ROOT / "docs", ROOT / "examples"


def chinese(page: Path) -> Path:
    return DOCS / "zh" / page.relative_to(DOCS) if page.is_relative_to(DOCS) else page.with_suffix(".zh.md")


def in_both_languages(pages: list[Path]) -> list[Path]:
    return [page for page in pages if page.is_relative_to(DOCS) or page.is_relative_to(EXAMPLES)]


TRANSLATED = in_both_languages(ENGLISH_PAGES)


@pytest.mark.parametrize("page", TRANSLATED, ids=name_of)
def test_a_page_in_chinese_has_the_headings_tables_and_code_of_the_english_one(page: Path) -> None:
    """A change of one language without the other fails here."""

    def shape(page: Path) -> dict[str, object]:
        text = page.read_text(encoding="utf-8")
        plain = re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)
        return {
            "headings": re.findall(r"^#+", plain, re.MULTILINE),
            "columns of tables": [line.count("|") for line in plain.splitlines() if line.startswith("|")],
            "code": [
                re.sub(r"\s*#.*", "", line) for block in blocks(page) for line in block.text.splitlines()
            ],
            "markers": [block.markers for block in blocks(page)],
        }

    assert shape(chinese(page)) == shape(page)


@pytest.mark.parametrize("page", TRANSLATED, ids=name_of)
def test_a_page_links_to_the_other_language(page: Path) -> None:
    other = chinese(page)
    for source, target, label in ((page, other, "中文"), (other, page, "English")):
        link = os.path.relpath(target, source.parent)
        assert f"\n[{label}]({link})\n" in source.read_text(encoding="utf-8")


@pytest.mark.parametrize("page", TRANSLATED, ids=name_of)
def test_a_page_in_chinese_links_to_pages_in_chinese(page: Path) -> None:
    other = chinese(page)
    links = re.findall(r"\[([^\]]*)\]\(([^)#\s]+)", other.read_text(encoding="utf-8"))
    targets = [(other.parent / target).resolve() for label, target in links if label != "English"]
    assert [target for target in targets if target in TRANSLATED] == []


def test_every_page_in_chinese_has_an_english_one() -> None:
    pages = set(in_both_languages(PAGES)) - set(TRANSLATED)
    assert pages == {chinese(page) for page in TRANSLATED}
