"""``python -m tests.testbed up|down|status|build``: the testbed by hand.

``up`` reads NODE=real|none, FAKES=n, VOLCANO=off|scheduler|full|without-jobs from the environment, leaves the testbed running and puts its
kubeconfig at ``.testbed/kubeconfig``; ``down`` ends every testbed that ``up`` started.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from tests.testbed import support
from tests.testbed.cluster import Cluster
from tests.testbed.images import catalog as images
from tests.testbed.isolation import leftovers
from tests.testbed.isolation.cell import Cell
from tests.testbed.isolation.keeper import READY_FILE
from tests.testbed.parts.volcano import MODES
from tests.testbed.paths import UP_FOLDER
from tests.testbed.programs import builder as build

KUBECONFIG = UP_FOLDER / "kubeconfig"


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.testbed", description="A real Kubernetes on this machine."
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    verbs.add_parser(
        "up",
        help="start one and leave it running: NODE=real|none FAKES=n VOLCANO=off|scheduler|full|without-jobs",
    )
    verbs.add_parser("down", help="end every one that up started")
    verbs.add_parser("status", help="what is running")
    verbs.add_parser(
        "check", help="can it run here, and is it built? exit code 0: yes; 3: it cannot; 4: not built"
    )
    building = verbs.add_parser("build", help="build what the cache lacks")
    building.add_argument(
        "names", nargs="*", help="programs, families or images; volcano-e2e for Volcano's own suites"
    )
    given = parser.parse_args()
    if given.verb == "build":
        return build_things(given.names)
    return {"up": up, "down": down, "status": status, "check": check}[given.verb]()


def check() -> int:
    problem = support.control_plane_problem() or support.node_problem()
    if problem:
        print(problem)
        return 3
    absent = build.missing()
    if absent:
        print(
            f"{len(absent)} of its programs are not built yet ({', '.join(absent[:4])}, ...). `make test-cluster` "
            "builds Kubernetes, etcd, CoreDNS, kwok and Volcano from source (about 15 minutes on two cores, once) "
            "and runs all cluster tests"
        )
        return 4
    return 0


def build_things(names: list[str]) -> int:
    build.build_all([name for name in names if name not in images.IMAGES] or None)
    for name in (name for name in names if name in images.IMAGES):
        print(images.image(name))
    return 0


def setting(name: str, choices: tuple[str, ...]) -> str:
    value = os.environ.get(name) or choices[0]
    if value not in choices:
        raise SystemExit(f"{name} is {value!r}; it can be {', '.join(choices)}")
    return value


def up() -> int:
    node = setting("NODE", ("real", "none"))
    volcano = setting("VOLCANO", ("off", *MODES))
    fakes = os.environ.get("FAKES") or "0"
    if not fakes.isdigit():
        raise SystemExit(f"FAKES is {fakes!r}; it can be a number of nodes")
    problem = support.node_problem() if node == "real" else support.control_plane_problem()
    if problem:
        raise SystemExit(f"no testbed here: {problem}")
    began = time.monotonic()
    UP_FOLDER.mkdir(exist_ok=True)
    cluster = Cluster.start(parent=UP_FOLDER, owned=False)
    try:
        _say("control plane", began)
        if node == "real":
            cluster.start_node("guide", "vcjob")
            cluster.start_dns()
            _say("node and DNS", began)
        if int(fakes):
            # Next to a real node their taint keeps other pods away: nothing runs on them.
            cluster.fakes(int(fakes), taint=node == "real")
            _say(f"{fakes} fake nodes", began)
        if volcano != "off":
            cluster.start_volcano(volcano)
            _say(f"Volcano ({volcano})", began)
    except BaseException:
        cluster.stop()
        raise
    KUBECONFIG.unlink(missing_ok=True)
    KUBECONFIG.symlink_to(cluster.kubeconfig.relative_to(UP_FOLDER))
    kubectl = build.program("kubectl")
    print(f"\nexport KUBECONFIG={KUBECONFIG}\n{kubectl} get nodes,pods -A\n\nmake cluster-down ends it.")
    return 0


def _say(what: str, began: float) -> None:
    print(f"{what}: ready {time.monotonic() - began:.1f} s after the start", flush=True)


def _running() -> list[Path]:
    if not UP_FOLDER.exists():
        return []
    leftovers.sweep(UP_FOLDER)
    return sorted(folder for folder in UP_FOLDER.iterdir() if (folder / READY_FILE).exists())


def down() -> int:
    for folder in _running():
        Cell.attach(folder).destroy()
        found = leftovers.find(folder.name)
        print(f"testbed {folder.name} has ended" + "".join(f"\n  still there: {thing}" for thing in found))
    KUBECONFIG.unlink(missing_ok=True)
    if UP_FOLDER.exists() and not any(UP_FOLDER.iterdir()):
        UP_FOLDER.rmdir()
    return 0


def status() -> int:
    for folder in _running():
        cluster = Cluster.attach(folder)
        print(f"testbed {folder.name} at {cluster.server}, {cluster.cell.memory() / 2**30:.2f} GiB of memory")
        for name, part in cluster.parts().items():
            print(f"  {name:25} {'running' if part.running else f'ended (exit {part.exit_code})'}")
    if not _running():
        print("no testbed is running (make cluster starts one)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
