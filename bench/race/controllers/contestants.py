"""Who races: Volcano's controller manager as it comes and tuned, ours, and a bare client that only creates pods."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from bench.race.controllers.service_accounts import kubeconfig, user_of
from tests.cluster.controller.controller_part import run_controller
from tests.testbed.cluster import Cluster
from tests.testbed.parts.part import Part
from tests.testbed.programs.builder import program

VOLCANO_HEALTH = 11252
#: Raised until it got no faster; `--tune` tries the steps again.
TUNING_STEPS: tuple[tuple[int, int], ...] = ((200, 3), (1000, 10), (2000, 20), (2000, 50), (5000, 100))
TUNED = (2000, 50)


class Contestant(msgspec.Struct, frozen=True):
    name: str
    #: As the audit log names it.
    user: str
    start: Callable[[Cluster], Part] | None = None  # None: the race's own client does it all
    #: Runs in one round and to the last pod's creation only: at 50 requests a second the rest takes minutes,
    #: and the rate makes every round the same.
    briefly: bool = False


def volcano(name: str, *flags: str, briefly: bool = False) -> Contestant:
    account = "vc-controller-manager"

    def start(cluster: Cluster) -> Part:
        part = Part(
            cluster.cell,
            "vc-controller-manager",
            [
                str(program("vc-controller-manager")),
                f"--kubeconfig={kubeconfig(cluster, account)}",
                "--enable-healthz=true",
                f"--healthz-address=0.0.0.0:{VOLCANO_HEALTH}",
                *flags,
            ],
        ).start()
        part.wait_until(lambda: part.answers(VOLCANO_HEALTH, "/healthz"), "ready", 60)
        return part

    return Contestant(name, user_of(account), start, briefly)


def tuned(rate: int, workers: int, name: str = "volcano-tuned") -> Contestant:
    return volcano(
        name,
        f"--kube-api-qps={rate}",
        f"--kube-api-burst={rate}",
        f"--worker-threads={workers}",
        f"--worker-threads-for-podgroup={max(5, workers)}",
        f"--worker-threads-for-queue={max(5, workers)}",
        f"--worker-threads-for-gc={max(1, workers // 4)}",
    )


def ours(*flags: str) -> Contestant:
    account = "vcjob"

    def start(cluster: Cluster) -> Part:
        return run_controller(cluster, kubeconfig(cluster, account), "--gang=volcano", *flags)

    return Contestant("ours", user_of(account), start)


BARE = Contestant("bare", user_of("race"))
DEFAULT = volcano("volcano-default", briefly=True)
