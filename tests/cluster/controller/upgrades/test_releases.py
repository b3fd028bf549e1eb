"""Earlier releases: a shallow checkout must not look like a successful upgrade test where nothing may be skipped."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cluster.controller.upgrades.releases import earlier
from tests.testbed.support import REQUIRE


@pytest.mark.parametrize("required", [False, True])
def test_without_the_git_history_the_test_is_skipped_or_fails_where_required(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, required: bool
) -> None:
    monkeypatch.setenv(REQUIRE, "require" if required else "")
    outcome = pytest.fail.Exception if required else pytest.skip.Exception
    with pytest.raises(outcome, match="no git history"):
        earlier("0" * 40, tmp_path)
