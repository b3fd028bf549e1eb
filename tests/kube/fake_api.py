"""A small in-memory API server with faults that tests can inject.

It keeps objects, versions and watches as a real one does, as far as the client can see, and adds faults on
request: refusals, disconnects, silence, expired history.
"""

from __future__ import annotations

import asyncio
import json
import re
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import web

PATH = re.compile(
    r"^/(?:api/(?P<core>v1)|apis/(?P<group>[^/]+)/(?P<version>[^/]+))"
    r"(?:/namespaces/(?P<namespace>[^/]+))?/(?P<plural>[a-z]+)(?:/(?P<name>[^/]+))?(?:/(?P<sub>[a-z]+))?$"
)
KINDS = {
    "pods": "Pod",
    "jobs": "Job",
    "configmaps": "ConfigMap",
    "leases": "Lease",
    "nodes": "Node",
    "services": "Service",
    "widgets": "Widget",
    "secrets": "Secret",
    "serviceaccounts": "ServiceAccount",
    "namespaces": "Namespace",
    "statefulsets": "StatefulSet",
    "mutatingwebhookconfigurations": "MutatingWebhookConfiguration",
    "validatingwebhookconfigurations": "ValidatingWebhookConfiguration",
}
Fault = Callable[[web.Request], Awaitable[web.StreamResponse | None]]


def status(code: int, reason: str, message: str, **details: Any) -> dict[str, Any]:
    return {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "reason": reason,
        "message": message,
        "code": code,
        "details": details,
    }


def refuse(
    code: int, reason: str, message: str = "no", headers: dict[str, str] | None = None
) -> web.Response:
    return web.json_response(status(code, reason, message), status=code, headers=headers)


def served(plural: str, kind: str, verbs: tuple[str, ...] = ("list", "delete")) -> dict[str, Any]:
    """An entry of discovery: a namespaced resource."""
    return {"name": plural, "kind": kind, "namespaced": True, "verbs": list(verbs)}


class FakeApi:
    """`async with FakeApi() as api:` then talk to `api.url`."""

    def __init__(self) -> None:
        self.objects: dict[tuple[str, str, str], dict[str, Any]] = {}  # plural, namespace, name
        self.version = 100
        self.history: list[tuple[int, str, dict[str, Any]]] = []
        self.oldest = 0  # watches from before this version are 410
        self.changed = asyncio.Condition()
        self.requests: list[tuple[str, str, dict[str, str]]] = []  # method, path, query
        self.headers: list[dict[str, str]] = []
        self.bodies: list[Any] = []
        self.faults: list[tuple[str, str, Fault]] = []  # method, path part; each fires once
        self.watch_list = True
        self.mangle: Callable[[bytes], bytes | None] | None = None  # each watch line; None cuts
        self.cut = asyncio.Event()
        self.logs: dict[str, list[bytes]] = {}
        #: What discovery answers: the resources of each version of an API group.
        self.served = {"example.io/v1": [served("widgets", "Widget"), served("widgets/status", "Widget")]}
        self.url = ""

    async def __aenter__(self) -> FakeApi:
        app = web.Application(client_max_size=2**24)
        app.router.add_route("*", "/{path:.*}", self._handle)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.url = f"http://127.0.0.1:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.cut_watches()
        await self._runner.cleanup()

    # ---- faults -------------------------------------------------------------------------------
    def on_next(self, method: str, part: str, fault: Fault | web.Response, times: int = 1) -> None:
        async def answer(_: web.Request) -> web.StreamResponse:
            assert isinstance(fault, web.Response)
            return web.Response(status=fault.status, body=fault.body, headers=fault.headers)

        for _ in range(times):
            self.faults.append((method, part, answer if isinstance(fault, web.Response) else fault))

    async def hang_up(self, request: web.Request) -> web.StreamResponse:
        """Close the connection without a response, before any work."""
        assert request.transport is not None
        request.transport.close()
        return web.Response()

    async def work_then_hang_up(self, request: web.Request) -> web.StreamResponse:
        """Do the work, then close the connection without a response."""
        await self._serve(request)
        return await self.hang_up(request)

    async def cut_watches(self) -> None:
        self.cut.set()
        self.cut = asyncio.Event()
        async with self.changed:
            self.changed.notify_all()
        await asyncio.sleep(0)

    def forget_history(self) -> None:
        self.oldest = self.version

    def count(self, method: str, part: str = "", **query: str) -> int:
        return sum(
            m == method and part in p and all(q.get(k) == v for k, v in query.items())
            for m, p, q in self.requests
        )

    # ---- data ---------------------------------------------------------------------------------
    async def put(self, plural: str, name: str, namespace: str = "default", **fields: Any) -> dict[str, Any]:
        """Create or change an object from the server's side."""
        old = self.objects.get((plural, namespace, name))
        metadata = dict((old or {}).get("metadata") or {})
        metadata.update(fields.pop("metadata", {}))
        return await self._store(plural, namespace, name, {**(old or {}), **fields, "metadata": metadata})

    async def drop(self, plural: str, name: str, namespace: str = "default") -> None:
        found = self.objects.pop((plural, namespace, name))
        await self._tell("DELETED", plural, found)

    async def _store(self, plural: str, namespace: str, name: str, body: dict[str, Any]) -> dict[str, Any]:
        old = self.objects.get((plural, namespace, name))
        metadata = {**body.get("metadata", {}), "name": name}
        if namespace:
            metadata["namespace"] = namespace
        metadata.setdefault("uid", old["metadata"]["uid"] if old else str(uuid.uuid4()))
        body = {"kind": KINDS[plural], **body, "metadata": metadata}
        self.objects[plural, namespace, name] = body
        await self._tell("MODIFIED" if old else "ADDED", plural, body)
        return body

    async def _tell(self, kind: str, plural: str, body: dict[str, Any]) -> None:
        async with self.changed:
            self.version += 1
            body["metadata"]["resourceVersion"] = str(self.version)
            self.history.append(
                (self.version, plural, {"type": kind, "object": json.loads(json.dumps(body))})
            )
            self.changed.notify_all()

    async def bookmark(self, plural: str) -> None:
        async with self.changed:
            self.version += 1
            body = {"kind": KINDS[plural], "metadata": {"resourceVersion": str(self.version)}}
            self.history.append((self.version, plural, {"type": "BOOKMARK", "object": body}))
            self.changed.notify_all()

    async def emit(self, plural: str, event: dict[str, Any]) -> None:
        """Any event at all, such as an ERROR."""
        async with self.changed:
            self.version += 1
            self.history.append((self.version, plural, event))
            self.changed.notify_all()

    # ---- requests -----------------------------------------------------------------------------
    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path, dict(request.query)))
        self.headers.append(dict(request.headers))
        for number, (method, part, fault) in enumerate(self.faults):
            if request.method == method and part in request.path_qs:
                del self.faults[number]
                answer = await fault(request)
                if answer is not None:
                    return answer
                break
        return await self._serve(request)

    async def _serve(self, request: web.Request) -> web.StreamResponse:
        if request.path == "/version":
            return web.json_response({"gitVersion": "v1.35.4"})
        if request.path == "/apis":
            groups = [{"versions": [{"groupVersion": each}]} for each in self.served if "/" in each]
            return web.json_response({"kind": "APIGroupList", "groups": groups})
        version = request.path.removeprefix("/apis/").removeprefix("/api/")
        if version in self.served:
            return web.json_response({"kind": "APIResourceList", "resources": self.served[version]})
        match = PATH.match(request.path)
        if match is None:
            return refuse(404, "NotFound", "no such path")
        plural, namespace, name = match["plural"], match["namespace"] or "", match["name"]
        if match["sub"] == "log":
            return await self._log(request, name or "")
        if request.method == "GET":
            if name:
                found = self.objects.get((plural, namespace, name))
                return web.json_response(found) if found else self._missing(plural, name)
            return await (self._watch if "watch" in request.query else self._list)(request, plural, namespace)
        body = json.loads(await request.read() or b"{}")
        self.bodies.append(body)
        return await self._write(request.method, plural, namespace, name, body, request)

    async def _write(
        self, method: str, plural: str, namespace: str, name: str | None, body: Any, request: web.Request
    ) -> web.Response:
        if method == "POST":
            metadata = body.get("metadata", {})
            name = metadata.get("name") or metadata.get("generateName", "") + uuid.uuid4().hex[:5]
            if (plural, namespace, name) in self.objects:
                return refuse(409, "AlreadyExists", f'{plural} "{name}" already exists')
            return web.json_response(await self._store(plural, namespace, name, body), status=201)
        assert name is not None
        old = self.objects.get((plural, namespace, name))
        applies = request.content_type == "application/apply-patch+yaml"
        if old is None and not applies:
            return self._missing(plural, name)
        if method == "DELETE":
            assert old is not None
            for field, wanted in body.get("preconditions", {}).items():
                if wanted != old["metadata"][field]:
                    return refuse(409, "Conflict", f"the {field} in the precondition does not match")
            await self.drop(plural, name, namespace)
            return web.json_response(old)
        if method == "PATCH":
            merged = _merge(old or {}, body) if isinstance(body, dict) else old
            return web.json_response(await self._store(plural, namespace, name, merged or {}))
        version = body.get("metadata", {}).get("resourceVersion")
        if version and old and version != old["metadata"]["resourceVersion"]:
            return refuse(409, "Conflict", "the object has been modified")
        return web.json_response(await self._store(plural, namespace, name, body))

    def _missing(self, plural: str, name: str) -> web.Response:
        return refuse(404, "NotFound", f'{plural} "{name}" not found')

    def _of(self, plural: str, namespace: str) -> list[dict[str, Any]]:
        return [o for (p, n, _), o in sorted(self.objects.items()) if p == plural and namespace in ("", n)]

    async def _list(self, request: web.Request, plural: str, namespace: str) -> web.Response:
        wanted = dict(each.split("=") for each in request.query.get("labelSelector", "").split(",") if each)
        items = [
            found
            for found in self._of(plural, namespace)
            if wanted.items() <= (found["metadata"].get("labels") or {}).items()
        ]
        start = int(request.query.get("continue", "0"))
        limit = int(request.query.get("limit", "0")) or len(items)
        metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(items):
            metadata["continue"] = str(start + limit)
        return web.json_response({"metadata": metadata, "items": items[start : start + limit]})

    async def _watch(self, request: web.Request, plural: str, namespace: str) -> web.StreamResponse:
        streams_list = request.query.get("sendInitialEvents") == "true"
        if streams_list and not self.watch_list:
            return refuse(
                422, "Invalid", "sendInitialEvents is forbidden unless the WatchList feature gate is enabled"
            )
        cut = self.cut
        at = self.version if streams_list else int(request.query["resourceVersion"])
        response = web.StreamResponse(headers={"Content-Type": "application/json"})
        response.enable_chunked_encoding()
        await response.prepare(request)
        lines: list[dict[str, Any]] = []
        if streams_list:
            lines = [{"type": "ADDED", "object": found} for found in self._of(plural, namespace)]
            ends = {"resourceVersion": str(at), "annotations": {"k8s.io/initial-events-end": "true"}}
            lines.append({"type": "BOOKMARK", "object": {"metadata": ends}})
        elif at < self.oldest:
            lines = [{"type": "ERROR", "object": status(410, "Expired", "too old resource version")}]
        try:
            async with asyncio.timeout(float(request.query.get("timeoutSeconds", "300"))):
                while True:
                    for line in lines:
                        if not await self._send_line(request, response, line):
                            return response
                    async with self.changed:
                        await self.changed.wait_for(
                            lambda: cut.is_set() or (self.history and self.history[-1][0] > at)
                        )
                        new = [(v, e) for v, p, e in self.history if v > at and p == plural]
                        at = max(at, self.version)
                    if cut.is_set():
                        return response
                    lines = [
                        e
                        for _, e in new
                        if namespace in ("", e["object"].get("metadata", {}).get("namespace", namespace))
                    ]
        except (TimeoutError, ConnectionError):
            return response

    async def _send_line(
        self, request: web.Request, response: web.StreamResponse, event: dict[str, Any]
    ) -> bool:
        line: bytes | None = json.dumps(event, separators=(",", ":")).encode() + b"\n"
        whole = line
        if self.mangle is not None:
            line = self.mangle(whole or b"")
        await response.write(line if line is not None else (whole or b"")[: len(whole or b"") // 2])
        if line is None:
            assert request.transport is not None
            request.transport.close()
            return False
        return True

    async def _log(self, request: web.Request, name: str) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for chunk in self.logs.get(name, []):
            await response.write(chunk)
            await asyncio.sleep(0.01)
        return response


def _merge(old: dict[str, Any], patch: dict[str, Any]) -> dict[str, Any]:
    merged = dict(old)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
        elif isinstance(value, dict) and isinstance(merged.get(key), dict):
            merged[key] = _merge(merged[key], value)
        else:
            merged[key] = value
    return merged
