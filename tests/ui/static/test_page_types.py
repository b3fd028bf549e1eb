"""`scripts/check-page-types` where the type checker cannot be installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[3] / "scripts" / "check-page-types"


@pytest.mark.parametrize(("variables", "expected"), [({}, 0), ({"CI": "true"}, 1)])
def test_without_a_registry_the_check_says_so_and_fails_in_ci_only(
    variables: dict[str, str], expected: int, tmp_path: Path
) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho 'no route to the registry' >&2; exit 1\n")
    python.chmod(0o700)
    environment = {name: value for name, value in os.environ.items() if name != "CI"} | variables
    done = subprocess.run(
        [sys.executable, SCRIPT, tmp_path], env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == expected
    assert "were not checked: Node could not be installed: no route to the registry" in done.stderr
