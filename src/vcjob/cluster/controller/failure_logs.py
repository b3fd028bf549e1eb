"""Names the cause of a failure on the Job: the last lines of the ranks that failed, and what the rules make of them.

The reconciler calls `reading` before a decision and `explain` after it. Logs are read in the background, a few at a time
and for a few seconds at most, while only the Job concerned waits; what cannot be read is left out. `decide` knows
nothing of it. The rules are those of `vcjob why`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import aclosing
from itertools import islice

import msgspec

from vcjob.cluster.controller.cache.job_state import JobState, LogTail, Outdated, QueueKey
from vcjob.cluster.controller.offload import LARGE_PODS, Offload
from vcjob.cluster.network_policies import blocking_policies, master_labels
from vcjob.cluster.resources import seconds_of
from vcjob.diagnosis.collect import container_spec
from vcjob.diagnosis.explanation import explained
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.observation import End, Observation, PodObservation
from vcjob.diagnosis.suspect import Suspect
from vcjob.diagnosis.text.noise import without_colour
from vcjob.diagnosis.text.tracebacks import tracebacks
from vcjob.kube.api.client import Client
from vcjob.kube.errors import KubeError
from vcjob.lifecycle.decision import Decision
from vcjob.lifecycle.decision_context import ACTIVE
from vcjob.lifecycle.observed import Group
from vcjob.lifecycle.pod import PodFact
from vcjob.lifecycle.policies import POD_FAILED, TASK_FAILED
from vcjob.lifecycle.rules import Rules, rules_of
from vcjob.lifecycle.status import Status
from vcjob.lifecycle.step import EmitEvent, Step
from vcjob.plugins.wait import CONTAINER_NAME

log = logging.getLogger(__name__)
#: Logs that are read for one Job: of the pods that failed first; and where those only lost a peer, of other ranks.
MOST_FAILED, MOST_OTHERS = 4, 12
#: Lines and bytes of one log. The API server cuts at the end of the bytes, so they are more than the lines need.
TAIL_LINES, TAIL_BYTES = 100, 512 * 1024
_LINE_LENGTH = 2000
#: How long a Job waits for its logs; logs that are read at the same time; Jobs that wait at the same time.
SECONDS, AT_ONCE, MOST_JOBS = 3.0, 8, 200
#: After so many Jobs in a row whose logs did not come in time, no log is read for a while.
MOST_TIMEOUTS, PAUSE_SECONDS = 3, 60.0
_TRACEBACK = "Traceback (most recent call last):"
#: Characters of logs that take about two milliseconds to search.
_LONG_TEXT = 64 * 1024
_EXPLAINED = (POD_FAILED, TASK_FAILED)


class FailureLogs:
    """Reads logs for the reconciler. `wake` has a Job reconciled again once its logs are read.

    A decision about a failed rank waits for them for a short time. It needs the right to read `pods/log`; without it,
    or after any other error, the decision has no cause from the logs.
    """

    def __init__(
        self, client: Client, wake: Callable[[QueueKey], None], *, enabled: bool, offload: Offload
    ) -> None:
        self._client = client
        self._wake = wake
        self._enabled = enabled
        self._offload = offload
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._reading: dict[QueueKey, asyncio.Task[None]] = {}
        self._timeouts = 0
        self._paused_until = 0.0

    def reading(self, state: JobState) -> bool:
        """Whether the Job's decision should wait because its logs are being read. Starts reading where it is due."""
        if not self._enabled or state.status is None or state.job is None or state.status.phase not in ACTIVE:
            return False
        if state.key in self._reading:
            return True
        wanted = [fact for fact in _failed(state) if fact.uid not in state.log_tails]
        if not wanted:
            return False
        live = {fact.uid for fact in state.observed.pods.values()}
        state.log_tails = {uid: tail for uid, tail in state.log_tails.items() if uid in live}
        if len(self._reading) >= MOST_JOBS or time.monotonic() < self._paused_until:
            state.log_tails |= {fact.uid: LogTail() for fact in wanted}
            return False
        self._reading[state.key] = asyncio.create_task(self._read(state, wanted))
        return True

    async def settle(self) -> None:
        """Wait until no log is being read. For tests."""
        await asyncio.gather(*self._reading.values())

    async def _read(self, state: JobState, wanted: list[PodFact]) -> None:
        try:
            async with asyncio.timeout(SECONDS):
                await self._read_tails(state, wanted)
                if await self._offload.run(_is_long(state), _only_complaints, state, wanted):
                    others = (fact for fact in state.observed.pods.values() if _is_other_rank(state, fact))
                    await self._read_tails(state, list(islice(others, MOST_OTHERS)))
        except Outdated:
            pass  # deleted or changed meanwhile, and reconciled again
        except TimeoutError:
            self._timeouts += 1
            if self._timeouts >= MOST_TIMEOUTS:
                self._paused_until = time.monotonic() + PAUSE_SECONDS
            log.debug("%s/%s: the logs of failed pods were not read in time", state.namespace, state.name)
        finally:
            for fact in wanted:
                state.log_tails.setdefault(fact.uid, LogTail())
            del self._reading[state.key]
            self._wake(state.key)

    async def _read_tails(self, state: JobState, facts: list[PodFact]) -> None:
        tails = await asyncio.gather(*(self._tail(state, fact) for fact in facts))
        state.log_tails |= {fact.uid: tail for fact, tail in zip(facts, tails, strict=True)}

    async def _tail(self, state: JobState, fact: PodFact) -> LogTail:
        failure, job = fact.failure, state.job
        if job is None:
            return LogTail()  # deleted meanwhile
        try:
            async with self._slots:
                if failure is not None and failure.container == CONTAINER_NAME:
                    # The kubelet has its last lines. Whether a connection was refused by the master or on its way there
                    # only the policies say.
                    labels = master_labels(job)
                    return LogTail(blocked_by=await blocking_policies(self._client, state.namespace, labels))
                if failure is not None and failure.message:
                    return LogTail()  # the kubelet says why
                container = failure.container if failure is not None and failure.container else None
                return await self._lines(_name(state, fact), state.namespace, container)
        except KubeError as error:
            log.debug("the log of %s/%s cannot be read: %s", state.namespace, _name(state, fact), error)
            return LogTail()

    async def _lines(self, pod: str, namespace: str, container: str | None) -> LogTail:
        kept: deque[str] = deque(maxlen=TAIL_LINES)
        error_at = None
        lines = self._client.logs(
            pod, namespace, container=container, tail=TAIL_LINES, limit_bytes=TAIL_BYTES, timestamps=True
        )
        async with aclosing(lines):
            async for line in lines:
                stamp, _, text = line.decode(errors="replace").partition(" ")
                kept.append(_shown(text))
                if _TRACEBACK in text:
                    error_at = _moment(stamp)
        self._timeouts = 0
        return LogTail(tuple(kept), error_at)

    async def explain(self, state: JobState, decision: Decision, now: float) -> Decision:
        """The decision with the cause in its status and its events, where a rank that failed has led to it."""
        before, culprit = state.status, decision.status.culprit
        if not self._enabled or before is None or culprit is None or culprit.event not in _EXPLAINED:
            return decision
        if before.culprit is not None and _place(before.culprit) == _place(culprit):
            if before.culprit.cause and not culprit.cause:
                return _replaced(decision, msgspec.structs.replace(decision.status, culprit=before.culprit))
            return decision
        large = _is_long(state) or len(state.observed.pods) >= LARGE_PODS
        status, finding = await self._offload.run_frozen(
            state, large, _explained_by_logs, state, decision.status, now
        )
        if state.status is not before:
            raise Outdated  # the Job was changed or deleted meanwhile
        if finding is None:
            return decision
        event = EmitEvent("Warning", finding.cause, finding.message)
        return _replaced(decision, status, event)


def _place(culprit: object) -> tuple[object, ...]:
    return tuple(getattr(culprit, name) for name in ("task", "index", "attempt", "event"))


def _replaced(decision: Decision, status: Status, *events: EmitEvent) -> Decision:
    old, new = decision.status.state.message, status.state.message

    def rewritten(step: Step) -> Step:
        if isinstance(step, EmitEvent) and old and old in step.message:
            return msgspec.structs.replace(step, message=step.message.replace(old, new, 1))
        return step

    return msgspec.structs.replace(decision, status=status, steps=(*map(rewritten, decision.steps), *events))


def _failed(state: JobState) -> list[PodFact]:
    """The pods of the current attempts that failed first, or that keep failing; a few, however many there are."""
    job, status = state.current()
    rules, found = rules_of(job), []
    for task, groups in state.observed.groups.items():
        memory, known = status.memory(task), rules.tasks.get(task)
        for attempt, group in groups.items():
            for index in _failed_indexes(group, known.max_restarts if known else 0):
                fact = state.observed.pod(task, index, attempt)
                if fact is not None and memory.attempts.of(index) == attempt:
                    found.append(fact)
    found.sort(key=lambda fact: fact.since)
    return found[:MOST_FAILED]


def _failed_indexes(group: Group, max_restarts: int) -> Iterator[int]:
    for earliest in group.failures.values():
        if (first := earliest.first(group.failed)) is not None:
            yield first[1]
    if group.wait_timed_out:
        yield group.wait_timed_out.first()
    for restarts, indexes in group.restarts.items():
        if max_restarts and restarts >= max_restarts and indexes:
            yield indexes.first()


def _only_complaints(state: JobState, facts: Iterable[PodFact]) -> bool:
    rules = rules_of(state.current()[0])
    pods = [_pod(state, rules, fact, 0.0) for fact in facts]
    return bool(pods) and all(pod.end is not None and Suspect(pod, pod.end).is_complaint for pod in pods)


def _is_other_rank(state: JobState, fact: PodFact) -> bool:
    """Another rank that runs, so that its log exists: it may have raised an error and be slow to exit."""
    job, status = state.current()
    known = rules_of(job).tasks.get(fact.task)
    current = status.attempt(fact.task, fact.index) == fact.attempt
    ranked = known is not None and known.rank(fact.index) is not None
    return current and ranked and fact.phase == "Running" and fact.uid not in state.log_tails


def _is_long(state: JobState) -> bool:
    """Whether the logs that were read for the Job are too long to be searched on the event loop."""
    return sum(len(line) for tail in state.log_tails.values() for line in tail.lines) >= _LONG_TEXT


def _explained_by_logs(state: JobState, status: Status, now: float) -> tuple[Status, Finding | None]:
    return explained(status, _observation(state, status, now))


def _observation(state: JobState, status: Status, now: float) -> Observation:
    rules, culprit = rules_of(state.current()[0]), status.culprit
    assert culprit is not None
    named = state.observed.pod(culprit.task, culprit.index, culprit.attempt)
    left_first, tails = _first_succeeded(state, rules), state.log_tails
    facts = [
        fact
        for fact in state.observed.pods.values()
        if fact is named or fact is left_first or fact.uid in tails
    ]
    return Observation(
        name=state.name,
        backend="cluster",
        phase="Failed",
        now=now,
        recorded=(culprit.task, culprit.index),
        pods=[_pod(state, rules, fact, now) for fact in facts],
    )


def _first_succeeded(state: JobState, rules: Rules) -> PodFact | None:
    """The first rank that ended with 0: the one that the others may have lost. The rest of them explain nothing, and
    there can be very many."""
    first, earliest = None, float("inf")
    for fact in state.observed.pods.values():
        if fact.phase == "Succeeded" and (fact.finished or 0.0) < earliest:
            known = rules.tasks.get(fact.task)
            if known is not None and known.rank(fact.index) is not None:
                first, earliest = fact, fact.finished or 0.0
    return first


def _pod(state: JobState, rules: Rules, fact: PodFact, now: float) -> PodObservation:
    failure, known = fact.failure, rules.tasks.get(fact.task)
    container = failure.container if failure is not None else ""
    tail = state.log_tails.get(fact.uid, LogTail())
    spec = container_spec(state.current()[0], fact.task, container)
    pod = PodObservation(
        pod=_name(state, fact),
        task=fact.task,
        index=fact.index,
        rank=known.rank(fact.index) if known else None,
        attempt=fact.attempt,
        phase=fact.phase,
        reason=failure.reason if failure is not None and not failure.container else "",
        message=failure.message if failure is not None and not failure.container else "",
        container=container,
        stdout=tail.lines,
        error_at=tail.error_at,
        blocked_by=tail.blocked_by,
        memory_limit=str(((spec.get("resources") or {}).get("limits") or {}).get("memory", "")),
        command=tuple(map(str, (*(spec.get("command") or ()), *(spec.get("args") or ())))),
    )
    pod.end = _end(pod, fact, now)
    return pod


def _end(pod: PodObservation, fact: PodFact, now: float) -> End | None:
    failure = fact.failure
    if fact.phase == "Succeeded":
        return End(0, finished_at=fact.finished)
    if failure is not None:
        code = failure.exit_code if failure.exit_code is not None else 1
        return End(code, failure.reason, failure.signal, failure.message, finished_at=failure.at)
    # It still runs. Where its output ends with a traceback, it has failed and is slow to exit.
    end = End(1, stopped=True, stopped_at=now)
    suspect = Suspect(pod, end)
    found = suspect.traceback
    if found is None:
        return None
    if found.uncaught or suspect.last_line == found.exception.strip():
        return end
    # What is found may be the cause of the exception that was printed last, as with the workers of a DataLoader.
    raised = {each.exception.strip() for each in tracebacks(suspect.lines)}
    return end if suspect.last_line in raised else None


def _name(state: JobState, fact: PodFact) -> str:
    return f"{state.name}-{fact.task}-{fact.index}"


def _shown(text: str) -> str:
    """A line as a terminal would show it at last: of a progress bar its last state, without control characters."""
    last = without_colour(text.rstrip("\r").rsplit("\r", 1)[-1][:_LINE_LENGTH])
    return "".join(each for each in last if each == "\t" or each.isprintable())


def _moment(stamp: str) -> float | None:
    try:
        return seconds_of(stamp)
    except ValueError:
        return None
