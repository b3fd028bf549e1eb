"""Small parts of the controller: refusals, urgency, who schedules."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from vcjob.cluster.controller.objects.api_refusals import is_refusal, refusal
from vcjob.cluster.controller.schedulers import Pulse, VolcanoPart, gate
from vcjob.cluster.controller.status.patch import failed_status, is_urgent
from vcjob.cluster.resources import PartialLease
from vcjob.kube.errors import Conflict, Forbidden, Invalid, ServerError
from vcjob.lifecycle.attempts import Attempts
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.status import Phase, State, Status, TaskMemory

QUOTA = 'pods "p" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1'
SECURITY = 'pods "p" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
WEBHOOK = 'admission webhook "x.example" denied the request: no'


@pytest.mark.parametrize(
    ("words", "reason"), [(QUOTA, "QuotaExceeded"), (SECURITY, "PodSecurity"), (WEBHOOK, "RefusedByWebhook")]
)
def test_a_refusal_has_a_word_and_the_servers_own_words(words: str, reason: str) -> None:
    found = refusal(Forbidden(403, server_message=words), "pod a-0")
    assert found.reason == reason
    assert found.message == f"pod a-0 is refused: {words}"


def test_a_webhook_that_does_not_answer_is_a_refusal_and_an_outage_is_not() -> None:
    assert is_refusal(ServerError(500, server_message='failed calling webhook "x": timeout'))
    assert is_refusal(Invalid(422))
    assert not is_refusal(ServerError(503, server_message="etcd is gone"))
    assert not is_refusal(Conflict(409))


def test_counters_and_words_may_wait() -> None:
    old = Status(state=State(Phase.PENDING, "PodsPending", "0 of 3", 1.0))
    new = msgspec.structs.replace(
        old,
        pending=3,
        state=State(Phase.PENDING, "Unschedulable", "no room", 1.0),
        tasks={"a": TaskMemory(seen=IndexSet.span(0, 3))},
    )
    assert not is_urgent(old, new)


@pytest.mark.parametrize(
    "changes",
    [
        {"state": State(Phase.RUNNING, "", "", 2.0)},
        {"retry_count": 1},
        {"commands": ("x",)},
        {"tasks": {"a": TaskMemory(attempts=Attempts({1: IndexSet.span(0, 1)}))}},
    ],
)
def test_what_pods_cannot_show_may_not_wait(changes: dict[str, object]) -> None:
    old = Status(state=State(Phase.PENDING, "", "", 1.0))
    assert is_urgent(old, msgspec.structs.replace(old, **changes))


def test_a_refused_job_is_over_and_says_why() -> None:
    status = failed_status(Status(), "InvalidJob", "no tasks", 5.0)
    assert status.over and status.finished == 5.0
    assert status.to_kube()["state"]["message"] == "no tasks"


def lease(holder: str = "someone", renewed: float = 0.0) -> PartialLease:
    spec = {"holderIdentity": holder, "leaseDurationSeconds": 15}
    if renewed:
        spec["renewTime"] = datetime.fromtimestamp(renewed, UTC)
    return msgspec.convert({"metadata": {"name": "volcano"}, "spec": spec}, PartialLease)


def test_a_lease_lives_as_long_as_it_is_renewed() -> None:
    now = 100.0
    pulse = Pulse(wall=lambda: 1000.0, steady=lambda: now)
    assert not pulse.alive("volcano")
    pulse.saw(lease(renewed=990.0), renewed=False)
    assert pulse.alive("volcano")
    now = 106.0
    assert not pulse.alive("volcano")
    pulse.saw(lease(renewed=5.0), renewed=True)  # whatever the holder's clock says
    assert pulse.alive("volcano")
    pulse.saw(lease(holder="", renewed=1006.0), renewed=True)
    assert not pulse.alive("volcano")


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
    held = gate("volcano", "Pending", "q1", "")
    assert held is not None and "queue q1" in held.message
    assert gate("volcano", "Inqueue", "q1", "") is None
    assert gate("none", "", "q1", "") is None
