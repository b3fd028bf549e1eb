"""What streams send: generators, each of which runs in a thread of its own (see `streams`)."""

from vcjob.ui.producers.log_stream import log_lines
from vcjob.ui.producers.views import job_list, one_job

__all__ = ["job_list", "log_lines", "one_job"]
