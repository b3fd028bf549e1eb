"""Which schedulers run, and when pods wait for their PodGroup."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec
import pytest

from vcjob.cluster.controller.schedulers import LeaseMonitor, VolcanoPart, queue_gate
from vcjob.cluster.resources import PartialLease


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
