"""Which schedulers run, and when pods wait for their PodGroup."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any, cast

import msgspec
import pytest

from vcjob.cluster.controller.account_trust import REVIEWS_PER_ROUND
from vcjob.cluster.controller.options import ControllerOptions
from vcjob.cluster.controller.schedulers import (
    LeaseMonitor,
    Schedulers,
    VolcanoPart,
    VolcanoRunning,
    queue_gate,
)
from vcjob.cluster.resources import PartialLease
from vcjob.kube.api.client import Client
from vcjob.kube.errors import Forbidden, KubeError, Unreachable


def lease(holder: str = "someone", renewed: float = 0.0) -> PartialLease:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    if renewed:
        spec["renewTime"] = datetime.fromtimestamp(renewed, UTC)
    return msgspec.convert({"metadata": {"name": "volcano"}, "spec": spec}, PartialLease)


def test_a_lease_lives_as_long_as_it_is_renewed() -> None:
    now = 100.0
    monitor = LeaseMonitor(wall=lambda: 1000.0, steady=lambda: now)
    assert not monitor.alive("volcano")
    monitor.saw(lease(renewed=990.0), renewed=False)
    assert monitor.alive("volcano")
    now = 106.0
    assert not monitor.alive("volcano")
    monitor.saw(lease(renewed=5.0), renewed=True)  # whatever the holder's clock says
    assert monitor.alive("volcano")
    monitor.saw(lease(holder="", renewed=1006.0), renewed=True)
    assert not monitor.alive("volcano")


@pytest.mark.parametrize(
    ("arguments", "off"),
    [
        (["--controllers=*,-job-controller"], True),
        (["--controllers", "*,-job-controller,-queue-controller"], True),
        (["--controllers=*"], False),
        ([], False),
    ],
)
def test_volcanos_arguments_show_whether_its_job_controller_is_off(arguments: list[str], off: bool) -> None:
    part = {"metadata": {"name": "p"}, "spec": {"containers": [{"args": arguments}]}}
    assert msgspec.convert(part, VolcanoPart).without_job_controller is off


def test_pods_wait_while_their_group_is_pending_in_volcanos_queue() -> None:
    held = queue_gate("volcano", "Pending", "q1", "")
    assert held is not None and "queue q1" in held.message
    assert queue_gate("volcano", "Inqueue", "q1", "") is None
    assert queue_gate("none", "", "q1", "") is None


class Reviewer:
    """Answers SubjectAccessReviews: accounts with rights in the whole cluster are named in `trusted`."""

    def __init__(self, *trusted: str, error: KubeError | None = None) -> None:
        self.trusted = trusted
        self.error = error
        self.asked: list[str] = []
        self.asking = 0
        self.together = 0

    async def create(self, resource: Any, body: dict[str, Any]) -> Any:
        user = body["spec"]["user"]
        self.asked.append(user)
        self.asking += 1
        self.together = max(self.together, self.asking)
        await asyncio.sleep(0)
        self.asking -= 1
        if self.error is not None:
            raise self.error
        assert "namespace" not in body["spec"]["resourceAttributes"], "in all namespaces"
        return msgspec.convert({"status": {"allowed": user in self.trusted}}, resource.model)


def account(name: str) -> str:
    return f"system:serviceaccount:volcano-system:{name}"


def schedulers(reviewer: Reviewer, *parts: VolcanoPart) -> Schedulers:
    made = Schedulers(cast(Client, reviewer), ControllerOptions())
    for part in parts:
        made._parts._put(part)
    return made


def ready_part(app: str, account: str, name: str = "", ready: str = "True") -> VolcanoPart:
    name = name or app
    document = {
        "metadata": {"name": name, "namespace": "volcano-system", "uid": name, "labels": {"app": app}},
        "spec": {"containers": [], "serviceAccountName": account},
        "status": {"conditions": [{"type": "Ready", "status": ready}]},
    }
    return msgspec.convert(document, VolcanoPart)


async def test_a_tenants_pod_in_volcanos_namespace_neither_stops_the_controller_nor_gets_jobs() -> None:
    parts = ready_part("volcano-controller", "default"), ready_part("volcano-scheduler", "default")
    made = schedulers(Reviewer(), *parts)
    made._lease_monitor.saw(lease(renewed=1.0), renewed=True)
    await made.refresh()
    made.check_job_controller()
    assert not made.volcano_schedules


async def test_volcano_is_recognised_by_the_rights_of_its_accounts() -> None:
    reviewer = Reviewer(account("volcano-controllers"), account("sched"))
    parts = ready_part("volcano-controller", "volcano-controllers"), ready_part("volcano-scheduler", "sched")
    made = schedulers(reviewer, *parts)
    await made.refresh()
    assert made.volcano_schedules
    with pytest.raises(VolcanoRunning):
        made.check_job_controller()
    await made.refresh()
    assert len(reviewer.asked) == 2, "an answer is kept"


async def test_a_lease_alone_counts_if_volcanos_own_account_has_the_rights() -> None:
    made = schedulers(Reviewer(account("volcano-scheduler")))
    made._lease_monitor.saw(lease(renewed=1.0), renewed=True)
    await made.refresh()
    assert made.volcano_schedules


def test_of_a_pod_that_looks_like_volcano_nothing_large_is_kept() -> None:
    long = "x" * 100_000
    labels = {"app": "volcano-controller"} | {f"label-{number}": "x" for number in range(1000)}
    document = {
        "metadata": {"name": "p", "labels": labels},
        "spec": {
            "containers": [{"args": [long, "--controllers=*,-job-controller"]}],
            "serviceAccountName": "a",
        },
        "status": {"conditions": [{"type": "Ready", "status": "True", "message": long}]},
    }
    part = msgspec.convert(document, VolcanoPart)
    assert (part.app, part.account, part.ready, part.without_job_controller) == (
        "volcano-controller",
        "a",
        True,
        True,
    )
    assert len(msgspec.json.encode(part)) < 1_000


def imitations(count: int, ready: str = "True") -> list[VolcanoPart]:
    return [ready_part("volcano-controller", f"a{n}", f"imitation-{n}", ready) for n in range(count)]


async def test_thousands_of_imitations_delay_neither_the_start_of_a_leader_nor_the_guard() -> None:
    reviewer = Reviewer(account("volcano-controllers"))
    made = schedulers(reviewer, *imitations(5000), ready_part("volcano-controller", "volcano-controllers"))
    await made.refresh()
    assert reviewer.asked[0] == account("volcano-controllers")
    assert len(reviewer.asked) == reviewer.together == REVIEWS_PER_ROUND
    with pytest.raises(VolcanoRunning):
        made.check_job_controller()


async def test_an_account_of_any_name_is_asked_about_in_one_of_the_next_rounds() -> None:
    reviewer = Reviewer(account("z"))
    made = schedulers(reviewer, *imitations(5 * REVIEWS_PER_ROUND), ready_part("volcano-controller", "z"))
    for _ in range(6):
        made.check_job_controller()
        await made.refresh()
    with pytest.raises(VolcanoRunning):
        made.check_job_controller()
    assert len(reviewer.asked) == len(set(reviewer.asked)) == 5 * REVIEWS_PER_ROUND + 1


async def test_only_accounts_of_ready_pods_are_asked_about() -> None:
    reviewer = Reviewer()
    await schedulers(reviewer, *imitations(3, ready="False")).refresh()
    assert not reviewer.asked


async def test_an_answer_is_kept_while_its_pod_is_not_ready_and_dropped_with_the_pod() -> None:
    made = schedulers(Reviewer(account("a0")), *imitations(3))
    await made.refresh()
    assert len(made._controller_trust) == 3
    for part in imitations(3, ready="False"):
        made._parts._put(part)
    await made.refresh()
    assert "a0" in made._controller_trust, "it counts at once when its pod is ready again"
    made._parts._objects.clear()
    await made.refresh()
    assert len(made._controller_trust) == 0


async def test_a_review_without_an_answer_is_repeated_in_the_next_round() -> None:
    reviewer = Reviewer(account("volcano-scheduler"), error=Unreachable("cut off"))
    made = schedulers(reviewer, ready_part("volcano-scheduler", "volcano-scheduler"))
    await made.refresh()
    reviewer.error = None
    await made.refresh()
    assert made.volcano_schedules


@pytest.mark.parametrize(("error", "trusted"), [(Forbidden(403), True), (Unreachable("cut off"), False)])
async def test_without_the_right_to_ask_the_namespace_is_trusted_and_an_outage_changes_nothing(
    error: KubeError, trusted: bool
) -> None:
    made = schedulers(Reviewer(error=error), ready_part("volcano-scheduler", "volcano-scheduler"))
    await made.refresh()
    assert made.volcano_schedules is trusted
