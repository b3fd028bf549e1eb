"""Asks for another try at its first attempt, then does its work."""

import os
import sys

index, attempt = os.environ["VC_TASK_INDEX"], int(os.environ["ATTEMPT"])
if attempt == 0:
    print(f"worker {index} is not ready, exit code 3", flush=True)
    sys.exit(3)
print(f"worker {index} did its work at the second try", flush=True)
