"""Volcano, the peer: its CRDs, its scheduler, its job controller and its webhooks, run next to the control plane."""

from __future__ import annotations

import base64
import contextlib
import re
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from tests.testbed.api import Api, ApiError
from tests.testbed.isolation.cell import NODE_ADDRESS, Cell
from tests.testbed.parts.control_plane import ControlPlane
from tests.testbed.parts.part import Part
from tests.testbed.programs.builder import data, program

NAMESPACE = "volcano-system"
WEBHOOK_PORT = 8443
#: The accounts of its own manifests, which have rights in the whole cluster.
ACCOUNTS = ("volcano-scheduler", "volcano-controllers")
BINDINGS = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
HEALTH_PORTS = {"vc-scheduler": 11251, "vc-controller-manager": 11252, "vc-webhook-manager": 11253}
# The chart's own default.
ENABLED_WEBHOOKS = (
    "/jobs/mutate",
    "/jobs/validate",
    "/podgroups/validate",
    "/queues/mutate",
    "/queues/validate",
    "/hypernodes/validate",
    "/cronjobs/validate",
)
WEBHOOKS_ABOUT_JOBS = "/jobs/"
# "without-jobs" is how vcjob asks to be run next to Volcano: everything of Volcano's but what is about Jobs.
MODES = ("scheduler", "full", "without-jobs")
CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WEBHOOKS = "/apis/admissionregistration.k8s.io/v1"
QUEUES = "/apis/scheduling.volcano.sh/v1beta1/queues"


def grant_rights(api: Api) -> None:
    """Rights in the whole cluster for Volcano's accounts, as in its manifests: by these it is recognised."""
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
    for name in ACCOUNTS:
        if api.find(f"{BINDINGS}/{name}") is None:
            account = {"kind": "ServiceAccount", "name": name, "namespace": NAMESPACE}
            api.create(BINDINGS, {"metadata": {"name": name}, "roleRef": role, "subjects": [account]})


class Volcano:
    """``start`` installs and runs it, ``stop`` takes every trace of it out of the cluster again."""

    def __init__(self, cell: Cell, control_plane: ControlPlane) -> None:
        self.cell = cell
        self.control_plane = control_plane
        self.api = Api(control_plane.kubeconfig)
        self._crds_made: list[str] = []

    def start(self, mode: str = "full", controller_flags: tuple[str, ...] = ()) -> None:
        if mode not in MODES:
            raise ValueError(f"Volcano runs as {', '.join(MODES)}, not {mode!r}")
        self.prepare()
        configuration = data("volcano", "config") / "volcano-scheduler.conf"
        # With a Lease, as its own manifests for several replicas have it: others recognise a live scheduler by that.
        elect = ["--leader-elect=true", f"--leader-elect-resource-namespace={NAMESPACE}"]
        parts = [
            self._part("vc-scheduler", [f"--scheduler-conf={configuration}", *elect, "--cache-dumper=false"])
        ]
        if mode != "scheduler":
            if mode == "without-jobs":
                controller_flags = ("--controllers=*,-job-controller", *controller_flags)
            paths = [
                path
                for path in ENABLED_WEBHOOKS
                if mode == "full" or not path.startswith(WEBHOOKS_ABOUT_JOBS)
            ]
            parts.append(self._part("vc-controller-manager", [*elect, *controller_flags]))
            self._register_webhooks(paths)
            webhook_manager = self._webhook_manager(paths)
        for part in parts:
            part.wait_until(partial(part.answers, HEALTH_PORTS[part.name], "/healthz"), "healthy", 60)
        if mode != "scheduler":
            webhook_manager.wait_until(self._webhooks_answer, "answering", 60)

    def prepare(self) -> None:
        """All that its parts find when they start: its kinds, its namespace, its queues."""
        self.install_crds()
        if self.api.find(f"/api/v1/namespaces/{NAMESPACE}") is None:
            self.api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
        grant_rights(self.api)
        self._make_queues()

    def install_crds(self) -> None:
        for file in sorted(data("volcano", "crds").glob("*.yaml")) + sorted(
            data("volcano", "crds-jobflow").glob("*.yaml")
        ):
            definition = yaml.load(file.read_text(), Loader=yaml.CSafeLoader)
            name = definition["metadata"]["name"]
            if self.api.find(f"{CRDS}/{name}") is None:
                self.api.create(CRDS, definition)
                self._crds_made.append(name)
        for name in self._crds_made:
            self.api.wait(f"{CRDS}/{name}", _is_established, what="established")

    def stop(self) -> None:
        for kind in ("mutatingwebhookconfigurations", "validatingwebhookconfigurations"):
            for item in self.api.list(f"{WEBHOOKS}/{kind}"):
                if item["metadata"]["name"].startswith("volcano-admission-service"):
                    self.api.delete(f"{WEBHOOKS}/{kind}/{item['metadata']['name']}")
        for name in ("vc-controller-manager", "vc-webhook-manager", "vc-scheduler"):
            Part(self.cell, name).stop()
        for lease in (
            "volcano",
            "vc-controller-manager",
        ):  # else the next start would wait for the old leader to expire
            self.api.delete(f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{lease}")
        for name in ACCOUNTS:
            self.api.delete(f"{BINDINGS}/{name}")
        for name in self._crds_made:
            self.api.delete(f"{CRDS}/{name}")
        for name in self._crds_made:
            self._wait_until_gone(f"{CRDS}/{name}")
        self._crds_made.clear()

    def _wait_until_gone(self, crd: str) -> None:
        """A kind removed right after it was made: its clean-up may fail at first, and then backs off for many minutes.

        Any change of the object makes the API server try again at once.
        """
        for attempt in range(12):
            try:
                self.api.wait(crd, lambda seen: seen is None, 10, "gone")
                return
            except TimeoutError:
                nudge = {"metadata": {"annotations": {"testbed/removal": f"asked again, {attempt + 1}"}}}
                with contextlib.suppress(ApiError):  # gone in this moment
                    self.api.patch(crd, nudge)
        self.api.wait(crd, lambda seen: seen is None, 10, "gone")

    def _part(self, name: str, arguments: list[str]) -> Part:
        kubeconfig = self.control_plane.identity(f"volcano:{name}", ("system:masters",), inner=True)
        health = ["--enable-healthz=true", f"--healthz-address=0.0.0.0:{HEALTH_PORTS[name]}"]
        return Part(
            self.cell, name, [str(program(name)), f"--kubeconfig={kubeconfig}", *health, *arguments]
        ).start()

    def _webhook_manager(self, paths: list[str]) -> Part:
        certificate, key = self.control_plane.certificates.issue(
            "volcano-webhook", "volcano-webhook", hosts=(NODE_ADDRESS,)
        )
        return self._part(
            "vc-webhook-manager",
            [
                f"--tls-cert-file={certificate}",
                f"--tls-private-key-file={key}",
                f"--ca-cert-file={self.control_plane.certificates.file}",
                f"--admission-conf={data('volcano', 'config') / 'volcano-admission.conf'}",
                f"--port={WEBHOOK_PORT}",
                f"--webhook-namespace={NAMESPACE}",
                "--webhook-service-name=volcano-admission-service",
                f"--enabled-admission={','.join(paths)}",
                "--graceful-shutdown-time=1s",
            ],
        )

    def _register_webhooks(self, paths: list[str]) -> None:
        """Volcano's own registrations from its chart, with an address instead of a Service."""
        bundle = base64.b64encode(self.control_plane.certificates.file.read_bytes()).decode()
        for registration in _chart_webhooks(paths):
            for hook in registration["webhooks"]:
                path = hook["clientConfig"]["service"]["path"]
                hook["clientConfig"] = {
                    "url": f"https://{NODE_ADDRESS}:{WEBHOOK_PORT}{path}",
                    "caBundle": bundle,
                }
            kind = registration["kind"].lower() + "s"
            self.api.apply(f"{WEBHOOKS}/{kind}/{registration['metadata']['name']}", registration)

    def _webhooks_answer(self) -> bool:
        """A Queue that is promised more than it deserves must be refused by the webhook itself; until then the API server cannot reach it."""
        hopeless = {
            "apiVersion": "scheduling.volcano.sh/v1beta1",
            "kind": "Queue",
            "metadata": {"name": "hopeless"},
            "spec": {"weight": 1, "deserved": {"cpu": "1"}, "guarantee": {"resource": {"cpu": "2"}}},
        }
        try:
            self.api.create(f"{QUEUES}?dryRun=All", hopeless)
        except ApiError as error:
            return re.search("admission webhook .* denied", str(error)) is not None
        return False

    def _make_queues(self) -> None:
        for name in ("root", "default"):
            if self.api.find(f"{QUEUES}/{name}") is None:
                weight: dict[str, Any] = {"weight": 1, **({} if name == "root" else {"parent": "root"})}
                self.api.create(
                    QUEUES,
                    {
                        "apiVersion": "scheduling.volcano.sh/v1beta1",
                        "kind": "Queue",
                        "metadata": {"name": name},
                        "spec": {**weight, "reclaimable": name != "root"},
                    },
                )
                # The queue controller would open it, but there may be none, and Jobs are refused until then.
                self.api.patch(f"{QUEUES}/{name}/status", {"status": {"state": "Open"}})


def _is_established(definition: Any) -> bool:
    return any(
        condition["type"] == "Established" and condition["status"] == "True"
        for condition in (definition.get("status") or {}).get("conditions") or ()
    )


def _chart_webhooks(paths: list[str]) -> list[dict[str, Any]]:
    """The chart's template needs no helm: drop the lines that are only logic, name the release."""
    template = Path(data("volcano", "templates") / "webhooks.yaml").read_text()
    lines = [line for line in template.splitlines() if not re.fullmatch(r"\s*\{\{.*\}\}\s*", line)]
    text = re.sub(r"\{\{\s*\.Release\.\w+\s*\}\}", NAMESPACE, "\n".join(lines))
    documents = [document for document in yaml.load_all(text, Loader=yaml.CSafeLoader) if document]
    return [
        document
        for document in documents
        if document["webhooks"][0]["clientConfig"]["service"]["path"] in paths
    ]
