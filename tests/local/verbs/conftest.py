"""Job files for the verbs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import vcjob


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def written(document: dict[str, Any]) -> str:
        (tmp_path / "job.yaml").write_text(vcjob.to_yaml(document))
        return str(tmp_path / "job.yaml")

    return written
