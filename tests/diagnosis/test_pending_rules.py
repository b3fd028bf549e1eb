"""What `vcjob why` says of a job that waits: the reason of its status, with the events that explain it."""

from __future__ import annotations

from vcjob.diagnosis.diagnose import diagnose
from vcjob.diagnosis.finding import Evidence
from vcjob.diagnosis.observation import EventObservation, Observation

NODES = "0/1 nodes are available: 1 Insufficient cpu."
MESSAGE = f"a-worker-0: {NODES} (and 1 more pod)"


def waiting(*events: EventObservation) -> Observation:
    return Observation("job", "cluster", "Pending", "Unschedulable", MESSAGE, events=list(events))


def test_events_that_say_the_same_are_shown_once_and_the_message_not_again() -> None:
    of_pods = [EventObservation("FailedScheduling", NODES, "Warning", f"pod a-worker-{n}") for n in range(2)]
    (found,) = diagnose(waiting(*of_pods, EventObservation("Unschedulable", MESSAGE, "Warning")))
    assert found.message == MESSAGE
    assert found.evidence == (Evidence("event FailedScheduling", NODES),)


def test_the_newest_three_warnings_are_shown() -> None:
    warnings = [EventObservation("FailedScheduling", f"attempt {n}", "Warning") for n in range(5)]
    (found,) = diagnose(waiting(*warnings, EventObservation("Scheduled", "to node-1")))
    assert [each.text for each in found.evidence] == ["attempt 2", "attempt 3", "attempt 4"]
