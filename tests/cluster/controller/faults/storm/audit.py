"""Who was ever born, and who was called Failed: by the API server's audit log, which misses nothing, and births by a
watch of its own, too."""

from __future__ import annotations

import http.client
import json
import threading
from collections import defaultdict
from pathlib import Path

from tests.cluster.controller.faults.storm.jobs import Life, Object
from tests.cluster.controller.faults.storm.users import controller_of
from tests.testbed.api import Api, ApiError

PODS = "/api/v1/pods"
#: What the audit log is to hold: every pod as it was made, and what its node says of it.
AUDIT: list[Object] = [
    {"level": "RequestResponse", "verbs": ["patch", "update"],
     "resources": [{"group": "", "resources": ["pods/status"]}], "omitManagedFields": True},
    {"level": "RequestResponse", "verbs": ["create"], "resources": [{"group": "", "resources": ["pods"]}],
     "omitManagedFields": True},
    {"level": "None"},
]  # fmt: skip


class Auditor:
    def __init__(self, api: Api, audit_log: Path) -> None:
        self._api = api
        self._audit_log = audit_log
        self._births: dict[Life, dict[str, str]] = defaultdict(dict)
        #: Those that somebody called Failed; known once `births` has read the log.
        self.failed: set[Life] = set()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def births(self) -> dict[Life, dict[str, str]]:
        """The uids of all pods that were ever made for a life, and when."""
        self._stop.set()
        self._thread.join(20)
        assert not self._thread.is_alive()
        with self._audit_log.open() as log:
            for line in log:
                event = json.loads(line)
                code = event.get("responseStatus", {}).get("code")
                if code == 201:
                    self._note(event["responseObject"])
                elif code == 200 and event["responseObject"]["status"].get("phase") == "Failed":
                    life = _life(event["responseObject"])
                    self.failed |= {life} if life else set()
        return dict(self._births)

    def _watch(self) -> None:
        version = ""
        while not self._stop.is_set():
            try:
                if not version:
                    listed = self._api.get(PODS)
                    version = listed["metadata"]["resourceVersion"]
                    for pod in listed["items"]:
                        self._note(pod)
                for event in self._api.watch(PODS, version, seconds=3):
                    if event["type"] == "ERROR":
                        version = ""
                        break
                    version = event["object"]["metadata"]["resourceVersion"]
                    self._note(event["object"])
            except (OSError, http.client.HTTPException, ApiError, ValueError):
                # The server is away, or the watch was cut in the middle of a line.
                self._stop.wait(0.2)
                version = ""

    def _note(self, pod: Object) -> None:
        life, meta = _life(pod), pod["metadata"]
        if life is not None:
            self._births[life][meta["uid"]] = meta["creationTimestamp"]


def _life(pod: Object) -> Life | None:
    owner, meta = controller_of(pod), pod["metadata"]
    if owner is None:
        return None
    return owner["uid"], meta["name"], (meta.get("labels") or {}).get("vcjob.io/attempt", "")
