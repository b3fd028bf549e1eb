"""Stencils: filling in the values that differ from pod to pod."""

from __future__ import annotations

import gc
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from tests.plan.jobs import container, job, task
from vcjob.errors import UserError
from vcjob.plan import plan as plan_module
from vcjob.plan.plan import Plan
from vcjob.plan.stencil import MarkClash, Stencil, StencilCache, mark
from vcjob.plugins.base import Plugin, PodDraft, Slot
from vcjob.spec.job import Task
from vcjob.spec.problem import Problem

VALUES = {"index": 7, "partition": 1, "attempt": 2, "version": 3, "retries": 4}


def test_every_kind_of_slot_is_filled_with_its_value_and_offset() -> None:
    sign = mark(0)
    text = {kind: f"a{Slot(sign, kind) + 10}-{Slot(sign, kind) + -1}z" for kind in VALUES}
    assert Stencil(text, sign).fill(VALUES) == (
        b'{"index":"a17-6z","partition":"a11-0z","attempt":"a12-1z","version":"a13-2z","retries":"a14-3z"}'
    )


def test_text_without_slots_is_the_same_for_all() -> None:
    assert Stencil({"a": 1}, mark(0)).fill(VALUES) == b'{"a":1}'


@pytest.mark.parametrize("text", ["<#0>", "<#0>index:<#0>", "<#0>other:1<#0>", "x<#0>index:0"])
def test_a_mark_outside_of_a_slot_is_a_clash(text: str) -> None:
    with pytest.raises(MarkClash):
        Stencil({"a": text}, mark(0))


def test_half_a_mark_before_a_slot_is_not_a_clash() -> None:
    assert Stencil({"a": f"<#0{Slot(mark(0), 'index')}<#0"}, mark(0)).fill(VALUES) == b'{"a":"<#07<#0"}'


@pytest.mark.parametrize(
    "own", ["<#0>", "<#0>index:0<#0>", "<#0><#1><#2>", "<#0>index:0<#0> <#1>index:5<#1>"]
)
def test_a_jobs_own_text_is_never_taken_for_a_slot(own: str) -> None:
    pod = Plan(job(task("worker", 2, spec={"containers": [container(args=[own])]}))).pod("worker", 1)
    assert pod["metadata"]["name"] == "train-worker-1"
    assert pod["spec"]["containers"][0]["args"] == [own]


class Late(Plugin[str]):
    name: ClassVar[str] = "late"

    def parse(self, arguments: Sequence[str]) -> tuple[str, list[Problem]]:
        return "", []

    def __init__(self) -> None:
        self.shaped: list[str] = []

    def shape(self, draft: PodDraft, options: str) -> None:
        self.shaped.append(draft.task.name)
        self.init_containers = len(draft.init_containers)
        draft.pod["metadata"]["annotations"]["constant"] = "<#0>"

    def shape_pod(self, pod: dict[str, Any], task: Task, index: int, options: str) -> None:
        pod["spec"]["nodeName"] = f"{task.name}-{options}-{index % 2}"


def test_a_plugin_may_shape_each_pod_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcjob.plan.plan.open_plugins", lambda job: [(Late(), "node")])
    plan = Plan(job(task("worker", 3)))
    assert [pod["spec"]["nodeName"] for pod in plan.pods()] == [
        "worker-node-0",
        "worker-node-1",
        "worker-node-0",
    ]
    assert plan.pod("worker", 2)["metadata"]["annotations"]["constant"] == "<#0>"
    assert "initContainers" not in plan.pod("worker", 2)["spec"], "looking for init containers makes none"


def test_a_task_is_shaped_once_whatever_the_number_of_its_pods(monkeypatch: pytest.MonkeyPatch) -> None:
    plugin = Late()
    monkeypatch.setattr("vcjob.plan.plan.open_plugins", lambda job: [(plugin, "node")])
    plan = Plan(job(task("a", 3), task("b", 2)))
    for _ in range(2):
        assert len(list(plan.pods())) == 5
    # Twice each, for this plugin writes the first mark itself.
    assert plugin.shaped == ["a", "a", "b", "b"]


class Misused(Late):
    def __init__(self, text: str) -> None:
        super().__init__()
        self.text = text

    def shape(self, draft: PodDraft, options: str) -> None:
        draft.pod["metadata"]["annotations"]["misused"] = self.text.replace("MARK", draft.mark)


@pytest.mark.parametrize("text", ["MARK", "MARKnonsense:0MARK"])
def test_a_plugin_that_misuses_slots_is_named(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vcjob.plan.plan.open_plugins", lambda job: [(Misused(text), "")])
    with pytest.raises(UserError, match="the pods of task 'worker' cannot be distinguished") as caught:
        Plan(job(task("worker"))).pod("worker", 0)
    assert "check these plugins: late;" in (caught.value.hint or "")


def test_the_whole_job_is_encoded_once_however_many_tasks_it_has(monkeypatch: pytest.MonkeyPatch) -> None:
    made = job(*(task(f"t{number}") for number in range(20)))
    encode, encoded = msgspec.json.encode, 0

    def counting(value: object) -> bytes:
        nonlocal encoded
        encoded += value is made.doc
        return encode(value)

    monkeypatch.setattr(msgspec.json, "encode", counting)
    assert len(list(Plan(made).pods())) == 20
    assert encoded == 1


def test_the_pods_of_many_tasks_keep_a_bounded_number_of_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand tasks of 760 KB took 1.4 GB until all their pods existed."""
    cache = StencilCache(100_000)
    monkeypatch.setattr(plan_module, "STENCILS", cache)
    plan = Plan(job(*(task(f"t{number}", 1) for number in range(300)), plugins={"svc": [], "env": []}))
    expected = [plan.pod_json(f"t{number}", 0) for number in range(300)]
    assert 0 < cache.size <= 100_000
    assert 0 < plan.kept_stencils == len(cache) < 100
    assert [plan.pod_json(f"t{number}", 0) for number in range(300)] == expected, "they are cut again"


def test_plans_share_the_bytes_and_forget_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    cache = StencilCache(10_000_000)
    monkeypatch.setattr(plan_module, "STENCILS", cache)
    first, second = Plan(job(task("a", 1))), Plan(job(task("a", 1)))
    first.pod("a", 0)
    second.pod("a", 0)
    assert len(cache) == 2
    first.forget_pods()
    assert (first.kept_stencils, second.kept_stencils) == (0, 1)
    del second
    gc.collect()
    assert (len(cache), cache.size) == (0, 0)


def test_a_stencil_larger_than_the_cache_is_kept_until_the_next() -> None:
    cache = StencilCache(10)
    for name in ("a", "b"):
        cache.put(1, name, Stencil({"a": 1}, mark(0)))
        assert cache.get(1, name) is not None
    assert len(cache) == 1
