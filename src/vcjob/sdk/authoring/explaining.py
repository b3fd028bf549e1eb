"""`vcjob.explain()`: the documentation of a field of a Job, as `kubectl explain` gives it."""

from __future__ import annotations

from vcjob.errors import UserError
from vcjob.spec.field_docs import FieldDoc, field_doc, nearest_path

_ROOT = FieldDoc(
    "Job",
    "mapping",
    "A Volcano Job: pods that start together and run one distributed program.",
    None,
    ("apiVersion", "kind", "metadata", "spec", "status"),
)


def explain(path: str = "") -> FieldDoc:
    """The path, type, meaning, default and fields of a field such as `spec.tasks.policies`.

    Positions in lists may be left out, and `job.` before the path is allowed. UserError for an unknown field.

    >>> explain("spec.tasks[0].replicas").meaning
    'The number of pods.'
    """
    wanted = path.strip().strip(".")
    if wanted.lower() in ("", "job"):
        return _ROOT
    wanted = wanted[4:] if wanted.lower().startswith("job.") else wanted
    found = field_doc(wanted)
    if found is None:
        near = nearest_path(wanted)
        raise UserError(
            f"a Job has no field `{wanted}`",
            hint=f"did you mean `{near}`?" if near else "`vcjob explain spec` lists the fields",
        )
    return found


def explain_fields(doc: FieldDoc) -> list[tuple[str, FieldDoc]]:
    """The fields of a field, each with its own documentation."""
    prefix = "" if doc is _ROOT else f"{doc.path}."
    return [(name, explain(f"{prefix}{name}")) for name in doc.fields]
