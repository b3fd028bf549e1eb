"""Resources: URL paths and names."""

from __future__ import annotations

import pytest

from vcjob.kube.api.resources import NAMESPACES, PODS


@pytest.mark.parametrize("name", ["../secrets/x", "a/b", "a?b=c", "ü"])
async def test_a_name_is_quoted_in_the_url(name: str) -> None:
    path = PODS.path("ns/../../x", name)
    assert path.count("/") == 6
    assert "?" not in path


@pytest.mark.parametrize("name", ["", ".", ".."])
def test_an_invalid_name_is_rejected(name: str) -> None:
    with pytest.raises(ValueError, match="not a valid name"):
        PODS.path("default", name)


def test_an_object_of_a_namespaced_kind_needs_its_namespace() -> None:
    with pytest.raises(ValueError, match="namespace"):
        PODS.path(None, "a")
    assert NAMESPACES.path(None, "n1") == "/api/v1/namespaces/n1"
    assert PODS.path() == "/api/v1/pods"
