"""What a trial Job says about the webhook, by what the API server answers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from vcjob.cluster.install import probe
from vcjob.cluster.install.probe import wait_for_webhook, webhook_answers
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
    return asyncio.run(wait_for_webhook(server, Settings(**settings)))  # type: ignore[arg-type]


@pytest.mark.parametrize(("answer", "answers"), [(DENIED, True), (UNREACHED, False), (None, False)])
def test_only_a_refusal_of_its_own_is_an_answer(answer: Exception | None, answers: bool) -> None:
    server = Server(answer)
    assert asyncio.run(webhook_answers(server, "here")) is answers  # type: ignore[arg-type]
    assert server.tried == [("here", True)]


def test_an_installation_waits_until_the_webhook_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server(None, UNREACHED, DENIED)
    monkeypatch.setattr(probe, "_PAUSE", 0.0)
    assert waited(server) == []
    assert server.tried == [("vcjob-system", True)] * 3


def test_it_is_tried_where_it_is_asked() -> None:
    server = Server(DENIED)
    waited(server, namespaces=("served", "too"))
    assert server.tried == [("served", True)]


def test_a_webhook_that_never_answers_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(probe, "_PATIENCE", 0.0)
    (note,) = waited(Server(None))
    assert "port 8443" in note


def test_who_may_not_try_a_job_does_not_wait() -> None:
    assert waited(Server(Forbidden(403))) == []


def test_without_a_webhook_nothing_is_tried() -> None:
    server = Server(None)
    assert waited(server, webhook=False) == []
    assert server.tried == []
