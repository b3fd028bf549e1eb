"""What `import vcjob` offers."""

from __future__ import annotations

import inspect

import pytest

import vcjob
from vcjob import errors, sdk


def test_every_public_name_is_there_and_listed() -> None:
    for name in vcjob.__all__:
        assert getattr(vcjob, name) is not None
        assert name in dir(vcjob)
    for name in sdk.__all__:
        assert getattr(sdk, name) is getattr(vcjob, name)
        assert name in dir(sdk)


def test_every_error_is_public() -> None:
    for name, value in vars(errors).items():
        if inspect.isclass(value) and issubclass(value, errors.VcjobError):
            assert getattr(vcjob, name) is value


def test_every_public_function_and_class_is_documented() -> None:
    for name in sdk.__all__:
        assert (getattr(vcjob, name).__doc__ or "").strip(), name


@pytest.mark.parametrize("module", [vcjob, sdk])
def test_an_unknown_name_is_an_attribute_error(module: object) -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nonsense'"):
        module.nonsense  # type: ignore[attr-defined]
