"""Exit codes of the `vcjob` command.

The error classes in `vcjob.errors` carry them, and `cli.main` returns them. Scripts compare them, so a code never
changes its meaning. The reference page is generated from here.
"""

from __future__ import annotations

from vcjob.wellknown.definition import Definitions

EXIT_CODES = Definitions()
_define = EXIT_CODES.add

OK = _define(0, "every verb", "The verb did what it was asked to do; `run` and `wait`: the job is Completed.")
JOB_FAILED = _define(1, "`run`, `wait`, `restart`", "The job failed, or it was stopped.")
USAGE = _define(2, "every verb", "A usage error, an invalid Job, or a job that does not exist.")
BACKEND = _define(
    3, "every verb", "The backend is not usable: no cluster, no permission, no space on the disk."
)
INTERNAL = _define(70, "every verb", "vcjob itself failed. Please report the traceback.")
TIMEOUT = _define(124, "`wait --timeout`", "The time ran out before the job ended.")
INTERRUPTED = _define(130, "every verb", "Interrupted with Ctrl-C.")
