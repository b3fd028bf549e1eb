"""Files and folders of the job store: private, and never half written."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from vcjob.errors import StoreError
from vcjob.local.machine import files


def test_every_folder_that_is_made_is_private_from_the_start(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        files.make_folder(str(tmp_path / "state" / "vcjob" / "jobs"))
    finally:
        os.umask(before)
    made = [tmp_path / "state", tmp_path / "state" / "vcjob", tmp_path / "state" / "vcjob" / "jobs"]
    assert [oct(folder.stat().st_mode & 0o777) for folder in made] == ["0o700"] * 3


def test_a_folder_that_exists_is_left_as_it_is(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    files.make_folder(str(tmp_path))
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreError, match=str(tmp_path / "file")) as caught:
            files.make_folder(str(path))
        assert caught.value.hint == "set VCJOB_HOME to a folder, not a file"
