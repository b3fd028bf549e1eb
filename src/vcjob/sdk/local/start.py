"""Starting a Job on this machine: check that it can run here, store it, hand it to a supervisor.

Called by `local_backend`. What cannot run here at all is refused before anything is stored.
"""

from __future__ import annotations

import sys
import time
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vcjob.diagnosis.hang_settings import hang_seconds
from vcjob.errors import BackendError, UserError
from vcjob.lifecycle.status_codec import rfc3339
from vcjob.local.jobs.store import Store
from vcjob.local.logs import retention
from vcjob.local.machine import gpus
from vcjob.local.pod import images
from vcjob.local.run.caller import caller_environment
from vcjob.local.run.run_dir import RunConfig
from vcjob.local.supervisor.prestart import PrestartedSupervisor, start_supervisor
from vcjob.plugins.pytorch_options import parse_options
from vcjob.sdk.loading import Loaded
from vcjob.sdk.local.handle import LocalHandle
from vcjob.sdk.rendering import placed
from vcjob.sdk.yaml_text import to_yaml
from vcjob.spec.job import Job, Task

if TYPE_CHECKING:
    from vcjob.sdk.backend import RunOptions


def start(loaded: Loaded, options: RunOptions, prestarted: PrestartedSupervisor | None) -> LocalHandle:
    job = loaded.job
    store = Store()
    config = RunConfig(
        env=dict(options.env) if options.env is not None else caller_environment(),
        cwd=_folder(options.cwd),
        bundle=[*loaded.config_maps.values(), *loaded.secrets.values(), *loaded.claims.values()],
        images=images.load_map(store.folder, options.image_commands, sys.executable),
        warm=options.warm,
    )
    images.check_commands(job, config.images)
    if "PYTHONPATH" not in (options.env or {}):
        images.check_torch(job, config.images)
    check_gpus(job, config.env)
    retention.limit_of(config.env)  # refused now rather than by a supervisor that nobody watches
    hang_seconds(config.env)
    doc = _created(job, options.namespace, prestarted.uid if prestarted else str(uuid.uuid4()))
    made, lock = store.create(doc, config, options.text if options.text is not None else to_yaml(job.doc))
    try:
        start_supervisor(made, lock, prestarted)
    except BaseException:
        store.discard(made)
        raise
    return LocalHandle(made)


def check_gpus(job: Job, env: Mapping[str, str]) -> None:
    """Refuse a Job that needs more GPUs than this machine has; GPUs that are only in use are waited for."""
    _check_processes_per_gpu(job, env)
    needed = gpus.gpus_at_once(job)
    if not needed:
        return
    existing = len(gpus.list_gpus(env)) if gpus.has_nvidia(env) else 0
    if needed > existing:
        raise BackendError(
            f"the Job needs {needed} GPU{'' if needed == 1 else 's'} at once, and this machine has {existing}{_limited(env)}",
            hint=f"ask for fewer ({gpus.RESOURCE} in resources.limits), or run it on a cluster",
        )


def _check_processes_per_gpu(job: Job, env: Mapping[str, str]) -> None:
    """Refuse one process per GPU in pods that see no GPU: torchrun would end with a traceback in each of them."""
    options, _ = parse_options(job.spec.plugins.get("pytorch") or ())
    if options.nproc_per_node != "gpu":
        return
    ranks = [task for task in job.tasks if task.name in (options.master, options.worker)]
    if all(gpus.gpus_of(task.pod_spec) or _chooses_gpus(task) for task in ranks):
        return
    if not (gpus.list_gpus(env) if gpus.has_nvidia(env) else gpus.device_files()):
        raise BackendError(
            f"the Job starts a process for each GPU, and this machine has no GPU{_limited(env)}",
            hint="use --nproc cpu or a number, or run it on a cluster",
        )
    if gpus.hides_gpus(env):
        raise BackendError(
            "the Job starts a process for each GPU, and its pods request none, so they see none",
            hint=f"add --gpus N; in a Job file, {gpus.RESOURCE} in resources.limits",
        )


def _limited(env: Mapping[str, str]) -> str:
    return " (CUDA_VISIBLE_DEVICES counts)" if "CUDA_VISIBLE_DEVICES" in env else ""


def _chooses_gpus(task: Task) -> bool:
    return any(
        entry["name"] == "CUDA_VISIBLE_DEVICES"
        for container in task.pod_spec.get("containers") or []
        for entry in container.get("env") or []
    )


def _folder(cwd: str | None) -> str:
    # Not resolved: a path with symbolic links in it is what the user sees and what ranks should see.
    folder = Path(cwd).absolute() if cwd else Path.cwd()
    if not folder.is_dir():
        raise UserError(f"the folder {folder} does not exist")
    return str(folder)


def _created(job: Job, namespace: str | None, uid: str) -> dict[str, Any]:
    """The Job as an API server would have stored it: with a uid, a namespace and a time."""
    doc = placed(job, uid, namespace or job.metadata.namespace or "default").doc
    metadata = doc["metadata"]
    metadata["creationTimestamp"] = rfc3339(time.time())
    metadata["generation"] = 1
    return {key: value for key, value in doc.items() if key != "status"}
