"""``python -m tests.testbed up|down|status|build``: the testbed by hand.

``up`` reads NODE=real|none, FAKES=n, VOLCANO=off|scheduler|full from the environment, leaves the testbed running and puts its
kubeconfig at ``.testbed/kubeconfig``; ``down`` ends every testbed that ``up`` started.
"""

from __future__ import annotations

import argparse
import sys

from . import build


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.testbed", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    building = verbs.add_parser("build", help="build what is missing in the cache")
    building.add_argument(
        "names", nargs="*", help="programs or families; volcano-e2e for Volcano's own end-to-end suites"
    )
    given = parser.parse_args()
    if given.verb == "build":
        build.build_all(given.names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
