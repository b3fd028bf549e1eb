"""One storm, one seed: whatever goes wrong, every Job ends as it would have ended anyway."""

from __future__ import annotations

import os
import random
import secrets
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from tests.cluster.controller.conftest import establish
from tests.cluster.controller.faults.storm.audit import AUDIT, Auditor
from tests.cluster.controller.faults.storm.faults import FaultInjector
from tests.cluster.controller.faults.storm.foreign import Foreign
from tests.cluster.controller.faults.storm.jobs import SHAPES
from tests.cluster.controller.faults.storm.users import (
    SubmittedJob,
    Tenant,
    Workload,
    controller_of,
    culprits,
    insist,
)
from tests.testbed import support
from tests.testbed.cluster import Cluster
from tests.testbed.fixtures import need
from vcjob.cluster.install.objects.roles import roles, service_account
from vcjob.cluster.install.settings import NAMESPACE, Settings

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(1800)]
LONG = "VCJOB_STORM_JOBS" in os.environ
JOBS = int(os.environ.get("VCJOB_STORM_JOBS", "40"))
#: The short storm, which every change must pass, is the same for all of them; a long one is new each time.
SEED = int(os.environ.get("VCJOB_STORM_SEED", "0")) or (secrets.randbelow(10**6) if LONG else 373912)
OWNED = ("pods", "services", "configmaps", "networkpolicies", "persistentvolumeclaims", "commands")
HOMES = ("storm-east", "storm-west")


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    """A cluster of its own, with the rights that `vcjob install` gives and no more."""
    need(support.control_plane_problem())
    with Cluster.start(audit=AUDIT) as cluster:
        establish(cluster)
        for name in (NAMESPACE, *HOMES):
            cluster.api.create("/api/v1/namespaces", {"metadata": {"name": name}})
        settings = Settings(webhook=False)
        for document in (service_account(settings), *roles(settings)):
            cluster.api.create(_collection(document), document)
        cluster.fakes(max(4, JOBS // 20))
        safe = cluster.fakes(1, prefix="safe")
        cluster.api.patch(f"/api/v1/nodes/{safe[0]}", {"metadata": {"labels": {"storm": "safe"}}})
        yield cluster


def _collection(document: dict[str, object]) -> str:
    version, plural = str(document["apiVersion"]), f"{str(document['kind']).lower()}s"
    root = f"/api/{version}" if version == "v1" else f"/apis/{version}"
    metadata = document["metadata"]
    assert isinstance(metadata, dict)
    namespace = metadata.get("namespace")
    return f"{root}/namespaces/{namespace}/{plural}" if namespace else f"{root}/{plural}"


@pytest.fixture
def say(capsys: pytest.CaptureFixture[str]) -> Callable[[str], None]:
    began = time.monotonic()

    def speak(words: str) -> None:
        with capsys.disabled():
            print(f"  {time.monotonic() - began:6.1f} s  {words}", flush=True)

    return speak


def test_every_job_ends_as_it_would_have_without_the_storm(
    cluster: Cluster, tmp_path: Path, say: Callable[[str], None]
) -> None:
    say(f"{JOBS} Jobs, VCJOB_STORM_SEED={SEED}; the controllers' logs are in {tmp_path}")
    chance = random.Random(SEED)
    tenants = [Tenant(cluster.api, home) for home in HOMES]
    foreign = Foreign(tenants)
    auditor = Auditor(cluster.api, cluster.control_plane.audit_log)
    rounds = max(1, JOBS // 75)
    with FaultInjector(cluster, tenants, tmp_path, SEED, say) as injector:
        # Each shape once without a fault, so that the ends that are expected are those that are.
        first = [SubmittedJob(tenants[0], shape, 0) for shape in SHAPES]
        settle(Workload(first, [0.0] * len(first)), patience=120)
        say("every shape has ended as expected without faults")

        shapes = [*SHAPES, *chance.choices(sorted(SHAPES), k=max(0, JOBS - len(SHAPES)))]
        submitted = [SubmittedJob(chance.choice(tenants), shape, at) for at, shape in enumerate(shapes, 1)]
        chance.shuffle(submitted)
        workload = Workload(submitted, [chance.uniform(0, 30.0 * rounds) for _ in submitted])
        # A short storm has half of what can go wrong, another half with each seed.
        injector.start(rounds, kinds=len(injector.faults) if rounds > 1 else len(injector.faults) // 2)
        while injector.active or not workload.all_created:
            workload.step()
            injector.repair()
            time.sleep(0.3)
        injector.stop_faults()
        say(f"the storm is over: {injector.counts}")
        settle(workload, patience=240, meanwhile=injector.repair)
        say("every Job has ended as expected")

        twice = [f"{life}: {uids}" for life, uids in auditor.births().items() if len(uids) != 1]
        assert not twice, "two pods for one attempt\n" + "\n".join(twice)
        blamed = {life for tenant in tenants for found in tenant.list("jobs") for life in culprits(found)}
        assert blamed <= auditor.failed, "restarted for what did not fail"
        nothing_is_orphaned(tenants, injector)
        say("nothing is orphaned")
        foreign.check_unchanged()
        for tenant in tenants:
            insist(partial(cluster.api.request, "DELETE", tenant.path("jobs")))
        nothing_is_left(tenants)
        say("nothing is left")
        foreign.check_unchanged()


def settle(workload: Workload, patience: float, meanwhile: Callable[[], None] | None = None) -> None:
    deadline = time.monotonic() + patience
    while problems := workload.step():
        assert time.monotonic() < deadline, "\n".join(problems)
        if meanwhile is not None:
            meanwhile()
        time.sleep(0.3)


def nothing_is_orphaned(tenants: list[Tenant], injector: FaultInjector, patience: float = 240) -> None:
    """What a Job owns is there with its Job, or goes; and nothing runs for a Job that is over. The cluster's garbage
    collector starts again after the API server was away: it checks only every half a minute."""
    deadline = time.monotonic() + patience
    while left := [*_orphans(tenants), *_runaways(tenants)]:
        assert time.monotonic() < deadline, "\n".join(left)
        injector.repair()
        time.sleep(0.5)


def _orphans(tenants: list[Tenant]) -> Iterator[str]:
    for tenant in tenants:
        uids = {job["metadata"]["uid"] for job in tenant.list("jobs")}
        for plural in OWNED:
            for thing in tenant.list(plural):
                owner = controller_of(thing)
                if owner is not None and owner["uid"] not in uids:
                    yield f"{tenant.namespace}/{plural}/{thing['metadata']['name']} of {owner['name']}"


def _runaways(tenants: list[Tenant]) -> Iterator[str]:
    for tenant in tenants:
        yield from (f"command {found['metadata']['name']}" for found in tenant.list("commands"))
        for pod in tenant.list("pods"):
            if controller_of(pod) and pod["status"]["phase"] not in ("Succeeded", "Failed"):
                yield f"{tenant.namespace}/{pod['metadata']['name']} is {pod['status']['phase']}"


def nothing_is_left(tenants: list[Tenant], patience: float = 90) -> None:
    deadline = time.monotonic() + patience
    while left := [
        thing["metadata"]["name"]
        for tenant in tenants
        for plural in OWNED
        for thing in tenant.list(plural)
        if controller_of(thing)
    ]:
        assert time.monotonic() < deadline, left
        time.sleep(0.5)
