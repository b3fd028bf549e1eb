"""Where things lie: the repository, the cache of built tools, the folder of one testbed."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
PACKAGE = Path(__file__).resolve().parent
UP_FOLDER = REPOSITORY / ".testbed"


def cache_folder() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    folder = Path(base) / "vcjob-testbed"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def scratch_folder() -> Path:
    """The parent of all testbeds that tests start; also where the sweep looks for what a crash left."""
    folder = Path(tempfile.gettempdir()) / f"vcjob-testbed-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    return folder
