"""What the controller tracks about the pods of one Job beyond what the lifecycle sees of them.

The informers' handlers and `PodControl` write here; the reconciler reads it before each decision. It makes no
request and knows nothing of statuses.
"""

from __future__ import annotations

import time
from enum import Enum, auto

from vcjob.cluster.controller.cache.pending_reasons import PodCauses
from vcjob.cluster.controller.cache.pod_facts import fact_of
from vcjob.cluster.resources import PartialPod
from vcjob.kube.api.objects import version_number
from vcjob.kube.controller.informer import Informer
from vcjob.lifecycle.observed import Observed
from vcjob.lifecycle.pod import PodFact

#: The API server deletes a pod in two steps. If it is stopped between them, the pod stays until somebody deletes
#: it again.
HALF_DELETED_SECONDS = 5.0


class PodChange(Enum):
    """What a report about a pod changed.

    `JobCache` queues the Job only for changes that matter; `PodControl` records its own writes with it.
    """

    UNIDENTIFIED = auto()  # its annotations do not name one of the Job's pods
    NOTHING = auto()
    CAUSE = auto()  # only the reason why it does not run
    FACT = auto()


class PodTracker:
    """The pods of one Job: which were created but not seen yet, may have been created, are gone, or are half deleted.

    `observed` is the lifecycle's view of them; every method keeps it and the pending causes in step.
    """

    __slots__ = (
        "_observed",
        "causes",
        "creating",
        "departed",
        "failing",
        "half_deleted",
        "to_delete",
        "uncertain",
        "unseen",
        "unseen_version",
    )

    def __init__(self, observed: Observed, causes: PodCauses) -> None:
        self._observed = observed
        self.causes = causes
        #: Pods that we created and the informer has not shown yet, by uid: name, version; and the highest version.
        self.unseen: dict[str, tuple[str, str]] = {}
        self.unseen_version = 0
        #: Pods (task, index, attempt) whose creation has no answer yet. The watch may show them first.
        self.creating: set[tuple[str, int, int]] = set()
        #: Pods (task, index, attempt) whose creation was requested and never answered.
        self.uncertain: set[tuple[str, int, int]] = set()
        #: Pods (uids) that are gone, but whose end is not in the written status yet.
        self.departed: list[str] = []
        #: Pods whose deletion has begun and not finished, by uid: name, and since when (monotonic).
        self.half_deleted: dict[str, tuple[str, float]] = {}
        #: Pods (uids) that were given a deadline so that they fail.
        self.failing: set[str] = set()
        #: Of a deleted Job: the pods whose deletion is still to be requested; None: not listed yet.
        self.to_delete: list[PartialPod] | None = None

    def record(self, pod: PartialPod) -> PodChange:
        """Take in a pod that the Job owns."""
        fact = fact_of(pod) or self.fact_of_known(pod)
        if fact is None:
            return PodChange.UNIDENTIFIED
        changed = self._observed.put(fact)
        new_cause = self.causes.put(pod)
        if changed and fact.phase == "Pending" and (fact.task, fact.index, fact.attempt) in self.creating:
            return PodChange.FACT if fact.terminating else PodChange.NOTHING
        return PodChange.FACT if changed else PodChange.CAUSE if new_cause else PodChange.NOTHING

    def fact_of_known(self, pod: PartialPod) -> PodFact | None:
        """The fact of a pod that was identified before: it keeps its place, whatever its annotations say now."""
        known = self._observed.known(pod.metadata.uid)
        return fact_of(pod, known) if known is not None else None

    def record_half_deleted(self, pod: PartialPod) -> None:
        self.half_deleted.setdefault(pod.metadata.uid, (pod.metadata.name, time.monotonic()))

    def expect(self, pod: PartialPod) -> None:
        """Remember a pod that we created until the informer shows it."""
        meta = pod.metadata
        self.unseen[meta.uid] = meta.name, meta.resource_version
        self.unseen_version = max(self.unseen_version, version_number(meta.resource_version))

    def saw(self, pod: PartialPod) -> bool:
        """The informer has shown a pod. True: as we recorded it from the answer to its creation."""
        expected = self.unseen.pop(pod.metadata.uid, None)
        return expected is not None and expected[1] == pod.metadata.resource_version

    def resolve_unseen(self, informer: Informer[PartialPod], namespace: str) -> bool:
        """Count pods as departed that the informer should show by now and does not: they were deleted before it saw
        them. False: the informer has not caught up with our last creation."""
        if informer.resource_version < self.unseen_version:
            return False
        for uid, (name, _) in self.unseen.items():
            pod = informer.get(name, namespace)
            if pod is None or pod.metadata.uid != uid:
                self.departed.append(uid)
        self.unseen.clear()
        return True

    def forget(self, uid: str) -> None:
        """The pod is gone, and the status has all that it showed."""
        self._observed.drop(uid)
        self.causes.drop(uid)
        self.unseen.pop(uid, None)
        self.half_deleted.pop(uid, None)
        self.failing.discard(uid)

    def forget_departed(self, departed: list[str]) -> bool:
        """Forget the first pods of `departed`, whose end is written now. False: there was none."""
        self.departed = self.departed[len(departed) :]
        for uid in departed:
            self.forget(uid)
        return bool(departed)
