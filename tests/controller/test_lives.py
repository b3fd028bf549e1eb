"""The lives of Jobs on a real API server, with pretended nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from .conftest import Controller, Ground
from .jobs import job, task, trio

pytestmark = pytest.mark.cluster
Serve = Callable[..., Controller]


def test_a_job_completes_and_costs_few_requests(
    ground: Ground, serve: Serve, fakes: Callable[..., Any]
) -> None:
    fakes(2)
    controller = serve()
    ground.create(trio("tiny"))
    done = ground.wait_phase("tiny", "Completed")
    assert done["status"]["succeeded"] == 3
    assert done["status"]["state"]["reason"] == "Succeeded"
    writes = controller.writes()
    assert writes["create", "pods"] == 3
    assert sum(writes.values()) <= 14, writes
