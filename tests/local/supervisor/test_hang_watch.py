"""What the supervisor makes of hangs: events, findings for `vcjob why`, and what `decide()` gets."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.local.conftest import job, task
from vcjob.diagnosis.finding import Finding, Ranks
from vcjob.diagnosis.hang_settings import first_check, hang_seconds
from vcjob.diagnosis.observation import Observation, RankState
from vcjob.errors import UserError
from vcjob.lifecycle.status import Phase, State, Status
from vcjob.local.run.run_dir import RunDir
from vcjob.local.supervisor import hang_watch
from vcjob.local.supervisor.hang_watch import HangMonitor, HangWatch
from vcjob.report.podstate import Phase as PodPhase
from vcjob.report.podstate import PodState
from vcjob.sdk.running import run

RUNNING = Status(state=State(Phase.RUNNING), version=3)
BEHIND = Finding("RankBehind", "rank 1 never reached all_reduce #4", Ranks(("rank 1",)))
SLOW = Finding("Straggler", "rank 2 is slow", Ranks(("rank 2",)), confidence="low")


class Monitored:
    """A monitor whose watch finds what the test says."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run = RunDir(str(folder))
        self.events: list[tuple[str, str]] = []
        self.found: list[Finding] = []
        monkeypatch.setattr(hang_watch.HangWatch, "check", lambda *_: self.found)
        self.monitor = HangMonitor(self.run, lambda _kind, reason, text: self.events.append((reason, text)))


@pytest.fixture
def monitored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Monitored:
    return Monitored(tmp_path, monkeypatch)


def pod(phase: PodPhase = "Running") -> PodState:
    return PodState(task="master", index=0, name="m-0", uid="u", rank=0, phase=phase)


def test_a_hang_is_one_event_and_what_decide_gets_until_it_ends(monitored: Monitored) -> None:
    monitored.found = [BEHIND]
    hang = monitored.monitor.step(RUNNING, [pod()])
    assert hang is not None and (hang.message, hang.version) == (BEHIND.message, 3)
    monitored.found = [Finding("RankBehind", "the same, 2 s later", BEHIND.ranks)]
    monitored.monitor.step(RUNNING, [pod()])
    assert monitored.events == [("RankBehind", BEHIND.message)]
    assert [each.message for each in monitored.run.findings()] == ["the same, 2 s later"]
    monitored.found = []
    assert monitored.monitor.step(RUNNING, [pod()]) is None
    assert monitored.events[-1][0] == "HangEnded"
    assert monitored.run.findings() == []


def test_a_straggler_is_a_remark_and_nothing_more(monitored: Monitored) -> None:
    monitored.found = [SLOW]
    assert monitored.monitor.step(RUNNING, [pod()]) is None
    assert monitored.events == []
    assert monitored.run.findings() == [SLOW]


def test_what_was_found_stays_when_the_ranks_fail_and_goes_with_a_restart(monitored: Monitored) -> None:
    monitored.found = [BEHIND]
    monitored.monitor.step(RUNNING, [pod()])
    monitored.found = []
    monitored.monitor.step(RUNNING, [pod("Failed")])
    monitored.monitor.step(Status(state=State(Phase.FAILED)), [pod("Failed")])
    assert monitored.run.findings() == [BEHIND]
    assert monitored.monitor.step(Status(state=State(Phase.RESTARTING)), []) is None
    assert monitored.run.findings() == []


def test_a_hang_of_ranks_that_were_replaced_since_the_last_check_counts_no_more(monitored: Monitored) -> None:
    monitored.found = [BEHIND]
    monitored.monitor.step(RUNNING, [pod()])
    restarted = Status(state=State(Phase.RUNNING), version=4)
    assert monitored.monitor.step(restarted, [pod("Failed")]) is None
    assert monitored.run.findings() == []
    assert [reason for reason, _ in monitored.events] == ["RankBehind"]


def test_an_error_of_the_diagnosis_ends_the_watch_and_not_the_job(
    monitored: Monitored, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(hang_watch.HangWatch, "check", lambda *_: 1 / 0)
    assert monitored.monitor.step(RUNNING, [pod()]) is None
    assert monitored.monitor.off
    assert "ZeroDivisionError" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("env", "seconds"),
    [({}, 20.0), ({"VCJOB_HANG_AFTER": "60"}, 60.0), ({"VCJOB_HANG_DETECTION": "off"}, None)],
)
def test_the_patience_and_the_detection_can_be_set(env: dict[str, str], seconds: float | None) -> None:
    assert hang_seconds(env) == seconds


@pytest.mark.parametrize("value", ["soon", "0", "-1", "nan", "inf"])
def test_a_patience_that_is_no_number_of_seconds_is_rejected_before_the_job_starts(value: str) -> None:
    with pytest.raises(UserError, match="VCJOB_HANG_AFTER"):
        run(job(task("a", "true")), env={"VCJOB_HANG_AFTER": value, "PATH": ""})


@pytest.mark.parametrize(("seconds", "first"), [(20.0, 5.0), (60.0, 15.0), (1.0, 2.0)])
def test_the_first_check_leaves_the_cores_to_the_ranks_while_they_start(seconds: float, first: float) -> None:
    assert first_check(seconds) == first


def test_a_supervisor_loads_the_diagnosis_only_with_its_first_check() -> None:
    program = (
        "import sys, vcjob.local.supervisor.supervisor as s; print('vcjob.diagnosis.diagnose' in sys.modules)"
    )
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert shown.stdout == "False\n"


@pytest.mark.parametrize(
    ("states", "reads"),
    [
        ([RankState(0), RankState(1)], 0),
        ([RankState(0, groups={"0": (0, 1)}, idle_since=1.0), RankState(1)], 0),
        ([RankState(0, groups={"0": (0, 1)}), RankState(1, idle_since=1.0)], 1),
    ],
    ids=["all-work", "the-idle-rank-has-joined", "the-idle-rank-has-not-joined"],
)
def test_connections_are_read_only_while_a_rank_that_has_joined_no_group_is_idle(
    states: list[RankState], reads: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[Observation] = []
    observation = Observation("train", "local", "Running")
    monkeypatch.setattr(hang_watch, "observe_running", lambda *_: observation)
    monkeypatch.setattr(hang_watch, "add_connections", lambda observed, *_: read.append(observed))
    monkeypatch.setattr(HangWatch, "_states", lambda *_: states)
    HangWatch(RunDir(str(tmp_path)), 20.0).check(RUNNING, [pod()])
    assert len(read) == reads
