"""Commands that cannot be executed: what real shells and other programs that start programs say about them."""

from __future__ import annotations

import shutil
import subprocess
from itertools import product
from pathlib import Path

import pytest

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.finding import Finding

from .test_failure_rules import job, rank

SHELLS = [shell for shell in ("sh", "dash", "bash", "zsh", "busybox") if shutil.which(shell)]
FILES = {
    "plain.sh": (0o644, b"echo hi\n"),
    "interpreter.sh": (0o755, b"#!/usr/bin/pyhton\n"),
    "env.py": (0o755, b"#!/usr/bin/env pyhton\n"),
    "return.py": (0o755, b"#!/usr/bin/env python3\r\nprint()\r\n"),
    "return.sh": (0o644, b"pyhton3\r\n"),
    "binary": (0o755, b"\x7fELF\x02\x01\x01" + bytes(9) + bytes(range(200))),
    "run.sh": (0o644, b"pyhton3 train.py\n"),
}
CASES = {
    "./plain.sh": ("CommandNotExecutable", "plain.sh is not executable"),
    "exec ./plain.sh": ("CommandNotExecutable", "plain.sh is not executable"),
    "./missing.sh": ("CommandNotFound", "./missing.sh does not exist"),
    "./interpreter.sh": ("CommandNotFound", "interpreter.sh"),
    "./env.py": ("CommandNotFound", "pyhton does not exist"),
    "./return.py": ("CommandNotFound", "Windows line ends (CRLF)"),
    "sh return.sh": ("CommandNotFound", "Windows line ends (CRLF)"),
    "bash return.sh": ("CommandNotFound", "Windows line ends (CRLF)"),
    "./binary": ("CommandNotExecutable", "this machine cannot execute ./binary"),
    "pyhton": ("CommandNotFound", "pyhton does not exist"),
    "exec pyhton": ("CommandNotFound", "pyhton does not exist"),
    "sh run.sh": ("CommandNotFound", "pyhton3 does not exist"),
    "bash run.sh": ("CommandNotFound", "pyhton3 does not exist"),
    "env pyhton": ("CommandNotFound", "pyhton does not exist"),
    "nohup pyhton": ("CommandNotFound", "pyhton does not exist"),
    "timeout 3 pyhton": ("CommandNotFound", "pyhton does not exist"),
    "nice pyhton": ("CommandNotFound", "pyhton does not exist"),
}


def found(code: int, *lines: str, command: tuple[str, ...] = ("sh", "-c", "x")) -> Finding:
    (finding,) = diagnose(job(rank(0, code=code, stderr=lines, command=command)))
    return finding


def test_a_name_without_a_folder_is_not_found_where_a_folder_of_path_cannot_be_read() -> None:
    for line in ("sh: 1: pyhton: Permission denied", "env: ‘pyhton’: Permission denied"):
        finding = found(126, line)
        assert finding.cause == "CommandNotFound"
        assert "pyhton does not exist in the folders of PATH, or is not executable there" in finding.message
        assert "chmod" not in finding.hint
    assert "Windows line ends" in found(126, ": Permission denied", command=("sh", "run.sh")).message


@pytest.mark.parametrize(
    ("shell", "command"),
    # busybox reads any file as a script.
    [each for each in product(SHELLS, CASES) if each != ("busybox", "./binary")],
)
def test_the_file_that_a_shell_could_not_execute_is_named(shell: str, command: str, tmp_path: Path) -> None:
    for name, (mode, content) in FILES.items():
        (tmp_path / name).write_bytes(content)
        (tmp_path / name).chmod(mode)
    argv = [*(["busybox", "sh"] if shell == "busybox" else [shell]), "-c", command]
    done = subprocess.run(argv, cwd=tmp_path, capture_output=True, stdin=subprocess.DEVNULL, timeout=60)
    text = done.stderr.decode()
    lines = [line.rsplit("\r", 1)[-1] for line in text.split("\n")[:-1]]  # as the readers of logs show it
    for said in (lines, text.split("\n")[:-1]):
        finding = found(done.returncode, *said, command=tuple(argv))
        assert finding.cause == CASES[command][0] and CASES[command][1] in finding.message, (text, finding)
        assert finding.hint


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("bash: line 1: ./train.sh: /usr/bin/pyhton: bad interpreter: No such file or directory",
         "the first line of ./train.sh names an interpreter that does not exist"),
        ("bash: ./train.sh: /bin/bash^M: bad interpreter: No such file or directory", "Windows line ends (CRLF)"),
        ("bash: line 1: ./data: Is a directory", "./data is a directory"),
        ("env: can't execute 'pyhton': No such file or directory", "pyhton does not exist"),
        ("sh: pyhton: not found", "pyhton does not exist"),
    ],
)  # fmt: skip
def test_other_versions_of_shells_are_understood(line: str, message: str) -> None:
    assert message in found(127, line).message


@pytest.mark.parametrize(
    ("code", "line", "cause"),
    [
        (1, "exec /usr/bin/python3: exec format error", "CommandNotExecutable"),
        (1, "standard_init_linux.go:228: exec user process caused: exec format error", "CommandNotExecutable"),
        (255, "exec /app/train.py: no such file or directory", "CommandNotFound"),
        (127, "[FATAL tini (7)] exec pyhton failed: No such file or directory", "CommandNotFound"),
    ],
)  # fmt: skip
def test_a_runtime_that_could_not_execute_the_command_is_understood_whatever_the_exit_code(
    code: int, line: str, cause: str
) -> None:
    assert found(code, line, command=("/usr/bin/python3", "train.py")).cause == cause


def test_a_file_that_runc_has_found_but_cannot_execute_lacks_its_interpreter() -> None:
    said = found(255, "exec /app/train.py: no such file or directory", command=("/app/train.py",)).message
    assert said == (
        "rank 0 could not start: the first line of /app/train.py names an interpreter that does not exist"
    )
    tini = found(127, "[FATAL tini (7)] exec pyhton failed: No such file or directory").message
    assert tini == "rank 0 could not start: pyhton does not exist"


def test_a_program_that_says_nothing_and_ends_with_127_is_not_the_shell_that_started_it() -> None:
    assert found(127).message == "rank 0 could not start: a command that it runs does not exist"


@pytest.mark.parametrize(
    ("line", "hint"),
    [
        ("python: error while loading shared libraries: libpython3.11.so.1.0: cannot open shared object file: "
         "No such file or directory", "LD_LIBRARY_PATH"),
        ("python: symbol lookup error: /venv/libtorch.so: undefined symbol: cudaGetDevice", "another version"),
    ],
)  # fmt: skip
def test_a_program_whose_library_cannot_be_loaded_does_exist(line: str, hint: str) -> None:
    for command in (("python", "train.py"), ("sh", "-c", "python train.py")):
        finding = found(127, line, command=command)
        assert (finding.cause, finding.message) == ("StartError", f"rank 0 could not start: {line}")
        assert hint in finding.hint


def test_128_is_an_exit_code_like_others_where_the_container_did_start() -> None:
    """git ends with it."""
    said = "fatal: repository 'https://example.com/x/y/' not found"
    finding = found(128, said, command=("sh", "-c", "git clone https://example.com/x/y"))
    assert (finding.cause, finding.message) == ("NonZeroExit", f"rank 0 ended with exit code 128: {said}")


def test_a_missing_file_that_the_program_itself_reports_is_not_its_command() -> None:
    said = "cp: cannot stat 'data': No such file or directory"
    assert found(1, "+ cp data x", said).cause == "NonZeroExit"
