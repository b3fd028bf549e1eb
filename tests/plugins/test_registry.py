"""The plugins that a Job may use."""

from __future__ import annotations

from typing import Any

import pytest

from tests.plugins.jobs import job, problems, task
from vcjob.errors import InvalidJob
from vcjob.plugins import registry


@pytest.fixture(autouse=True)
def no_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_installed", dict)


def test_our_own_three() -> None:
    assert registry.names() == ["env", "pytorch", "svc"]
    for name in registry.names():
        plugin = registry.find(name)
        assert plugin is not None and plugin.name == name
        assert registry.problem_with(name) is None


@pytest.mark.parametrize("name", ["ssh", "mpi", "tensorflow", "ray", "hcclrank"])
def test_volcanos_other_plugins_are_refused_with_a_sentence(name: str) -> None:
    plugins: dict[str, Any] = {name: []}
    assert registry.find(name) is None
    assert problems(job(task("a"), **plugins)) == [
        (
            "error",
            f"spec.plugins.{name}",
            f"Volcano's plugin `{name}` is not supported; the supported plugins are env, pytorch, svc",
            "remove it, or run this Job with Volcano's own controller",
        )
    ]


@pytest.mark.parametrize(
    ("name", "hint"),
    [
        ("pytroch", "did you mean `pytorch`?"),
        ("SVC", "did you mean `svc`?"),
        ("qqq", "the known plugins are env, pytorch, svc"),
    ],
)
def test_an_unknown_plugin_is_refused_with_the_nearest(name: str, hint: str) -> None:
    plugins: dict[str, Any] = {name: []}
    assert problems(job(task("a"), **plugins)) == [
        ("error", f"spec.plugins.{name}", f"there is no plugin `{name}`", hint)
    ]


def test_problems_of_all_plugins_come_at_once() -> None:
    found = problems(job(task("a"), svc=["--x"], env=["--y"], nope=[]))
    assert [path for _, path, _, _ in found] == [
        "spec.plugins.env[0]",
        "spec.plugins.nope",
        "spec.plugins.svc[0]",
    ]


def test_opening_a_wrong_job_raises_with_all_problems() -> None:
    with pytest.raises(InvalidJob) as caught:
        registry.open_plugins(job(task("a"), svc=["--x"], nope=[]))
    assert [problem.path for problem in caught.value.problems] == ["spec.plugins.nope", "spec.plugins.svc[0]"]


def test_a_job_without_plugins_opens_none() -> None:
    from vcjob.spec.job import Job

    bare = Job({"metadata": {"name": "j"}, "spec": {"tasks": [task("a")]}})
    assert registry.open_plugins(bare) == []
    assert list(registry.check_plugins(bare)) == []


def test_installed_packages_are_searched_only_for_a_name_that_is_not_built_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked = []

    def look() -> dict[str, object]:
        looked.append(True)
        return {}

    monkeypatch.setattr(registry, "_installed", look)
    ours = job(task("master"), pytorch=None, svc=None, env=None)
    assert list(registry.check_plugins(ours)) == []
    assert len(registry.open_plugins(ours)) == 3
    assert looked == []
    assert registry.find("shm") is None
    assert looked == [True]
