"""A zygote that is started before the Job is known, for the likely case: `python` of this shell, in this environment.

The guess is nearly always right, and then the import has begun a quarter of a second earlier. `WarmLauncher.adopt`
compares what the zygote was started with to what a rank needs, and ends it where they differ.
"""

from __future__ import annotations

import os
import sys
from typing import NamedTuple

from vcjob.local.run.caller import caller_environment
from vcjob.local.warm.command import canonical, find_program
from vcjob.local.warm.environment import for_zygote, start_key
from vcjob.local.warm.folder import any_server, warm_folder
from vcjob.local.warm.spawn import Recipe, ZygoteHandle, start

Key = tuple[str, tuple[str, ...], tuple[tuple[str, str], ...]]


class PrestartedZygote(NamedTuple):
    """The zygote, and the key of the commands that it fits.

    Started before the pods are known. The warm launcher takes it over, or ends it if no command fits.
    """

    key: Key
    zygote: ZygoteHandle


def prestart_zygote() -> PrestartedZygote | None:
    env = caller_environment()
    env.setdefault("PYTHONUNBUFFERED", "1")
    interpreter = find_program("python", env, "/")
    if sys.platform != "linux" or interpreter is None or any_server():
        return None
    recipe = Recipe(canonical(interpreter), (), for_zygote(env))
    try:
        return PrestartedZygote(
            (recipe.interpreter, (), start_key(env)), start(recipe, os.path.join(warm_folder(), "empty"))
        )
    except OSError:
        return None
