"""Which schedulers run in the cluster, and which of them places a Job's pods.

Volcano counts as present while its scheduler is alive: by its Lease, or by a ready pod of it where it runs
without one. Its CRDs prove nothing, because vcjob installs them itself, and the namespace's name proves nothing,
because a tenant can create it: only pods and Leases of accounts with rights in the whole cluster count.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable

import msgspec

from vcjob.cluster.controller.account_trust import CONTROLLER_RIGHT, SCHEDULER_RIGHT, AccountTrust
from vcjob.cluster.controller.cache.informers import PAGE
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.resources import COSCHEDULING_GROUPS, PARTIAL_LEASES, PartialLease, PodCondition
from vcjob.errors import BackendError
from vcjob.kube.api.client import Client
from vcjob.kube.api.objects import Meta
from vcjob.kube.api.resources import PODS
from vcjob.kube.controller.informer import Informer
from vcjob.kube.controller.watch import WatchSettings
from vcjob.lifecycle.observed import Blocked
from vcjob.plan.gang import GangName
from vcjob.plan.names import DEFAULT_SCHEDULER
from vcjob.spec.job import Job
from vcjob.wellknown import reasons

SCHEDULER_LEASE, CONTROLLER_LEASE = "volcano", "vc-controller-manager"
SCHEDULER_APP, CONTROLLER_APP = "volcano-scheduler", "volcano-controller"
#: The accounts of Volcano's own manifests, for a Lease whose holder is no pod that we see.
SCHEDULER_ACCOUNT, CONTROLLER_ACCOUNT = "volcano-scheduler", "volcano-controllers"
#: Phases of a PodGroup in which its pods must not be created yet.
_NOT_ADMITTED = frozenset({"", "Pending"})
_CHECK_SECONDS = 2.0


class _PartLabels(msgspec.Struct, gc=False):
    app: str = ""


class _PartMeta(Meta, rename="camel", gc=False):
    labels: _PartLabels | None = None


class _Container(msgspec.Struct, gc=False):
    command: tuple[str, ...] | None = ()
    args: tuple[str, ...] | None = ()


class _PartSpec(msgspec.Struct, frozen=True, rename="camel", gc=False):
    containers: tuple[_Container, ...] = ()
    service_account_name: str = "default"


class _PartStatus(msgspec.Struct, frozen=True, gc=False):
    conditions: tuple[PodCondition, ...] | None = ()


class VolcanoPart(msgspec.Struct, gc=False):
    """A pod of Volcano itself: its scheduler or its controller manager. Arguments and conditions are read once and not
    kept: anybody who may create pods in its namespace can make thousands of any size."""

    metadata: _PartMeta
    spec: _PartSpec = _PartSpec()
    status: _PartStatus = _PartStatus()
    ready: bool = False
    without_job_controller: bool = False

    def __post_init__(self) -> None:
        self.ready = any(c.type == "Ready" and c.status == "True" for c in self.status.conditions or ())
        self.without_job_controller = _switches_job_controller_off(self.spec.containers)
        self.spec, self.status = _PartSpec((), self.account), _PartStatus()

    @property
    def app(self) -> str:
        return self.metadata.labels.app if self.metadata.labels else ""

    @property
    def account(self) -> str:
        return self.spec.service_account_name


def _switches_job_controller_off(containers: tuple[_Container, ...]) -> bool:
    arguments = [word for c in containers for part in (c.command, c.args) for word in part or ()]
    return any(
        "-job-controller" in value.split(",")
        for at, word in enumerate(arguments)
        if word.lstrip("-").startswith("controllers")
        for value in [word.partition("=")[2] or (arguments[at + 1] if at + 1 < len(arguments) else "")]
    )


class LeaseMonitor:
    """Whether Leases are renewed, by our own clock once a renewal was seen."""

    def __init__(
        self, wall: Callable[[], float] = time.time, steady: Callable[[], float] = time.monotonic
    ) -> None:
        self._wall = wall
        self._steady = steady
        self._valid_until: dict[str, float] = {}

    def saw(self, lease: PartialLease, *, renewed: bool) -> None:
        spec = lease.spec
        seconds = float(spec.lease_duration_seconds or 15)
        if not spec.holder_identity or spec.renew_time is None:
            self._valid_until.pop(lease.metadata.name, None)
        elif renewed:
            self._valid_until[lease.metadata.name] = self._steady() + seconds
        else:
            age = self._wall() - spec.renew_time.timestamp()
            self._valid_until[lease.metadata.name] = self._steady() + seconds - age

    def gone(self, lease: PartialLease) -> None:
        self._valid_until.pop(lease.metadata.name, None)

    def alive(self, name: str) -> bool:
        return self._steady() < self._valid_until.get(name, float("-inf"))


class Schedulers:
    """Watches Volcano's pods and Leases. Run `informers`, wait until they are synced, then ask.

    The controller and `vcjob install` use it. VolcanoRunning if Volcano's own job controller handles Jobs.
    """

    def __init__(self, client: Client, options: ControllerOptions) -> None:
        self._client = client
        self._options = options
        self._coscheduling = False
        self._lease_monitor = LeaseMonitor()
        where = options.volcano_namespace
        self._scheduler_trust = AccountTrust(client, where, SCHEDULER_RIGHT, SCHEDULER_ACCOUNT)
        self._controller_trust = AccountTrust(client, where, CONTROLLER_RIGHT, CONTROLLER_ACCOUNT)
        # By name: the role grants only these two.
        self._leases = [
            Informer(client, PARTIAL_LEASES, namespace=where, fields=f"metadata.name={name}")
            for name in (SCHEDULER_LEASE, CONTROLLER_LEASE)
        ]
        for leases in self._leases:
            leases.on_change(
                add=lambda lease: self._lease_monitor.saw(lease, renewed=False),
                update=lambda _, lease: self._lease_monitor.saw(lease, renewed=True),
                delete=self._lease_monitor.gone,
            )
        self._parts = Informer(
            client,
            PODS.read_as(VolcanoPart),
            namespace=where,
            labels=f"app in ({SCHEDULER_APP},{CONTROLLER_APP})",
            settings=WatchSettings(page_size=PAGE),
        )

    @property
    def informers(self) -> Iterable[Informer[PartialLease] | Informer[VolcanoPart]]:
        return (*self._leases, self._parts)

    async def discover(self) -> None:
        """Find out whether the coscheduling plugin's PodGroups are served."""
        group = COSCHEDULING_GROUPS
        self._coscheduling = await self._client.discover(group.api_version, group.kind) is not None

    async def refresh(self) -> None:
        """Review the rights of what looks like Volcano, some accounts in each call. Call it once the informers are synced."""
        for trust, app, lease, account in (
            (self._scheduler_trust, SCHEDULER_APP, SCHEDULER_LEASE, SCHEDULER_ACCOUNT),
            (self._controller_trust, CONTROLLER_APP, CONTROLLER_LEASE, CONTROLLER_ACCOUNT),
        ):
            parts = [part for part in self._parts if part.app == app]
            accounts = {part.account for part in parts if part.ready}
            if self._lease_monitor.alive(lease):
                accounts.add(account)
            await trust.refresh(accounts, {part.account for part in parts})

    @property
    def serves_coscheduling(self) -> bool:
        return self._coscheduling

    @property
    def volcano_schedules(self) -> bool:
        by_pod = any(
            part.app == SCHEDULER_APP and part.ready and part.account in self._scheduler_trust
            for part in self._parts
        )
        return by_pod or (
            self._lease_monitor.alive(SCHEDULER_LEASE) and SCHEDULER_ACCOUNT in self._scheduler_trust
        )

    def check_job_controller(self) -> None:
        """Raise VolcanoRunning if Volcano's own job controller runs: two controllers would both change every Job."""
        if self._options.beside_volcano:
            return
        pods = [
            part
            for part in self._parts
            if part.app == CONTROLLER_APP and part.account in self._controller_trust
        ]
        alive = [part for part in pods if part.ready and not part.without_job_controller]
        held = self._lease_monitor.alive(CONTROLLER_LEASE) and CONTROLLER_ACCOUNT in self._controller_trust
        unseen = held and not pods
        if alive or unseen:
            raise VolcanoRunning(self._options.volcano_namespace)

    async def guard(self) -> None:
        """Check regularly; ends by raising VolcanoRunning once Volcano's job controller runs."""
        while True:
            await self.refresh()
            self.check_job_controller()
            await asyncio.sleep(_CHECK_SECONDS)

    def choose(self, job: Job) -> GangName:
        """The gang of a Job that starts now. The Job keeps it until it ends."""
        if self._options.gang != "auto":
            return self._options.gang
        if _asks_for_volcano(job) and self.volcano_schedules:
            return "volcano"
        return "coscheduling" if self._coscheduling else "none"

    def replaced(self, job: Job, gang: GangName) -> str | None:
        """The message of an event if the pods do not go to the scheduler that the Job names."""
        if gang == "volcano" or not _asks_for_volcano(job):
            return None
        substitute = self._options.scheduler or "the cluster's default scheduler"
        group = "as a gang (coscheduling)" if gang == "coscheduling" else "one by one, not as a gang"
        return f"Volcano's scheduler does not run here, so {substitute} places the pods {group}"


class VolcanoRunning(BackendError):
    """Volcano's own job controller runs; only a user can resolve that."""

    def __init__(self, namespace: str) -> None:
        super().__init__(
            f"Volcano's own job controller is running (in namespace {namespace}); two controllers would both change every Job",
            hint="switch it off with --controllers=*,-job-controller in the arguments of volcano-controllers "
            "(its scheduler may stay), or uninstall Volcano; if it is switched off in a way that is not visible "
            "here, pass --beside-volcano",
        )


def queue_gate(gang: GangName, phase: str, queue: str, message: str) -> Blocked | None:
    """Why pods have to wait for their PodGroup: Volcano's scheduler admits it when the queue has room."""
    if gang != "volcano" or phase not in _NOT_ADMITTED:
        return None
    why = message or "it has not been admitted yet"
    return Blocked(reasons.WAITING_IN_QUEUE, f"the PodGroup waits in queue {queue}: {why}")


def _asks_for_volcano(job: Job) -> bool:
    return (job.spec.scheduler_name or DEFAULT_SCHEDULER) == DEFAULT_SCHEDULER
