"""Changes to a Job that a user gives with the run instead of in the file: `--set`, `--env`, and arguments after `--`.

`loading.Loaded` applies them to the document before it is checked, so that a wrong value is reported like one in the
file. A path or value that cannot be applied is a UserError.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from vcjob.errors import UserError
from vcjob.spec.problem import Path
from vcjob.spec.scalars import escape_references

_STEP = re.compile(r"\.?([^.\[\]]+)|\[([^\[\]]+)\]")
_POSITION = re.compile(r"0|[1-9][0-9]{0,8}")
#: Variables, substitutions, patterns, lists, pipes and redirections.
_OF_SHELL = re.compile(r"[$`*?~;&|<>()\[\]{}\n#]|^\s*(?:cd|export|exec|set|source|\.)\s|^\s*\w+=")
_SHELLS = ("sh", "bash", "dash", "zsh")
#: In quotes, because zsh takes brackets for a pattern of file names.
_EXAMPLE = "for example --set 'spec.tasks[1].replicas=4', or by name: --set 'spec.tasks[worker].replicas=4'"


class Overrides(NamedTuple):
    """`sets` are `PATH=VALUE`, `env` goes into every container, `arguments` to the program of every rank.

    Programs get the values of `env` and the arguments unchanged: `$(VAR)` in them is text, not a reference.
    """

    sets: Sequence[str] = ()
    env: Mapping[str, str] = {}
    arguments: Sequence[str] = ()
    #: Only the Job of this name.
    job: str | None = None

    def apply(self, job: dict[str, Any]) -> dict[Path, str]:
        """Change the document of a Job in place; returns the parts that are no longer as in the file, and what set them."""
        if self.job is not None and _mapping(job.get("metadata")).get("name") != self.job:
            return {}
        changed = {_set(job, each): "--set" for each in self.sets}
        env = {name: escape_references(value) for name, value in self.env.items()}
        arguments = [escape_references(word) for word in self.arguments]
        for number, task in _items(_mapping(job.get("spec")).get("tasks")):
            where: Path = ("spec", "tasks", number, "template", "spec")
            pod = _mapping(_mapping(task.get("template")).get("spec"))
            for key in ("initContainers", "containers"):
                for place, container in _items(pod.get(key)):
                    changed |= _set_env(container, env, (*where, key, place, "env"))
            first = next(_items(pod.get("containers")), None)
            if arguments and first and _has_rank(job, task):
                _add_arguments(task, first[1], arguments)
        return changed

    def __bool__(self) -> bool:
        return bool(self.sets or self.env or self.arguments)


def parse_env(given: Sequence[str]) -> dict[str, str]:
    """`K=V` as it is; `K` alone takes the value of the caller's environment."""
    env = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not name:
            raise UserError(f"--env {each!r} is not NAME=VALUE", hint="for example --env NCCL_DEBUG=INFO")
        if not equals and name not in os.environ:
            raise UserError(f"--env {name}: this variable is not set here", hint=f"write --env {name}=VALUE")
        env[name] = value if equals else os.environ[name]
    return env


def _set(job: dict[str, Any], given: str) -> Path:
    """Set one field; returns its path, or that of the first of its parents that did not exist."""
    path, equals, text = given.partition("=")
    steps = list(_steps(path))
    if not equals or not steps:
        raise UserError(f"--set {given!r} is not PATH=VALUE", hint=_EXAMPLE)
    value = _value(path, text)
    may_add = value is not None
    parent: Any = job
    where: Path = ()
    created: Path | None = None
    for place, step in enumerate(steps[:-1]):
        key = _key(parent, step, path, steps[:place], may_add=may_add)
        where = (*where, key)
        if parent.get(key) is None if isinstance(parent, dict) else key == len(parent):
            if not may_add:
                return where  # nothing to remove
            _put(parent, key, [] if isinstance(steps[place + 1], int) else {})
            created = created or where
        parent = parent[key]
    key = _key(parent, steps[-1], path, steps[:-1], may_add=may_add)
    where = (*where, key)
    if may_add:
        _put(parent, key, value)
    elif isinstance(parent, list):
        del parent[key]
    else:
        parent.pop(key, None)
    return created or where


def _put(parent: Any, key: Any, value: Any) -> None:
    if isinstance(parent, list) and key == len(parent):
        parent.append(value)
    else:
        parent[key] = value


def _steps(path: str) -> Iterator[str | int]:
    """The keys of the path; `[N]` is a number, so that a list is created where none exists."""
    position = 0
    while position < len(path):
        match = _STEP.match(path, position)
        if match is None:
            raise UserError(f"`{path}` is not the path of a field", hint=_EXAMPLE)
        yield match[1] or (int(match[2]) if _POSITION.fullmatch(match[2]) else match[2])
        position = match.end()


def _key(parent: Any, given: str | int, path: str, before: Sequence[str | int], *, may_add: bool) -> Any:
    """The key of a mapping, or the position in a list: by number or by the `name` of an item."""
    where, step = ".".join(map(str, before)) or "the Job", str(given)
    if isinstance(parent, dict):
        return step
    if not isinstance(parent, list):
        raise UserError(f"--set {path}: {where} has no fields: it is a value", hint=_EXAMPLE)
    if not _POSITION.fullmatch(step):
        names = [item.get("name") if isinstance(item, dict) else None for item in parent]
        if step not in names:
            known = ", ".join(str(name) for name in names if name)
            raise UserError(
                f"--set {path}: {where} has no item named {step!r}",
                hint=f"its items are: {known}" if known else "give its position, starting with 0",
            )
        return names.index(step)
    if int(step) >= len(parent) + may_add:
        _check_known(path, before)
        raise UserError(
            f"--set {path}: {where} has {len(parent)} item{'' if len(parent) == 1 else 's'}",
            hint="positions start with 0"
            + ("; the position after the last item adds one" if may_add else ""),
        )
    return int(step)


def _check_known(path: str, before: Sequence[str | int]) -> None:
    """Refuse a path of which no Job has the field: its list was only created because of its position."""
    from vcjob.spec.field_docs import field_doc, nearest_path

    for end in range(1, len(before) + 1):
        field = ".".join(step for step in before[:end] if isinstance(step, str))
        if field_doc(field) is None:
            near = nearest_path(field)
            raise UserError(
                f"--set {path}: a Job has no field `{field}`",
                hint=f"did you mean `{near}`?" if near else "`vcjob explain spec` lists the fields",
            )


def _value(path: str, text: str) -> Any:
    """A value as YAML reads it: a number, true, text, `[a, b]` or `{a: b}`; nothing, or null, removes the field."""
    from vcjob.spec.source import load_documents

    documents = load_documents(text, f"--set {path}")
    problems = [problem for document in documents for problem in document.problems]
    if problems or len(documents) > 1:
        reason = problems[0].message if problems else "it has several documents"
        raise UserError(f"--set {path}: the value is not valid YAML: {reason}", hint="put text in quotes")
    return documents[0].data if documents else None


def _set_env(container: dict[str, Any], env: Mapping[str, str], where: Path) -> dict[Path, str]:
    if not env:
        return {}
    given = container.get("env")
    if given is not None and not isinstance(given, list):
        return {}  # reported when the Job is checked
    kept = [each for each in given or () if not isinstance(each, dict) or each.get("name") not in list(env)]
    container["env"] = [*kept, *({"name": name, "value": value} for name, value in env.items())]
    return {(*where, place): "--env" for place in range(len(kept), len(container["env"]))}


def _add_arguments(task: dict[str, Any], container: dict[str, Any], arguments: Sequence[str]) -> None:
    command, given = container.get("command"), container.get("args")
    if given is None:
        given = []
    elif not isinstance(given, list):
        return  # reported when the Job is checked
    words = [*command, *given] if isinstance(command, list) else []
    added = list(arguments)
    if len(words) > 2 and str(words[0]).rpartition("/")[2] in _SHELLS and words[1] == "-c":
        if "$@" not in str(words[2]):
            program = _unwrapped(str(words[2]))
            raise UserError(
                f"the task {task.get('name')!r} runs a shell line, which does not use arguments: {words[2]!r}",
                hint='add "$@" where the arguments belong'
                + (f", or run the program without a shell: {program}" if program else ""),
            )
        if len(words) == 3:
            added.insert(0, str(words[0]))  # the first word after the line is $0
    container["args"] = [*given, *added]


def _unwrapped(line: str) -> str | None:
    """The `command` that does the same without a shell; None where only a shell does it."""
    if _OF_SHELL.search(line):
        return None
    try:
        return f"command: [{', '.join(shlex.split(line))}]"
    except ValueError:
        return None


def _has_rank(job: dict[str, Any], task: dict[str, Any]) -> bool:
    """Whether the task has ranks; without the pytorch plugin every task gets the arguments."""
    plugins = job["spec"].get("plugins")
    if not isinstance(plugins, dict) or "pytorch" not in plugins:
        return True
    from vcjob.plugins.pytorch_options import parse_options

    given = plugins["pytorch"]
    options, _ = parse_options([str(each) for each in given] if isinstance(given, list) else [])
    return task.get("name") in (options.master, options.worker)


def _mapping(value: Any) -> dict[str, Any]:
    """The mapping, or an empty one in place of anything else, which is reported when the Job is checked."""
    return value if isinstance(value, dict) else {}


def _items(value: Any) -> Iterator[tuple[int, dict[str, Any]]]:
    """The mappings of a list with their positions; what is wrong with others is reported when the Job is checked."""
    items = value if isinstance(value, list) else []
    return ((place, each) for place, each in enumerate(items) if isinstance(each, dict))
