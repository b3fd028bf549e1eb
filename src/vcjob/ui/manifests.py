"""A job's manifests as the page shows them: as written, with defaults, the objects created from it, and what differs.

Plain functions of a handle; they block. Texts are bounded: of many pods one per task is shown, because they differ in
their index only, and texts that are too long are not compared.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from typing import Any

from vcjob.errors import UserError
from vcjob.plan.plan import Plan
from vcjob.sdk import yaml_text
from vcjob.sdk.handle import Handle
from vcjob.sdk.loading import load
from vcjob.sdk.rendering import plans

#: The longest text that is compared: the comparison may take the square of its lines.
MAX_COMPARED_LINES = 5000


def written(job: Handle) -> str:
    text = job.source_text()
    if text is None:
        raise UserError(
            "the Job as it was written is not known: the cluster keeps it only for `kubectl apply`",
            hint="compare with the Job with its defaults, which the cluster stores",
        )
    return text


def defaulted(job: Handle) -> str:
    return yaml_text.to_yaml(job.to_dict())


def objects(job: Handle) -> str:
    """Every object except the pods, then the first pod of each task."""
    plan = _plan(job)
    shown = [*plan.objects(), *(plan.pod(task.name, 0) for task in plan.job.tasks if task.replicas)]
    more = sum(max(0, task.replicas - 1) for task in plan.job.tasks)
    note = f"# The other {more} pods differ from these in their index only.\n" if more else ""
    return "---\n".join(yaml_text.to_yaml(each) for each in shown) + note


def differences(job: Handle) -> list[dict[str, Any]]:
    """What the defaults added to the Job, and what the plugins added to the pods of each task."""
    plan = _plan(job)
    found: list[tuple[str, object, object]] = []
    text = job.source_text()
    if text is not None:
        found.append(("Job: as written → with defaults", _given(text, job), plan.job.doc))
    for task in plan.job.tasks:
        if task.replicas:
            pod = plan.pod(task.name, 0)
            own = {key: pod[key] for key in ("metadata", "spec")}
            found.append((f"{task.name}: template → pod", _template(plan.job.doc, task.name), own))
    return [{"title": title, "lines": compare(before, after)} for title, before, after in found]


def compare(before: object, after: object) -> list[str]:
    """A unified diff of two documents as YAML with sorted keys, without its heading; UserError if they are too long."""
    old, new = (yaml_text.to_yaml(_sorted(each)).splitlines() for each in (before, after))
    if max(len(old), len(new)) > MAX_COMPARED_LINES:
        raise UserError(f"the manifest has more than {MAX_COMPARED_LINES} lines, too many to compare here")
    return list(difflib.unified_diff(old, new, lineterm=""))[2:]


def _given(text: str, job: Handle) -> dict[str, Any]:
    """The Job in its file, which may hold several; one without a name gets a new name at each start."""
    # With a line break it is text for the SDK, never the path of a file.
    given = load(f"{text}\n", allow_unknown=True).given
    return next((each for each in given if each["metadata"].get("name") == job.name), given[0])


def _plan(job: Handle) -> Plan:
    spec = {key: value for key, value in job.to_dict().items() if key != "status"}
    return plans(load(spec, allow_unknown=True).jobs)[0]


def _template(document: dict[str, Any], task: str) -> dict[str, Any]:
    found: dict[str, Any] = next(each for each in document["spec"]["tasks"] if each["name"] == task)[
        "template"
    ]
    return found


def _sorted(value: object) -> object:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


#: The forms in which a job's manifest can be requested.
FORMS: dict[str, Callable[[Handle], str]] = {"written": written, "job": defaulted, "objects": objects}
