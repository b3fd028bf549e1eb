"""The image map: which command runs for an image."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import documents
from vcjob.errors import SourceError, UserError
from vcjob.local.pod import images
from vcjob.spec.job import Job


def test_an_image_is_found_by_its_reference_or_without_its_tag() -> None:
    known = {"a/b": ["x"], "host:5000/c:2": ["y"]}
    assert images.command_of({"image": "a/b:1.0"}, known) == ["x"]
    assert images.command_of({"image": "a/b@sha256:00", "args": ["z"]}, known) == ["x", "z"]
    assert images.command_of({"image": "host:5000/c:2"}, known) == ["y"]
    assert images.command_of({"image": "host:5000/d"}, known) is None
    assert images.command_of({"image": "?", "args": ["python", "x"]}, known) == ["python", "x"]


def test_the_user_s_own_map_is_read(tmp_path: Path) -> None:
    (tmp_path / "images.yaml").write_text("mine: python train.py --fast\nother: [a, b]\n")
    known = images.load_map(str(tmp_path), ["third=x 'y z'"], "python")
    assert known["mine"] == ["python", "train.py", "--fast"]
    assert known["other"] == ["a", "b"] and known["third"] == ["x", "y z"]
    assert known[images.SENDRECV_IMAGE][1:] == ["-m", "vcjob.local.programs.sendrecv"]


@pytest.mark.parametrize("flag", ["x", "=y", "x=", ""])
def test_a_bad_image_flag_is_refused(tmp_path: Path, flag: str) -> None:
    with pytest.raises(UserError, match="IMAGE=COMMAND"):
        images.load_map(str(tmp_path), [flag], "python")


def test_an_image_flag_whose_command_has_an_open_quote_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError) as refused:
        images.load_map(str(tmp_path), ["x='python"], "python")
    assert refused.value.message == "--image x: a quote is not closed in `'python`"
    assert refused.value.hint == "close it, or write `\\` before a quote that is a character of the command"


@pytest.mark.parametrize("text", ["- a\n", "x: 5\n", "x: []\n", "a: [b\n", """x: "'python"\n"""])
def test_a_bad_image_map_is_refused_with_its_path(tmp_path: Path, text: str) -> None:
    (tmp_path / "images.yaml").write_text(text)
    with pytest.raises(SourceError, match=re.escape(str(tmp_path / "images.yaml"))):
        images.load_map(str(tmp_path), [], "python")


@pytest.mark.parametrize(
    ("flag", "message", "hint"),
    [
        (
            "x/z=python train.py",
            "--image x/z: no container of the Job has this image",
            "its images are x/y:1, z",
        ),
        (
            "z=python -c 'a b'",
            "--image z: every container with this image has a `command`, which runs instead",
            "change the command of each, for example --set "
            """'spec.tasks[0].template.spec.containers[0].command=["python", "-c", "a b"]'""",
        ),
    ],
)
def test_an_image_flag_that_no_container_would_use_is_refused(flag: str, message: str, hint: str) -> None:
    containers = [{"name": "a", "image": "z", "command": ["true"]}, {"name": "b", "image": "x/y:1"}]
    job = Job(documents.job("job", {"name": "t", "template": {"spec": {"containers": containers}}}))
    images.check_flags([job], ["x/y=true", "x/y:1=true"])
    with pytest.raises(UserError) as refused:
        images.check_flags([job], [flag])
    assert (refused.value.message, refused.value.hint) == (message, hint)
