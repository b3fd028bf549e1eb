"""Admission of a Job: its defaults and all checks, those of its plugins included.

The CLI, the SDK, the webhook and the controller call `admit`; the controller also calls `check_limits`, to
refuse a Job or an update that reached it without the webhook. Names are loaded when they are used: a supervisor on
this machine needs the limits and the defaults, and none of the checks.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vcjob.admission.limits import check_limits
    from vcjob.admission.review import Admission, admit
else:

    def __getattr__(name: str) -> object:
        from importlib import import_module

        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = "limits" if name == "check_limits" else "review"
        value = globals()[name] = getattr(import_module(f"{__name__}.{module}"), name)
        return value


__all__ = ["Admission", "admit", "check_limits"]
