"""Where the job store is: always an absolute path, because the supervisor runs in another folder than the caller."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.command_line import verb
from tests.local.conftest import job, task
from vcjob import to_yaml
from vcjob.errors import UserError
from vcjob.local.jobs.doctor import examine
from vcjob.local.run.home import home_folder


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[pytest.MonkeyPatch]:
    """No VCJOB_HOME; HOME and the current folder are the test's own. All of it ends before the jobs are cleaned up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("VCJOB_HOME")
        patch.setenv("HOME", str(tmp_path))
        patch.chdir(tmp_path)
        yield patch


@pytest.fixture
def no_home(shell: pytest.MonkeyPatch) -> None:
    """A user without HOME and without an entry in the password file, as in a container."""

    def unknown(uid: int) -> pwd.struct_passwd:
        raise KeyError(uid)

    shell.delenv("HOME")
    shell.delenv("XDG_STATE_HOME", raising=False)
    shell.setattr(pwd, "getpwuid", unknown)


def test_a_relative_state_folder_is_ignored(tmp_path: Path, shell: pytest.MonkeyPatch) -> None:
    """The XDG specification requires it."""
    shell.setenv("XDG_STATE_HOME", "state")
    assert home_folder() == str(tmp_path / ".local" / "state" / "vcjob")
    shell.setenv("XDG_STATE_HOME", "/var/state")
    assert home_folder() == "/var/state/vcjob"


@pytest.mark.usefixtures("no_home")
def test_without_a_home_folder_the_user_is_asked_to_set_one() -> None:
    with pytest.raises(UserError, match="HOME"):
        home_folder()
    listed = verb("list")
    assert listed.returncode == 2 and "VCJOB_HOME" in listed.stderr


@pytest.mark.usefixtures("no_home")
def test_without_a_home_folder_doctor_says_what_is_missing() -> None:
    found = next(check for check in examine({}) if check.topic == "jobs")
    assert found.standing == "missing" and "HOME" in found.message


def test_doctor_ends_where_no_folder_of_the_path_exists(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcjob.local.jobs.doctor.home_folder", lambda: "no/such/folder")
    assert any(check.topic == "jobs" for check in examine({}))


@pytest.mark.usefixtures("no_home")
def test_a_job_is_checked_without_a_home_folder(tmp_path: Path) -> None:
    without_command = {"name": "main", "image": "none"}
    (tmp_path / "job.yaml").write_text(to_yaml(job(task("a", without_command))))
    assert verb("validate", "job.yaml").returncode == 0
