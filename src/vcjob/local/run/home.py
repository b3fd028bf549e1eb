"""The home folder: where jobs are kept on this machine.

::

    VCJOB_HOME                     0700, default: vcjob under the XDG state folder
    ├── claims/NAMESPACE/CLAIM    what stands for volume claims that Jobs name but do not make
    ├── images.yaml | images.json  the user's image map (optional)
    └── jobs/NAMESPACE/NAME/
        ├── lock                   held while a run is created or removed
        ├── current                symbolic link to the newest run's folder
        └── UID/                   one run; see run_dir.RunDir
"""

from __future__ import annotations

import os

from vcjob.wellknown import environment


def home_folder() -> str:
    """Its absolute path: supervisors run in another folder than their callers. UserError where there is none."""
    chosen = os.environ.get(environment.HOME)
    if chosen:
        return os.path.abspath(os.path.expanduser(chosen))
    state = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(state):  # to be ignored, as the XDG specification says
        state = os.path.join(os.path.expanduser("~"), ".local", "state")
    if not os.path.isabs(state):
        from vcjob.errors import UserError  # here, because others want no more than a name

        raise UserError(
            "HOME is not set to an absolute path, so there is no folder for jobs",
            hint=f"set {environment.HOME} to a folder of yours",
        )
    return os.path.join(state, "vcjob")


def jobs_folder(home: str) -> str:
    return os.path.join(home, "jobs")


def make_home(home: str) -> None:
    """The home folder, readable by its owner alone: environments and logs can hold secrets."""
    from vcjob.local.machine.files import make_folder

    make_folder(home)
    make_folder(jobs_folder(home))
