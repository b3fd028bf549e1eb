"""The pages say what is true: links lead somewhere, commands and Job files work, both languages tell the same."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

import vcjob
from vcjob.cli.main import VERBS

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/**/*.md")])
LINK = re.compile(r"\[[^\]]*\]\(([^)#]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")) if kind == language]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text(encoding="utf-8")) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_vcjob_command_of_a_page_is_a_verb_that_there_is(page: Path) -> None:
    lines = [line for text in blocks(page, "console") for line in text.splitlines()]
    words = [shlex.split(line.removeprefix("$ "), comments=True) for line in lines if "vcjob " in line]
    called = {
        word[i + 1]
        for word in words
        for i, part in enumerate(word[:-1])
        if part.rpartition("/")[2] == "vcjob"
    }
    assert {verb for verb in called if not verb.startswith("-")} <= set(VERBS)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_python_block_of_a_page_compiles(page: Path) -> None:
    for text in blocks(page, "python"):
        compile(text, str(page), "exec")


@pytest.mark.parametrize("name", sorted(path.parent.name for path in ROOT.glob("examples/*/job.yaml")))
def test_every_example_is_valid_but_for_a_plugin_that_is_not_installed(name: str) -> None:
    problems = vcjob.validate(ROOT / "examples" / name / "job.yaml")
    errors = [problem.message for problem in problems if problem.severity == "error"]
    assert errors == [] or name == "plugin-package"


def test_both_languages_of_the_readme_show_the_same_commands() -> None:
    def commands(page: str) -> list[str]:
        text = "\n".join(blocks(ROOT / page, "console"))
        return [re.sub(r"\s+#.*", "", line) for line in text.replace(".zh.yaml", ".en.yaml").splitlines()]

    assert commands("README.md") == commands("README.zh.md")


@pytest.mark.parametrize("name", sorted(path.name for path in ROOT.glob("docs/zh/*.md")))
def test_a_page_in_chinese_has_the_headings_tables_and_commands_of_the_english_one(name: str) -> None:
    """Whoever changes one must change the other: what was added to one only would be missed here."""

    def shape(page: Path) -> dict[str, list[str]]:
        text = page.read_text(encoding="utf-8")
        code = "\n".join(re.findall(r"^```\w*\n(.*?)^```", text, re.MULTILINE | re.DOTALL))
        plain = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        return {
            "headings": re.findall(r"^#+", plain, re.MULTILINE),
            "columns of tables": [
                str(line.count("|")) for line in plain.splitlines() if line.startswith("|")
            ],
            "code": [re.sub(r"\s*#.*", "", line) for line in code.splitlines()],
        }

    assert shape(ROOT / "docs/zh" / name) == shape(ROOT / "docs" / name)
