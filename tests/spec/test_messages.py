"""What people are told is part of the product: every word of it is looked at before it changes."""

from __future__ import annotations

from tests.spec.mistakes import BYTES, GOLDEN, TEXTS, messages


def test_people_are_told_what_is_written_down() -> None:
    assert messages().splitlines() == GOLDEN.read_text().splitlines()


def test_every_mistake_has_an_answer() -> None:
    answers = [part.splitlines() for part in GOLDEN.read_text().split("# ")[1:]]
    assert len(answers) == len(BYTES) + len(TEXTS)
    assert [answer[0] for answer in answers if len(answer) < 2] == []
