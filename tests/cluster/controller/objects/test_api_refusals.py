"""Refusals of the API server as pending reasons."""

from __future__ import annotations

import pytest

from vcjob.cluster.controller.objects.api_refusals import is_refusal, refusal
from vcjob.kube.errors import Conflict, Forbidden, Invalid, ServerError

QUOTA = 'pods "p" is forbidden: exceeded quota: few, requested: pods=1, used: pods=1, limited: pods=1'
SECURITY = 'pods "p" is forbidden: violates PodSecurity "restricted:latest": runAsNonRoot != true'
NO_MAPPING = (
    'pods "p" is forbidden: cannot set blockOwnerDeletion in this case because cannot find RESTMapping for '
    'APIVersion batch.volcano.sh/v1alpha1 Kind Job: no matches for kind "Job"'
)
WEBHOOK = 'admission webhook "x.example" denied the request: no'


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (NO_MAPPING, "CrdNotReady"),
        (QUOTA, "QuotaExceeded"),
        (SECURITY, "PodSecurity"),
        (WEBHOOK, "RefusedByWebhook"),
    ],
)
def test_a_refusal_has_a_reason_and_the_servers_message(message: str, reason: str) -> None:
    found = refusal(Forbidden(403, server_message=message), "pod a-0")
    assert found.reason == reason
    assert found.message == f"pod a-0 is refused: {message}"


def test_a_webhook_that_does_not_answer_is_a_refusal_and_an_outage_is_not() -> None:
    assert is_refusal(ServerError(500, server_message='failed calling webhook "x": timeout'))
    assert is_refusal(Invalid(422))
    assert not is_refusal(ServerError(503, server_message="etcd is gone"))
    assert not is_refusal(Conflict(409))
