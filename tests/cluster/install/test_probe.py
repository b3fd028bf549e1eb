"""What a trial Job says about the webhook, by what the API server answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from vcjob.cluster.install import probe, waiting
from vcjob.cluster.install.probe import (
    owner_references_work,
    wait_for_owner_references,
    wait_for_webhook,
    webhook_answers,
)
from vcjob.cluster.install.settings import Settings
from vcjob.kube.errors import ApiError, Forbidden

DENIED = ApiError(422, server_message='admission webhook "mutate.jobs.vcjob.io" denied the request: no')
UNREACHED = ApiError(
    500, server_message='failed calling webhook "mutate.jobs.vcjob.io": no endpoints available'
)


class Server:
    """Answers each trial in turn, the last one again and again."""

    def __init__(self, *answers: Exception | None) -> None:
        self._answers = list(answers)
        self.tried: list[tuple[str, bool]] = []

    async def create(self, kind: Any, body: Any, namespace: str, *, dry_run: bool = False) -> None:
        self.tried.append((namespace, dry_run))
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if answer is not None:
            raise answer


def waited(server: Server, **settings: Any) -> list[str]:
    return asyncio.run(wait_for_webhook(server, Settings(**settings), lambda _: None))  # type: ignore[arg-type]


@pytest.mark.parametrize(("answer", "answers"), [(DENIED, True), (UNREACHED, False), (None, False)])
def test_only_a_refusal_of_its_own_is_an_answer(answer: Exception | None, answers: bool) -> None:
    server = Server(answer)
    assert asyncio.run(webhook_answers(server, "here")) is answers  # type: ignore[arg-type]
    assert server.tried == [("here", True)]


def test_an_installation_waits_until_the_webhook_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(None, UNREACHED, DENIED)
    monkeypatch.setattr(waiting, "_PAUSE", 0.0)
    assert waited(server) == []
    assert server.tried == [("vcjob-system", True)] * 3


def test_it_is_tried_where_it_is_asked() -> None:
    server = Server(DENIED)
    waited(server, namespaces=("served", "too"))
    assert server.tried == [("served", True)]


def test_a_webhook_that_never_answers_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_SECONDS", 0.0)
    (note,) = waited(Server(None))
    assert "port 8443" in note


def test_who_may_not_try_a_job_does_not_wait() -> None:
    assert waited(Server(Forbidden(403))) == []


def test_without_a_webhook_nothing_is_tried() -> None:
    server = Server(None)
    assert waited(server, webhook=False) == []
    assert server.tried == []


NO_MAPPING = Forbidden(
    403,
    server_message='configmaps "vcjob-install" is forbidden: cannot set blockOwnerDeletion in this case because '
    "cannot find RESTMapping for APIVersion batch.volcano.sh/v1alpha1 Kind Job",
)


@pytest.mark.parametrize(("answer", "works"), [(None, True), (NO_MAPPING, False), (Forbidden(403), True)])
def test_jobs_can_own_objects_once_the_api_server_maps_their_kind(
    answer: Exception | None, works: bool
) -> None:
    server = Server(answer)
    assert asyncio.run(owner_references_work(server, "here")) is works  # type: ignore[arg-type]
    assert server.tried == [("here", True)]


def test_an_installation_waits_until_a_job_can_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_PAUSE", 0.0)
    server = Server(NO_MAPPING, NO_MAPPING, None)
    notes = asyncio.run(wait_for_owner_references(server, Settings(), lambda _: None))  # type: ignore[arg-type]
    assert (notes, len(server.tried)) == ([], 3)


def test_a_wait_reports_its_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "REPORT_SECONDS", 0.0)
    monkeypatch.setattr(waiting, "_PAUSE", 0.0)
    answers = iter([False, False, True])
    reports: list[str] = []

    async def holds() -> bool:
        return next(answers)

    assert asyncio.run(waiting.wait_until(holds, "the pods to end", 60, reports.append))
    assert reports == ["waiting for the pods to end (0 s of at most 60 s)"] * 2
