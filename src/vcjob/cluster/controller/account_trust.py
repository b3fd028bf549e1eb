"""Whether a ServiceAccount has rights in the whole cluster, which only a cluster administrator can grant.

Anybody who may create namespaces can create `volcano-system` with pods and Leases that look like Volcano's. Such pods
count only if their account could do what Volcano's parts do in every namespace. The API server answers that
(SubjectAccessReview); see docs/decisions/0017-who-counts-as-volcano.md.
"""

from __future__ import annotations

import heapq
import logging
import time
from collections.abc import Callable, Collection

import msgspec

from vcjob.cluster.controller.objects.concurrent_requests import gather_all
from vcjob.cluster.resources import JOB_GROUP
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import resource
from vcjob.kube.errors import Forbidden, KubeError

log = logging.getLogger(__name__)
#: How long an answer is kept.
_VALID_SECONDS = 60.0
#: Requests of one round, which run at the same time: whoever may create accounts and pods in that namespace can make them
#: by the thousand, and the first round delays the start of a leader.
REVIEWS_PER_ROUND = 32


class _Answer(msgspec.Struct, frozen=True):
    allowed: bool = False


class _Review(msgspec.Struct):
    status: _Answer = _Answer()


_REVIEWS = resource(
    "authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False
).read_as(_Review)

#: What a job controller and a scheduler must be allowed to do in all namespaces.
CONTROLLER_RIGHT = {"verb": "update", "group": JOB_GROUP, "resource": "jobs", "subresource": "status"}
SCHEDULER_RIGHT = {"verb": "create", "group": "", "resource": "pods", "subresource": "binding"}


class AccountTrust:
    """The accounts of one namespace that have `right` in the whole cluster. `refresh` asks, `__contains__` reads.

    `expected` is the account of Volcano's own manifests: it is asked about first, however many others there are.
    """

    def __init__(
        self,
        client: Client,
        namespace: str,
        right: dict[str, str],
        expected: str,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._right = right
        self._expected = expected
        self._clock = clock
        self._answers: dict[str, tuple[bool, float]] = {}

    def __contains__(self, account: str) -> bool:
        return self._answers.get(account, (False, 0.0))[0]

    def __len__(self) -> int:
        """The number of answers that are kept."""
        return len(self._answers)

    async def refresh(self, accounts: Collection[str], present: Collection[str] = ()) -> None:
        """Ask about `accounts` whose answer is missing or old, at most `REVIEWS_PER_ROUND` of them; the next round
        continues. Answers about accounts that are neither in `accounts` nor in `present` are dropped. If we may not ask,
        they count as trusted: an installation without this right keeps refusing to run next to Volcano."""
        kept = {*accounts, *present, self._expected}
        self._answers = {name: answer for name, answer in self._answers.items() if name in kept}
        now = self._clock()
        due = [name for name in accounts if now - self._asked_at(name) >= _VALID_SECONDS]
        first = heapq.nsmallest(REVIEWS_PER_ROUND, due, self._urgency)
        answers = await gather_all(self._review(name) for name in first)
        refused = [name for name, trusted in answers if trusted is False and name not in self._answers]
        self._answers |= {name: (trusted, now) for name, trusted in answers if trusted is not None}
        if refused:
            log.warning(
                "%d accounts in namespace %s have no rights in the whole cluster, so their pods and Leases are not taken "
                "for Volcano's; first: %s",
                len(refused),
                self._namespace,
                refused[0],
            )

    def _asked_at(self, account: str) -> float:
        return self._answers.get(account, (False, float("-inf")))[1]

    def _urgency(self, account: str) -> tuple[bool, float, str]:
        return account != self._expected, self._asked_at(account), account

    async def _review(self, account: str) -> tuple[str, bool | None]:
        """Whether the account is trusted; None where there is no answer."""
        try:
            return account, await self._ask(account)
        except Forbidden:
            return account, True
        except KubeError as error:
            log.warning("cannot review the rights of account %s: %s", account, error)
            return account, None

    async def _ask(self, account: str) -> bool:
        user = f"system:serviceaccount:{self._namespace}:{account}"
        groups = [
            "system:serviceaccounts",
            f"system:serviceaccounts:{self._namespace}",
            "system:authenticated",
        ]
        body = {
            "apiVersion": _REVIEWS.api_version,
            "kind": _REVIEWS.kind,
            "spec": {"user": user, "groups": groups, "resourceAttributes": self._right},
        }
        return (await self._client.create(_REVIEWS, body)).status.allowed
