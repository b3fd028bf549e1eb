"""Admission of a Job: its defaults and all checks, those of its plugins included.

The CLI, the SDK, the webhook and the controller call `admit`; the controller also calls `check_limits`, to
refuse a Job or an update that reached it without the webhook.
"""

from vcjob.admission.limits import check_limits
from vcjob.admission.review import Admission, admit

__all__ = ["Admission", "admit", "check_limits"]
