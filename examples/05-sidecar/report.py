"""Follows the metrics of its rank until SIGTERM; then reads the rest."""

import os
import signal
import sys
import time

path = os.path.join(sys.argv[1], "metrics")
stopping: list[int] = []
signal.signal(signal.SIGTERM, lambda number, _frame: stopping.append(number))
while not os.path.exists(path) and not stopping:
    time.sleep(0.02)
with open(path) as metrics:
    while True:
        last = bool(stopping)
        for line in metrics:
            print(f"reported: {line.strip()}", flush=True)
        if last:
            break
        time.sleep(0.05)
