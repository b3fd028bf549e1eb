"""`vcjob.run()`: start a Job and return its handle.

It reads and checks the source and chooses the backend; starting the Job is the backend's business. Raises InvalidJob
with every problem, JobExists, or BackendError where the Job cannot run there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike, fspath

from vcjob.sdk.backend import RunOptions, open_backend
from vcjob.sdk.handle import Handle
from vcjob.sdk.loading import Source, check_image_commands, load
from vcjob.spec.job import BackendName


def run(
    source: Source,
    *,
    job: str | None = None,
    namespace: str | None = None,
    on: BackendName | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
    image_commands: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | PathLike[str] | None = None,
    warm: bool = False,
    allow_unknown: bool = False,
) -> Handle:
    """Start the Job of a source, as processes of this machine or on a cluster, and return at once.

    The job does not depend on this program: it continues when the program ends, and every shell can see it.

    job: which Job, where the source holds several. on: the backend, "local" or "cluster". context, kubeconfig:
    which cluster, as kubectl takes them. On this machine only: image_commands: what to run for an image without a command, as `IMAGE=COMMAND`;
    env, cwd: what ranks inherit instead of this program's own environment and folder; warm: fork the ranks
    from one process that has imported torch.

    >>> from vcjob import pytorch_job
    >>> handle = run(pytorch_job("greeting", command="echo hello", workers=0))
    >>> handle.wait(60)
    'Completed'
    >>> [line.text for line in handle.logs()]
    ['hello']
    """
    backend = open_backend(on, context, kubeconfig)
    backend.check_local_options({"image_commands": image_commands, "env": env, "cwd": cwd, "warm": warm})
    loaded = load(source, allow_unknown=allow_unknown, backend=backend.name)
    options = RunOptions(
        namespace, allow_unknown, image_commands, env, fspath(cwd) if cwd is not None else None, warm
    )
    wanted = loaded.select(job)[0] if job is not None else loaded
    check_image_commands([wanted], image_commands)
    return backend.start(wanted, options)
