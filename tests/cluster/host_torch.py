"""Pods that run the Python and the torch of this machine, which the node mounts into them.

The newest torch in an image of the testbed has no flight recorder for gloo.
"""

from __future__ import annotations

import importlib.util
import sys
import sysconfig
from typing import Any

from tests.testbed.images.catalog import GUIDE

_LIBRARIES = "/mnt/libraries"
#: The environment of this Python, the Python itself, and the libraries of this machine that torch needs.
_FOLDERS = {
    "environment": (sys.prefix, sys.prefix),
    "python": (sys.base_prefix, sys.base_prefix),
    "libraries": (f"/usr/lib/{sysconfig.get_config_var('MULTIARCH')}", _LIBRARIES),
}
#: The volumes of a pod whose containers use torch.
VOLUMES = [{"name": name, "hostPath": {"path": path}} for name, (path, _) in _FOLDERS.items()]


def problem() -> str | None:
    """Why no pod can use torch."""
    return "torch is not installed" if importlib.util.find_spec("torch") is None else None


def torch_container(program: str, **env: str) -> dict[str, Any]:
    """A container for a pod with `VOLUMES` that runs a program."""
    variables = {"LD_LIBRARY_PATH": _LIBRARIES, **env}
    return {
        "name": "main",
        "image": GUIDE,
        "command": [sys.executable, "-c", program],
        "env": [{"name": name, "value": value} for name, value in variables.items()],
        "volumeMounts": [{"name": name, "mountPath": at} for name, (_, at) in _FOLDERS.items()],
    }
