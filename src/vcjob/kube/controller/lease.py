"""Leader election with a Lease.

Only intervals on our own monotonic clock decide, never the wall clock of any machine: the holder counts from when
it *requested* its last renewal, the others from when they *observed* it. The holder stops `renew_seconds` after its
last renewal, well before others may take over, and releases the Lease when it stops on its own.
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
from vcjob.kube.backoff import jittered
from vcjob.kube.errors import AlreadyExists, Conflict, KubeError, LeaseLost, NotFound

log = logging.getLogger(__name__)


def steady_clock() -> float:
    """Seconds on a clock that also runs while the machine sleeps, or on the monotonic clock if there is none."""
    boot_time = getattr(time, "CLOCK_BOOTTIME", None)
    return time.clock_gettime(boot_time) if boot_time is not None else time.monotonic()


class LeaseSettings(msgspec.Struct, frozen=True):
    """Timing of an election: ValueError unless retry < renew < lease.

    The holder stops after `renew_seconds`, others take over after `lease_seconds`: the difference keeps two leaders
    from acting at the same time.
    """

    lease_seconds: float = 8.0  # others may take over this long after the last renewal they observed
    renew_seconds: float = 5.0  # the holder stops this long after it requested its last successful renewal
    retry_seconds: float = 1.0  # between attempts

    def __post_init__(self) -> None:
        if not 0 < self.retry_seconds < self.renew_seconds < self.lease_seconds:
            raise ValueError("a lease needs 0 < retry < renew < lease seconds")


class _Observed(msgspec.Struct):
    """Another holder's record and when we first observed it."""

    record: tuple[Any, ...]
    since: float
    seconds: float


class Election:
    """Runs a function only while this process holds the Lease.

    The controller passes one term of leadership to `run`. The function is cancelled when the Lease is lost; its
    client also calls `check` before each write, so that a late write raises LeaseLost.
    """

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
        self._observed: _Observed | None = None
        self._lease: Document | None = None  # as last received from the server
        self._valid_until = float("-inf")

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the Lease right now, by its own clock."""
        return self._clock() < self._valid_until

    def check(self) -> None:
        """Raise LeaseLost unless this process is the leader: the guard of the leader's client."""
        if not self.is_leader:
            raise LeaseLost(f"{self.identity} no longer holds the lease {self._namespace}/{self._name}")

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the Lease, then run `lead` while renewing the Lease. Returns when `lead` returns; raises
        LeaseLost if the Lease could not be renewed (restart the process or call `run` again)."""
        while not await self._try_to_hold():  # noqa: ASYNC110 - the event is on the server
            await asyncio.sleep(self._pause())
        log.info("%s became the leader (lease %s/%s)", self.identity, self._namespace, self._name)
        self._notify(True)
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
                await asyncio.wait({work})  # the lease is renewed until the work has stopped
            keep.cancel()
            await asyncio.gather(keep, return_exceptions=True)
            self._notify(False)
            await self._release()
        if lost:
            raise LeaseLost(f"{self.identity} lost the lease {self._namespace}/{self._name}")
        work.result()

    async def _end(self, work: asyncio.Future[None]) -> None:
        """Stop the work before others may take over; `check` rejects the writes of work that does not stop."""
        self._valid_until = float("-inf")
        work.cancel()
        margin = self._settings.lease_seconds - self._settings.renew_seconds
        done, _ = await asyncio.wait({work}, timeout=margin)
        if done:
            await asyncio.gather(work, return_exceptions=True)
        else:
            log.error(
                "the leader's work does not stop after the lease %s/%s was lost", self._namespace, self._name
            )

    async def _keep(self) -> None:
        """Renew the Lease until that fails for too long."""
        while True:
            await asyncio.sleep(min(self._pause(), max(0.0, self._valid_until - self._clock())))
            if not self.is_leader:
                return
            if not await self._try_to_hold() and self._observed is not None:
                return  # it has another holder

    async def _try_to_hold(self) -> bool:
        """One bounded attempt to acquire or renew the Lease."""
        requested_at = self._clock()
        left = self._valid_until - requested_at if self.is_leader else self._settings.renew_seconds
        try:
            async with asyncio.timeout(max(0.01, min(left, self._settings.renew_seconds / 2))):
                held = await self._hold()
        except (Conflict, NotFound):
            self._lease = None  # changed since we read it: read it again
            return False
        except (KubeError, TimeoutError) as error:
            log.warning(
                "cannot acquire or renew the lease %s/%s: %s", self._namespace, self._name, _reason(error)
            )
            return False
        if held:
            self._valid_until = requested_at + self._settings.renew_seconds
        return held

    async def _hold(self) -> bool:
        if self._lease is None:
            try:
                self._lease = await self._client.get(
                    LEASES, self._name, self._namespace, bypass_window=True, retry_seconds=0
                )
            except NotFound:
                return await self._create()
        spec = self._lease.get("spec") or {}
        holder = spec.get("holderIdentity") or ""
        if holder not in ("", self.identity) and not self._expired(spec):
            self._lease = None
            return False
        self._observed = None
        taken = {**self._lease, "spec": {**spec, **self._record(spec, new_holder=holder != self.identity)}}
        self._lease = await self._client.replace(
            LEASES, self._name, taken, self._namespace, bypass_window=True, retry_seconds=0
        )
        return True

    async def _create(self) -> bool:
        body = LEASES.manifest(self._name, self._namespace, spec=self._record({}, new_holder=True))
        try:
            self._lease = await self._client.create(
                LEASES, body, self._namespace, bypass_window=True, retry_seconds=0
            )
        except AlreadyExists:
            return False
        return True

    def _expired(self, spec: dict[str, Any]) -> bool:
        """Whether another holder's Lease was not renewed, by our clock, for the duration in it."""
        record = (spec.get("holderIdentity"), spec.get("renewTime"), spec.get("leaseTransitions"))
        now = self._clock()
        if self._observed is None or self._observed.record != record:
            seconds = float(spec.get("leaseDurationSeconds") or self._settings.lease_seconds)
            self._observed = _Observed(record, now, seconds)
        return now - self._observed.since > self._observed.seconds

    def _record(self, spec: dict[str, Any], *, new_holder: bool) -> dict[str, Any]:
        now = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._settings.lease_seconds)),
            "acquireTime": now if new_holder else spec.get("acquireTime") or now,
            "renewTime": now,
            "leaseTransitions": int(spec.get("leaseTransitions") or 0) + (1 if new_holder and spec else 0),
        }

    async def _release(self) -> None:
        """Let the next leader start at once. Called when nothing of this process acts any more."""
        self._valid_until = float("-inf")
        lease, self._lease = self._lease, None
        try:
            async with asyncio.timeout(self._settings.retry_seconds):
                if lease is None or not await self._clear(lease):
                    # A last renewal may have succeeded without a response: read the current version.
                    await self._clear(
                        await self._client.get(LEASES, self._name, self._namespace, bypass_window=True)
                    )
        except (KubeError, TimeoutError) as error:
            log.warning("cannot release the lease %s/%s: %s", self._namespace, self._name, _reason(error))

    async def _clear(self, lease: Document) -> bool:
        """Remove our identity from the Lease, if present. False: the Lease has changed since it was read."""
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") != self.identity:
            return True
        freed = {**lease, "spec": {**spec, "holderIdentity": "", "leaseDurationSeconds": 1}}
        try:
            await self._client.replace(
                LEASES, self._name, freed, self._namespace, bypass_window=True, retry_seconds=0
            )
        except Conflict:
            return False
        return True

    def _pause(self) -> float:
        return jittered(self._settings.retry_seconds, 0.8, 1.2)

    def _notify(self, leads: bool) -> None:
        if self._on_leader is not None:
            self._on_leader(leads)


def _reason(error: KubeError | TimeoutError) -> str:
    """A TimeoutError has no text of its own."""
    return str(error) or "the API server did not respond in time"
