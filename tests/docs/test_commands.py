"""Every command of every page is one that the command line accepts, and those of this machine run as shown.

The Chinese pages have the same commands as the English ones (tests/docs/test_pages.py), so those are run once.
"""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import click
import pytest

from tests.docs.pages import ENGLISH_PAGES, PAGES, ROOT, Command, blocks, name_of, spans
from tests.docs.shell import PLACEHOLDERS, Shell
from vcjob.cli.main import VERBS, cli

#: The job that `JOB` means in a page: it runs until it is stopped.
EXAMPLE = """\
import time
print("step 120/5000 loss 0.31", flush=True)
time.sleep(600)
"""
KINDS = {"console", "json", "python", "text", "toml", "yaml"}
#: Blocks that no test runs; each says why in its page.
NOT_RUN = {
    "CONTRIBUTING.md": 1,
    "docs/cluster.md": 1,
    "docs/coming-from-torchrun.md": 1,
    "docs/debugging.md": 1,
    "docs/diagnosis.md": 1,
    "docs/tasks/gpus.md": 1,
    "docs/testbed.md": 3,
    "examples/README.md": 1,
}
#: Pages whose commands start torchrun several times.
LONG = ("docs/coming-from-torchrun.md", "docs/tasks/torchrun.md")


def parsed_only(command: Command) -> str | None:
    """Why a command is not run on this machine, if it is not."""
    words = [word for each in command.words for word in each]
    if words[0] in ("kubectl", "helm", "vcctl") or "cluster" in words:
        return "needs a cluster"
    if words[0] == "vcjob" and words[1] in ("install", "uninstall") and words[2:4] != ["-o", "yaml"]:
        return "needs a cluster"
    if words[0] in ("make", "pipx", "uv") or words[1:3] == ["-m", "venv"]:
        return "installs or builds"
    if words[:2] == ["vcjob", "ui"] and "--export" not in words:
        return "serves until it is ended"
    if words[:2] == ["vcjob", "exec"] and words[-1] == "bash":
        return "needs a terminal"
    return None


def parse(words: list[str]) -> None:
    """As the command line does it, without running the verb."""
    verb, *arguments = (PLACEHOLDERS.get(word, word) for word in words)
    root = cli.make_context("vcjob", [], resilient_parsing=True)
    command = cli.get_command(root, verb)
    assert command is not None, verb
    command.make_context(verb, arguments, parent=root)


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_command_of_a_block_is_accepted_by_the_command_line(page: Path) -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    for command in (command for block in blocks(page, "console") for command in block.commands()):
        for words in command.words:
            if words[0] == "make":
                assert words[1] in targets, command.text
            elif words[0].rpartition("/")[2] == "vcjob":
                parse(words[1:])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_option_of_a_command_in_the_text_exists(page: Path) -> None:
    for words in (words for span in spans(page) for words in Command(span).words if words[0] == "vcjob"):
        assert words[1] in VERBS, words
        root = cli.make_context("vcjob", [], resilient_parsing=True)
        command = cli.get_command(root, words[1])
        assert command is not None
        parser = command.make_parser(click.Context(command, info_name=words[1], parent=root))
        parser.allow_interspersed_args = not any(word.endswith(".py") for word in words)
        parser.parse_args(words[2:])


def test_every_block_has_a_language_and_every_console_block_a_prompt() -> None:
    for page in PAGES:
        for block in blocks(page):
            assert block.kind in KINDS or "not run" in block.markers, (page, block.text)
            assert block.kind != "console" or block.text.startswith("$ "), (page, block.text)


def test_the_blocks_that_are_not_run_say_why() -> None:
    marked = {
        name_of(page): [block.markers["not run"] for block in blocks(page) if "not run" in block.markers]
        for page in ENGLISH_PAGES
    }
    assert all(len(reason) > 10 for reasons in marked.values() for reason in reasons)
    assert {name: len(reasons) for name, reasons in marked.items() if reasons} == NOT_RUN


def patterns(text: str) -> list[str]:
    """The words of a command that zsh takes for a pattern of file names, and refuses where no file matches."""
    return re.findall(r"\S*[\[*?]\S*", re.sub(r"'[^']*'|\"[^\"]*\"|(^|\s)#.*|\$\?", "", text))


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_no_command_has_a_pattern_of_file_names_outside_quotes(page: Path) -> None:
    commands = [command.text for block in blocks(page, "console") for command in block.commands()]
    assert [text for text in commands if patterns(text)] == []


def test_a_pattern_outside_quotes_is_found() -> None:
    assert patterns("vcjob run job.yaml --set spec.tasks[1].replicas=4") == ["spec.tasks[1].replicas=4"]
    assert patterns("vcjob run job.yaml --set 'spec.tasks[1].replicas=4'  # [1] is the worker") == []


def runs_here(page: Path) -> bool:
    return any(
        parsed_only(command) is None
        for block in blocks(page, "console")
        if "not run" not in block.markers
        for command in block.commands()
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.long if name_of(page) in LONG else (), id=name_of(page))
        for page in ENGLISH_PAGES
        if runs_here(page)
    ],
)
def test_the_commands_of_a_page_run_as_shown(page: Path, tmp_path: Path) -> None:
    if "<!-- needs: torch -->" in page.read_text(encoding="utf-8"):
        pytest.importorskip("torch", reason="the commands of this page need torch")
    shell = Shell(tmp_path, parsed_only)
    commands = [command.text for block in blocks(page, "console") for command in block.commands()]
    try:
        if any(re.search(r"\bJOB\b", text) for text in commands):
            (tmp_path / "example.py").write_text(EXAMPLE, encoding="utf-8")
            shell.call(["vcjob", "run", "--detach", "--workers", "2", "--name", "example", "example.py"])
            shell.call(["vcjob", "wait", "example", "--until", "Running", "--timeout", "60"])
        shell.follow(page)
    finally:
        for job in json.loads(shell.call(["vcjob", "list", "--running", "-o", "json"]))["items"]:
            shell.call(["vcjob", "delete", job["metadata"]["name"]])


@pytest.mark.slow
def test_the_recording_in_the_readme_shows_what_vcjob_prints_now(tmp_path: Path) -> None:
    """It shows the quick start's script: a run that fails, and `vcjob why`. scripts/record-run makes it."""
    shell = Shell(tmp_path, parsed_only)
    (tmp_path / "train.py").write_text(blocks(ROOT / "docs/quick-start.md", "python")[0].text)
    drawing = html.unescape(
        re.sub(r"<[^>]+>", "", (ROOT / "docs/images/run.svg").read_text(encoding="utf-8"))
    )
    shown = re.sub(r"\s", "", drawing)
    shell.call(["vcjob", "run", "--workers", "2", "train.py", "--fail"], code=1)
    for line in shell.call(["vcjob", "why", "train"]).splitlines()[:-1]:  # the last one names the victims
        assert re.sub(r"\s", "", line.replace("train.py:", "/demo/train.py:")) in shown, line
