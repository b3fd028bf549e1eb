"""wait-for-master compared with the loop of Volcano's own script: the wait part of the race."""

from __future__ import annotations

import sys

from bench.race.launching.waiting import main
from bench.race.report.table import text

if __name__ == "__main__":
    rows = main()
    print(text(rows))
    sys.exit(0 if all(row["met"] for row in rows) else 1)
