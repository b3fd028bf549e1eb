"""`vcjob.run()`: a Job started, and the handle to it."""

from __future__ import annotations

import os
import sys
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from vcjob.errors import BackendError, UserError
from vcjob.lifecycle.status_codec import rfc3339
from vcjob.local.jobs.store import Store
from vcjob.local.logs import retention
from vcjob.local.machine import gpus
from vcjob.local.pod import images
from vcjob.local.run.caller import caller_environment
from vcjob.local.run.run_dir import RunConfig
from vcjob.local.supervisor.prestart import PrestartedSupervisor
from vcjob.local.supervisor.start import start_supervisor
from vcjob.sdk.grounds import BackendName, open_backend
from vcjob.sdk.handle import Handle
from vcjob.sdk.loading import Loaded, Source, load
from vcjob.sdk.local_handle import LocalHandle
from vcjob.sdk.yaml_text import to_yaml
from vcjob.spec.job import Job


def run(
    source: Source,
    *,
    namespace: str | None = None,
    on: BackendName | None = None,
    context: str | None = None,
    kubeconfig: str | None = None,
    image_commands: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    warm: bool = False,
    allow_unknown: bool = False,
) -> Handle:
    """Start the Job of a source, and return at once: as processes of this machine, or on a cluster.

    The job lives on its own: it goes on when this program ends, and every shell can see it.

    on: the ground, "local" or "cluster". context, kubeconfig: which cluster, as kubectl takes them.
    On this machine alone: image_commands: what to run for an image without a command, as `IMAGE=COMMAND`;
    env, cwd: what ranks inherit, where it is not what this program has; warm: fork the ranks from one
    process that has imported torch.
    """
    ground = open_backend(on, context, kubeconfig)
    if ground is not None:
        refuse_local_options({"image_commands": image_commands, "env": env, "cwd": cwd, "warm": warm})
        return ground.start(
            load(source, allow_unknown=allow_unknown, ground="cluster"), namespace, strict=not allow_unknown
        )
    return start(
        load(source, allow_unknown=allow_unknown),
        namespace=namespace,
        image_commands=image_commands,
        env=env,
        cwd=os.fspath(cwd) if cwd is not None else None,
        warm=warm,
    )


def refuse_local_options(given: Mapping[str, object]) -> None:
    """What only means something on this machine is refused elsewhere, never ignored."""
    for name, value in given.items():
        if value:
            raise UserError(
                f"{name} is for jobs on this machine; on a cluster the Job itself says what runs",
                hint="leave it out, or run the Job here",
            )


def start(
    loaded: Loaded,
    *,
    namespace: str | None = None,
    image_commands: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
    cwd: str | None = None,
    warm: bool = False,
    given: str | None = None,
    seat: PrestartedSupervisor | None = None,
) -> LocalHandle:
    """The same on this machine, for a source that is already loaded.

    given: its text as the user wrote it. seat: a supervisor that was started in advance.
    """
    job = loaded.job
    store = Store()
    setting = RunConfig(
        env=dict(env) if env is not None else caller_environment(),
        cwd=_folder(cwd),
        bundle=[*loaded.config_maps.values(), *loaded.secrets.values(), *loaded.claims.values()],
        images=images.load_map(store.folder, image_commands, sys.executable),
        warm=warm,
        python=sys.executable,
    )
    images.check_commands(job, setting.images)
    if "PYTHONPATH" not in (env or {}):
        images.check_torch(job, setting.images)
    check_gpus(job, setting.env)
    retention.limit_of(setting.env)  # refused now rather than found by a supervisor that nobody sees
    doc = _created(job, namespace, seat.uid if seat else str(uuid.uuid4()))
    made, lock = store.create(doc, setting, given if given is not None else to_yaml(job.doc))
    try:
        start_supervisor(made, lock, seat)
    except BaseException:
        store.delete(made, older_too=False)
        raise
    return LocalHandle(made)


def check_gpus(job: Job, env: Mapping[str, str]) -> None:
    """Refuse what this machine can never run; what is only taken at the moment is waited for."""
    needed = gpus.gpus_at_once(job)
    if not needed:
        return
    there = len(gpus.list_gpus(env)) if gpus.has_nvidia(env) else 0
    if needed > there:
        limited = " (CUDA_VISIBLE_DEVICES counts)" if "CUDA_VISIBLE_DEVICES" in env else ""
        raise BackendError(
            f"the Job needs {needed} GPUs at once, and this machine has {there}{limited}",
            hint=f"ask for fewer ({gpus.RESOURCE} in resources.limits), or run it on a cluster",
        )


def _folder(cwd: str | None) -> str:
    # Not resolved: a path with symbolic links in it is what the user sees and what ranks should see.
    folder = Path(cwd).absolute() if cwd else Path.cwd()
    if not folder.is_dir():
        raise UserError(f"the folder {folder} is not there")
    return str(folder)


def _created(job: Job, namespace: str | None, uid: str) -> dict[str, Any]:
    """The Job as an API server would have stored it: with a uid, a namespace and a time."""
    from vcjob.sdk.rendering import placed

    doc = placed(job, uid, namespace or job.metadata.namespace or "default").doc
    metadata = doc["metadata"]
    metadata["creationTimestamp"] = rfc3339(time.time())
    metadata["generation"] = 1
    return {key: value for key, value in doc.items() if key != "status"}
