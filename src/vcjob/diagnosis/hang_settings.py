"""After how long a job counts as hung, from the environment of the shell that started it.

`vcjob run` reads it to reject a value that is not a number; the supervisor reads it for its watch.
"""

from __future__ import annotations

from collections.abc import Mapping

from vcjob.errors import UserError
from vcjob.wellknown.environment import HANG_AFTER, HANG_DETECTION

DEFAULT_SECONDS = 20.0
_SHORTEST = 0.5
_FIRST_CHECK = 2.0


def hang_seconds(env: Mapping[str, str]) -> float | None:
    """None where hangs are not to be detected; UserError where the value is not a number of seconds."""
    text = env.get(HANG_AFTER) or str(DEFAULT_SECONDS)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not _SHORTEST <= seconds < float("inf"):
        raise UserError(
            f"{HANG_AFTER} is {text!r}, which is not a number of seconds", hint=f"for example {HANG_AFTER}=60"
        )
    return None if env.get(HANG_DETECTION) == "off" else seconds


def first_check(seconds: float) -> float:
    """When a supervisor begins to check its ranks, in seconds: they have the cores to themselves while they import torch."""
    return max(_FIRST_CHECK, seconds / 4)
