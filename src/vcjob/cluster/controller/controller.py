"""The controller: one informer set, one queue, one pool of workers, under one Lease."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Coroutine
from typing import Any

from vcjob.cluster.controller.cache.informers import Caches, wait_synced
from vcjob.cluster.controller.cache.job_cache import JobCache
from vcjob.cluster.controller.cache.job_state import JobKey
from vcjob.cluster.controller.event_recorder import EventWriter
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.reconcile import Reconciler
from vcjob.cluster.controller.schedulers import Schedulers
from vcjob.cluster.controller.telemetry import Silent, Telemetry
from vcjob.kube.api.client import Client
from vcjob.kube.controller.lease import Election
from vcjob.kube.controller.queue import Backoff, QueueClosed, WorkQueue
from vcjob.kube.errors import KubeError, LeaseLost

log = logging.getLogger(__name__)
#: How long a stop waits for what is under way.
_WIND_DOWN = 5.0


class Controller:
    """One term of leadership: everything it knows was read after the Lease was won."""

    def __init__(
        self, client: Client, options: ControllerOptions, telemetry: Telemetry, identity: str
    ) -> None:
        self._options = options
        self._telemetry = telemetry
        self.queue: WorkQueue[JobKey] = WorkQueue(Backoff(0.1, 30.0), on_wait=telemetry.waited)
        self.board = JobCache(self.queue.add_after, client.now)
        telemetry.count_phases(self.board.phases)
        self._caches = Caches(client, options.namespaces)
        self._schedulers = Schedulers(client, options)
        self._events = EventWriter(client, identity)
        self._reconciler = Reconciler(
            client,
            self.board,
            self.queue,
            schedulers=self._schedulers,
            events=self._events,
            options=options,
            telemetry=telemetry,
            caches=self._caches,
        )

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop` is set, or raise why that is not possible."""
        await self._caches.connect(self.board)
        await self._schedulers.discover()
        informers = [*self._schedulers.informers, *self._caches.informers]
        background = [asyncio.create_task(informer.run()) for informer in informers]
        try:
            await _unless_ended(wait_synced(informers), background)
            self._schedulers.check_job_controller()
            log.info("%d Jobs are known; %d workers begin", len(self.board), self._options.workers)
            background.append(asyncio.create_task(self._schedulers.guard()))
            writer = asyncio.create_task(self._events.run())
            background.append(writer)
            workers = [asyncio.create_task(self._work()) for _ in range(self._options.workers)]
            try:
                await _unless_ended(stop.wait(), [*background, *workers])
            finally:
                self.queue.close()
                await _wind_down(workers)
                writer.cancel()
            await self._say_what_waits()
        finally:
            for task in background:
                task.cancel()
            await asyncio.gather(*background, return_exceptions=True)

    async def _say_what_waits(self) -> None:
        try:
            async with asyncio.timeout(_WIND_DOWN):
                await self._reconciler.write_what_waits()
                await self._events.drain()
        except TimeoutError:
            log.warning("the API server does not answer; pending status counters and events were not written")

    async def _work(self) -> None:
        while True:
            try:
                key = await self.queue.get()
            except QueueClosed:
                return
            began, failed = time.perf_counter(), True
            try:
                await self._reconciler.reconcile(key)
                self.queue.forget(key)
                failed = False
            except LeaseLost:
                raise
            except KubeError as error:
                delay = self.queue.add_rate_limited(key)
                log.warning("a Job is looked at again in %.1f s: %s", delay, error, extra={"uid": key[1]})
            except Exception:
                self.queue.add_rate_limited(key)
                log.exception("a Job could not be looked at", extra={"uid": key[1]})
            finally:
                self.queue.done(key)
                self._telemetry.reconciled(time.perf_counter() - began, failed)
                self._telemetry.queue_length(len(self.queue))


async def run_controller(
    client: Client, options: ControllerOptions, *, metrics: Telemetry | None = None, stop: asyncio.Event
) -> None:
    """Serve Jobs whenever the Lease is ours, until `stop` is set; then end in good order.

    Raises what only a user can mend: Volcano's own controller is live, no rights, no such kinds.
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
            log.warning("%s; it is asked for again", error)
        except asyncio.CancelledError:
            if not stop.is_set():
                raise
        finally:
            stopping.cancel()
            term.cancel()
            await asyncio.gather(term, stopping, return_exceptions=True)


async def _unless_ended(main: Coroutine[Any, Any, Any], others: list[asyncio.Task[None]]) -> None:
    """Wait for `main`; one of the `others` ending first is an error, its own if it has one."""
    awaited = asyncio.create_task(main)
    try:
        await asyncio.wait({awaited, *others}, return_when=asyncio.FIRST_COMPLETED)
        for task in others:
            if task.done():
                task.result()
                raise RuntimeError("a part of the controller ended by itself")
        await awaited
    finally:
        awaited.cancel()
        await asyncio.gather(awaited, return_exceptions=True)


async def _wind_down(workers: list[asyncio.Task[None]]) -> None:
    """Let what is under way come to its end; what hangs is cut off: the next one takes it up."""
    _, hanging = await asyncio.wait(workers, timeout=_WIND_DOWN)
    for task in hanging:
        task.cancel()
    await asyncio.gather(*workers, return_exceptions=True)
