"""Whether a ServiceAccount has rights in the whole cluster, which only a cluster administrator can grant.

Anybody who may create namespaces can create `volcano-system` with pods and Leases that look like Volcano's. Such pods
count only if their account could do what Volcano's parts do in every namespace. The API server answers that
(SubjectAccessReview); see docs/decisions/0017-who-counts-as-volcano.md.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable

import msgspec

from vcjob.cluster.resources import JOB_GROUP
from vcjob.kube.api.client import Client
from vcjob.kube.api.resources import resource
from vcjob.kube.errors import Forbidden, KubeError

log = logging.getLogger(__name__)
#: How long an answer is kept.
_VALID_SECONDS = 60.0


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
    """The accounts of one namespace that have `right` in the whole cluster. `refresh` asks, `__contains__` reads."""

    def __init__(
        self,
        client: Client,
        namespace: str,
        right: dict[str, str],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client
        self._namespace = namespace
        self._right = right
        self._clock = clock
        self._answers: dict[str, tuple[bool, float]] = {}

    def __contains__(self, account: str) -> bool:
        return self._answers.get(account, (False, 0.0))[0]

    async def refresh(self, accounts: Iterable[str]) -> None:
        """Ask about accounts whose answer is missing or old. If we may not ask, they count as trusted: an installation
        without this right keeps refusing to run next to Volcano."""
        now = self._clock()
        for account in sorted(set(accounts)):
            known, asked_at = self._answers.get(account, (False, float("-inf")))
            if now - asked_at < _VALID_SECONDS:
                continue
            try:
                trusted = await self._ask(account)
            except Forbidden:
                trusted = True
            except KubeError as error:
                log.warning("cannot review the rights of account %s: %s", account, error)
                trusted = known
            if not trusted and account not in self._answers:
                log.warning(
                    "account %s/%s has no rights in the whole cluster; what it runs is not taken for Volcano",
                    self._namespace,
                    account,
                )
            self._answers[account] = (trusted, now)

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
