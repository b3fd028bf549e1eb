"""The controller: one set of informers, one queue and one pool of workers, under one Lease.

`run_controller` is called by the process (`vcjob controller`). It returns after a graceful stop and raises what only a
user can resolve.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

from vcjob.cluster.controller.cache.informers import Caches, wait_synced
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import QueueKey
from vcjob.cluster.controller.event_recorder import EventRecorder
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.reconcile import Reconciler
from vcjob.cluster.controller.schedulers import Schedulers
from vcjob.cluster.controller.telemetry import Silent, Telemetry
from vcjob.kube.api.client import Client
from vcjob.kube.backoff import Backoff
from vcjob.kube.controller.lease import Election
from vcjob.kube.controller.queue import QueueClosed, WorkQueue
from vcjob.kube.errors import KubeError, LeaseLost

log = logging.getLogger(__name__)
#: How long a worker may keep the event loop.
_STEP_SECONDS = 0.005
#: How long a stop waits for running reconciles and pending writes.
_DRAIN_SECONDS = 5.0


class Controller:
    """One term of leadership: everything it knows was read after the Lease was acquired."""

    def __init__(
        self, client: Client, options: ControllerOptions, telemetry: Telemetry, identity: str
    ) -> None:
        self._options = options
        self._telemetry = telemetry
        self.queue: WorkQueue[QueueKey] = WorkQueue(Backoff(0.1, 30.0), on_wait=telemetry.waited)
        self.jobs = JobCache(self.queue.add_after, client.now, self.queue.drop)
        telemetry.count_phases(self.jobs.phases)
        self._caches = Caches(client, options.namespaces)
        self._schedulers = Schedulers(client, options)
        self._events = EventRecorder(client, identity)
        self._reconciler = Reconciler(
            client,
            self.jobs,
            self.queue,
            schedulers=self._schedulers,
            events=self._events,
            options=options,
            telemetry=telemetry,
            caches=self._caches,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Reconcile Jobs until `stop` is set, or raise why that is not possible."""
        await self._caches.connect(self.jobs)
        await self._schedulers.discover()
        informers = [*self._schedulers.informers, *self._caches.informers]
        background = [asyncio.create_task(informer.run()) for informer in informers]
        try:
            await _wait_unless_ended(wait_synced(informers), background)
            await self._schedulers.refresh()
            self._schedulers.check_job_controller()
            log.info("%d Jobs found; starting %d workers", len(self.jobs), self._options.workers)
            background.append(asyncio.create_task(self._schedulers.guard()))
            background.append(asyncio.create_task(self._reconciler.delete_orphaned_commands()))
            writer = asyncio.create_task(self._events.run())
            background.append(writer)
            workers = [asyncio.create_task(self._work()) for _ in range(self._options.workers)]
            try:
                await _wait_unless_ended(stop.wait(), [*background, *workers])
            finally:
                self.queue.close()
                await _drain(workers)
                writer.cancel()
            await self._flush()
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)

    async def _flush(self) -> None:
        try:
            async with asyncio.timeout(_DRAIN_SECONDS):
                await self._reconciler.flush()
                await self._events.drain()
        except TimeoutError:
            log.warning(
                "the API server does not respond; pending status counters and events were not written"
            )

    async def _work(self) -> None:
        yielded = time.perf_counter()
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            began, failed = time.perf_counter(), True
            if began - yielded > _STEP_SECONDS:
                # Neither a full queue nor a reconcile without requests suspends: let the loop do other things.
                await asyncio.sleep(0)
                yielded = time.perf_counter()
            try:
                await self._reconciler.reconcile(key)
                self.queue.forget(key)
                failed = False
            except LeaseLost:
                raise
            except KubeError as error:
                delay = self.queue.add_rate_limited(key)
                log.warning("reconcile failed; retrying in %.1f s: %s", delay, error, extra={"uid": key[1]})
            except Exception:
                self.queue.add_rate_limited(key)
                log.exception("reconcile failed", extra={"uid": key[1]})
            finally:
                self.queue.done(key)
                if self.jobs.get(key) is None:
                    self.queue.drop(key)  # its deadline may be days away
                self._telemetry.reconciled(time.perf_counter() - began, failed)
                self._telemetry.queue_length(len(self.queue))


async def run_controller(
    client: Client, options: ControllerOptions, *, metrics: Telemetry | None = None, stop: asyncio.Event
) -> None:
    """Reconcile Jobs while this process holds the Lease, until `stop` is set; then stop gracefully.

    Raises what only a user can resolve: Volcano's own controller runs, missing rights, missing CRDs.
    """
    telemetry = metrics or Silent()
    while not stop.is_set():
        election = Election(
            client,
            options.lease_name,
            options.lease_namespace,
            identity=options.identity,
            settings=options.lease,
            on_leader=telemetry.leads,
        )
        leads = False

        async def lead(election: Election = election) -> None:
            nonlocal leads
            leads = True
            await Controller(client.guarded(election.check), options, telemetry, election.identity).run(stop)

        term = asyncio.create_task(election.run(lead))
        stopping = asyncio.create_task(stop.wait())
        try:
            await asyncio.wait({term, stopping}, return_when=asyncio.FIRST_COMPLETED)
            if not leads:
                term.cancel()
            await term
        except LeaseLost as error:
            log.warning("%s; trying to acquire it again", error)
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
        finally:
            stopping.cancel()
            term.cancel()
            await asyncio.gather(term, stopping, return_exceptions=True)


async def _wait_unless_ended(main: Coroutine[Any, Any, Any], others: list[asyncio.Task[None]]) -> None:
    """Wait for `main`. If one of the `others` ends first, raise its error."""
    awaited = asyncio.create_task(main)
    try:
        await asyncio.wait({awaited, *others}, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            if task.done():
                task.result()
                raise RuntimeError("a background task of the controller ended unexpectedly")
        await awaited
    finally:
        awaited.cancel()
        await asyncio.gather(awaited, return_exceptions=True)


async def _drain(workers: list[asyncio.Task[None]]) -> None:
    """Let running reconciles finish; those that take too long are cancelled, and the next leader continues."""
    _, hanging = await asyncio.wait(workers, timeout=_DRAIN_SECONDS)
    for task in hanging:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
