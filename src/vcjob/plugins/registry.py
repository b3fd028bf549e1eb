"""The plugins that exist, and those that a Job uses.

The three built-in plugins are known by name. Installed packages add others with the entry-point group
`vcjob.plugins`; they are searched only when a Job names a plugin that is not built in, because that is slow.
Admission calls `check_plugins`, the plan calls `open_plugins`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, TypeAlias

from msgspec import structs, to_builtins

from vcjob.errors import InvalidJob, UserError
from vcjob.plugins.base import Plugin, PodDraft
from vcjob.plugins.env import EnvPlugin
from vcjob.plugins.guard import guarded
from vcjob.plugins.pytorch import PytorchPlugin
from vcjob.plugins.svc import SvcPlugin
from vcjob.spec.job import Job, Task
from vcjob.spec.problem import Path, Problem, error, has_errors, warning
from vcjob.spec.spelling import did_you_mean
from vcjob.spec.wording import show

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "vcjob.plugins"
Opened: TypeAlias = tuple[Plugin[Any], Any]
_Named: TypeAlias = tuple[tuple[str, tuple[str, ...] | None], ...]

BUILT_IN: dict[str, Plugin[Any]] = {
    plugin.name: plugin for plugin in (PytorchPlugin(), SvcPlugin(), EnvPlugin())
}
#: Plugins of Volcano that vcjob does not have.
OF_VOLCANO = frozenset({"ssh", "mpi", "tensorflow", "ray", "hcclrank"})
WHERE: Path = ("spec", "plugins")
_MAX_CACHED_LENGTH = 1000
#: Variables that plugins may add to all containers of one pod. Each takes about 100 bytes as JSON, and etcd
#: stores objects of up to 1.5 MiB.
MAX_VARIABLES = 12_000


def names() -> list[str]:
    """All plugins that a Job could name, sorted."""
    return sorted({*BUILT_IN, *_installed()})


def find(name: str) -> Plugin[Any] | None:
    """The plugin of that name; None if there is none or it cannot be used (`problem_with` says why)."""
    if name in BUILT_IN:
        return BUILT_IN[name]
    found = _installed().get(name)
    return found if isinstance(found, Plugin) else None


def problem_with(name: str) -> Problem | None:
    """Why `find` returns no plugin of that name; None if it returns one."""
    if find(name) is not None:
        return None
    found = _installed().get(name)
    where = (*WHERE, name)
    if isinstance(found, str):
        return error(where, found, f"fix or remove the package that provides `{name}`")
    if name in OF_VOLCANO:
        return error(
            where,
            f"Volcano's plugin `{name}` is not supported; the supported plugins are {', '.join(sorted(BUILT_IN))}",
            "remove it, or run this Job with Volcano's own controller",
        )
    hint = did_you_mean(name, names(), f"the known plugins are {', '.join(names())}")
    return error(where, f"there is no plugin `{show(name)}`", hint)


def open_plugins(job: Job) -> list[Opened]:
    """The plugins of a Job with their options, in the order in which they run; raises InvalidJob if one is wrong."""
    opened, problems = _open(job)
    if has_errors(problems):
        raise InvalidJob(problems)
    return opened


def can_open(job: Job) -> bool:
    """Whether no plugin of the Job is wrong. One may be in a stored Job that is updated."""
    return not has_errors(_open(job)[1])


def uses(job: Job, name: str) -> bool:
    """Whether the Job names this plugin, or one of its plugins requires it."""
    return any(plugin.name == name for plugin, _ in _open(job)[0])


def check_plugins(job: Job) -> Iterator[Problem]:
    """The problems that the plugins of a Job report, with full paths, one at a time."""
    opened, problems = _open(job)
    refused = has_errors(problems)
    yield from problems
    for plugin, options in opened:
        for problem in plugin.check(job, options):
            refused = refused or problem.severity == "error"
            yield problem
    if not refused:
        yield from _check_variables(job, opened)


def _open(job: Job) -> tuple[list[Opened], list[Problem]]:
    """Open the plugins that the Job names and those that they require."""
    opened, problems = _opened_by(job)
    return [*opened], [*problems]


@lru_cache(maxsize=4)  # the checks and the plan of a Job need it
def _opened_by(job: Job) -> tuple[list[Opened], list[Problem]]:
    """Built-in plugins with short arguments are remembered for all Jobs, because most have the same ones."""
    named = tuple(job.spec.plugins.items())
    length = 0
    for name, arguments in named:
        length += len(name) + sum(map(len, arguments or ())) if name in BUILT_IN else _MAX_CACHED_LENGTH
    return _opened(named) if length < _MAX_CACHED_LENGTH else _open_named(named)


def _open_named(named: _Named) -> tuple[list[Opened], list[Problem]]:
    """A required plugin without arguments in the Job gets those of the plugin that requires it."""
    given = dict(named)
    opened: dict[str, Opened] = {}
    problems: dict[str, list[Problem]] = {}
    forced: dict[str, Sequence[str]] = {}

    def read(name: str) -> None:
        plugin = find(name)
        if plugin is None:
            problem = problem_with(name)
            problems[name] = [problem] if problem else []
            return
        options, found = plugin.parse(tuple(given.get(name) or forced.get(name) or ()))
        problems[name] = [structs.replace(problem, where=(*WHERE, name, *problem.where)) for problem in found]
        opened[name] = (plugin, options)
        if has_errors(problems[name]):
            return
        try:
            opens = plugin.opens(options)
        except UserError as cause:
            problems[name].append(error((*WHERE, name), cause.message, cause.hint))
            return
        for other, arguments in opens.items():
            if other not in forced:
                forced[other] = arguments
                if other not in opened or not given.get(other):
                    read(other)

    for name in given:
        if name not in forced:
            read(name)
    found = [problem for name in sorted(problems) for problem in problems[name]]
    return sorted(opened.values(), key=lambda pair: (pair[0].order, pair[0].name)), found


_opened = lru_cache(maxsize=256)(_open_named)


class _NamesOnly(PodDraft):
    """A draft that records only the names of the injected variables, at a cost per plugin and not per name."""

    __slots__ = ("groups",)

    def __init__(self, job: Job, task: Task) -> None:
        super().__init__(job, task, {"metadata": {}, "spec": to_builtins(task.pod_spec)}, mark="")
        self.groups: list[Mapping[str, object]] = [self.injected]

    def inject_env(
        self, name: str, value: object = None, *, value_from: Mapping[str, Any] | None = None
    ) -> None:
        self.injected[name] = {}

    def inject_shared(self, entries: Mapping[str, dict[str, Any]]) -> None:
        self.groups.append(entries)

    def injects(self, name: object) -> bool:
        return any(name in group for group in self.groups)

    def injected_count(self) -> int:
        return sum(map(len, self.groups))


def _check_variables(job: Job, opened: Sequence[Opened]) -> Iterator[Problem]:
    """Warnings for the user's variables that a plugin sets as well, and an error where a pod would get more
    variables than an object can hold; found by shaping a pod of each task."""
    for number, task in enumerate(job.tasks):
        draft = _NamesOnly(job, task)
        for plugin, options in opened:
            try:
                plugin.shape(draft, options)
            except UserError as cause:
                yield error((*WHERE, plugin.name), cause.message, cause.hint)
                return
        where: Path = ("spec", "tasks", number, "template", "spec")
        total = draft.injected_count() * len(draft.all_containers())
        if total > MAX_VARIABLES:
            yield error(
                where,
                f"the plugins would add {total} variables to each pod of this task; at most {MAX_VARIABLES} are"
                " allowed, because the pod would not fit into etcd",
                "use fewer tasks or containers, or add --inject-hosts-env=false to svc",
            )
        for at, container in task.containers(number):
            for place, entry in enumerate(container.get("env") or []):
                if draft.injects(entry.get("name")):
                    yield warning(
                        (*at, "env", place),
                        f"a plugin sets `{entry['name']}`, so this value has no effect",
                        "remove it, or rename the variable",
                    )


@cache
def _installed() -> dict[str, Plugin[Any] | str]:
    """The plugins of installed packages by name: the plugin, or why it cannot be used."""
    from importlib.metadata import entry_points

    by_name: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=GROUP):
        by_name.setdefault(entry.name, []).append(entry)
    return {name: _loaded(name, entries) for name, entries in by_name.items()}


def _loaded(name: str, entries: Sequence[EntryPoint]) -> Plugin[Any] | str:
    if len({entry.value for entry in entries}) > 1:
        packages = sorted(entry.dist.name if entry.dist else entry.value for entry in entries)
        return f"several packages provide the plugin `{name}`: {', '.join(packages)}"
    try:
        found = entries[0].load()
        plugin = found() if isinstance(found, type) else found
    except Exception as cause:
        return f"the plugin `{name}` cannot be loaded: {type(cause).__name__}: {cause}"
    if not isinstance(plugin, Plugin):
        return f"the plugin `{name}` is not a vcjob plugin: {entries[0].value} is not a vcjob.plugins.base.Plugin"
    return guarded(plugin, name)
