"""Random lives of random jobs: events, crashes between any two steps, late, repeated and reordered views."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from tests.lifecycle.random_jobs import SELDOM, jobs
from tests.lifecycle.simulation import Simulation
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.decision_context import ACTIVE, HISTORY_KEPT
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.observed import Blocked, Observed
from vcjob.lifecycle.pod import Failure, PodFact
from vcjob.lifecycle.status import FINAL, Phase, Status
from vcjob.lifecycle.step import CreatePods, EmitEvent, KillPods

_P = Phase
LEGAL = {
    _P.PENDING: {_P.RUNNING, _P.RESTARTING, _P.ABORTING, _P.TERMINATING, _P.COMPLETING, _P.FAILED},
    _P.RUNNING: {
        _P.PENDING, _P.RESTARTING, _P.ABORTING, _P.TERMINATING, _P.COMPLETING, _P.COMPLETED, _P.FAILED,
    },
    _P.RESTARTING: {_P.PENDING, _P.RESTARTING, _P.ABORTING, _P.TERMINATING, _P.COMPLETING, _P.FAILED},
    _P.ABORTING: {_P.ABORTED, _P.RESTARTING, _P.TERMINATING, _P.COMPLETING},
    _P.ABORTED: {_P.RESTARTING, _P.TERMINATING, _P.COMPLETING},
    _P.COMPLETING: {_P.COMPLETED},
    _P.TERMINATING: {_P.TERMINATED},
    _P.COMPLETED: set(),
    _P.TERMINATED: set(),
    _P.FAILED: set(),
}  # fmt: skip

USERS_ACTIONS = [
    "RestartJob", "RestartJob", "RestartJob", "AbortJob", "ResumeJob", "ResumeJob", "TerminateJob", "CompleteJob",
    "RestartPod", "Nonsense",
]  # fmt: skip


class Life(RuleBasedStateMachine):
    """`world.observed` is what the backend sees; `truth` is the real state. Own writes are seen at once, others late."""

    @initialize(the_job=jobs())
    def begin(self, the_job: Any) -> None:
        self.world = Simulation(the_job)
        self.truth: dict[str, PodFact] = {}
        self.path: list[Phase] = [Phase.PENDING]
        self.done_at: dict[tuple[str, int], tuple[int, int]] = {}
        self.scaled = 0
        self.tick(limit=100, conflict=False, crash=False)

    # The backend

    @rule(limit=st.sampled_from([100, 100, 100, 0, 1, 2]), conflict=SELDOM, crash=SELDOM)
    def tick(self, limit: int, conflict: bool, crash: bool) -> None:
        """Decide and do at most `limit` steps; a conflict loses the status, and then no step may follow."""
        world = self.world
        before = world.status
        decision = world.decide()
        self.check(before, decision)
        if not conflict:
            world.store(decision)
            self.follow(before, decision.status)
            for step in decision.steps[:limit]:
                self.do(step, decision.status)
        if crash:
            self.crash()

    def crash(self) -> None:
        """A new process lists the pods and continues."""
        commands = self.world.observed.commands
        self.world.observed = Observed()
        self.world.observed.commands = commands
        for pod in reversed(self.truth.values()):
            self.world.observed.put(pod)

    def do(self, step: Any, status: Status) -> None:
        world = self.world
        if isinstance(step, CreatePods):
            # The API server rejects a second pod of one name, whatever the backend has seen.
            taken = {(pod.task, pod.index) for pod in self.truth.values()}
            free = [index for index in step.indexes if (step.task, index) not in taken]
            for index in free:
                self.may_history_entry(step, index, status)
            known = set(world.observed.pods)
            world.do(msgspec.structs.replace(step, indexes=IndexSet.of(free)))
            for key in set(world.observed.pods) - known:
                self.truth[world.observed.pods[key].uid] = world.observed.pods[key]
        elif isinstance(step, KillPods):
            world.do(step)
            for index in step.indexes:
                for uid, pod in list(self.truth.items()):
                    if (pod.task, pod.index, pod.attempt) == (step.task, index, step.attempt):
                        self.change(uid, terminating=True)
        elif type(step).__name__ == "FailPods":
            for index in step.indexes:
                for uid, pod in list(self.truth.items()):
                    if (pod.task, pod.index, pod.attempt) == (
                        step.task,
                        index,
                        step.attempt,
                    ) and not pod.done:
                        self.change(uid, phase="Failed")
        else:
            world.do(step)

    # The pods.

    def change(self, uid: str, **fields: Any) -> None:
        fields.setdefault("since", self.world.now)
        self.truth[uid] = msgspec.structs.replace(self.truth[uid], **fields)

    def pick(self, place: int, *, done: bool = False) -> str | None:
        uids = [uid for uid, pod in self.truth.items() if done or not pod.done]
        return uids[place % len(uids)] if uids else None

    @rule(
        place=st.integers(0, 20), what=st.sampled_from(["run", "succeed", "fail", "kill", "unknown", "ready"])
    )
    def pod_event(self, place: int, what: str) -> None:
        uid = self.pick(place)
        if uid is None:
            return
        pod = self.truth[uid]
        if what == "run":
            self.change(uid, phase="Running", started=self.world.now)
        elif what == "ready":
            self.change(uid, phase="Running", ready=True)
        elif what == "succeed":
            self.change(uid, phase="Succeeded", ready=False)
        elif what == "unknown":
            self.change(uid, phase="Unknown", ready=False)
        else:
            failure = Failure("main", 1 if what == "fail" else 137, at=self.world.now)
            self.change(uid, phase="Failed", ready=False, failure=failure)
        if what == "succeed" and not pod.terminating:
            self.world.succeeded.add((pod.task, pod.index, pod.attempt))

    @rule(place=st.integers(0, 20), init=st.booleans())
    def container_restarts(self, place: int, init: bool) -> None:
        uid = self.pick(place)
        if uid:
            failure = Failure("wait-for-master" if init else "main", 91 if init else 1, init=init)
            self.change(
                uid, restarts=self.truth[uid].restarts + 1, failure=failure, since=self.truth[uid].since
            )

    @rule(place=st.integers(0, 20))
    def evict(self, place: int) -> None:
        uid = self.pick(place)
        if uid:
            self.change(uid, phase="Failed", evicted=True, ready=False, failure=Failure(reason="Evicted"))

    @rule(place=st.integers(0, 20))
    def someone_deletes(self, place: int) -> None:
        uid = self.pick(place, done=True)
        if uid:
            self.change(uid, terminating=True)

    @rule(place=st.integers(0, 20), node_lost=st.booleans())
    def goes(self, place: int, node_lost: bool) -> None:
        """A pod no longer exists. Only pods that a status has recorded: `recover` covers the others."""
        uid = self.pick(place, done=True)
        if uid is None:
            return
        pod, memory = self.truth[uid], self.world.status.memory(self.truth[uid].task)
        known = pod.index in memory.seen or memory.attempts.of(pod.index) > pod.attempt
        if known and (pod.terminating or node_lost):
            del self.truth[uid]

    # What the backend sees

    @rule(choice=st.randoms(use_true_random=False), portion=st.sampled_from([1.0, 1.0, 0.3]))
    def hear(self, choice: Any, portion: float) -> None:
        news = list(self.truth.values())
        choice.shuffle(news)
        for pod in news[: int(len(news) * portion) + 1]:
            self.world.observed.put(pod)
            self.world.observed.put(pod)
        gone = [pod.uid for pod in self.world.observed.pods.values() if pod.uid not in self.truth]
        choice.shuffle(gone)
        for uid in gone[: int(len(gone) * portion) + 1]:
            self.world.observed.drop(uid)
            self.world.observed.drop(uid)

    # The user and the clock.

    @rule(action=st.sampled_from(USERS_ACTIONS))
    def command(self, action: str) -> None:
        self.world.command(action)

    @rule(wanted=SELDOM)
    def suspend(self, wanted: bool) -> None:
        self.world.change(suspend=wanted)

    @rule(replicas=st.integers(0, 5))
    def scale(self, replicas: int) -> None:
        entry = self.world.job.doc["spec"]["tasks"][-1]
        if replicas >= entry["minAvailable"]:
            others = self.world.job.replicas - entry["replicas"]
            if self.world.job.spec.min_available <= others + replicas:
                self.world.scale(**{entry["name"]: replicas})
                self.scaled += 1

    @rule(stop=SELDOM)
    def hold(self, stop: bool) -> None:
        self.world.observed.held = Blocked("PodGroupPending", "the queue is full") if stop else None

    @rule(seconds=st.sampled_from([0.5, 6.0, 61.0]))
    def clock(self, seconds: float) -> None:
        self.world.now += seconds

    @precondition(lambda self: self.world.wake_at is not None)
    @rule()
    def timer(self) -> None:
        self.world.now = max(self.world.now, self.world.wake_at or 0.0)

    # What must hold.

    def check(self, before: Status, decision: Any) -> None:
        world, status = self.world, decision.status
        assert Status.from_kube(json.loads(json.dumps(status.to_kube()))) == status
        again = decide(world.job, status, world.observed, world.now)
        assert again.status is status, "the same pods at the same time lead to another decision"
        effects = [step for step in decision.steps if not isinstance(step, EmitEvent)]
        assert [step for step in again.steps if not isinstance(step, EmitEvent)] == effects
        assert again.wake_at == decision.wake_at
        assert decision.wake_at is None or decision.wake_at > world.now
        assert status.retry_count <= max(1, world.job.spec.max_retry or 0)
        assert status.version >= before.version and status.retry_count >= before.retry_count
        self.check_counters(status)
        for step in effects:
            if isinstance(step, KillPods) and step.task in status.tasks:
                self.check_kill(step, status)
            if isinstance(step, CreatePods):
                assert status.phase in (Phase.PENDING, Phase.RUNNING)
                assert world.observed.held is None
                places = {(task, index) for task, index, _ in world.observed.pods}
                assert not places & {(step.task, index) for index in step.indexes}

    def check_kill(self, step: KillPods, status: Status) -> None:
        for index in step.indexes:
            pod = self.world.observed.pod(step.task, index, step.attempt)
            assert pod is not None and not pod.terminating
            left_over = status.attempt(step.task, index) > step.attempt
            assert left_over or (status.phase not in ACTIVE and not pod.done)

    def check_counters(self, status: Status) -> None:
        expected = dict.fromkeys(("pending", "running", "unknown", "terminating"), 0)
        for pod in self.world.observed.pods.values():
            is_left_over = status.attempt(pod.task, pod.index) != pod.attempt
            is_to_go = status.phase not in ACTIVE and not pod.done
            if pod.terminating or is_left_over or is_to_go:
                expected["terminating"] += 1
            elif not pod.done:
                expected[pod.phase.lower()] += 1
        assert {name: getattr(status, name) for name in expected} == expected
        for name, memory in status.tasks.items():
            counts = status.task_counts.get(name, {})
            assert counts.get("Succeeded", 0) == len(memory.succeeded)
            assert counts.get("Failed", 0) == len(memory.failed)
            assert not memory.succeeded & memory.failed

    def follow(self, before: Status, after: Status) -> None:
        new = len(after.conditions) - len(before.conditions)
        assert after.conditions[: len(before.conditions)] == before.conditions or len(after.conditions) == 50
        steps = [condition.phase for condition in after.conditions[-new:]] if new > 0 else []
        if not before.conditions:
            steps = steps[1:]
        for phase in steps:
            assert phase in LEGAL[self.path[-1]], f"{self.path[-1]} → {phase}"
            self.path.append(phase)
        if len(after.conditions) < 50:
            assert after.phase is self.path[-1]
        self.follow_kills(before, after, steps)
        for name, memory in after.tasks.items():
            old = before.memory(name)
            for index in range(8):
                assert memory.attempts.of(index) >= old.attempts.of(index)
                if index in memory.succeeded and index not in old.succeeded:
                    self.done_at[name, index] = (after.retry_count, self.scaled)

    def follow_kills(self, before: Status, after: Status, steps: list[Phase]) -> None:
        """In a phase that means that no pod lives, none does; and a restart starts the next attempt of its pods."""
        quiet = {Phase.ABORTED, Phase.TERMINATED} & set(steps)
        if quiet or (Phase.COMPLETING in self.path[-len(steps) - 1 :] and after.phase is Phase.COMPLETED):
            pods = self.world.observed.pods.values()
            assert not steps or all(pod.done and not pod.terminating for pod in pods), steps
        new = after.history[len(before.history) :] if len(after.history) < HISTORY_KEPT else ()
        runs = [entry for entry in new if entry.action != "ReplacePod"]
        if steps.count(Phase.RESTARTING) == 1:
            assert len({entry.retry for entry in runs}) <= 1, "one restart counts as one retry"
        for run in runs if steps.count(Phase.RESTARTING) == 1 else ():
            for entry in self.world.job.tasks:
                if run.action == "RestartJob":
                    hit = set(range(entry.replicas))
                else:
                    hit = set(IndexSet.parse(run.indexes)) if run.task == entry.name else set()
                for index in hit:
                    assert after.attempt(entry.name, index) > before.attempt(entry.name, index)

    def may_history_entry(self, step: CreatePods, index: int, status: Status) -> None:
        """A success is run again only by a restart that counted as a retry, or after the Job was scaled."""
        done = self.done_at.pop((step.task, index), None)
        if done is not None:
            assert status.retry_count > done[0] or self.scaled > done[1], f"{step.task}-{index} runs again"

    @invariant()
    def at_most_one_pod_per_index(self) -> None:
        places = [(pod.task, pod.index) for pod in getattr(self, "truth", {}).values()]
        assert len(places) == len(set(places))

    def teardown(self) -> None:
        """If from now on every pod succeeds, the Job ends."""
        if not hasattr(self, "world"):
            return
        world = self.world
        world.observed.held = None
        world.change(suspend=False)
        for _ in range(80):
            self.crash()
            self.tick(limit=100, conflict=False, crash=True)
            if world.status.phase in FINAL and not any(not pod.done for pod in self.truth.values()):
                break
            if world.status.phase is Phase.ABORTED:
                world.command("ResumeJob")
            for uid, pod in list(self.truth.items()):
                if pod.terminating:
                    del self.truth[uid]
                elif pod.phase == "Running" and pod.ready:
                    self.change(uid, phase="Succeeded")
                elif not pod.done:
                    self.change(uid, phase="Running", ready=True)
            world.now += 1
            if world.wake_at is not None and all(pod.done for pod in self.truth.values()):
                world.now = max(world.now, world.wake_at)  # only a policy's timeout is left to wait for
        assert world.status.phase in FINAL or not world.job.replicas, self.path
        if world.status.phase in FINAL:
            assert all(pod.done for pod in self.truth.values())
            assert world.status.finished is not None


TestLife = Life.TestCase
TestLife.settings = settings(
    stateful_step_count=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
