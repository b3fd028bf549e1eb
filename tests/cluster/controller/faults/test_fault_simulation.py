"""The storm in a glass: crashes between any two requests, lost answers, late watches, evictions, on a pretended API
server. Thousands of them in seconds, where the real one (test_storm.py) has dozens in minutes."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import settings

from tests.cluster.controller.harness import KEY, UID, FakeApi, Harness, _read
from tests.cluster.controller.jobs import job, task, trio
from vcjob.cluster.controller.cache.command_tracker import WATCHED_COMMANDS
from vcjob.cluster.resources import PARTIAL_JOBS, PARTIAL_PODS
from vcjob.kube.errors import ApiError, Conflict, KubeError, Unreachable

Object = dict[str, Any]
OVER = ("Completed", "Failed", "Terminated")


class Crash(BaseException):
    """The controller is killed, here and now."""


class StormyApi(FakeApi):
    """Each write may fail before it is done, or be done and not answered; or the asker dies before or after it."""

    def __init__(self, chance: random.Random, watch: Callable[[str, str, Object], None]) -> None:
        super().__init__()
        self.chance = chance
        self.fury = 0.0
        self.births: Counter[tuple[str, str]] = Counter()
        self._watch = watch

    def put(self, plural: str, document: Object) -> Object:
        made = super().put(plural, document)
        self._watch("put", plural, made)
        return made

    def take_away(self, plural: str, name: str) -> None:
        found = self.objects.pop((plural, name), None)
        if found is not None:
            self.version += 1
            self._watch("gone", plural, found)

    async def create(self, resource: Any, body: Any, namespace: str, **options: Any) -> Any:
        self._before()
        made = await super().create(resource, body, namespace)
        if resource.plural == "pods":
            document = self.objects["pods", made.metadata.name]
            self.births[made.metadata.name, document["metadata"]["labels"]["vcjob.io/attempt"]] += 1
        self._after()
        return made

    async def patch(self, resource: Any, name: str, patch: Object, namespace: str, **options: Any) -> Any:
        self._before()
        made = await super().patch(resource, name, patch, namespace, **options)
        self._after()
        return made

    async def delete(
        self, resource: Any, name: str, namespace: str, *, uid: str | None = None, **_: Any
    ) -> bool:
        self._before()
        found = self.objects.get((resource.plural, name))
        if found is not None and uid not in (None, found["metadata"]["uid"]):
            raise Conflict(409, server_message="another one of that name")
        self.take_away(resource.plural, name)
        self._after()
        return found is not None

    def _before(self) -> None:
        if self._strikes():
            raise self.chance.choice(
                (Crash, lambda: ApiError(500, server_message="no"), lambda: Unreachable("cut off"))
            )()

    def _after(self) -> None:
        if self._strikes():
            raise self.chance.choice((Crash, lambda: Unreachable("not heard", may_have_applied=True)))()

    def _strikes(self) -> bool:
        return self.chance.random() < self.fury


class StormyStage(Harness):
    """Its watches lag: what they show comes when `deliver` is called."""

    def __init__(self, document: Object, chance: random.Random) -> None:
        self.chance = chance
        self.news: list[tuple[str, str, Object]] = []
        self.api = StormyApi(chance, lambda *news: self.news.append(news))
        self._options = {"status_delay": 3600.0}  # the worst: what may wait is never written
        self._begin_term()
        self.change(document)

    def take_over(self) -> None:
        self.news.clear()
        super().take_over()
        for (plural, _), found in self.api.objects.items():
            if plural == "commands":
                self.jobs.command_added(_read(WATCHED_COMMANDS, found))
        for (plural, name), found in self.api.objects.items():
            if plural == "pods":
                self.caches.pods.known[name] = _read(PARTIAL_PODS, found)
        self.caches.pods.resource_version = self.api.version

    def deliver(self, most: int) -> None:
        for _ in range(min(most, len(self.news))):
            kind, plural, found = self.news.pop(0)
            if plural == "jobs" and kind == "put":
                self.jobs.job_changed(_read(PARTIAL_JOBS, found))
            elif plural == "commands":
                change = self.jobs.command_added if kind == "put" else self.jobs.command_gone
                change(_read(WATCHED_COMMANDS, found))
            elif plural == "pods":
                pod = _read(PARTIAL_PODS, found)
                self.caches.pods.resource_version = int(found["metadata"]["resourceVersion"])
                if kind == "put":
                    self.caches.pods.known[pod.metadata.name] = pod
                    self.jobs.pod_changed(pod)
                else:
                    self.caches.pods.known.pop(pod.metadata.name, None)
                    self.jobs.pod_gone(pod)

    def command(self, action: str) -> None:
        target = {"kind": "Job", "name": "j", "uid": UID}
        self.api.put("commands", {"metadata": {"name": action.lower()}, "target": target, "action": action})

    async def live(self) -> None:
        """One reconcile, as a worker runs it: after an error it is retried, after a crash the next leader starts."""
        state = self.jobs.get(KEY)
        if state is not None:
            state.retry.retry_at = 0.0
        try:
            await self.reconciler.reconcile(KEY)
        except KubeError:
            pass
        except Crash:
            self.take_over()

    def play(self, ends: Callable[[Object], str], eviction: float) -> None:
        """The pods go on a little: start, end, or are driven out."""
        for (plural, name), pod in list(self.api.objects.items()):
            if plural != "pods":
                continue
            phase = (pod.get("status") or {}).get("phase", "Pending")
            if self.chance.random() < eviction:
                self.api.take_away("pods", name)  # type: ignore[attr-defined]
            elif phase == "Pending" and self.chance.random() < 0.7:
                self.api.put("pods", {**pod, "status": {"phase": "Running"}})
            elif phase == "Running" and self.chance.random() < 0.5 and (end := ends(pod)):
                code = 0 if end == "Succeeded" else 1
                state = {
                    "terminated": {"exitCode": code, "reason": "Ended", "finishedAt": "2026-01-01T00:00:05Z"}
                }
                status = {"phase": end, "containerStatuses": [{"name": "main", "state": state}]}
                self.api.put("pods", {**pod, "status": status})


def attempt(pod: Object) -> int:
    return int(pod["metadata"]["labels"]["vcjob.io/attempt"])


def succeeds(pod: Object) -> str:
    return "Succeeded"


def fails(pod: Object) -> str:
    return "Failed"


def fails_first(pod: Object) -> str:
    return "Succeeded" if attempt(pod) else "Failed"


def only_the_master_ends(pod: Object) -> str:
    return "Succeeded" if "-master-" in pod["metadata"]["name"] else ""


RESTART = [{"event": "PodFailed", "action": "RestartJob"}]
COMPLETE = [{"event": "TaskCompleted", "action": "CompleteJob"}]
CASES: dict[str, tuple[Object, Callable[[Object], str], str]] = {
    "plain": (job("j", task("a", 3)), succeeds, "Completed"),
    "ranks": (trio("j"), succeeds, "Completed"),
    "fails": (job("j", task("a", 2)), fails, "Failed"),
    "restarts": (job("j", task("a", 2), policies=RESTART), fails_first, "Completed"),
    "in-vain": (job("j", task("a", 2), policies=RESTART, maxRetry=3), fails, "Failed"),
    "a-pod": (
        job("j", task("a", 2, policies=[{"event": "PodFailed", "action": "RestartPod"}]), maxRetry=9),
        fails_first,
        "Completed",
    ),
    "master": (
        job("j", task("master", 1, policies=COMPLETE), task("worker", 2), plugins={"pytorch": []}),
        only_the_master_ends,
        "Completed",
    ),
    "depends": (
        job("j", task("first", 1), task("then", 2, dependsOn={"name": ["first"]})),
        succeeds,
        "Completed",
    ),
}


async def storm(case: str, seed: int) -> None:
    document, ends, expected = CASES[case]
    chance = random.Random(seed)
    harness = StormyStage(document, chance)
    api = harness.api
    assert isinstance(api, StormyApi)
    api.fury = chance.choice((0.02, 0.1, 0.3))
    for _ in range(chance.randrange(5, 60)):
        harness.deliver(chance.randrange(0, 8))
        harness.play(ends, eviction=0.05)
        await harness.live()
        if chance.random() < 0.05:
            harness.take_over()
    api.fury = 0.0
    harness._options = {"status_delay": 0.0}
    harness.take_over()
    for _ in range(300):
        harness.deliver(99)
        harness.play(ends, eviction=0.0)
        await harness.live()
        if (harness.stored.get("state") or {}).get("phase") in OVER:
            break
    state = harness.stored.get("state")
    assert state and state["phase"] == expected, (case, seed, harness.stored)
    twice = {life: count for life, count in api.births.items() if count > 1}
    assert not twice, (case, seed, twice)


@pytest.mark.parametrize("seed", range(40))
def test_a_command_is_carried_out_once(seed: int) -> None:
    """Suspended and resumed in the middle of it all: a command that came back would suspend the Job again."""

    async def suspend_and_resume() -> None:
        chance = random.Random(seed)
        harness = StormyStage(job("j", task("a", 2)), chance)
        api = harness.api
        assert isinstance(api, StormyApi)
        api.fury = chance.choice((0.05, 0.2))
        moments = sorted(chance.sample(range(60), 2))
        for moment in range(60):
            harness.deliver(chance.randrange(0, 8))
            harness.play(lambda pod: "", eviction=0.05)
            if moment in moments:
                harness.command("AbortJob" if moment == moments[0] else "ResumeJob")
            await harness.live()
        api.fury = 0.0
        harness.take_over()
        for _ in range(100):
            harness.deliver(99)
            harness.play(succeeds, eviction=0.0)
            await harness.live()
        assert harness.stored["state"]["phase"] == "Completed", (seed, harness.stored)
        assert not [name for plural, name in api.objects if plural == "commands"], "they are taken up"
        assert max(api.births.values()) == 1

    asyncio.run(suspend_and_resume())


@pytest.mark.parametrize("case", CASES)
def test_no_pod_is_made_twice_and_the_end_is_the_same(case: str) -> None:
    async def all_of_them() -> None:
        for seed in range(min(40, settings().max_examples)):
            await storm(case, seed)

    asyncio.run(all_of_them())
