"""The API server, the controller manager and the scheduler: real ones, each with an identity of its own."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from tests.testbed.api import Api, ApiError
from tests.testbed.isolation.cell import NODE_ADDRESS, POD_NETWORK, Cell
from tests.testbed.parts.certificates import Authority, service_account_keys
from tests.testbed.parts.etcd import CLIENT_URL, HEALTH_PORT, etcd
from tests.testbed.parts.part import Part
from tests.testbed.programs.builder import program

PORT = 6443
SERVICE_NETWORK = "10.96.0.0/16"
FIRST_SERVICE_ADDRESS = "10.96.0.1"
#: Rules of an audit policy, or whether there is to be one that notes every request.
Audit = list[dict[str, Any]] | bool
EVERY_REQUEST: list[dict[str, Any]] = [{"level": "Metadata"}]


class ControlPlane:
    """Starts the four parts at once; ready when the API server says so (the other two then follow on their own)."""

    def __init__(self, cell: Cell) -> None:
        self.cell = cell
        self.certificates = Authority(cell.folder / "certificates")
        self.audit_log = cell.folder / "audit.log"
        self.kubeconfig = cell.folder / "kubeconfig"
        # From the machine over the virtual cable; parts and pods use the node's address.
        self.server = f"https://{cell.address}:{PORT}"
        self.inner_server = f"https://{NODE_ADDRESS}:{PORT}"

    def start(self, audit: Audit = True) -> None:
        store = etcd(self.cell).start()
        self.certificates.kubeconfig(self.kubeconfig, self.server, "testbed-admin", ("system:masters",))
        api_server = Part(self.cell, "kube-apiserver", self._api_server_arguments(audit))
        store.wait_until(lambda: store.answers(HEALTH_PORT, "/health"), "healthy", 30)
        api_server.start()
        others = [
            Part(self.cell, "kube-controller-manager", self._controller_manager_arguments()),
            Part(self.cell, "kube-scheduler", self._scheduler_arguments()),
        ]
        self.wait_until_ready(api_server)
        for part in others:
            part.start()
        api = Api(self.kubeconfig)
        others[0].wait_until(
            lambda: api.find("/api/v1/namespaces/default/serviceaccounts/default"), "serving", 60
        )

    def wait_until_ready(self, api_server: Part, patience: float = 60) -> None:
        api = Api(self.kubeconfig)

        def ready() -> bool:
            try:
                return api.text("/readyz") == "ok"
            except ApiError:
                return False

        api_server.wait_until(ready, "ready", patience)

    def identity(self, user: str, groups: tuple[str, ...] = (), inner: bool = False) -> Path:
        """A kubeconfig for any user. With ``inner`` it is for a part or a pod, by the address used inside."""
        stem = user.replace(":", "-").replace("/", "-") + ("-inner" if inner else "")
        server = self.inner_server if inner else self.server
        return self.certificates.kubeconfig(
            self.cell.folder / "kubeconfigs" / f"{stem}.json", server, user, groups
        )

    def requests(self) -> Counter[tuple[str, str, str]]:
        """How often each (user, verb, resource) came, by the audit log."""
        counted: Counter[tuple[str, str, str]] = Counter()
        if not self.audit_log.exists():
            return counted
        with self.audit_log.open() as log:
            for line in log:
                try:
                    event = json.loads(line)
                except ValueError:  # the last line, while it is being written
                    continue
                resource = event.get("objectRef") or {}
                name = "/".join(filter(None, (resource.get("resource"), resource.get("subresource"))))
                counted[
                    event["user"].get("username", ""),
                    event["verb"],
                    name or event["requestURI"].split("?")[0],
                ] += 1
        return counted

    def _api_server_arguments(self, audit: Audit) -> list[str]:
        issue = self.certificates.issue
        public, private = service_account_keys(self.certificates.folder)
        names = (
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "localhost",
        )
        addresses = (self.cell.address, NODE_ADDRESS, FIRST_SERVICE_ADDRESS, "127.0.0.1")
        certificate, key = issue("kube-apiserver", "kube-apiserver", hosts=names + addresses)
        kubelet_certificate, kubelet_key = issue(
            "kube-apiserver-to-kubelet", "kube-apiserver", ("system:masters",)
        )
        arguments = [
            str(program("kube-apiserver")),
            f"--etcd-servers={CLIENT_URL}",
            "--bind-address=0.0.0.0",
            f"--secure-port={PORT}",
            f"--advertise-address={NODE_ADDRESS}",
            f"--tls-cert-file={certificate}",
            f"--tls-private-key-file={key}",
            f"--client-ca-file={self.certificates.file}",
            f"--kubelet-client-certificate={kubelet_certificate}",
            f"--kubelet-client-key={kubelet_key}",
            "--kubelet-preferred-address-types=InternalIP",
            f"--service-account-key-file={public}",
            f"--service-account-signing-key-file={private}",
            "--service-account-issuer=https://kubernetes.default.svc.cluster.local",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--authorization-mode=Node,RBAC",
            # The second as OpenShift has it: who owns an object must be allowed to hold its owner back.
            "--enable-admission-plugins=NodeRestriction,OwnerReferencesPermissionEnforcement",
            "--allow-privileged=true",
            f"--cert-dir={self.cell.folder / 'certificates'}",
            "--shutdown-delay-duration=0",
        ]
        if audit:
            policy = self.cell.folder / "audit-policy.json"
            rules = EVERY_REQUEST if audit is True else audit
            about = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"]}
            policy.write_text(json.dumps({**about, "rules": rules}))
            arguments += [
                f"--audit-policy-file={policy}",
                f"--audit-log-path={self.audit_log}",
                # A few lines that matter are written before the answer, so that none is lost with the server.
                f"--audit-log-mode={'batch' if audit is True else 'blocking'}",
                "--audit-log-batch-max-wait=1s",
                "--audit-log-maxsize=2000",
            ]
        return arguments

    def _controller_manager_arguments(self) -> list[str]:
        _, private = service_account_keys(self.certificates.folder)
        kubeconfig = self.identity("system:kube-controller-manager", inner=True)
        return [
            str(program("kube-controller-manager")),
            f"--kubeconfig={kubeconfig}",
            f"--service-account-private-key-file={private}",
            f"--root-ca-file={self.certificates.file}",
            f"--cluster-signing-cert-file={self.certificates.file}",
            f"--cluster-signing-key-file={self.certificates.key_file}",
            "--use-service-account-credentials=true",
            "--leader-elect=false",
            f"--cluster-cidr={POD_NETWORK}",
            f"--service-cluster-ip-range={SERVICE_NETWORK}",
            "--allocate-node-cidrs=false",
            f"--flex-volume-plugin-dir={self.cell.folder / 'volume-plugins'}",
            "--node-monitor-period=2s",
            "--node-monitor-grace-period=20s",
            # Nothing here is slow to start again; a quick view of the world is worth more than a gentle one.
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.cell.folder / 'certificates' / 'kube-controller-manager'}",
        ]

    def _scheduler_arguments(self) -> list[str]:
        kubeconfig = self.identity("system:kube-scheduler", inner=True)
        configuration = self.cell.folder / "kube-scheduler.json"
        configuration.write_text(
            json.dumps(
                {
                    "apiVersion": "kubescheduler.config.k8s.io/v1",
                    "kind": "KubeSchedulerConfiguration",
                    "clientConnection": {"kubeconfig": str(kubeconfig), "qps": 1000, "burst": 2000},
                    "leaderElection": {"leaderElect": False},
                    "podMaxBackoffSeconds": 2,
                }
            )
        )
        return [
            str(program("kube-scheduler")),
            f"--config={configuration}",
            "--bind-address=127.0.0.1",
            f"--cert-dir={self.cell.folder / 'certificates' / 'kube-scheduler'}",
        ]
