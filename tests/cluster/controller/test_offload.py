"""Large Jobs are admitted and decided in a thread, and what changes meanwhile is not lost."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tests.cluster.controller.harness import Harness
from tests.cluster.controller.jobs import job, task
from vcjob.cluster.controller.admission import admit_job
from vcjob.lifecycle.decide import decide


async def test_the_loop_stays_free_while_a_large_job_is_admitted(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(*arguments: Any, **options: Any) -> Any:
        entered.set()
        assert release.wait(30)
        return admit_job(*arguments, **options)

    monkeypatch.setattr("vcjob.cluster.controller.preparation.admit_job", slow)
    harness = Harness(job("j", task("a", 1, pod={"hostname": "x"}), plugins={"env": []}))
    monkeypatch.setattr("vcjob.cluster.controller.admission.LARGE_SPEC_BYTES", 1)
    admitting = asyncio.create_task(harness.reconcile())
    await asyncio.to_thread(entered.wait, 30)
    assert not admitting.done(), "and this line runs, so the loop is free"
    harness.change(job("j", task("a", 2)))
    release.set()
    await admitting
    assert harness.pods() == ["j-a-0", "j-a-1"], "the Job as it was changed meanwhile"


async def test_reports_about_pods_wait_while_a_thread_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        entered.set()
        assert release.wait(30)
        return decide(*arguments)

    harness = Harness(job("j", task("a", 2, after=None)))
    await harness.reconcile()
    monkeypatch.setattr("vcjob.cluster.controller.reconcile.decide", slow)
    monkeypatch.setattr("vcjob.cluster.controller.reconcile.LARGE_TASKS", 1)
    deciding = asyncio.create_task(harness.reconcile())
    await asyncio.to_thread(entered.wait, 30)
    harness.show("j-a-0", "Running")
    harness.lose("j-a-1")
    assert {fact.phase for fact in harness.state.observed.pods.values()} == {"Pending"}
    release.set()
    await deciding
    assert {fact.phase for fact in harness.state.observed.pods.values()} != {"Pending"}
    await harness.reconcile()
    assert harness.attempts() == {"j-a-0": "0", "j-a-1": "1"}


@pytest.mark.parametrize("gone", [False, True])
async def test_a_job_that_changes_while_a_thread_decides_is_decided_again(
    monkeypatch: pytest.MonkeyPatch, gone: bool
) -> None:
    entered, release = threading.Event(), threading.Event()

    def slow(*arguments: Any) -> Any:
        entered.set()
        assert release.wait(30)
        return decide(*arguments)

    harness = Harness(job("j", task("a", 1)))
    monkeypatch.setattr("vcjob.cluster.controller.reconcile.decide", slow)
    monkeypatch.setattr("vcjob.cluster.controller.reconcile.LARGE_TASKS", 1)
    deciding = asyncio.create_task(harness.reconcile())
    await asyncio.to_thread(entered.wait, 30)
    if gone:
        harness.delete_job()
    else:
        harness.change(job("j", task("a", 3)))
    release.set()
    await deciding
    assert len(harness.pods()) == (0 if gone else 3)
