"""Asks for another try once, then does its work. A file remembers that it has been here."""

import os
import sys

index = os.environ["VC_TASK_INDEX"]
mark = f"tried-{index}"
if not os.path.exists(mark):
    with open(mark, "w"):
        print(f"worker {index} is not ready, exit code 3", flush=True)
    sys.exit(3)
os.unlink(mark)
print(f"worker {index} did its work at the second try", flush=True)
