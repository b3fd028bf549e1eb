"""When creations are tried again after a refusal."""

from __future__ import annotations

from vcjob.cluster.controller.cache.retry_state import RetryState
from vcjob.lifecycle.observed import Blocked
from vcjob.wellknown import reasons


def delays(reason: str) -> list[float | None]:
    retry = RetryState()
    return [retry.record(Blocked(reason, ""), None) for _ in range(7)]


def test_a_refusal_is_retried_ever_later() -> None:
    assert delays(reasons.QUOTA_EXCEEDED) == [0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 15.0]


def test_a_definition_that_the_api_server_does_not_know_yet_is_retried_quickly() -> None:
    assert delays(reasons.CRD_NOT_READY) == [0.5] * 7


def test_success_ends_the_back_off() -> None:
    retry = RetryState()
    retry.record(Blocked(reasons.QUOTA_EXCEEDED, ""), None)
    assert retry.seconds_left > 0
    assert retry.record(None, None) is None
    assert retry.seconds_left <= 0 and retry.blocked is None
    assert retry.record(None, Blocked(reasons.NAME_CONFLICT, "")) == 0.5
