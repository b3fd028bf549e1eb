"""What goes wrong in the storm, drawn from one seed: faults in an order of its own, and the leader killed in
between."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tests.cluster.controller.faults.storm.controller import OFFSET, set_clock
from tests.cluster.controller.faults.storm.users import Tenant, controller_of, insist
from tests.testbed.api import ApiError
from tests.testbed.cluster import Cluster
from tests.testbed.proxy import ApiProxy, Fault
from vcjob.cluster.install.settings import LEASE, NAME, NAMESPACE

ACCOUNT = f"system:serviceaccount:{NAMESPACE}:{NAME}"
LEASE_PATH = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{LEASE}"
#: Chances at every request, all the time.
NOISE = (
    Fault(method="POST", path="/pods$", answer=429, retry_after=1, chance=0.05),
    Fault(method="POST", answer=500, chance=0.04),
    Fault(method="POST", path="/(pods|services|configmaps|networkpolicies)$", lose_answer=True, chance=0.05),
    Fault(method="PATCH", lose_answer=True, chance=0.06),
    Fault(method="PATCH", answer=409, chance=0.06),
    Fault(method="PUT", answer=500, chance=0.02),
    Fault(watch=False, delay=0.4, chance=0.05),
    Fault(method="DELETE", lose_answer=True, chance=0.06),
    Fault(method="DELETE", answer=503, chance=0.05),
    Fault(watch=True, gone=True, chance=0.1),
    Fault(watch=True, cut_after=4, chance=0.2),
)


class Replica:
    """One place for a controller: its own way to the API server, its own clock, and whoever serves there now."""

    def __init__(self, cluster: Cluster, folder: Path, number: int, seed: int) -> None:
        self.proxy = ApiProxy(cluster, ACCOUNT, "system:authenticated", seed=seed + number)
        self.clock = folder / f"clock-{number}"
        self.clock.write_bytes(OFFSET.pack(0.0))
        self.log = folder / f"controller-{number}.log"
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        set_clock(self.clock, 0.0)
        command = [sys.executable, "-m", "tests.cluster.controller.faults.storm.controller", str(self.clock)]
        options = ["--kubeconfig", str(self.proxy.kubeconfig), "--no-webhook", "--gang", "none",
                   "--host", "127.0.0.1", "--health-port", "0", "--metrics-port", "0", "--log-format", "text"]  # fmt: skip
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*command, *options], stdout=log, stderr=log)

    def end(self, number: int = signal.SIGKILL) -> None:
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(30)


class FaultInjector:
    """Two replicas of the controller behind proxies of their own, and the thread that injects the faults."""

    def __init__(
        self, cluster: Cluster, tenants: list[Tenant], folder: Path, seed: int, say: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._api = cluster.api
        self._tenants = tenants
        self._chance = random.Random(seed)
        self._say = say
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        self.counts: dict[str, int] = {}
        self.replicas = [Replica(cluster, folder, number, seed) for number in range(2)]
        self.faults: dict[str, Callable[[], None]] = {
            "the leader sleeps past its Lease": self._leader_sleeps,
            "the leader is cut off": self._leader_is_cut_off,
            "the leader's clock jumps": self._clock_jumps,
            "the API server restarts": self._restart_api_server,
            "the API server is killed": self._kill_api_server,
            "etcd is killed": self._kill_etcd,
            "watches are cut": self._cut_watches,
            "a node drives its pods out": self._taint_node,
            "a node is lost": self._lose_node,
            "Services are deleted": self._delete_objects,
            "the quota is full": self._fill_quota,
        }

    def __enter__(self) -> FaultInjector:
        for replica in self.replicas:
            replica.proxy.__enter__()
            replica.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        if self._thread is not None:
            self._thread.join(60)
        for replica in self.replicas:
            replica.end()
            replica.proxy.__exit__(None, None, None)

    def start(self, rounds: int, kinds: int) -> None:
        """Begin the storm, with so many kinds of faults in each round; `active` tells whether it still goes on."""
        for tenant in self._tenants:
            tenant.in_a_storm = True
        for replica in self.replicas:
            for fault in NOISE:
                replica.proxy.add(Fault(**vars(fault)))
        self._thread = threading.Thread(target=self._inject, args=(rounds, kinds), daemon=True)
        self._thread.start()

    @property
    def active(self) -> bool:
        if self._failure is not None:
            raise self._failure
        return self._thread is not None and self._thread.is_alive()

    def repair(self) -> None:
        """What a kubelet does for a control plane: parts that ended on their own are started again."""
        for name, part in self._cluster.parts().items():
            if name in ("kube-scheduler", "kube-controller-manager", "kwok") and not part.running:
                self._say(f"{name} ended on its own")
                part.start()

    def stop_faults(self) -> None:
        """No more faults, and two controllers in good health."""
        for tenant in self._tenants:
            tenant.in_a_storm = False
        for replica in self.replicas:
            replica.proxy.clear()
            set_clock(replica.clock, 0.0)
            if replica.process.poll() is not None:
                replica.start()

    def _inject(self, rounds: int, kinds: int) -> None:
        try:
            for _ in range(rounds):
                for name in self._chance.sample(sorted(self.faults), kinds):
                    for kind, fault in (
                        ("the leader is killed", self._kill_leader),
                        (name, self.faults[name]),
                    ):
                        self._over.wait(self._chance.uniform(0.2, 2.0))
                        if self._over.is_set():
                            return
                        self._say(kind)
                        self.counts[kind] = self.counts.get(kind, 0) + 1
                        fault()
        except BaseException as error:
            self._failure = error

    # Faults of the controllers

    def _leader(self, patience: float = 10) -> Replica:
        """Who leads; the first one where nobody does for too long."""
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline and not self._over.is_set():
            for replica in self.replicas:
                if replica.process.poll() is not None:
                    replica.start()  # it exited on its own; a kubelet would restart it
            found = insist(lambda: self._api.find(LEASE_PATH))
            holder = found["spec"].get("holderIdentity") or "" if found else ""
            for replica in self.replicas:
                if f"_{replica.process.pid}_" in holder:
                    return replica
            time.sleep(0.1)
        return self.replicas[0]

    def _until_another_leads(self, replica: Replica) -> None:
        deadline = time.monotonic() + 15
        while self._leader() is replica and time.monotonic() < deadline and not self._over.is_set():
            time.sleep(0.1)

    def _kill_leader(self) -> None:
        leader = self._leader()
        leader.end()
        leader.start()

    def _leader_sleeps(self) -> None:
        leader = self._leader()
        leader.process.send_signal(signal.SIGSTOP)
        try:
            self._until_another_leads(leader)
            self._over.wait(self._chance.uniform(0, 1.5))
        finally:
            leader.process.send_signal(signal.SIGCONT)

    def _leader_is_cut_off(self) -> None:
        leader = self._leader()
        cut = Fault(drop=True)
        leader.proxy.put_first(cut)
        leader.proxy.cut_watches()
        self._until_another_leads(leader)
        self._over.wait(self._chance.uniform(0, 1.5))
        leader.proxy.remove(cut)

    def _clock_jumps(self) -> None:
        set_clock(self._leader().clock, self._chance.choice((-1, 1)) * self._chance.uniform(60, 7200))
        self._over.wait(self._chance.uniform(1, 4))

    # Faults of the cluster

    def _restart_api_server(self) -> None:
        part = self._cluster.part("kube-apiserver")
        part.stop(patience=3)  # it would wait a minute for watches to end
        part.start()

    def _kill_api_server(self) -> None:
        part = self._cluster.part("kube-apiserver")
        part.kill()
        part.start()

    def _kill_etcd(self) -> None:
        part = self._cluster.part("etcd")
        part.kill()
        self._over.wait(self._chance.uniform(0, 1))
        part.start()

    def _cut_watches(self) -> None:
        for replica in self.replicas:
            replica.proxy.cut_watches()

    def _some_node(self) -> str:
        nodes = insist(lambda: self._api.list("/api/v1/nodes?labelSelector=storm%21%3Dsafe"))
        return str(self._chance.choice(sorted(node["metadata"]["name"] for node in nodes)))

    def _taint_node(self) -> None:
        path = f"/api/v1/nodes/{self._some_node()}"
        taint = {"key": "testbed.invalid/storm", "effect": "NoExecute"}
        insist(lambda: self._api.patch(path, {"spec": {"taints": [taint]}}))
        self._over.wait(self._chance.uniform(1, 3))
        insist(lambda: self._api.patch(path, {"spec": {"taints": None}}))

    def _lose_node(self) -> None:
        """As when a machine is taken out of a cloud: its pods hang until the control plane clears them away."""
        name = self._some_node()
        insist(lambda: self._api.delete(f"/api/v1/nodes/{name}"))
        insist(lambda: self._cluster.fakes(1))

    def _delete_objects(self) -> None:
        for tenant in self._tenants:
            for plural in ("services", "configmaps", "networkpolicies"):
                ours = [thing["metadata"]["name"] for thing in tenant.list(plural) if controller_of(thing)]
                chosen = self._chance.sample(ours, min(len(ours), 5))
                for name in sorted({*chosen, *(name for name in ours if name.startswith("lasts-"))}):
                    tenant.delete(plural, name)

    def _fill_quota(self) -> None:
        tenant = self._chance.choice(self._tenants)
        quota = {"metadata": {"name": "full"}, "spec": {"hard": {"pods": "1"}}}
        tenant.create("resourcequotas", quota)
        self._over.wait(self._chance.uniform(2, 5))
        try:
            tenant.delete("resourcequotas", "full")
        except ApiError as error:
            if error.code != 404:
                raise
