"""The name of a Job that runs a script, a module or a function.

Used by `pytorch_job` and `script_job` where the user gives no name. Every program gets a valid name: the result is
short enough for the names of the pods, and never empty.
"""

from __future__ import annotations

import re
from pathlib import Path

_LONGEST_NAME = 40


def job_name(program: str, *, module: bool = False) -> str:
    """A valid name of a Job from the name of a script or module.

    >>> job_name("src/Train_Resnet.py"), job_name("package.train.__main__", module=True), job_name("3d.py")
    ('train-resnet', 'train', 'job-3d')
    """
    if module:
        stem = program.removesuffix(".__main__").rpartition(".")[2]
    else:
        path = Path(program)
        stem = path.absolute().parent.name if path.stem == "__main__" else path.stem
    name = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:_LONGEST_NAME].rstrip("-")
    return name if name[:1].isalpha() else f"job-{name}".rstrip("-")
