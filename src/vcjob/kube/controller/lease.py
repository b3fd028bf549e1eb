"""Leader election by a Lease.

Only intervals on our own steady clock decide, never the wall clock of this or another machine: the
holder counts from the moment it *asked* for its last renewal, the others from the moment they *saw*
it. The holder stops `renew_seconds` after that moment, well before the others may take over, and
gives the Lease back when it ends in good order.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import time
import uuid
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import LEASES, Document
from vcjob.kube.errors import AlreadyExists, Conflict, KubeError, LeaseLost, NotFound
from vcjob.kube.jitter import jittered

log = logging.getLogger(__name__)


def steady_clock() -> float:
    """Seconds that also pass while the machine sleeps; where there is no such clock, the monotonic one."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(boot_time) if boot_time is not None else time.monotonic()


class LeaseSettings(msgspec.Struct, frozen=True):
    lease_seconds: float = 15.0  # others may take over this long after the last renewal they saw
    renew_seconds: float = 10.0  # the holder stops this long after the last renewal that it asked for
    retry_seconds: float = 2.0  # between tries, of holder and others

    def __post_init__(self) -> None:
        if not 0 < self.retry_seconds < self.renew_seconds < self.lease_seconds:
            raise ValueError("a lease needs 0 < retry < renew < lease seconds")


class _Seen(msgspec.Struct):
    """Another holder's record and when we first saw it in this form."""

    record: tuple[Any, ...]
    since: float
    seconds: float


class Election:
    """Runs a function while, and only while, this process holds the Lease."""

    def __init__(
        self,
        client: Client,
        name: str,
        namespace: str,
        *,
        identity: str | None = None,
        settings: LeaseSettings | None = None,
        clock: Callable[[], float] = steady_clock,
        on_leader: Callable[[bool], None] | None = None,
    ) -> None:
        self.identity = identity or f"{socket.gethostname()}_{os.getpid()}_{uuid.uuid4().hex[:8]}"
        self._client = client
        self._name = name
        self._namespace = namespace
        self._settings = settings or LeaseSettings()
        self._clock = clock
        self._on_leader = on_leader
        self._seen: _Seen | None = None
        self._lease: Document | None = None  # as the server last gave it to us
        self._valid_until = float("-inf")

    @property
    def is_leader(self) -> bool:
        """True only while the time for which we may act has not run out."""
        return self._clock() < self._valid_until

    def check(self) -> None:
        """Raise LeaseLost unless we may act right now: the guard of a leader's client."""
        if not self.is_leader:
            raise LeaseLost(f"{self.identity} no longer holds the lease {self._namespace}/{self._name}")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the Lease, run `lead`, keep the Lease meanwhile. Returns when `lead` returns; raises
        LeaseLost when the Lease could not be kept (start anew in a fresh process, or call `run` again)."""
        while not await self._try_to_hold():  # noqa: ASYNC110 - the event is on the server
            await asyncio.sleep(self._pause())
        log.info("%s leads by the lease %s/%s", self.identity, self._namespace, self._name)
        self._tell(True)
        work = asyncio.ensure_future(lead())
        keep = asyncio.create_task(self._keep())
        lost = False
        try:
            await asyncio.wait({work, keep}, return_when=asyncio.FIRST_COMPLETED)
            lost = not work.done()
        finally:
            if lost:
                await self._end(work)
            else:
                work.cancel()
                await asyncio.wait({work})  # the lease is kept while the work winds down
            keep.cancel()
            await asyncio.gather(keep, return_exceptions=True)
            self._tell(False)
            await self._give_back()
        if lost:
            raise LeaseLost(f"{self.identity} lost the lease {self._namespace}/{self._name}")
        work.result()

    async def _end(self, work: asyncio.Future[None]) -> None:
        """Stop the work before others may take over; what hangs on is kept from writing by `check`."""
        self._valid_until = float("-inf")
        work.cancel()
        margin = self._settings.lease_seconds - self._settings.renew_seconds
        done, _ = await asyncio.wait({work}, timeout=margin)
        if done:
            await asyncio.gather(work, return_exceptions=True)
        else:
            log.error("the work under the lease %s/%s does not stop", self._namespace, self._name)

    async def _keep(self) -> None:
        """Renew until that fails for too long."""
        while True:
            await asyncio.sleep(min(self._pause(), max(0.0, self._valid_until - self._clock())))
            if not self.is_leader:
                return
            if not await self._try_to_hold() and self._seen is not None:
                return  # another one holds it

    async def _try_to_hold(self) -> bool:
        """One bounded try to take or renew the Lease."""
        asked = self._clock()
        left = self._valid_until - asked if self.is_leader else self._settings.renew_seconds
        try:
            async with asyncio.timeout(max(0.01, min(left, self._settings.renew_seconds / 2))):
                held = await self._hold()
        except (Conflict, NotFound):
            self._lease = None  # someone wrote in between: look again
            return False
        except (KubeError, TimeoutError) as error:
            log.warning("the lease %s/%s could not be asked for: %s", self._namespace, self._name, error)
            return False
        if held:
            self._valid_until = asked + self._settings.renew_seconds
        return held

    async def _hold(self) -> bool:
        if self._lease is None:
            try:
                self._lease = await self._client.get(
                    LEASES, self._name, self._namespace, urgent=True, patience=0
                )
            except NotFound:
                return await self._create()
        spec = self._lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self.identity) and not self._expired(spec):
            self._lease = None
            return False
        self._seen = None
        taken = {**self._lease, "spec": {**spec, **self._record(spec, new_holder=holder != self.identity)}}
        self._lease = await self._client.replace(
            LEASES, self._name, taken, self._namespace, urgent=True, patience=0
        )
        return True

    async def _create(self) -> bool:
        body = LEASES.manifest(self._name, self._namespace, spec=self._record({}, new_holder=True))
        try:
            self._lease = await self._client.create(LEASES, body, self._namespace, urgent=True, patience=0)
        except AlreadyExists:
            return False
        return True

    def _expired(self, spec: dict[str, Any]) -> bool:
        """Whether another's Lease has stood unrenewed, by our clock, for as long as it says."""
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        now = self._clock()
        if self._seen is None or self._seen.record != record:
            seconds = float(spec.get("leaseDurationSeconds") or self._settings.lease_seconds)
            self._seen = _Seen(record, now, seconds)
        return now - self._seen.since > self._seen.seconds

    def _record(self, spec: dict[str, Any], *, new_holder: bool) -> dict[str, Any]:
        now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._settings.lease_seconds)),
            "acquireTime": now if new_holder else spec.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (1 if new_holder and spec else 0),
        }

    async def _give_back(self) -> None:
        """Let the next one start at once. Only now, when nothing of ours acts any more."""
        self._valid_until = float("-inf")
        lease, self._lease = self._lease, None
        try:
            async with asyncio.timeout(self._settings.retry_seconds):
                if lease is None or not await self._clear(lease):
                    # A last renewal may have gone through unheard: what stands there now counts.
                    await self._clear(
                        await self._client.get(LEASES, self._name, self._namespace, urgent=True)
                    )
        except (KubeError, TimeoutError) as error:
            log.warning("the lease %s/%s was not given back: %s", self._namespace, self._name, error)

    async def _clear(self, lease: Document) -> bool:
        """Take our name off the Lease, if it is there. False: it was changed in between."""
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != self.identity:
            return True
        freed = {**lease, "spec": {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}}
        try:
            await self._client.replace(LEASES, self._name, freed, self._namespace, urgent=True, patience=0)
        except Conflict:
            return False
        return True

    def _pause(self) -> float:
        return jittered(self._settings.retry_seconds, 0.8, 1.2)

    def _tell(self, leads: bool) -> None:
        if self._on_leader is not None:
            self._on_leader(leads)
