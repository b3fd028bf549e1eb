"""What a run takes over from the shell that asked for it."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def caller_environment() -> dict[str, str]:
    """The environment that ranks inherit; the venv that runs us counts as active, also when it was not activated."""
    env: Mapping[str, str] = os.environ
    if sys.prefix == sys.base_prefix or "VIRTUAL_ENV" in env:
        return dict(env)
    programs = os.path.join(sys.prefix, "bin")
    path = env.get("PATH") or os.defpath
    if programs in path.split(os.pathsep):
        return dict(env)
    return {**env, "VIRTUAL_ENV": sys.prefix, "PATH": programs + os.pathsep + path}
