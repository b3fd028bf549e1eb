"""`vcjob.script_job()`: the Job that runs one Python script or module, for users who have no Job file.

`vcjob run train.py` and `vcjob init train.py` call it. It only chooses the launcher, the name and the defaults;
`building.pytorch_job` makes the Job. Mistakes in the arguments are UserErrors, a missing script is a SourceError.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Mapping, Sequence
from os import PathLike, fspath
from pathlib import Path
from typing import Any

from vcjob.errors import UserError
from vcjob.plugins.pytorch_options import COUNTED_BY_TORCHRUN
from vcjob.sdk.authoring.building import pytorch_job
from vcjob.sdk.authoring.names import job_name
from vcjob.spec.job import BackendName
from vcjob.spec.scalars import escape_references
from vcjob.spec.source import no_such_file

_LAUNCHERS: dict[str, list[str]] = {"python": [], "torchrun": ["-m", "torch.distributed.run"]}


def script_job(
    script: str | PathLike[str] | None = None,
    *,
    module: str | None = None,
    args: Sequence[str] = (),
    name: str | None = None,
    image: str | None = None,
    workers: int = 0,
    nproc: int | str | None = None,
    gpus: int = 0,
    env: Mapping[str, object] | None = None,
    restarts: int = 0,
    on: BackendName | None = None,
) -> dict[str, Any]:
    """The Job that runs a script, or `module` as `python -m` does, as one rank or as `workers` + 1 ranks.

    nproc: processes in each pod, started by torchrun: a number, "gpu" or "cpu" (one per GPU or core), or "auto".
    gpus: GPUs of each pod; with more than one, `nproc` is that number by default.
    name: the name of the Job; by default that of the script or module.
    image: the image on a cluster, which must contain the script. on: where the Job will run.
    The script gets `args` and the values of `env` unchanged: `$(VAR)` in them is text, not a reference.

    >>> job = script_job("train.py", workers=2, nproc=4, on="cluster", image="registry.example/train:1")
    >>> job["metadata"]["name"], [task["replicas"] for task in job["spec"]["tasks"]]
    ('train', [1, 2])
    """
    if (script is None) == (module is None):
        raise UserError("give a script or a module", hint='for example script_job("train.py")')
    program = fspath(script) if script is not None else str(module)
    if on == "cluster" and image is None:
        raise UserError(
            f"a cluster runs {program} in an image, and no image is named",
            hint=f"add --image IMAGE (image= in Python), an image that contains {program}",
        )
    if script is not None and on != "cluster" and not Path(program).is_file():
        raise no_such_file(program)
    if script is None and program.endswith(".py") and Path(program).is_file():
        raise UserError(
            f"{program} is a file, and -m (module=) takes the name of a module",
            hint=f"leave out -m: `vcjob run {program}`",
        )
    processes = _processes(nproc, gpus)
    launcher = _launcher("python" if processes is None else "torchrun", on)
    words = [*launcher, program] if script is not None else [*launcher, "-m", program]
    return pytorch_job(
        name or job_name(program, module=script is None),
        command=[_escaped(word) for word in words],
        args=args if isinstance(args, str) else [_escaped(word) for word in args],
        image=image,
        workers=workers,
        gpus=gpus,
        nproc_per_node=processes,
        env={key: _escaped(value) for key, value in (env or {}).items()},
        restarts=restarts,
    )


def _escaped(value: Any) -> Any:
    """Text so that it stays as it is; `pytorch_job` and the checks of the Job handle other types."""
    return escape_references(value) if isinstance(value, str) else value


def _processes(nproc: int | str | None, gpus: int) -> int | str | None:
    if gpus < 0:
        raise UserError(f"gpus is {gpus}", hint="it is the number of GPUs of each pod: 0 or more")
    if nproc is None:
        return gpus if gpus > 1 else None
    text = str(nproc)
    if text in COUNTED_BY_TORCHRUN:
        return text
    if not text.isdecimal() or int(text) < 1:
        raise UserError(
            f"nproc is {text!r}: it must be a number of at least 1, gpu, cpu or auto",
            hint="gpu means one process for each GPU of the pod",
        )
    return int(text)


def _launcher(program: str, on: BackendName | None) -> list[str]:
    """The command by its name, as an image has it; on a machine where PATH does not have it, this Python."""
    if on != "cluster":
        from vcjob.local.run.caller import caller_environment

        if shutil.which(program, path=caller_environment().get("PATH")) is None:
            return [sys.executable, *_LAUNCHERS[program]]
    return [program]
