"""Every name that users script against is defined once, and no module spells one on its own."""

from __future__ import annotations

import re

import pytest

from tests.source_files import MODULES, SOURCES, read
from vcjob.wellknown.annotations import ANNOTATIONS
from vcjob.wellknown.definition import Definitions
from vcjob.wellknown.environment import VARIABLES
from vcjob.wellknown.exit_codes import EXIT_CODES
from vcjob.wellknown.reasons import REASONS

#: Words that Kubernetes, Volcano or Python use for something else, too: an error class, a pod's phase.
SHARED = {"Succeeded", "NotFound", "Forbidden", "InvalidJob", "DeadlineExceeded", "NodeLost"}


def test_no_module_spells_a_reason_on_its_own() -> None:
    reasons = {definition.name for definition in REASONS} - SHARED
    found = [
        f"{path.relative_to(SOURCES)}:{line}"
        for path in MODULES
        if "wellknown" not in path.parts
        for line, text in read(path).strings
        if text in reasons
    ]
    assert found == []


def test_no_module_spells_an_annotation_or_a_key_of_the_status_on_its_own() -> None:
    found = [
        f"{path.relative_to(SOURCES)}:{line}"
        for path in MODULES
        if "wellknown" not in path.parts
        for line, text in read(path).strings
        if re.fullmatch(r"vcjob\.io/[a-z-]+", text)
    ]
    assert found == []


def test_every_variable_of_vcjob_is_defined() -> None:
    defined = {str(definition.name) for definition in VARIABLES}
    found = {
        f"{path.relative_to(SOURCES)}:{line}: {text}"
        for path in MODULES
        for line, text in read(path).strings
        if re.fullmatch(r"_?VCJOB_[A-Z_]+[A-Z]", text) and text not in defined
    }
    assert found == set()


def test_every_definition_says_what_it_means_in_whole_sentences() -> None:
    meanings = [each.meaning for each in (*REASONS, *VARIABLES, *ANNOTATIONS)] + [
        each.meaning for each in EXIT_CODES
    ]
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
