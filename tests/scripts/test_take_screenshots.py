"""What `scripts.take_screenshots` leaves on the machine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

pytest.importorskip("playwright.sync_api", reason="playwright (requirements/pages.txt) is not installed")

from scripts import take_screenshots


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_no_job_and_no_folder_is_left_where_a_picture_fails(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    folders: list[Path] = []
    server = Mock()

    @contextmanager
    def serving(home: Path) -> Iterator[Mock]:
        folders.append(home.parent)
        yield server

    monkeypatch.setattr(take_screenshots, "serving", serving)
    with pytest.raises(error), take_screenshots.demo():
        assert (folders[0] / "train.py").exists()
        raise error
    server.close.assert_called_once_with()
    assert not folders[0].exists()
