"""The pods of a run: starts and ends them through their shims, and keeps the record of all of them.

The supervisor calls it for the steps of a decision. It knows nothing of policies; reports of the shims change
`Observed` and call `changed`.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from collections.abc import Callable
from typing import Any

from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.step import CreatePods, FailPods, KillPods
from vcjob.local.machine import files, process
from vcjob.local.machine.loop import Loop
from vcjob.local.pod.launch import Launcher, PlainLauncher
from vcjob.local.pod.prepare import Preparer
from vcjob.local.pod.shim import Order, ShimHandle, ShimWork, start_shim
from vcjob.local.run.run_dir import RunDir
from vcjob.local.supervisor import pod_facts
from vcjob.plan.plan import Plan
from vcjob.report.podstate import PodState, mark_lost
from vcjob.spec.scalars import natural
from vcjob.wellknown import reasons
from vcjob.wellknown.environment import PET_NODE_RANK

Key = tuple[str, int, int]
_PATIENCE = 3.0


class Pods:
    """The pods of a run, each with its shim.

    `changed` is called after every change, `noted` with the reason and text of each note of a pod, `gone` with the
    uid of one that ended.
    """

    def __init__(
        self,
        run: RunDir,
        plan: Plan,
        loop: Loop,
        preparer: Preparer,
        observed: Observed,
        *,
        launcher: Callable[[PlainLauncher, Callable[[str], None]], Launcher],
        changed: Callable[[], None],
        noted: Callable[[str, str], None],
        output_lost: Callable[[str], None],
        gone: Callable[[str], None],
        close_in_shim: Callable[[], None],
    ) -> None:
        self._run = run
        self._plan = plan
        self._loop = loop
        self._preparer = preparer
        self._observed = observed
        self._launcher = launcher
        self._changed = changed
        self._noted = noted
        self._output_lost = output_lost
        #: Children of this process that are not shims (zygotes): they are not orphans of a lost pod.
        self.other_children: Callable[[], set[int]] = set
        self._pod_gone = gone
        self._close_in_shim = close_in_shim
        self._shims: dict[Key, ShimHandle] = {}
        #: Every pod of every attempt, in the order of creation; the record that other verbs read.
        self.record: dict[Key, PodState] = {}
        self.dirty = False

    def remember(self, pods: list[PodState]) -> None:
        """Take over the record of an earlier supervisor; what has finished and was not deleted still counts."""
        for pod in pods:
            self.record[pod.task, pod.index, pod.attempt] = pod
            if pod.deleted_at is None and pod.finished:
                self._observed.put(pod_facts.fact(pod))

    @property
    def living(self) -> int:
        return len(self._shims)

    def create(self, step: CreatePods, gpus: Callable[[str], list[str]]) -> None:
        for index in step.indexes:
            key = (step.task, index, step.attempt)
            if key not in self.record:
                self._create(key, step, gpus(self.uid_of(key)))

    def uid_of(self, key: Key) -> str:
        """The same pod has the same uid, also for a supervisor that is started again."""
        return pod_uid(self._plan.job.uid, key)

    def planned(self, key: Key, step: CreatePods) -> dict[str, Any]:
        task, index, attempt = key
        pod = self._plan.pod(task, index, version=step.version, attempt=attempt, retries=step.retries)
        pod["metadata"]["uid"] = self.uid_of(key)
        return pod

    def _create(self, key: Key, step: CreatePods, gpus: list[str]) -> None:
        pod = self.planned(key, step)
        state = PodState(
            task=step.task,
            index=key[1],
            name=pod["metadata"]["name"],
            uid=pod["metadata"]["uid"],
            version=step.version,
            attempt=step.attempt,
            rank=rank_of(pod),
            node_rank=has_node_rank(pod),
            created_at=time.time(),
            gpus=gpus,
        )
        folder = self._run.pod_folder(state.name, state.attempt)
        files.make_folder(folder)

        def close() -> None:
            for other in self._shims.values():
                other.close()
            self._close_in_shim()

        work = ShimWork(state, lambda s: self._preparer.prepare(pod, s, folder), self._launcher, close)
        work.memory_kills = self._preparer.memory_kills(state.name)
        shim = start_shim(work, folder)
        state.shim = shim.pid
        self._shims[key] = shim
        self.record[key] = state
        self._loop.on_readable(shim, lambda: self._on_report(key, shim))
        self._put(state)

    def kill(self, step: KillPods) -> None:
        for key in self._present(step):
            state = self.record[key]
            if state.deleted_at is None:
                state.deleted_at = time.time()
                self.dirty = True
            if key in self._shims:
                self._shims[key].order(Order(stop=True))
                self._observed.put(pod_facts.fact(state))
            else:
                self._observed.drop(state.uid)
                self._changed()

    def fail(self, step: FailPods) -> None:
        for key in self._present(step):
            if key in self._shims:
                self._shims[key].order(Order(fail=step.reason))

    def kill_now(self) -> None:
        """End all pods without their grace period."""
        for shim in self._shims.values():
            shim.order(Order(stop=True, grace=0.0))
        self._loop.after(_PATIENCE, self._kill_shims)

    def _kill_shims(self) -> None:
        """Kill shims that do not react (stopped by SIGSTOP, for example): a pod ends with its shim."""
        for shim in self._shims.values():
            with contextlib.suppress(ProcessLookupError):  # reaped, and its last report not yet read
                os.kill(shim.pid, signal.SIGKILL)

    def _present(self, step: KillPods | FailPods) -> list[Key]:
        keys = ((step.task, index, step.attempt) for index in step.indexes)
        return [key for key in keys if key in self.record]

    # Reports of the shims

    def _on_report(self, key: Key, shim: ShimHandle) -> None:
        states, there = shim.receive()
        for state in states:
            known = self.record[key]
            state.deleted_at = known.deleted_at
            if state.cores_note:
                self._noted(reasons.CORES_SHARED, state.cores_note)
            for note in state.notes:
                self._noted(reasons.UNSUPPORTED_LOCALLY, note)
            self.record[key] = state
        while shim.lost:
            self._output_lost(shim.lost.pop())
        if not there:
            self._gone(key, shim)
        elif states:
            self._put(self.record[key])

    def _gone(self, key: Key, shim: ShimHandle) -> None:
        self._loop.forget(shim)
        del self._shims[key]
        state = self.record[key]
        self._pod_gone(state.uid)
        if not state.finished:
            self._lost(state)
            shim.save_output()
        shim.close()
        self._put(state)
        if state.deleted_at is not None:
            self._observed.drop(state.uid)

    def _lost(self, state: PodState) -> None:
        """Its shim was killed. Its containers died with it; what they had detached is our child now."""
        ours = {handle.pid for handle in self._shims.values()} | self.other_children()
        process.kill_until_gone(lambda: process.children(os.getpid(), lambda pid: pid not in ours))
        mark_lost(state, "the process that supervised this pod was killed")

    def _put(self, state: PodState) -> None:
        self._observed.put(pod_facts.fact(state))
        self.dirty = True
        self._changed()

    # Files

    def write(self, *, last: bool = False) -> None:
        if self.dirty or last:
            self._run.write_pods(list(self.record.values()), durable=last)
            self.dirty = False


def pod_uid(job_uid: str, key: Key) -> str:
    return str(uuid.uuid5(uuid.UUID(job_uid), "/".join(map(str, key))))


def has_node_rank(pod: dict[str, Any]) -> bool:
    """Whether torchrun starts several ranks in it, so that its rank is that of a node."""
    variables = (entry for container in pod["spec"]["containers"] for entry in container.get("env") or [])
    return any(entry["name"] == PET_NODE_RANK for entry in variables)


def rank_of(pod: dict[str, Any]) -> int | None:
    for container in pod["spec"]["containers"]:
        for entry in container.get("env") or []:
            if entry["name"] == "RANK":
                rank = natural(str(entry.get("value", "")))
                if rank is not None:
                    return rank
    return None
