"""What a run takes from the shell or the program that starts it.

Used by the SDK when a run is created and by warm starts, which must guess the same environment. `python` in a Job
means what it means in the caller's shell.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping


def caller_environment() -> dict[str, str]:
    """The environment that ranks inherit.

    An environment that is active in the caller's shell (venv or conda) is used as it is. Where none is active, the
    virtual environment of this interpreter counts as active if the caller chose it: by running a script or a
    notebook with it, or `.venv/bin/vcjob` by its path. A `vcjob` that pipx or `uv tool` linked elsewhere says
    nothing about the Python that the caller works with.
    """
    env: Mapping[str, str] = os.environ
    programs = os.path.join(sys.prefix, "bin")
    folders = (env.get("PATH") or os.defpath).split(os.pathsep)
    if sys.prefix == sys.base_prefix or programs in folders or _active(env, folders) or not _chosen(programs):
        return dict(env)
    return {**env, "VIRTUAL_ENV": sys.prefix, "PATH": os.pathsep.join((programs, *folders))}


def _active(env: Mapping[str, str], folders: list[str]) -> bool:
    conda = env.get("CONDA_PREFIX")
    return "VIRTUAL_ENV" in env or (conda is not None and os.path.join(conda, "bin") in folders)


def _chosen(programs: str) -> bool:
    command = os.path.abspath(sys.argv[0]) if sys.argv else ""
    return os.path.basename(command) != "vcjob" or os.path.dirname(command) == programs
