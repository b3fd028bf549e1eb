"""The messages of the loader and the schema check, compared with a golden file: changing one is a decision."""

from __future__ import annotations

from tests.spec.mistakes import BYTES, GOLDEN, TEXTS, messages


def test_the_messages_are_those_of_the_golden_file() -> None:
    assert messages().splitlines() == GOLDEN.read_text().splitlines()


def test_every_mistake_has_a_message() -> None:
    answers = [part.splitlines() for part in GOLDEN.read_text().split("# ")[1:]]
    assert len(answers) == len(BYTES) + len(TEXTS)
    assert [answer[0] for answer in answers if len(answer) < 2] == []
