"""A tiny synchronous Kubernetes client for the testbed itself and for looking at outcomes in tests.

Standard library only and apart from ``vcjob.kube`` on purpose: what is under test must not be what judges it.
"""

from __future__ import annotations

import base64
import http.client
import json
import ssl
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

Object = dict[str, Any]


class ApiError(Exception):
    """The API server's own answer: its code, reason and message."""

    def __init__(self, code: int, body: Object) -> None:
        super().__init__(f"{code} {body.get('reason', '')}: {body.get('message', body)}")
        self.code = code
        self.reason = body.get("reason", "")


class Api:
    """Speaks for the identity of one kubeconfig; safe to use from several threads (a connection each)."""

    def __init__(self, kubeconfig: Path) -> None:
        document = json.loads(kubeconfig.read_text())
        cluster, user = document["clusters"][0]["cluster"], document["users"][0]["user"]
        self.server: str = cluster["server"]
        self._address = urllib.parse.urlsplit(self.server)
        self._tls = ssl.create_default_context(
            cadata=base64.b64decode(cluster["certificate-authority-data"]).decode()
        )
        with tempfile.NamedTemporaryFile() as pair:  # ssl reads a key only from a file
            pair.write(
                base64.b64decode(user["client-certificate-data"]) + base64.b64decode(user["client-key-data"])
            )
            pair.flush()
            self._tls.load_cert_chain(pair.name)
        self._local = threading.local()

    def _connection(self, timeout: float | None = 60) -> http.client.HTTPSConnection:
        return http.client.HTTPSConnection(
            str(self._address.hostname), self._address.port, context=self._tls, timeout=timeout
        )

    def request(self, method: str, path: str, body: object = None, content: str = "application/json") -> Any:
        """The decoded answer; an ApiError for a refusal. A dropped idle connection is opened again, once."""
        payload = None if body is None else json.dumps(body)
        for fresh in (False, True):
            connection: http.client.HTTPSConnection | None = getattr(self._local, "connection", None)
            if connection is None or fresh:
                connection = self._local.connection = self._connection()
            try:
                connection.request(
                    method, path, payload, {"Content-Type": content, "Accept": "application/json"}
                )
                answer = connection.getresponse()
                data = answer.read()
                break
            except (http.client.HTTPException, OSError):
                connection.close()
                self._local.connection = None
                if fresh:
                    raise
        try:
            decoded = json.loads(data)
        except ValueError:
            decoded = {"message": data.decode(errors="replace")}
        if answer.status >= 400:
            raise ApiError(answer.status, decoded if isinstance(decoded, dict) else {"message": str(decoded)})
        return decoded

    def text(self, path: str) -> str:
        """An answer that is not JSON: health, metrics, logs."""
        connection = self._connection()
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            said = answer.read().decode(errors="replace")
            if answer.status >= 400:
                raise ApiError(answer.status, {"message": said})
            return said
        finally:
            connection.close()

    def get(self, path: str) -> Any:
        return self.request("GET", path)

    def find(self, path: str) -> Any | None:
        try:
            return self.get(path)
        except ApiError as error:
            if error.code == 404:
                return None
            raise

    def list(self, path: str) -> list[Object]:
        items: list[Object] = self.get(path)["items"]
        return items

    def create(self, path: str, body: Object) -> Object:
        created: Object = self.request("POST", path, body)
        return created

    def apply(self, path: str, body: Object) -> Object:
        """Server-side apply, by force: makes or corrects."""
        query = "?fieldManager=testbed&force=true"
        applied: Object = self.request("PATCH", path + query, body, "application/apply-patch+yaml")
        return applied

    def patch(self, path: str, body: object) -> Object:
        content = "application/json-patch+json" if isinstance(body, list) else "application/merge-patch+json"
        patched: Object = self.request("PATCH", path, body, content)
        return patched

    def delete(self, path: str, **options: object) -> None:
        try:
            self.request(
                "DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options} if options else None
            )
        except ApiError as error:
            if error.code != 404:
                raise

    def watch(self, path: str, resource_version: str, seconds: int = 60) -> Iterator[Object]:
        query = urllib.parse.urlencode(
            {"watch": "1", "resourceVersion": resource_version, "timeoutSeconds": seconds}
        )
        connection = self._connection(timeout=seconds + 10)
        try:
            connection.request("GET", f"{path}{'&' if '?' in path else '?'}{query}")
            answer = connection.getresponse()
            if answer.status >= 400:
                raise ApiError(answer.status, json.loads(answer.read()))
            for line in answer:
                yield json.loads(line)
        finally:
            connection.close()

    def wait(
        self, path: str, until: Callable[[Any], object], patience: float = 60, what: str = "as awaited"
    ) -> Any:
        """Polls an object or a list (None where there is none) until ``until`` holds; the last sight is in the error."""
        deadline = time.monotonic() + patience
        seen = None
        while True:
            try:
                seen = self.find(path)
                if until(seen):
                    return seen
            except ApiError as error:
                if error.code != 429:  # the storage of a new kind is not ready yet
                    raise
            if time.monotonic() > deadline:
                raise TimeoutError(
                    f"{path} not {what} within {patience:.0f} s; last seen: {json.dumps(seen)[:3000]}"
                )
            time.sleep(0.05)
