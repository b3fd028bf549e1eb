"""Decides whether a run starts its ranks warm: forked from a process that has already imported torch.

The supervisor creates one `WarmPolicy` per run and asks it for each pod's launcher. A plain run loads nothing of the
warm start's code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from vcjob.local.machine import process
from vcjob.local.pod import environment, images
from vcjob.local.pod.launch import Launcher, PlainLauncher
from vcjob.local.run.run_dir import RunConfig
from vcjob.local.warm.folder import any_server
from vcjob.spec.job import Job
from vcjob.wellknown.annotations import WARM, WARM_IMPORTS

if TYPE_CHECKING:
    from vcjob.local.warm.prestart import PrestartedZygote


class WarmPolicy:
    """Chooses the launcher of the pods of one run.

    Warm where the run or the Job requests it, and from a kept-warm server, if one runs, unless the Job forbids it.
    """

    def __init__(
        self,
        config: RunConfig,
        job: Job,
        run_uid: str,
        say: Callable[[str], None],
        prestarted: PrestartedZygote | None = None,
    ) -> None:
        annotations = job.metadata.annotations
        choice = annotations.get(WARM, "").lower()
        self.wanted = config.warm or choice == "true"
        self._warm: Any = None
        if self.wanted or (choice != "false" and any_server()):
            # Loaded only here: a plain run does without this code.
            from vcjob.local.warm.client import WarmLauncher

            self._warm = WarmLauncher(
                env=config.env, imports=_imports(annotations), may_start=self.wanted, say=say
            )
            if prestarted is not None:
                self._warm.adopt(prestarted)
            for argv, env, cwd in _commands(config, job):
                self._warm.prepare(argv, {**env, process.MARK_RUN: run_uid}, cwd)
            self._warm.give_up_unused()

    def launcher(self, plain: PlainLauncher, say: Callable[[str], None]) -> Launcher:
        """In a shim: `say` reaches the user once, however many shims say the same."""
        if self._warm is None:
            return plain
        launcher: Launcher = self._warm.with_fallback(plain, say)
        return launcher

    def pids(self) -> set[int]:
        """The processes of this run that ranks are forked from."""
        return set() if self._warm is None else set(self._warm.pids())

    def end(self) -> None:
        """The run is over: end its zygotes."""
        if self._warm is not None:
            self._warm.end()


def _imports(annotations: Mapping[str, str]) -> tuple[str, ...] | None:
    names = annotations.get(WARM_IMPORTS)
    return None if names is None else tuple(name.strip() for name in names.split(",") if name.strip())


def _commands(config: RunConfig, job: Job) -> Iterator[tuple[list[str], dict[str, str], str]]:
    """Command, environment and folder of each main container, as far as they matter for what is imported."""
    for task in job.tasks:
        for container in task.pod_spec.get("containers") or []:
            argv = images.command_of(container, config.images)
            if argv is None or not task.replicas:
                continue
            env = environment.inherited(config.env)
            for entry in container.get("env") or []:
                if entry.get("valueFrom") is None:
                    env[entry["name"]] = str(entry.get("value") or "")
            env.setdefault("PYTHONUNBUFFERED", "1")
            yield list(argv), env, container.get("workingDir") or config.cwd
