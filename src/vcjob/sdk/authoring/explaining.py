"""`vcjob.explain()`: the documentation of a field of a Job, as `kubectl explain` gives it.

`vcjob explain`, the completion of shells and the reference pages use it. The texts are in `spec.field_docs` and in
the flags of the plugins. UserError, with the nearest name, for a field that does not exist.
"""

from __future__ import annotations

from typing import NamedTuple

from vcjob.errors import UserError
from vcjob.plugins import env, pytorch_options, svc
from vcjob.plugins.goflags import Flag
from vcjob.spec.field_docs import FieldDoc, field_doc, nearest_path

_ROOT = FieldDoc(
    "Job",
    "mapping",
    "A Volcano Job: pods that start together and run one distributed program.",
    None,
    ("apiVersion", "kind", "metadata", "spec", "status"),
)
_PLUGINS = "spec.plugins"


class PluginDoc(NamedTuple):
    """What a plugin does, and its arguments."""

    meaning: str
    flags: tuple[Flag, ...]


#: The built-in plugins; docs/reference/plugins.md is generated from this table.
PLUGINS = {
    "pytorch": PluginDoc(
        "Gives every rank MASTER_ADDR, MASTER_PORT, WORLD_SIZE and RANK, and opens the port of rank 0.",
        pytorch_options.FLAGS,
    ),
    "svc": PluginDoc(
        "Gives every pod a host name, and the Job a headless Service, a NetworkPolicy and lists of all hosts.",
        svc.FLAGS,
    ),
    "env": PluginDoc("Sets VC_TASK_INDEX and VK_TASK_INDEX: the index of the pod in its task.", env.FLAGS),
}


def explain(path: str = "") -> FieldDoc:
    """The path, type, meaning, default and fields of a field such as `spec.tasks.policies`.

    `spec.plugins.NAME` has the arguments of a plugin as its fields. Positions in lists may be left out, and `job.` before
    the path is allowed. UserError for an unknown field.

    >>> explain("spec.tasks[0].replicas").meaning
    'The number of pods.'
    """
    wanted = path.strip().strip(".")
    if wanted.lower() in ("", "job"):
        return _ROOT
    wanted = wanted[4:] if wanted.lower().startswith("job.") else wanted
    if wanted.startswith(f"{_PLUGINS}."):
        return _plugin_doc(*wanted.removeprefix(f"{_PLUGINS}.").split("."))
    found = field_doc(wanted)
    if found is None:
        raise UserError(f"a Job has no field `{wanted}`", hint=_hint(wanted))
    return found._replace(fields=tuple(PLUGINS)) if wanted == _PLUGINS else found


def _plugin_doc(name: str, *rest: str) -> FieldDoc:
    """The documentation of a plugin, or of one of its arguments."""
    if name not in PLUGINS:
        raise UserError(
            f"there is no description of the plugin `{name}`", hint=f"described are {', '.join(PLUGINS)}"
        )
    plugin = PLUGINS[name]
    path = f"{_PLUGINS}.{name}"
    if not rest:
        return FieldDoc(
            path, "list of string", plugin.meaning, None, tuple(flag.name for flag in plugin.flags)
        )
    argument = ".".join(rest).lstrip("-")
    for flag in plugin.flags:
        if flag.name == argument:
            meaning = f"{flag.meaning} An extension of vcjob." if flag.ours else flag.meaning
            return FieldDoc(f"{path}.{flag.name}", flag.kind, meaning, flag_default(flag) or None, ())
    raise UserError(
        f"the plugin `{name}` has no argument `--{argument}`", hint=f"`vcjob explain {path}` lists them"
    )


def flag_default(flag: Flag) -> str:
    """The default as it is written in a list of arguments."""
    return str(flag.default).lower() if isinstance(flag.default, bool) else str(flag.default)


def _hint(wanted: str) -> str:
    """What was probably meant by a field that does not exist: a field, or an argument of a plugin."""
    for name, plugin in PLUGINS.items():
        if wanted == name:
            return f"`vcjob explain {_PLUGINS}.{name}` shows the plugin"
        for flag in plugin.flags:
            if flag.name == wanted.lstrip("-"):
                return (
                    f"`--{flag.name}` is an argument of the plugin {name}: `vcjob explain {_PLUGINS}.{name}`"
                )
    near = nearest_path(wanted)
    return f"did you mean `{near}`?" if near else "`vcjob explain spec` lists the fields"


def explain_fields(doc: FieldDoc) -> list[tuple[str, FieldDoc]]:
    """The fields of a field, each with its own documentation."""
    prefix = "" if doc is _ROOT else f"{doc.path}."
    return [(name, explain(f"{prefix}{name}")) for name in doc.fields]
