"""Annotations, labels and keys of the status that vcjob defines: those that users set, and those that it writes.

Every module that reads or writes one takes it from here. `scripts/generate_reference.py` makes the reference page of
them. Scripts and stored Jobs depend on the names, so a name never changes.
"""

from __future__ import annotations

from vcjob.wellknown.definition import Definitions

ANNOTATIONS = Definitions()
_define = ANNOTATIONS.add

_JOB, _POD = "Job, set by users", "pod, label and annotation"
_WRITTEN, _STATUS = "Job, written by vcjob", "`status.controlledResources`"

ON_HANG = _define("vcjob.io/on-hang", _JOB, "What a hang leads to: `warn` (default), `restart` or `fail`.")
ON_RANK_FAILURE = _define(
    "vcjob.io/on-rank-failure",
    _JOB,
    "`ignore` leaves the other ranks running when one has failed for good, as Volcano does.",
)
WARM = _define(
    "vcjob.io/warm",
    _JOB,
    "On the local backend, `true`: as with `--warm`; `false`: never forked from a warm server.",
)
WARM_IMPORTS = _define(
    "vcjob.io/warm-imports",
    _JOB,
    "Modules that a warm server imports beforehand, separated by commas, in place of torch and numpy.",
)
PROGRESS = _define("vcjob.io/progress", _WRITTEN, "The progress of the job, in JSON.")
SUBMISSION = _define(
    "vcjob.io/submission", _WRITTEN, "Identifies the call of `vcjob run` that created the Job."
)
ATTEMPT = _define("vcjob.io/attempt", _POD, "Which attempt of its task and index the pod is, from 0.")
IF_ABSENT = _define(
    "vcjob.io/if-absent",
    "Service of a Job",
    "`true`: an existing Service of this name is used and never changed.",
)
REPLACED = _define(
    "vcjob.io/replaced",
    "definition of a kind",
    "`true`: the definition existed before `vcjob install`, and `vcjob uninstall` keeps it.",
)
LIFECYCLE = _define(
    "vcjob.io/lifecycle",
    _STATUS,
    "What vcjob remembers of the Job between two decisions, in JSON. Not an interface.",
)
EDITION_KEY = _define(
    "vcjob.io/edition", _STATUS, "The edition of the pods' content that the Job was started with."
)
GANG = _define("vcjob.io/gang", _STATUS, "The kind of gang scheduling that the Job was started with.")
MASTER_PORT = _define(
    "vcjob.io/master-port",
    _STATUS,
    "On the local backend: the port of this machine that is used for MASTER_PORT.",
)
