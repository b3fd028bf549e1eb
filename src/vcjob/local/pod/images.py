"""The command that runs for an image. Images themselves are not run on this machine.

A container with a `command` runs it. Without one, its image is looked up in the image map: the send/recv image of the
user guide is built in, and users add others in `images.yaml` (or `images.json`) in VCJOB_HOME or with
`--image IMAGE=COMMAND`. The SDK checks a Job with this module before the run is stored.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from vcjob.errors import BackendError, SourceError, UserError
from vcjob.local.machine import files
from vcjob.spec.job import Job
from vcjob.spec.problem import Path, format_path
from vcjob.spec.scalars import command_words

SENDRECV_IMAGE = "gcr.io/kubeflow-ci/pytorch-dist-sendrecv-test:1.0"
_PROGRAMS = "vcjob.local.programs."


def built_in(python: str) -> dict[str, list[str]]:
    return {SENDRECV_IMAGE: [python, "-m", f"{_PROGRAMS}sendrecv"]}


def load_map(home: str, flags: Iterable[str], python: str) -> dict[str, list[str]]:
    """The whole map: built in, then the user's file, then the flags."""
    return {**built_in(python), **_from_file(home), **_from_flags(flags)}


def command_of(container: Mapping[str, Any], images: Mapping[str, list[str]]) -> list[str] | None:
    """The command line of a container before `$(VAR)` expansion; None if there is nothing to run."""
    command = list(container.get("command") or [])
    arguments = list(container.get("args") or [])
    if not command:
        # Arguments alone: most training images have an entry point that just runs them.
        command = list(_lookup(container.get("image") or "", images) or [])
    return command + arguments or None


def without_command(job: Job, images: Mapping[str, list[str]]) -> Iterator[tuple[Path, str]]:
    """The containers for which there is nothing to run on this machine: where each is, and its name."""
    for number, task in enumerate(job.tasks):
        for where, container in task.containers(number):
            if command_of(container, images) is None:
                yield where, f"{task.name}/{container.get('name')} ({container.get('image') or 'no image'})"


def check_commands(job: Job, images: Mapping[str, list[str]]) -> None:
    """Reject a Job that has containers without a command; the error names all of them."""
    lost = [name for _, name in without_command(job, images)]
    if lost:
        raise UserError(
            f"nothing to run for {', '.join(lost)}: no image is run on this machine, and there is no `command`",
            hint="give the container a `command`, or map the image to a command: --image IMAGE='python train.py'",
        )


def check_flags(jobs: Iterable[Job], flags: Iterable[str]) -> None:
    """Reject an `--image IMAGE=COMMAND` that no container would use; another spelling of IMAGE is the usual reason."""
    containers = [
        each for job in jobs for number, task in enumerate(job.tasks) for each in task.containers(number)
    ]
    images = {str(container.get("image") or "") for _, container in containers}
    for image, command in _from_flags(flags).items():
        mine = [(where, each) for where, each in containers if _names(image, str(each.get("image") or ""))]
        if not mine:
            known = (
                f"its images are {', '.join(sorted(images))}" if any(images) else "no container has an image"
            )
            raise UserError(f"--image {image}: no container of the Job has this image", hint=known)
        if all(each.get("command") for _, each in mine):
            change = f"{format_path((*mine[0][0], 'command'))}={json.dumps(command)}"
            raise UserError(
                f"--image {image}: every container with this image has a `command`, which runs instead",
                hint=f"change the command of each, for example --set {shlex.quote(change)}",
            )


def check_torch(job: Job, images: Mapping[str, list[str]]) -> None:
    """Refuse a Job for which a program of ours would run, if this Python has no PyTorch: no rank could begin."""
    needing = {
        str(container.get("image"))
        for task in job.tasks
        for container in task.pod_spec.get("containers") or []
        if _is_ours(command_of(container, images) or []) and not _brings_modules(container)
    }
    if not needing or _has_torch():
        return
    raise BackendError(
        f"the built-in program for image {', '.join(sorted(needing))} needs PyTorch, "
        f"which {sys.executable} does not have",
        hint=f"{sys.executable} -m pip install torch; or map the image to your own command: "
        "--image IMAGE='python train.py'",
    )


def _is_ours(command: list[str]) -> bool:
    return command[:2] == [sys.executable, "-m"] and command[2].startswith(_PROGRAMS)


def _brings_modules(container: Mapping[str, Any]) -> bool:
    return any(entry.get("name") == "PYTHONPATH" for entry in container.get("env") or [])


def _has_torch() -> bool:
    from importlib.util import find_spec

    return find_spec("torch") is not None


def _lookup(image: str, images: Mapping[str, list[str]]) -> list[str] | None:
    """By the whole reference, else without its tag or digest."""
    return images[image] if image in images else images.get(_bare(image))


def _names(name: str, image: str) -> bool:
    """Whether an entry of the map with this name is for this image."""
    return name in (image, _bare(image))


def _bare(image: str) -> str:
    """Without its tag or digest."""
    bare = image.partition("@")[0]
    return bare.rpartition(":")[0] if ":" in bare.rpartition("/")[2] else bare


def _from_flags(flags: Iterable[str]) -> dict[str, list[str]]:
    found = {}
    for flag in flags:
        image, equals, command = flag.partition("=")
        words = command_words(command, f"--image {image}")
        if not equals or not image or not words:
            raise UserError(
                f"--image {flag!r} is not IMAGE=COMMAND",
                hint="for example --image pytorch/pytorch='python train.py'",
            )
        found[image] = words
    return found


def _from_file(home: str) -> dict[str, list[str]]:
    for name in ("images.yaml", "images.json"):
        path = os.path.join(home, name)
        data = files.read_bytes(path)
        if data is not None:
            return _checked(path, _parsed(path, data))
    return {}


def _parsed(path: str, data: bytes) -> object:
    try:
        if path.endswith(".json"):
            return msgspec.json.decode(data)
        import yaml

        return yaml.safe_load(data)
    except Exception as error:
        raise SourceError(f"{path}: {error}") from error


def _checked(path: str, content: object) -> dict[str, list[str]]:
    found = {}
    for image, command in content.items() if isinstance(content, dict) else [("", None)]:
        words = command_words(command, path, SourceError) if isinstance(command, str) else command
        if not isinstance(words, list) or not words or not all(isinstance(word, str) for word in words):
            raise SourceError(
                f"{path}: an image map has lines of `image: command`",
                hint="a command is text or a list of words",
            )
        found[str(image)] = words
    return found
