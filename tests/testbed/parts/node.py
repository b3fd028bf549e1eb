"""A real node: containerd, a kubelet and a kube-proxy, named ``node``."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor

from tests.testbed.api import Api
from tests.testbed.images import debian
from tests.testbed.isolation.cell import NODE_ADDRESS, POD_NETWORK, Cell
from tests.testbed.parts import containers, processors
from tests.testbed.parts.control_plane import ControlPlane
from tests.testbed.parts.part import Part
from tests.testbed.programs.builder import program

NAME = "node"
CLUSTER_DOMAIN = "cluster.local"


class Node:
    """The one real node of a testbed. ``start`` returns when the API server sees it Ready."""

    def __init__(self, cell: Cell, control_plane: ControlPlane) -> None:
        self.cell = cell
        self.control_plane = control_plane

    def start(self, images: tuple[str, ...] = ("pause", "busybox"), pretended_cpus: int = 0) -> None:
        debian.ensure()
        if pretended_cpus:
            processors.pretend(self.cell, pretended_cpus)
        runtime = containers.containerd(self.cell).start()
        kubelet = Part(self.cell, "kubelet", self._kubelet_arguments())
        proxy = Part(self.cell, "kube-proxy", self._proxy_arguments()).start()
        containers.wait_until_ready(self.cell, runtime)
        kubelet.start()
        with ThreadPoolExecutor() as pool:
            list(pool.map(self.load_image, images))
        api = Api(self.control_plane.kubeconfig)
        kubelet.wait_until(lambda: _is_ready(api), "Ready", 60)
        if not proxy.running:
            proxy.wait_until(lambda: False, "up", 0)

    def load_image(self, name: str) -> None:
        """Makes an image of tests/testbed/images/catalog.py known to the node, under all its names."""
        containers.load_image(self.cell, name)

    def _kubelet_arguments(self) -> list[str]:
        folder = self.cell.folder / "kubelet"
        folder.mkdir(exist_ok=True)
        resolver = folder / "resolv.conf"
        resolver.write_text("# nothing outside can be asked\n")
        kubeconfig = self.control_plane.identity(f"system:node:{NAME}", ("system:nodes",), inner=True)
        configuration = folder / "config.json"
        configuration.write_text(
            json.dumps(
                {
                    "apiVersion": "kubelet.config.k8s.io/v1beta1",
                    "kind": "KubeletConfiguration",
                    "authentication": {
                        "anonymous": {"enabled": False},
                        "webhook": {"enabled": True},
                        "x509": {"clientCAFile": str(self.control_plane.certificates.file)},
                    },
                    "authorization": {"mode": "Webhook"},
                    "containerRuntimeEndpoint": f"unix://{containers.SOCKET}",
                    "failCgroupV1": False,
                    "cgroupDriver": "cgroupfs",
                    "cgroupRoot": f"/{self.cell.cgroup}",
                    "enforceNodeAllocatable": [],
                    "clusterDNS": [NODE_ADDRESS],
                    "clusterDomain": CLUSTER_DOMAIN,
                    "resolvConf": str(resolver),
                    "podLogsDir": str(folder / "pod-logs"),
                    "volumePluginDir": str(folder / "volume-plugins"),
                    "maxPods": 200,
                    "registryPullQPS": 0,
                    "serializeImagePulls": True,
                    "eventRecordQPS": 0,
                    "kubeAPIQPS": 200,
                    "kubeAPIBurst": 400,
                    "syncFrequency": "10s",
                    "volumeStatsAggPeriod": "1s",
                    "nodeStatusUpdateFrequency": "2s",
                    "nodeLeaseDurationSeconds": 8,
                    "evictionPressureTransitionPeriod": "5s",
                    "evictionHard": {
                        "memory.available": "100Mi",
                        "nodefs.available": "1Gi",
                        "imagefs.available": "1Gi",
                    },
                    "imageGCHighThresholdPercent": 100,
                    "shutdownGracePeriod": "0s",
                    "healthzPort": 0,
                    "readOnlyPort": 0,
                }
            )
        )
        return [
            str(program("kubelet")),
            f"--config={configuration}",
            f"--kubeconfig={kubeconfig}",
            "--root-dir=/var/lib/kubelet",
            f"--cert-dir={folder / 'certificates'}",
            f"--hostname-override={NAME}",
            f"--node-ip={NODE_ADDRESS}",
            "--v=1",
        ]

    def _proxy_arguments(self) -> list[str]:
        kubeconfig = self.control_plane.identity("system:kube-proxy", inner=True)
        return [
            str(program("kube-proxy")),
            f"--kubeconfig={kubeconfig}",
            "--proxy-mode=nftables",
            f"--cluster-cidr={POD_NETWORK}",
            f"--hostname-override={NAME}",
            "--conntrack-max-per-core=0",
            "--conntrack-tcp-timeout-established=0",
            "--conntrack-tcp-timeout-close-wait=0",
            "--healthz-bind-address=127.0.0.1:10256",
            "--metrics-bind-address=127.0.0.1:10249",
        ]


def _is_ready(api: Api) -> bool:
    seen = api.find(f"/api/v1/nodes/{NAME}")
    conditions = seen["status"].get("conditions", ()) if seen else ()
    return any(condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions)
