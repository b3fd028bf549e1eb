"""Where kept-warm servers have their sockets, and whether there is any.

Every supervisor asks this, so the module loads nothing else of the warm start's code.
"""

from __future__ import annotations

import os

from vcjob.local.run.home import home_folder


def warm_folder() -> str:
    return os.path.join(home_folder(), "warm")


def any_server() -> bool:
    """Is there any kept-warm server that a run could ask?"""
    try:
        return any(name.endswith(".sock") for name in os.listdir(warm_folder()))
    except OSError:
        return False
