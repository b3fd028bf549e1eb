"""The web UI in Chromium: the first paint, and one minute of 1,000 ranks with 200 log lines per second.

After the first 20 seconds no task of the page's main thread may take longer than 100 ms and its memory may not grow;
the first paint must follow the server's answer within 300 ms.

python -m bench.ui_load     (needs Chromium and the packages of requirements/pages.txt; run it on an idle machine)
"""

from __future__ import annotations

import os
import subprocess
import sys

LIMITS = {"VCJOB_UI_SECONDS": "60", "VCJOB_UI_LONG_TASK_MS": "100", "VCJOB_UI_PAINT_MS": "300"}


def main() -> int:
    tests = ["tests/ui/browser/test_paint.py", "tests/ui/browser/test_load.py"]
    command = [sys.executable, "-m", "pytest", "-q", "-s", *tests]
    return subprocess.call(command, env={**os.environ, **LIMITS})


if __name__ == "__main__":
    sys.exit(main())
