"""The schema in the package is what scripts/cut_schema.py makes of Kubernetes' own."""

from __future__ import annotations

import runpy
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent


def test_the_schema_in_the_package_is_current() -> None:
    script = runpy.run_path(str(ROOT / "scripts/cut_schema.py"))
    assert script["schema_text"]("1.37") == script["TARGET"].read_text()
