"""Which verbs a caller may not use, from the API server's answers."""

from __future__ import annotations

from typing import Any
from unittest.mock import Mock

from vcjob.cluster.client.permissions import denied_verbs
from vcjob.errors import BackendError


class ReviewingClient:
    """An API server that answers access reviews: True, False, or an error for each resource."""

    def __init__(self, **answers: bool | Exception) -> None:
        self._answers = answers
        self.asked: list[tuple[str, str]] = []

    async def create(self, _: object, review: dict[str, Any]) -> dict[str, Any]:
        attributes = review["spec"]["resourceAttributes"]
        assert attributes["namespace"] == "team"
        self.asked.append((attributes["resource"], attributes["verb"]))
        answer = self._answers[attributes["resource"]]
        if isinstance(answer, Exception):
            raise answer
        return {"status": {"allowed": answer}}


async def test_verbs_whose_right_is_refused_are_denied_with_the_right_in_the_reason() -> None:
    client = ReviewingClient(jobs=True, commands=False)
    denied = await denied_verbs(Mock(client=client), "team")
    assert sorted(denied) == ["complete", "restart", "resume", "stop", "suspend"]
    assert denied["stop"] == "you may not create commands.bus.volcano.sh in the namespace 'team'"
    assert sorted(client.asked) == [("commands", "create"), ("jobs", "create"), ("jobs", "delete")]


async def test_a_right_that_the_server_does_not_answer_for_is_not_denied() -> None:
    client = ReviewingClient(jobs=False, commands=BackendError("no answer"))
    assert sorted(await denied_verbs(Mock(client=client), "team")) == ["delete", "run"]
