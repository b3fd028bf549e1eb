"""The watch for ranks that wait for each other, in the supervisor.

Each check reads the reports of the ranks' agents and what their processes do, and applies the rules of the diagnosis.
It reads who is connected to the master's port only while a rank that has joined no group is idle. What a single check
cannot show is kept here: since when a process has done nothing. After a pause of this process (a suspended machine)
everything is counted from then on.
"""

from __future__ import annotations

import os
import time
import traceback
from collections.abc import Callable, Sequence

from vcjob.diagnosis.collect import newest_attempts
from vcjob.diagnosis.diagnose import HANGS, LIVE_RULES, diagnose
from vcjob.diagnosis.finding import Finding
from vcjob.diagnosis.hang_settings import DEFAULT_SECONDS, hang_seconds
from vcjob.diagnosis.observation import RankState
from vcjob.diagnosis.rank_report import RankReport, latest
from vcjob.errors import StoreError
from vcjob.lifecycle.observed import Hang
from vcjob.lifecycle.status import Phase, Status
from vcjob.local.live.rank_process import main_container
from vcjob.local.logs.observation import add_connections, observe_running
from vcjob.local.logs.rank_reports import read_reports
from vcjob.local.run.run_dir import RunDir
from vcjob.local.supervisor.stack_reader import StackReader
from vcjob.rank_agent.activity import ActivitySample, sample
from vcjob.report.podstate import PodState
from vcjob.wellknown import reasons

_CHECKS = 8
_IDLE_BEFORE_STACKS = 0.25


class HangMonitor:
    """Records what the watch finds: an event for each new hang, and the findings for `vcjob why`.

    The supervisor calls `step` every `interval` seconds until it is `off`, and gives the result to `decide()`.
    An error of the diagnosis turns it off; a store that cannot be written is tried again with the next step.
    """

    def __init__(self, run: RunDir, record_event: Callable[[str, str, str], None]) -> None:
        self._run = run
        seconds = hang_seconds(run.config().env)
        self.off = seconds is None
        self._watch = HangWatch(run, seconds or DEFAULT_SECONDS)
        self._record_event = record_event
        self._found: list[Finding] = []
        self._version: int | None = None
        self.interval = self._watch.interval

    def step(self, status: Status, pods: Sequence[PodState]) -> Hang | None:
        """Check the ranks. Returns why the job hangs, or None."""
        if self.off:
            return None
        try:
            self._check(status, newest_attempts(pods))
        except StoreError:
            pass
        except Exception:  # unexpected data of a rank must not end the job
            traceback.print_exc()
            self.off = True
        hangs = [finding.message for finding in self._found if finding.cause in HANGS]
        return Hang(hangs[0], status.version) if hangs and status.phase is Phase.RUNNING else None

    def _check(self, status: Status, current: Sequence[PodState]) -> None:
        if status.phase is not Phase.RUNNING:
            if not status.over:
                self._keep([])
            return
        if status.version != self._version:  # what was found is about ranks that were replaced since
            self._keep([])
            self._version = status.version
        if not any(pod.phase == "Failed" or pod.deleted_at is not None for pod in current):
            self._report(self._watch.check(status, current))

    def _report(self, found: list[Finding]) -> None:
        known = {(each.cause, each.ranks.first) for each in self._found}
        for finding in found:
            if finding.cause in HANGS and (finding.cause, finding.ranks.first) not in known:
                self._record_event("Warning", finding.cause, finding.message)
        hung = any(each.cause in HANGS for each in self._found)
        if hung and not any(each.cause in HANGS for each in found):
            self._record_event("Normal", reasons.HANG_ENDED, "the ranks make progress again")
        self._keep(found)

    def _keep(self, found: list[Finding]) -> None:
        if found != self._found:
            self._run.write_findings(found)
            self._found = found


class HangWatch:
    """What is known of the ranks of one run. `check` is called every `interval` seconds while the job runs."""

    def __init__(self, run: RunDir, seconds: float) -> None:
        self._run = run
        self._seconds = seconds
        self.interval = seconds / _CHECKS
        self._checked_at = 0.0
        self._samples: dict[tuple[str, int], ActivitySample] = {}
        self._idle_since: dict[tuple[str, int], float] = {}
        self._quiet_since: dict[tuple[str, int], float] = {}
        self._rendezvous_since: float | None = None
        self._stacks = StackReader(run)

    def check(self, status: Status, pods: Sequence[PodState]) -> list[Finding]:
        """The findings about the ranks as they are now."""
        now = time.time()
        if not 0 < now - self._checked_at < 3 * self.interval + 1:
            self._samples, self._idle_since, self._quiet_since = {}, {}, {}
            self._rendezvous_since = None
        self._checked_at = now
        observation = observe_running(self._run, status, list(pods), now)
        observation.hang_after = self._seconds
        observation.rank_states = sorted(
            (state for pod in pods for state in self._states(pod, now)), key=lambda state: state.rank
        )
        self._add_stacks(observation.rank_states, now)
        if any(state.idle_since is not None and not state.groups for state in observation.rank_states):
            add_connections(observation, status, pods)
        met = any(pod.connected for pod in observation.pods)
        self._rendezvous_since = (self._rendezvous_since or now) if met else None
        observation.rendezvous_since = self._rendezvous_since
        return diagnose(observation, LIVE_RULES)

    def _add_stacks(self, states: Sequence[RankState], now: float) -> None:
        """Add the stacks of ranks without an agent, once all ranks have been idle for a while."""
        without = [state for state in states if not state.stack]
        long_ago = now - self._seconds * _IDLE_BEFORE_STACKS
        if not without or not all(state.idle_since and state.idle_since < long_ago for state in states):
            return
        self._stacks.poll(now)
        for state in without:
            stack, since = self._stacks.stacks.get(state.rank, ((), now))
            state.stack, state.stack_since = stack, since
            state.idle_since = latest(state.idle_since, since)

    def _states(self, pod: PodState, now: float) -> list[RankState]:
        """The state of each rank in a pod: what its agent reports, and what its process does."""
        folder = self._run.pod_folder(pod.name, pod.attempt)
        reports = [] if pod.finished else [each for each in read_reports(folder) if not each.state.ended]
        if not reports and pod.rank is not None:
            container = main_container(pod)
            if container is None or container.pid is None:
                return []
            reports = [RankReport(container.pid, RankState(pod.rank))]
        printed = _printed(folder)
        return [state for report in reports if (state := self._state(pod.uid, report, printed, now))]

    def _state(self, uid: str, report: RankReport, printed: int, now: float) -> RankState | None:
        key = (uid, report.pid)
        seen, before = sample(report.pid, printed, now), self._samples.get((uid, report.pid))
        if seen is None:
            return None
        self._samples[key] = seen
        if before is None or not seen.is_idle_since(before):
            self._idle_since.pop(key, None)
        else:
            self._idle_since.setdefault(key, before.at)
        if before is None or not seen.has_no_effect_since(before):
            self._quiet_since.pop(key, None)
        else:
            self._quiet_since.setdefault(key, before.at)
        return report.state_with(self._idle_since.get(key), self._quiet_since.get(key), paused=seen.paused)


def _printed(folder: str) -> int:
    """How much the containers of a pod have printed."""
    total = 0
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.endswith((".out", ".err")):
                    total += entry.stat().st_size
    except OSError:
        pass
    return total
