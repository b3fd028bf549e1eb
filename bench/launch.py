"""Compared with torchrun: how soon all ranks have talked to each other, how soon a death is noticed, how much memory.

python -m bench.launch [--rounds 7] [--ranks 2 4 8] [--who torchrun bare plain warm kept] [--only times|deaths|memory]

The launcher part of the race (bench/race/launching/race.py), without the launchers that must be installed first.
"""

from __future__ import annotations

import sys

from bench.race.launching.race import main
from bench.race.report.table import text

ALONE = ("--who", "torchrun", "bare", "plain", "warm", "kept")

if __name__ == "__main__":
    rows = main([*ALONE, *sys.argv[1:]])
    print(text(rows))
    sys.exit(0 if rows and all(row["met"] for row in rows) else 1)
