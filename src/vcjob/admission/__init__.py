"""The one door for a Job: defaults and every check, the plugins' included, all problems at once."""

from vcjob.admission.review import Admission, admit

__all__ = ["Admission", "admit"]
