"""The users of the storm: they make Jobs, command, change and delete them, and insist where the cluster is away."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from tests.cluster.controller.faults.storm.jobs import GONE, SHAPES, Life, Object, Until, phase_of
from tests.testbed.api import Api, ApiError

JOB_API = "/apis/batch.volcano.sh/v1alpha1"
ROOTS = {
    "jobs": JOB_API,
    "commands": "/apis/bus.volcano.sh/v1alpha1",
    "networkpolicies": "/apis/networking.k8s.io/v1",
}
Result = TypeVar("Result")
#: What only says that the API server is not itself just now.
PASSING = (429, 500, 502, 503, 504)


def insist(request: Callable[[], Result], patience: float = 90) -> Result:
    deadline = time.monotonic() + patience
    while True:
        try:
            return request()
        except (OSError, http.client.HTTPException, ApiError) as error:
            passing = not isinstance(error, ApiError) or error.code in PASSING
            if not passing or time.monotonic() > deadline:
                raise
            time.sleep(0.2)


class Tenant:
    """A user of one namespace."""

    def __init__(self, api: Api, namespace: str) -> None:
        self._api = api
        self.namespace = namespace
        self.in_a_storm = False

    def path(self, plural: str, name: str = "") -> str:
        path = f"{ROOTS.get(plural, '/api/v1')}/namespaces/{self.namespace}/{plural}"
        return f"{path}/{name}" if name else path

    def list(self, plural: str) -> list[Object]:
        return insist(lambda: self._api.list(self.path(plural)))

    def owns(self, job: str) -> bool:
        """Whether the other objects of a Job with the svc plugin exist and belong to the Job."""
        uid = insist(lambda: self._api.get(self.path("jobs", job)))["metadata"]["uid"]
        parts = (("services", job), ("configmaps", f"{job}-svc"), ("networkpolicies", job))
        for plural, name in parts:
            path = self.path(plural, name)
            found = insist(lambda path=path: self._api.find(path))  # type: ignore[misc]
            owner = controller_of(found) if found else None
            if owner is None or owner["uid"] != uid:
                return False
        return True

    def create(self, plural: str, body: Object) -> None:
        def once() -> None:
            try:
                self._api.create(self.path(plural), body)
            except ApiError as error:
                if error.code != 409:  # an earlier try of ours whose answer was lost
                    raise

        insist(once)

    def command(self, job: str, action: str) -> None:
        def once() -> None:
            found = self._api.find(self.path("jobs", job))
            if found is None:
                return
            target = {"apiVersion": "batch.volcano.sh/v1alpha1", "kind": "Job", "name": job,
                      "uid": found["metadata"]["uid"], "controller": True}  # fmt: skip
            meta = {"generateName": f"{job}-", "ownerReferences": [target]}
            kind = {"apiVersion": "bus.volcano.sh/v1alpha1", "kind": "Command"}
            self._api.create(
                self.path("commands"), {**kind, "metadata": meta, "target": target, "action": action}
            )

        insist(once)

    def change(self, job: str, patch: object) -> None:
        insist(lambda: self._api.patch(self.path("jobs", job), patch))

    def delete(self, plural: str, name: str) -> None:
        insist(lambda: self._api.delete(self.path(plural, name), propagationPolicy="Background"))


class SubmittedJob:
    """One Job of one shape, and which of its user's steps are done."""

    def __init__(self, tenant: Tenant, shape: str, number: int) -> None:
        self.tenant = tenant
        self.name = f"{shape}-{number}"
        self.shape = SHAPES[shape]
        self._acts: Iterator[Until] = iter(())
        self._until: Until | None = None
        self.was_created = False

    def create(self) -> None:
        if self.shape.before is not None:
            self.shape.before(self.tenant, self.name)
        self.tenant.create("jobs", self.shape.make(self.name))
        if self.shape.acts is not None:
            self._acts = self.shape.acts(self.tenant, self.name)
            self._until = next(self._acts)
        self.was_created = True

    def observe(self, job: Object | None) -> None:
        """Take the user's next step if this state of the Job allows it."""
        while self._until is not None and self._until(job):
            self._until = next(self._acts, None)
            if self._until is not None:
                return  # the next step needs a newer state

    def problem(self, job: Object | None) -> str:
        """What of its end is not as it should be; empty when all is well."""
        where = f"{self.tenant.namespace}/{self.name}"
        if not self.was_created or self._until is not None:
            return f"{where}: its user still waits; it is {_words(job)}"
        if phase_of(job) != self.shape.end:
            return f"{where}: should be {self.shape.end} and is {_words(job)}"
        return "" if job is None else self._miscounted(where, job)

    def _miscounted(self, where: str, job: Object) -> str:
        """Restarts that were counted twice. A pod of a later attempt than those that are to fail is now and then
        taken for its predecessor by its pretended node; that such a one was really called Failed, the auditor
        must confirm."""
        retries, most = int(job["status"].get("retryCount", 0)), self.shape.retries
        if self.shape.end == "Failed":
            return "" if retries == most else f"{where}: {retries} retries instead of {most}"
        lives = culprits(job)
        if len(set(lives)) != len(lives):
            return f"{where}: one pod counts twice: {lives}"
        most += sum(attempt != "0" for _, _, attempt in lives)
        return "" if retries <= most else f"{where}: {retries} retries, for {lives}"


def culprits(job: Object) -> list[Life]:
    """The pods for which the Job was restarted or ended."""
    meta = job["metadata"]
    found = [run["culprit"] for run in _history(job) if run.get("culprit")]
    return [
        (meta["uid"], f"{meta['name']}-{pod['task']}-{pod['index']}", str(pod.get("attempt", 0)))
        for pod in found
    ]


def _history(job: Object) -> list[Object]:
    own = json.loads(job["status"].get("controlledResources", {}).get("vcjob.io/lifecycle", "{}"))
    history: list[Object] = own.get("history", [])
    return history


def _words(job: Object | None) -> str:
    if job is None:
        return GONE
    state = (job.get("status") or {}).get("state", {})
    return f"{state.get('phase', 'without a phase')} ({state.get('reason', '')}: {state.get('message', '')})"


class Workload:
    """All Jobs of a storm. Each call of `step` creates those that are due and reads every Job, one list per namespace."""

    def __init__(self, submitted: list[SubmittedJob], arrivals: list[float]) -> None:
        self.submitted = submitted
        self._arrivals = list(zip(sorted(arrivals), submitted, strict=True))
        self._began = time.monotonic()

    @property
    def all_created(self) -> bool:
        return not self._arrivals

    def step(self) -> list[str]:
        """What is not yet as it should be."""
        while self._arrivals and time.monotonic() >= self._began + self._arrivals[0][0]:
            self._arrivals.pop(0)[1].create()
        tenants = {each.tenant.namespace: each.tenant for each in self.submitted}
        jobs = {
            (namespace, job["metadata"]["name"]): job
            for namespace, tenant in tenants.items()
            for job in tenant.list("jobs")
        }
        problems = []
        for each in self.submitted:
            job = jobs.get((each.tenant.namespace, each.name))
            if each.was_created:
                each.observe(job)
            problems.append(each.problem(job))
        return [problem for problem in problems if problem]


def controller_of(thing: Any) -> Object | None:
    owners = thing["metadata"].get("ownerReferences") or ()
    return next((owner for owner in owners if owner.get("controller")), None)
