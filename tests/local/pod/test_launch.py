"""Starting a process: why a command cannot be started."""

from __future__ import annotations

import os
from pathlib import Path

from vcjob.local.pod.launch import LaunchRequest, PlainLauncher, StartFailure


def _failure(command: str, path: str, user: int | None = None, cwd: str = "/") -> str:
    """Why it cannot be started, as that user."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            if user is not None:
                os.setuid(user)
            PlainLauncher().launch(LaunchRequest([command], {"PATH": path}, cwd, 1, 2))
        except StartFailure as failure:
            os.write(writing, failure.message.encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(pid, 0)
    with os.fdopen(reading) as pipe:
        return pipe.read()


def test_a_command_that_does_not_exist_is_not_found_even_if_a_folder_on_the_path_may_not_be_read(
    tmp_path: Path, another_user: int
) -> None:
    private = tmp_path / "private"
    private.mkdir(mode=0o700)
    failure = _failure("no-such-command", f"{private}:/usr/bin", another_user)
    assert failure == "command 'no-such-command': not found on this machine"


def test_a_file_that_may_not_be_executed_is_named_as_such(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no program")
    assert _failure("text", str(tmp_path)) == "command 'text': Permission denied"
    assert _failure(str(tmp_path / "text"), "") == f"command '{tmp_path / 'text'}': Permission denied"


def test_a_folder_whose_name_is_not_utf_8_is_named_with_escapes(tmp_path: Path) -> None:
    missing = f"{tmp_path}/missing-\udcff"
    reason = rf"workingDir {tmp_path}/missing-\udcff: does not exist on this machine"
    assert _failure("true", os.environ["PATH"], cwd=missing) == reason
