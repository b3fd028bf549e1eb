"""Which commands are understood."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from vcjob.local.warm.command import PythonCommand, canonical, find_program, understand
from vcjob.local.warm.environment import for_zygote, lasting, start_key

PYTHON = sys.executable


def of(*words: str, **env: str) -> PythonCommand | str:
    return understand([PYTHON, *words], {"PATH": "/nowhere", **env}, "/")


@pytest.mark.parametrize(
    ("words", "options", "kind", "target", "args"),
    [
        (["a.py"], (), "script", "a.py", []),
        (["a.py", "-m", "x"], (), "script", "a.py", ["-m", "x"]),
        (["-u", "a.py", "1"], ("-u",), "script", "a.py", ["1"]),
        (["-m", "mod", "1"], (), "module", "mod", ["1"]),
        (["-mmod"], (), "module", "mod", []),
        (["-um", "mod"], ("-u",), "module", "mod", []),
        (["-OO", "-B", "-m", "a.b"], ("-OO", "-B"), "module", "a.b", []),
        (["-W", "error", "-Xdev", "a.py"], ("-W", "error", "-Xdev"), "script", "a.py", []),
        (["-Werror", "-X", "utf8", "-Em", "m"], ("-Werror", "-X", "utf8", "-E"), "module", "m", []),
        (["-uWerror", "a.py"], ("-uWerror",), "script", "a.py", []),
    ],
)
def test_a_command_is_taken_apart(
    words: list[str], options: tuple[str, ...], kind: str, target: str, args: list[str]
) -> None:
    assert of(*words) == PythonCommand(PYTHON, options, kind, target, args)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ([], "from standard input"),
        (["-"], "from standard input"),
        (["-c", "1"], "the option -c"),
        (["-uc", "1"], "the option -uc"),
        (["-i", "a.py"], "the option -i"),
        (["--version"], "the option --version"),
        (["-m"], "names no module"),
        (["-X"], "lacks its value"),
    ],
)
def test_what_is_not_understood_is_said(words: list[str], reason: str) -> None:
    answer = of(*words)
    assert isinstance(answer, str)
    assert reason in answer


@pytest.mark.parametrize("name", ["torchrun", "bash", "python.sh", "pythonx", "mypython"])
def test_other_programs_are_not_python(name: str) -> None:
    assert understand([name, "a.py"], {}, "/") == f"{name} is not Python"


def test_a_program_is_found_as_execution_finds_it(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "python").touch(mode=0o755 if name == "b" else 0o644)
    env = {"PATH": f"{tmp_path}/none:{tmp_path}/a:b"}
    assert find_program("python", env, str(tmp_path)) == f"{tmp_path}/b/python"
    assert find_program("b/python", env, str(tmp_path)) == f"{tmp_path}/b/python"
    assert find_program("a/python", env, str(tmp_path)) is None
    assert find_program("python9", env, str(tmp_path)) is None


def test_the_names_of_one_interpreter_are_one(tmp_path: Path) -> None:
    (tmp_path / "python").symlink_to(os.path.realpath(PYTHON))
    (tmp_path / "python3").symlink_to("python")
    (tmp_path / "python3.99").symlink_to("python3")
    assert {canonical(str(tmp_path / name)) for name in ("python", "python3", "python3.99")} == {
        str(tmp_path / "python")
    }


def test_what_a_rank_and_a_terminal_have_for_themselves_is_no_part_of_an_environment() -> None:
    own = {
        "RANK": "1",
        "MASTER_PORT": "1",
        "VC_WORKER_HOSTS": "a",
        "VCJOB_HOME": "/x",
        "CUDA_VISIBLE_DEVICES": "0",
    }
    terminal = {"TERM": "x", "SSH_CLIENT": "y", "_": "z", "PWD": "/"}
    lasts = {"HOME": "/h", "OMP_NUM_THREADS": "1", "ANY": "thing"}
    assert lasting({**own, **terminal, **lasts}) == lasts
    assert for_zygote({**own, **lasts, "VCJOB_RUN_UID": "u"}) == {**lasts, "VCJOB_RUN_UID": "u"}
    assert start_key({**own, **terminal, **lasts}) == (("HOME", "/h"), ("OMP_NUM_THREADS", "1"))
