"""Folders that only their owner can read.

Loads nothing, because a warm start needs it before the rest of the package is loaded.
"""

from __future__ import annotations

import os

PRIVATE_FOLDER = 0o700


def make_private(path: str) -> None:
    """Create the folder and the folders above it, as far as they are missing, each for its owner alone."""
    try:
        os.mkdir(path, PRIVATE_FOLDER)
    except FileNotFoundError:
        parent = os.path.dirname(path)
        if parent == path:
            raise
        make_private(parent)
        make_private(path)
    except FileExistsError:
        if not os.path.isdir(path):
            raise


def owner_hint(path: str) -> str | None:
    """Why a path cannot be used, if the nearest existing folder above it belongs to somebody else."""
    while not os.path.exists(path) and os.path.dirname(path) != path:
        path = os.path.dirname(path)
    owner, own = os.stat(path).st_uid, os.geteuid()
    if owner == own:
        return None
    home = os.environ.get("HOME", "")
    from_home = f" (HOME is {home})" if home and path.startswith(home.rstrip("/")) else ""
    return f"{path} belongs to {_name(owner)} and you are {_name(own)}{from_home}; set VCJOB_HOME to a folder of yours"


def _name(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return f"user {uid}"
