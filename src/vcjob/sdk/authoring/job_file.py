"""A Job as a file for a human to edit: YAML with comments that explain its fields and offer more of them.

`vcjob init` writes it. The comments are placed by the position of each field in the text, so that they cannot get into
a value; the Job that is read from the file is the one that was given.
"""

from __future__ import annotations

import shlex
from typing import Any

from vcjob.sdk.yaml_text import to_yaml
from vcjob.spec.problem import Path
from vcjob.spec.source import load_documents

_CONTAINER: Path = ("spec", "tasks", 0, "template", "spec", "containers", 0)
_COMMENTS: dict[Path, tuple[str, ...]] = {
    ("metadata", "name"): ("The name of the job, for `vcjob status NAME` and the other verbs.",),
    ("spec", "plugins"): (
        "The pytorch plugin gives every pod RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.",
        "Its arguments: [--port=23456], [--wait-master-enabled=true], [--nproc-per-node=gpu].",
    ),
    ("spec", "maxRetry"): ("How often the Job may run.",),
    ("spec", "policies"): (
        "What to do when something happens: start the whole Job again when a rank fails.",
    ),
    ("spec", "tasks"): ("The master is rank 0, and worker i is rank i + 1.",),
    ("spec", "tasks", 1, "replicas"): ("The number of workers.",),
    (*_CONTAINER, "image"): ("Used on a cluster only, where it must contain the program.",),
    (*_CONTAINER, "command"): ("What every rank runs, on this machine and on a cluster.",),
}
#: Fields that a user may want, as comments before another field.
_OFFERS: tuple[tuple[Path, Path, tuple[str, ...]], ...] = (
    (
        ("spec", "policies"),
        ("spec", "tasks"),
        (
            "To start the whole Job again when a rank fails, at most twice:",
            "policies: [{event: PodFailed, action: RestartJob}]",
            "maxRetry: 3",
        ),
    ),
    (
        ("spec", "tasks", 1),
        ("spec", "tasks"),
        ("For more pods add a task `worker`, as `vcjob init --workers N` writes it.",),
    ),
    (
        (*_CONTAINER, "resources"),
        (*_CONTAINER, "command"),
        ("GPUs of each pod (write it in the worker too):", "resources: {limits: {nvidia.com/gpu: 1}}"),
    ),
    (
        (*_CONTAINER, "env"),
        (*_CONTAINER, "command"),
        ("Environment variables:", 'env: [{name: NCCL_DEBUG, value: "INFO"}]'),
    ),
)


def commented_yaml(job: dict[str, Any], file: str) -> str:
    """The text of `file`: the Job with comments."""
    text = to_yaml(job)
    document = load_documents(text)[0]
    lines = text.splitlines()
    notes: dict[int, list[str]] = {}
    offers = [(before, note) for field, before, note in _OFFERS if not _has(job, field)]
    for where, note in [*offers, *_COMMENTS.items()]:
        position = document.position(where)
        if position is not None and _has(job, where):
            line, column = position
            notes.setdefault(line - 1, []).extend(f"{' ' * (column - 1)}# {each}" for each in note)
    shown = shlex.quote(file) if file.isprintable() else "FILE"
    commands = {
        f"vcjob validate {shown}": "check it",
        f"vcjob run {shown}": "run it on this machine, as processes",
        f"vcjob run {shown} --on cluster": "run it on Kubernetes, as pods",
        "vcjob explain spec.tasks.policies": "what a field means",
    }
    width = max(map(len, commands))
    head = [
        "# A Volcano Job, written by `vcjob init`.",
        "#",
        *(f"#   {command:{width}}   {meaning}" for command, meaning in commands.items()),
    ]
    body = [each for number, line in enumerate(lines) for each in (*notes.get(number, ()), line)]
    return "\n".join([*head, *body]) + "\n"


def _has(job: Any, where: Path) -> bool:
    for step in where:
        try:
            job = job[step]
        except (KeyError, IndexError, TypeError):
            return False
    return True
