"""``python -m bench.soak``: prints the curves; exit code 1 if one does not return to its early level.

The environment makes it smaller: JOBS=2000, BYTES=1000000000, HOURS=1, ONLY=controller,output,followers.
"""

from __future__ import annotations

import os
import sys

from bench.soak.curve import Curve

PARTS = ("followers", "output", "controller")


def main() -> int:
    jobs, total = int(os.environ.get("JOBS") or 20_000), int(os.environ.get("BYTES") or 10_000_000_000)
    hours = float(os.environ.get("HOURS") or 4)
    chosen = [part for part in (os.environ.get("ONLY") or "").split(",") if part] or PARTS
    unknown = set(chosen) - set(PARTS)
    if unknown:
        raise SystemExit(f"ONLY names {', '.join(PARTS)}, not {', '.join(sorted(unknown))}")
    curves = [curve for part in chosen for curve in _soak(part, jobs, total, hours)]
    print()
    for curve in curves:
        curve.show()
    excess = [problem for curve in curves for problem in curve.excess()]
    print("\n".join(excess) or "everything has returned to its early level")
    return 1 if excess else 0


def _soak(part: str, jobs: int, total: int, hours: float) -> list[Curve]:
    if part == "controller":
        from bench.soak import controller

        return [controller.soak(jobs)]
    from bench.soak import local

    return local.soak_output(total) if part == "output" else local.soak_followers(hours)


if __name__ == "__main__":
    sys.exit(main())
