"""Completion of the names of jobs, tasks and fields, in click and in the real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

import pytest
from click.shell_completion import ShellComplete

import vcjob as sdk
from tests.cli.conftest import Vcjob
from vcjob.cli.arguments import completing
from vcjob.cli.main import VERBS, cli, main
from vcjob.errors import BackendError
from vcjob.wellknown.environment import COMPLETE

SECONDS = 120.0


@pytest.fixture
def jobs(own_home: None) -> None:
    started = [
        sdk.run(sdk.pytorch_job(name, command=["true"])) for name in ("train-large", "train-small", "other")
    ]
    assert set(sdk.wait_all(started, SECONDS)) == {"Completed"}


def offered(*words: str) -> list[str]:
    completion = ShellComplete(cli, {}, "vcjob", COMPLETE)
    return [item.value for item in completion.get_completions(list(words[:-1]), words[-1])]


def test_names_are_completed_with_what_exists(jobs: None) -> None:
    assert offered("status", "train") == ["train-small", "train-large"]
    assert offered("delete", "ot") == ["other"]
    assert offered("logs", "-n", "elsewhere", "train") == []
    assert offered("logs", "other", "--task", "") == ["master", "worker"]
    assert offered("exec", "other", "--task", "w") == ["worker"]
    assert offered("logs", "nothing", "--task", "") == []
    assert offered("logs", "--task", "") == []


def test_render_completes_jobs_and_files(jobs: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.yaml").touch()
    Path("train-data").mkdir()
    Path(".train").touch()
    assert offered("render", "train") == ["train-small", "train-large", "train-data", "train.yaml"]
    assert offered("render", "train.") == ["train."], "one item of type file: the shell completes it"
    assert offered("render", "other", "--task", "w") == ["worker"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["explain", "spec.task"], ["spec.tasks"]),
        (["explain", "sp"], ["spec"]),
        (["explain", "nothing.a"], []),
        (["run", "--works"], []),
        (["run", "torchrun", "--work"], ["--workers"]),
        (["comple"], ["complete", "completion"]),
    ],
)
def test_fields_options_and_verbs_are_completed(words: list[str], expected: list[str]) -> None:
    assert offered(*words) == expected


def test_a_cluster_that_does_not_answer_offers_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreachable(*_: object, **__: object) -> list[sdk.Handle]:
        raise BackendError("no cluster")

    monkeypatch.setattr("vcjob.sdk.finding.jobs", unreachable)
    assert offered("status", "--on", "cluster", "t") == []
    released = Event()

    def slow(**_: object) -> list[sdk.Handle]:
        released.wait(SECONDS)
        return []

    monkeypatch.setattr("vcjob.sdk.finding.jobs", slow)
    monkeypatch.setattr(completing, "_SECONDS", 0.01)
    assert offered("status", "--on", "cluster", "t") == []
    released.set()


@pytest.fixture
def shell(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A real shell with `vcjob` on its PATH; the completion script is at `script` in the current folder."""
    name: str = request.param
    if shutil.which(name) is None:
        pytest.skip(f"{name} is not installed")
    programs = tmp_path / "bin"
    programs.mkdir()
    command = programs / "vcjob"
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m vcjob "$@"\n')
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    script = subprocess.run(["vcjob", "completion", name], capture_output=True, text=True, check=True).stdout
    Path("script").write_text(script)
    return name


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["bash"], indirect=True)
def test_bash_completes_the_name_of_a_job(jobs: None, shell: str) -> None:
    program = (
        "source ./script; for verb in status render; do COMPREPLY=(); "
        "COMP_WORDS=(vcjob $verb train-l); COMP_CWORD=2; _vcjob_completion vcjob; "
        'echo "${COMPREPLY[@]}"; done'
    )
    done = subprocess.run(
        ["bash", "-c", program], capture_output=True, text=True, check=True, timeout=SECONDS
    )
    assert done.stdout.split() == ["train-large"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["fish"], indirect=True)
def test_fish_completes_the_name_of_a_job(jobs: None, shell: str) -> None:
    program = "source ./script; complete -C 'vcjob status train-l'; complete -C 'vcjob render train-l'"
    done = subprocess.run(
        ["fish", "-c", program], capture_output=True, text=True, check=True, timeout=SECONDS
    )
    assert done.stdout.split() == ["train-large"] * 2


@pytest.mark.slow
@pytest.mark.parametrize("shell", ["zsh"], indirect=True)
def test_zsh_completes_the_name_of_a_job(jobs: None, shell: str) -> None:
    """zsh completes in an interactive shell only, so this one has a terminal."""
    process, terminal = pty.fork()
    if process == 0:
        os.execvp("zsh", ["zsh", "-f", "-i"])
    try:
        os.write(terminal, b"autoload -Uz compinit && compinit -u -D && source ./script && echo rea''dy\n")
        _read_until(terminal, b"ready\r")
        for verb in (b"status", b"render"):
            os.write(terminal, b"vcjob " + verb + b" train-l\t")
            _read_until(terminal, b"train-large")
            os.write(terminal, b"\x15")  # deletes the line
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)
        os.close(terminal)


def _read_until(terminal: int, wanted: bytes) -> None:
    shown, deadline = b"", time.monotonic() + SECONDS
    while wanted not in shown:
        left = deadline - time.monotonic()
        assert left > 0 and select.select([terminal], [], [], left)[0], f"{wanted!r} is not in {shown!r}"
        shown += os.read(terminal, 4096)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_call_the_command_back(vcjob: Vcjob, shell: str) -> None:
    result = vcjob("completion", shell)
    assert result.code == 0
    assert "_VCJOB_COMPLETE" in result.out
    assert f"{shell}_complete" in result.out
    assert vcjob("completion", "tcsh").code == 2


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ("vcjob ", set(VERBS)),
        ("vcjob val", {"validate"}),
        ("vcjob render --ga", {"--gang"}),
        ("vcjob render --gang co", {"coscheduling"}),
    ],
)
def test_the_shell_is_told_what_fits(
    words: str, expected: set[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_VCJOB_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    assert main() == 0
    assert {line.partition(",")[2] for line in capsys.readouterr().out.splitlines()} == expected


def test_the_shell_completes_file_names_itself(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_VCJOB_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", "vcjob render jo")
    monkeypatch.setenv("COMP_CWORD", "2")
    main()
    assert capsys.readouterr().out == "file,jo\n"
