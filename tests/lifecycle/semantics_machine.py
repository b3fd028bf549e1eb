"""Random lives of Jobs against an oracle that is written from `docs/semantics.md`, not from the code.

The oracle states five rules. A recorded success is never lost. An event whose policy is due is acted on at once.
An event whose policy waits for its timeout is acted on before the Job may end by its pods alone. A task that has
started is ready, whatever happens to the tasks that it depends on. Restarts of parts that are due together are one
restart. The machine uses delayed policies, several exit codes, deletions of finished pods, suspend and resume at any
moment, several tasks and dependsOn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
)

from tests.lifecycle.simulation import Simulation, job, task
from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.pod import Failure, PodFact
from vcjob.lifecycle.status import HistoryEntry, Phase, Status
from vcjob.spec.job import Job

Place = tuple[str, int]
#: Event, task, and the uid of the pod, where it is an event of a pod: the event of each lasts as long as the pod.
Event = tuple[str, str, str]
#: Whether a decision follows an event at once, or events come together.
DECIDED = st.sampled_from([True, True, False])
REACTING = (Phase.PENDING, Phase.RUNNING)
#: The Job ended by what its pods did, not by an action, a deadline or a rank.
BY_PODS = ("Succeeded", "TooFewSucceeded", "DependencyFailed")
#: Actions that do not restart the whole Job.
PARTS = ("RestartTask", "RestartPod")
EVENTS = ["PodFailed", "PodEvicted", "TaskCompleted", "TaskFailed"]
TASKS = [1, 1, 2, 3]
REPLICAS = [1, 2, 2, 3]
DEPENDS = [True, False]
TIMEOUT = 10.0
MAX_RESTARTS = 2


@st.composite
def jobs_with_one_policy(draw: st.DrawFn) -> Job:
    event = draw(st.sampled_from(EVENTS))
    actions_ = ["RestartJob", "RestartTask", "RestartPod", "AbortJob", "TerminateJob", "CompleteJob"]
    policy = {"event": event, "action": draw(st.sampled_from(actions_))}
    if draw(st.booleans()):
        policy["timeout"] = f"{TIMEOUT:.0f}s"
    names = ["a", "b", "c"][: draw(st.sampled_from(TASKS))]
    owner = draw(st.sampled_from([*names, ""]))
    tasks = []
    for place, name in enumerate(names):
        fields: dict[str, Any] = {"maxRetry": MAX_RESTARTS}
        if place and draw(st.sampled_from(DEPENDS)):
            fields["dependsOn"] = {"name": names[:place], "iteration": draw(st.sampled_from(["any", "all"]))}
        if name == owner:
            fields["policies"] = [policy]
        tasks.append(task(name, draw(st.sampled_from(REPLICAS)), **fields))
    return job(*tasks, policies=[] if owner else [policy], maxRetry=draw(st.sampled_from([1, 3, 50])))


class Semantics(RuleBasedStateMachine):
    """`world.observed` holds what the pods report. Decisions are made on `tick`."""

    #: Called at the start of each life, by tests that take a fix out.
    on_begin: Callable[[], None] = staticmethod(lambda: None)

    @initialize(the_job=jobs_with_one_policy())
    def begin(self, the_job: Job) -> None:
        type(self).on_begin()
        self.world = Simulation(the_job)
        self.succeeded: dict[Place, tuple[int, int]] = {}
        self.completed_before_resume: set[str] = set()
        self.succeeded_before_resume: set[tuple[str, int, int]] = set()
        self.held_since: dict[Event, float] = {}
        self.started: set[str] = set()
        self.tick()

    # What happens

    def pick(self, place: int, keep: Callable[[PodFact], bool]) -> PodFact | None:
        pods = [pod for pod in self.world.observed.pods.values() if keep(pod)]
        return pods[place % len(pods)] if pods else None

    def show(self, pod: PodFact, **changes: Any) -> None:
        changes.setdefault("since", self.world.now)
        self.world.observed.put(msgspec.structs.replace(pod, **changes))

    @rule()
    def all_pods_run(self) -> None:
        """Terminating pods are gone, the others run."""
        self.settle()
        self.world.all("Running")
        self.tick()

    @rule(place=st.integers(0, 9), succeeds=st.sampled_from([True, True, True, False]), decided=DECIDED)
    def pod_ends(self, place: int, succeeds: bool, decided: bool) -> None:
        pod = self.pick(place, lambda pod: not pod.done and not pod.terminating)
        if pod is None:
            return
        if succeeds:
            self.show(pod, phase="Succeeded", ready=False, finished=self.world.now)
        else:
            self.show(pod, phase="Failed", ready=False, failure=Failure("main", 1))
        if decided:
            self.tick()

    @rule(places=st.sets(st.integers(0, 9), min_size=2, max_size=3))
    def pods_crash(self, places: set[int]) -> None:
        for place in places:
            pod = self.pick(place, lambda pod: not pod.done and not pod.terminating)
            if pod is not None:
                self.show(pod, phase="Failed", ready=False, failure=Failure("main", 1 + place))
        self.tick()

    @rule(place=st.integers(0, 9), times=st.integers(1, 3), decided=DECIDED)
    def containers_restart(self, place: int, times: int, decided: bool) -> None:
        pod = self.pick(place, lambda pod: pod.phase == "Running" and not pod.terminating)
        if pod is not None:
            self.show(pod, restarts=pod.restarts + times, since=pod.since)
        if decided:
            self.tick()

    @rule(place=st.integers(0, 9))
    def living_pod_is_deleted(self, place: int) -> None:
        pod = self.pick(place, lambda pod: not pod.done and not pod.terminating)
        if pod is not None:
            self.show(pod, terminating=True)

    @rule(place=st.integers(0, 9), hidden=st.booleans(), decided=DECIDED)
    def finished_pod_is_deleted(self, place: int, hidden: bool, decided: bool) -> None:
        """`hidden`: the report looks as if the deletion had ended the pod."""
        pod = self.pick(place, lambda pod: pod.done and not pod.terminating)
        if pod is not None:
            phase = "Failed" if hidden else pod.phase
            self.show(pod, terminating=True, phase=phase)
        if decided:
            self.tick()

    @rule(place=st.integers(0, 9))
    def terminating_pod_is_gone(self, place: int) -> None:
        """Only a pod that a status has recorded: backends recover what they created and never saw."""
        status = self.world.status
        pod = self.pick(
            place,
            lambda pod: (
                pod.terminating
                and (
                    pod.index in status.memory(pod.task).seen
                    or status.attempt(pod.task, pod.index) > pod.attempt
                )
            ),
        )
        if pod is not None:
            self.world.observed.drop(pod.uid)

    @rule(hidden=st.booleans())
    def controller_restarts(self, hidden: bool) -> None:
        pods, commands = list(self.world.observed.pods.values()), self.world.observed.commands
        self.world.observed = Observed()
        self.world.observed.commands = commands
        for pod in pods:
            lost = hidden and pod.terminating and pod.phase == "Succeeded"
            self.world.observed.put(msgspec.structs.replace(pod, phase="Failed") if lost else pod)

    @rule(action=st.sampled_from(["AbortJob", "ResumeJob", "ResumeJob"]))
    def command(self, action: str) -> None:
        self.world.command(action)

    @rule(quick=st.booleans())
    def suspend_and_resume(self, quick: bool) -> None:
        self.world.command("AbortJob")
        self.tick()
        if not quick:
            self.world.reap()
            self.tick()
        self.world.command("ResumeJob")
        self.tick()

    @rule(suspend=st.sampled_from([False, False, False, True]))
    def change_suspend(self, suspend: bool) -> None:
        self.world.change(suspend=suspend)

    @rule(seconds=st.sampled_from([1.0, TIMEOUT]))
    def clock(self, seconds: float) -> None:
        self.world.now += seconds

    @precondition(lambda self: self.world.wake_at is not None)
    @rule()
    def timer(self) -> None:
        self.world.now = max(self.world.now, self.world.wake_at or 0.0)

    @rule()
    def tick(self) -> None:
        before = self.world.status
        shown = dict(self.world.observed.pods)
        after = self.world.tick().status
        new = [entry for entry in after.history if entry not in before.history]
        self.no_success_is_lost(before, after, new)
        self.record_successes(after, new)
        self.parts_restart_together(shown, after, new)
        self.events_are_acted_on(shown, before, after)
        self.started_tasks_stay_ready(shown, before, after, new)

    def settle(self) -> None:
        for _ in range(5):
            self.tick()
            self.world.reap()
        self.tick()

    # The oracle

    def no_success_is_lost(self, before: Status, after: Status, new: list[HistoryEntry]) -> None:
        for (name, index), (attempt, retries) in list(self.succeeded.items()):
            if after.attempt(name, index) == attempt:
                assert index in after.memory(name).succeeded, f"the success of {name}-{index} is lost"
            else:
                assert after.retry_count > retries, f"{name}-{index} runs again without a restart"
                del self.succeeded[name, index]
        blamed = [entry.culprit for entry in new] + ([after.culprit] if after.phase != before.phase else [])
        for culprit in filter(None, blamed):
            done = self.successes_of(before).get((culprit.task, culprit.index))
            assert done != culprit.attempt, f"{culprit.task}-{culprit.index} had succeeded: {culprit.event}"

    def successes_of(self, status: Status) -> dict[Place, int]:
        return {
            (name, index): status.attempt(name, index)
            for name, memory in status.tasks.items()
            for index in memory.succeeded
        }

    def record_successes(self, after: Status, new: list[HistoryEntry]) -> None:
        for place, attempt in self.successes_of(after).items():
            self.succeeded.setdefault(place, (attempt, after.retry_count))
        if any(entry.action == "ResumeJob" for entry in new):
            self.completed_before_resume = {
                entry.name
                for entry in self.world.job.tasks
                if all((entry.name, index) in self.succeeded for index in range(entry.replicas))
            }
            self.succeeded_before_resume = {(*place, done[0]) for place, done in self.succeeded.items()}
            self.held_since.clear()

    def parts_restart_together(
        self, shown: dict[tuple[str, int, int], PodFact], after: Status, new: list[HistoryEntry]
    ) -> None:
        if any(entry.action in PARTS for entry in new):
            left = [event for event, at in self.events(shown, after) if self.is_due(event, at)]
            assert not left, f"{left} needs another restart"

    def is_due(self, event: Event, at: float) -> bool:
        policy = self.policy_of(event)
        since = self.held_since.get(event, at)
        return bool(policy) and since + (TIMEOUT if policy.get("timeout") else 0.0) <= self.world.now

    def events_are_acted_on(
        self, shown: dict[tuple[str, int, int], PodFact], before: Status, after: Status
    ) -> None:
        by_pods = not before.over and after.over and after.state.reason in BY_PODS
        if after.phase not in REACTING and not by_pods:
            self.held_since.clear()
            return
        held = {event: at for event, at in self.events(shown, after) if self.policy_of(event)}
        assert not (by_pods and held), f"the Job ended as {after.phase}, and {list(held)} was not acted on"
        self.held_since = {event: self.held_since.get(event, at) for event, at in held.items()}
        for event, since in self.held_since.items():
            assert not self.is_due(event, since), f"{event} was due and was not acted on"

    def started_tasks_stay_ready(
        self,
        shown: dict[tuple[str, int, int], PodFact],
        before: Status,
        after: Status,
        new: list[HistoryEntry],
    ) -> None:
        if any(entry.action in ("RestartJob", "ResumeJob") for entry in new):
            self.started.clear()
        elif not before.over and after.state.reason == "DependencyFailed":
            for entry in self.world.job.tasks:
                memory = after.memory(entry.name)
                ended = len(memory.succeeded | memory.failed)
                assert entry.name not in self.started or ended == entry.replicas, f"{entry.name} was ready"
        for pod in shown.values():
            if not pod.done and not pod.terminating and pod.attempt == after.attempt(pod.task, pod.index):
                self.started.add(pod.task)

    def events(
        self, shown: dict[tuple[str, int, int], PodFact], status: Status
    ) -> Iterator[tuple[Event, float]]:
        for entry in self.world.job.tasks:
            pods = [
                pod
                for pod in shown.values()
                if pod.task == entry.name and pod.attempt == status.attempt(pod.task, pod.index)
            ]
            unfinished = [pod for pod in pods if (pod.task, pod.index) not in self.succeeded]
            for pod in unfinished:
                if pod.phase == "Failed" and not pod.terminating:
                    yield ("PodFailed", entry.name, pod.uid), self.world.now
                elif pod.terminating and pod.phase != "Succeeded":
                    yield ("PodEvicted", entry.name, pod.uid), self.world.now
            complete = all((entry.name, index) in self.succeeded for index in range(entry.replicas))
            if complete and entry.name not in self.completed_before_resume:
                yield ("TaskCompleted", entry.name, ""), self.world.now
            restarts = sum(
                pod.restarts
                for pod in pods
                if (pod.task, pod.index, pod.attempt) not in self.succeeded_before_resume
            )
            if restarts >= MAX_RESTARTS:
                yield ("TaskFailed", entry.name, ""), self.world.now

    def policy_of(self, event: Event) -> dict[str, Any]:
        spec = self.world.job.doc["spec"]
        owners = [entry for entry in spec["tasks"] if entry["name"] == event[1]]
        policies = [policy for owner in [*owners, spec] for policy in owner.get("policies") or []]
        return next((policy for policy in policies if policy["event"] == event[0]), {})
