"""Every name that users script against is defined once, and no module spells one on its own."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import vcjob
from vcjob.wellknown.definition import Definitions
from vcjob.wellknown.environment import VARIABLES
from vcjob.wellknown.exit_codes import EXIT_CODES
from vcjob.wellknown.reasons import REASONS

SOURCES = Path(vcjob.__file__).parent
#: Words that Kubernetes, Volcano or Python use for something else, too: an error class, a pod's phase.
SHARED = {"Succeeded", "NotFound", "Forbidden", "InvalidJob", "DeadlineExceeded"}


def strings_of_the_code() -> Iterator[tuple[str, str]]:
    for path in sorted(SOURCES.rglob("*.py")):
        if "wellknown" in path.parts:
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value, f"{path.relative_to(SOURCES)}:{node.lineno}"


def test_no_module_spells_a_reason_on_its_own() -> None:
    reasons = {definition.name for definition in REASONS} - SHARED
    assert [place for text, place in strings_of_the_code() if text in reasons] == []


def test_every_definition_says_what_it_means_in_whole_sentences() -> None:
    meanings = [each.meaning for each in (*REASONS, *VARIABLES)] + [each.meaning for each in EXIT_CODES]
    assert [meaning for meaning in meanings if not meaning.endswith(".")] == []


def test_reasons_are_camel_case_words() -> None:
    for definition in REASONS:
        assert re.fullmatch("[A-Z][A-Za-z]*", str(definition.name)), definition


def test_a_name_is_defined_only_once() -> None:
    definitions = Definitions()
    definitions.add("QuotaExceeded", "pending Job", "A quota rejects the pods.")
    with pytest.raises(ValueError, match="defined twice"):
        definitions.add("QuotaExceeded", "event", "Another meaning.")


def test_every_error_class_has_a_documented_exit_code() -> None:
    from vcjob import errors

    codes = {definition.name for definition in EXIT_CODES}
    classes = [value for value in vars(errors).values() if isinstance(value, type)]
    assert {kind.exit_code for kind in classes if issubclass(kind, errors.VcjobError)} <= codes
