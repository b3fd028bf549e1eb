"""The web UI with 1,000 ranks and 200 log lines per second: no task of the page may take longer than 100 ms.

python -m bench.ui_load     (needs Chromium and the packages of requirements/pages.txt; run it on an idle machine)
"""

from __future__ import annotations

import os
import subprocess
import sys

LONGEST_TASK_MS = "100"


def main() -> int:
    command = [sys.executable, "-m", "pytest", "-q", "-s", "tests/ui/test_browser_load.py"]
    return subprocess.call(command, env={**os.environ, "VCJOB_UI_LONG_TASK_MS": LONGEST_TASK_MS})


if __name__ == "__main__":
    sys.exit(main())
