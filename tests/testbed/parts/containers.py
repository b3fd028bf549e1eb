"""containerd: its own root, state and socket, bridge networking, and images imported from archives."""

from __future__ import annotations

import json
import time
from pathlib import Path

from tests.testbed.images import debian
from tests.testbed.images.catalog import PAUSE, image
from tests.testbed.isolation.cell import POD_NETWORK, Cell, TestbedFailed
from tests.testbed.isolation.pid1 import BRIDGE
from tests.testbed.parts.part import Part

# In the testbed's own /run, a file system of its own: the same short path in every testbed.
SOCKET = "/run/containerd/containerd.sock"


def containerd(cell: Cell) -> Part:
    folder = cell.folder / "containerd"
    (folder / "cni").mkdir(parents=True, exist_ok=True)
    (folder / "cni" / "10-bridge.conflist").write_text(json.dumps(_network(folder)))
    configuration = folder / "config.toml"
    configuration.write_text(_configuration(folder))
    return Part(cell, "containerd", ["containerd", "--config", str(configuration)])


def wait_until_ready(cell: Cell, part: Part) -> None:
    part.wait_until(
        lambda: cell.run("ctr", "--address", SOCKET, "version", check=False).returncode == 0, "answering", 30
    )

    def serves_kubelets() -> bool:  # later than the rest, where it has containers of earlier to look after
        said = part.log_file.read_text(errors="replace")
        return said.rfind("Start streaming server") > said.rfind("starting containerd")

    part.wait_until(serves_kubelets, "serving kubelets", 30)


def load_image(cell: Cell, name: str) -> None:
    archive = image(name)
    # Two images may bear one name (the guide's, with and without torch): the last one loaded has it.
    mark = cell.folder / "containerd" / f"loaded-{name.split('-')[0]}"
    if mark.exists() and mark.read_text() == archive.name:
        return
    for attempt in range(3):  # an import right after the start may find the store still opening
        done = cell.run(
            "ctr",
            "--address",
            SOCKET,
            "-n",
            "k8s.io",
            "images",
            "import",
            str(archive),
            check=False,
            timeout=300,
        )
        if done.returncode == 0:
            mark.write_text(archive.name)
            return
        time.sleep(0.2 * (attempt + 1))
    raise TestbedFailed(f"image {name} cannot be loaded: {(done.stderr or done.stdout).strip()[-1000:]}")


def _network(folder: Path) -> dict[str, object]:
    return {
        "cniVersion": "1.0.0",
        "name": "testbed",
        "plugins": [
            {
                "type": "bridge",
                "bridge": BRIDGE,
                "isDefaultGateway": True,
                "hairpinMode": True,
                "ipam": {
                    "type": "host-local",
                    "dataDir": str(folder / "addresses"),
                    "ranges": [
                        [{"subnet": POD_NETWORK, "rangeStart": "10.88.1.1", "rangeEnd": "10.88.250.250"}]
                    ],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": True}},
        ],
    }


def _configuration(folder: Path) -> str:
    # restrict_oom_score_adj: without the right to lower a process's score (containers of CI lack it) every sandbox would die.
    return f"""version = 2
root = "{folder}/root"
state = "/run/containerd/state"
oom_score = 0
disabled_plugins = ["io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.zfs", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "{SOCKET}"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE}"
  restrict_oom_score_adj = true
  disable_apparmor = true
  max_concurrent_downloads = 1
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{debian.cni_folder()}"
    conf_dir = "{folder}/cni"
"""
