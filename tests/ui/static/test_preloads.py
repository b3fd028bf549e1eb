"""The list of scripts in the page: the browser requests all of them at once, not one import after the other."""

from __future__ import annotations

import re
from pathlib import Path

STATIC = Path(__file__).parents[3] / "src/vcjob/ui/static"


def imported(name: str, found: set[str]) -> set[str]:
    for each in re.findall(r'^import .* from "\./(.+)";$', (STATIC / name).read_text(), re.MULTILINE):
        if each not in found:
            found.add(each)
            imported(each, found)
    return found


def test_every_script_that_the_page_imports_is_loaded_at_once() -> None:
    listed = re.findall(
        r'<link rel="modulepreload" href="/static/(.+)">', (STATIC / "index.html").read_text()
    )
    assert listed == sorted(imported("app.js", set()))
    assert len(listed) > 20
