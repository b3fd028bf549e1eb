"""Fields that somebody else owns and set to another value, found before anything is written.

`apply` asks for them with a dry run. A field that another manager owns with the value that we want is no conflict:
then the server still reports one where the stored form differs from the written one (a `false` that is not stored).
"""

from __future__ import annotations

from typing import Any

from vcjob.cluster.install.intended import Intended
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.errors import Conflict

_EMPTY: tuple[Any, ...] = (None, False, 0, "", [], {})
_SHOWN = 8


async def check_conflicts(client: Client, intended: list[Intended]) -> list[Intended]:
    """What to apply, with ownership taken over where values are equal; raises with all conflicts otherwise."""
    checked: list[Intended] = []
    conflicts: list[str] = []
    for each in intended:
        if each.found is not None and not each.keep and not each.force:
            try:
                await client.apply(each.resource, each.name, each.body, each.namespace, dry_run=True)
            except Conflict as error:
                if is_contained(each.body, each.found):
                    each = each.forced()
                else:
                    conflicts += describe(each, error)
        checked.append(each)
    if conflicts:
        raise conflict_error(conflicts)
    return checked


def conflict_error(conflicts: list[str]) -> BackendError:
    shown = "; ".join(conflicts[:_SHOWN])
    if len(conflicts) > _SHOWN:
        shown += f"; and {len(conflicts) - _SHOWN} more"
    return BackendError(
        f"fields of the installation were changed by somebody else, so nothing was changed: {shown}",
        hint="undo these changes, use an option of `vcjob install` for them, or overwrite them with --force-conflicts",
    )


def describe(each: Intended, error: Conflict) -> list[str]:
    """Each field with its owner, as the server names them."""
    causes: list[dict[str, Any]] = error.details.get("causes") or []
    fields = [f"{cause.get('field', '?')} ({cause.get('message', '')})" for cause in causes]
    return [f"{each.resource.kind} {each.name}: {text}" for text in fields or [error.server_message]]


def is_contained(wanted: Any, found: Any) -> bool:
    """Whether every field of `wanted` has that value in `found`; what is empty may be left out there."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return all(is_contained(value, found.get(key)) for key, value in wanted.items())
    if isinstance(wanted, list) and isinstance(found, list):
        return len(wanted) == len(found) and all(map(is_contained, wanted, found))
    return bool(wanted == found) or (wanted in _EMPTY and found in _EMPTY)
