"""The schema in the package is what scripts/cut_schema.py makes of Kubernetes' own."""

from __future__ import annotations

import json
import re
import runpy
from pathlib import Path

from vcjob.spec import schema

ROOT = Path(__file__).parent.parent.parent


def test_the_schema_in_the_package_is_current() -> None:
    script = runpy.run_path(str(ROOT / "scripts/cut_schema.py"))
    assert script["schema_text"]("1.37") == script["TARGET"].read_text()


def test_every_pattern_has_a_description() -> None:
    folder = Path(schema.__file__).parent / "schemas"
    text = (folder / "kubernetes.json").read_text() + (folder / "job.json").read_text()
    assert text.count('"pattern"') == text.count('"description"') > 20


def test_the_schema_has_no_prose_and_no_foreign_references() -> None:
    folder = Path(schema.__file__).parent / "schemas"
    core = json.loads((folder / "kubernetes.json").read_text())
    for reference in re.findall(r'"\$ref": "([^"]+)"', json.dumps(core)):
        assert reference.removeprefix("#/$defs/") in core
