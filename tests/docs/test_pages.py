"""The pages are correct: links and anchors exist, commands and Jobs work, both languages have the same content."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

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


def anchors(page: Path) -> set[str]:
    """The anchors of the headings of a page, as GitHub and MkDocs make them of English headings."""
    plain = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)", plain, re.MULTILINE)
    named = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return named | set(re.findall(r'<a id="([\w-]+)"></a>', plain))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_anchor_of_a_page_exists(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", page.read_text(encoding="utf-8")):
        linked = page.parent / target if target else page
        assert anchor in anchors(linked), f"{target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_job_in_a_page_is_valid(page: Path, tmp_path: Path) -> None:
    for text in blocks(page, "yaml"):
        if yaml.safe_load(text).get("kind") == "Job":
            (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
            assert [problem.message for problem in vcjob.validate(tmp_path / "job.yaml")] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_no_page_names_a_folder_of_the_machine_that_wrote_it(page: Path) -> None:
    assert re.findall(r"/(?:home|root|work|tmp)/[\w.]+", page.read_text(encoding="utf-8")) == []


@pytest.mark.slow
def test_the_commands_of_the_quick_start_work_as_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = ROOT / "docs/quick-start.md"  # the Chinese page has the same blocks: see the last test
    monkeypatch.setenv("VCJOB_HOME", str(tmp_path / "store"))
    monkeypatch.chdir(tmp_path)

    def call(command: str, code: int = 0) -> str:
        arguments = [sys.executable, "-m", *shlex.split(command)]
        done = subprocess.run(arguments, capture_output=True, text=True, timeout=120)
        assert done.returncode == code, done.stderr
        return done.stdout

    (script,) = blocks(page, "python")
    (tmp_path / "train.py").write_text(script, encoding="utf-8")
    _, run, fail, after, file, _ = (
        [line.removeprefix("$ ") for line in text.splitlines()] for text in blocks(page, "console")
    )
    assert "[2 worker-1] rank 2 of 3, master 127.0.0.1:" in call(run[0])
    shown = call(fail[0], code=1)
    assert "rank 1 (worker-0) ended with exit code 1, in container pytorch" in shown
    assert "rank 1 raised ValueError: the learning rate is not a number" in shown
    assert [bool(call(command)) for command in after] == [True] * 6
    assert [bool(call(command)) for command in file] == [True] * 4
    written = yaml.safe_load((tmp_path / "job.yaml").read_text(encoding="utf-8"))
    assert [written] == [yaml.safe_load(text) for text in blocks(page, "yaml")]


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
    """A change of one language without the other fails here."""

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
