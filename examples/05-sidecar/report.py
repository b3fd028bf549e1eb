"""Follows the metrics of its rank until SIGTERM; then reads the rest."""

import os
import signal
import sys
import time

# The variable is set only on a machine that does not allow mounts.
path = os.path.join(os.environ.get("VCJOB_MOUNT_TMP_VCJOB_METRICS", sys.argv[1]), "metrics")
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
