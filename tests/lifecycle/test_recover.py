"""Taking over from a backend that was killed between any two of its steps."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.lifecycle.simulation import START, Simulation, job, task
from vcjob.lifecycle.decide import decide
from vcjob.lifecycle.indexset import IndexSet
from vcjob.lifecycle.observed import Blocked, Observed
from vcjob.lifecycle.recover import assume_created, recover
from vcjob.lifecycle.status import Phase, Status
from vcjob.lifecycle.step import CreatePods


def created(status: Status, observed: Observed) -> list[CreatePods]:
    return [step for step in decide(job(), status, observed, START).steps if isinstance(step, CreatePods)]


def test_the_pods_to_create_are_recorded_before_the_first_is_created() -> None:
    decision = decide(job(), Status(), Observed(), START)
    assert decision.status.memory("worker").begun == IndexSet.span(0, 3)
    assert Status.from_kube(decision.status.to_kube()).memory("worker").begun == IndexSet.span(0, 3)


def test_no_pod_is_recorded_as_begun_while_creation_is_held() -> None:
    observed = Observed()
    observed.held = Blocked("WaitingInQueue", "not yet")
    status = decide(job(), Status(), observed, START).status
    assert not status.memory("worker").begun
    assert recover(status, Observed()) == status


def test_a_pod_that_was_never_seen_continues_with_the_next_attempt() -> None:
    status = decide(job(), Status(), Observed(), START).status
    taken_over = recover(status, Observed())
    assert [(step.attempt, str(step.indexes)) for step in created(taken_over, Observed())] == [(1, "0-2")]
    assert taken_over.retry_count == 0


def test_without_a_status_every_pod_of_a_started_job_may_have_been_created() -> None:
    world = Simulation(job())
    world.tick()
    assert recover(Status(), Observed()) == Status()
    taken_over = recover(assume_created(Status(), job()), Observed())
    assert [(step.attempt, str(step.indexes)) for step in created(taken_over, Observed())] == [(1, "0-2")]
    assert taken_over.retry_count == 0
    assert not created(recover(assume_created(Status(), job()), world.observed), world.observed)


def test_pods_that_exist_keep_their_attempt() -> None:
    world = Simulation(job(task("worker", 3)))
    world.settle()
    status = Status.from_kube(world.status.to_kube())
    assert recover(status, world.observed) == status


def test_a_new_or_ended_job_needs_no_recovery() -> None:
    assert recover(Status(), Observed()) == Status()
    world = Simulation(job(task("worker", 3)))
    world.tick()
    world.command("TerminateJob")
    over = world.settle()
    assert over.phase is Phase.TERMINATED
    assert recover(over, Observed()) == over


@given(st.sets(st.integers(0, 5)), st.integers(1, 4))
def test_no_attempt_is_created_twice_however_often_a_backend_restarts(made: set[int], times: int) -> None:
    """The pods of `made` were created and deleted at once; each controller is killed before it records that."""
    born: set[tuple[int, int]] = set()
    status, the_job = Status(), job(task("worker", 6))
    for _ in range(times):
        status = decide(the_job, recover(status, Observed()), Observed(), START).status
        assert status.phase is Phase.PENDING
        for index in made:
            life = (index, status.attempt("worker", index))
            assert life not in born
            born.add(life)
