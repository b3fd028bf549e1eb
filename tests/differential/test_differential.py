"""A hundred Jobs run here and on a real kubelet: what can be seen of them is the same, but for what the docs list."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.cluster.controller.conftest import Controller, ControllerCluster, crds, serve, testbed
from tests.differential.cluster_runs import run_again_on_cluster, run_on_cluster
from tests.differential.corpus import Case, corpus
from tests.differential.known import Known
from tests.differential.local_runs import run_locally
from tests.differential.observation import ContainerSeen, JobSeen, PodSeen, differences
from tests.testbed.parts.node import Node
from tests.testbed.parts.part import Part

__all__ = ["crds", "serve", "testbed"]

#: VCJOB_DIFFERENTIAL=exit-1,umask compares these Jobs only.
CHOSEN = [name for name in os.environ.get("VCJOB_DIFFERENTIAL", "").split(",") if name]


@pytest.mark.cluster
@pytest.mark.timeout(600)
def test_jobs_look_the_same_on_this_machine_and_on_a_kubelet(
    testbed: ControllerCluster, serve: Callable[..., Controller], node: Node, dns: Part, tmp_path: Path
) -> None:
    cases = [case for case in corpus() if not CHOSEN or case.name in CHOSEN]
    serve()
    with ThreadPoolExecutor(1) as pool:
        on_cluster = pool.submit(run_on_cluster, cases, testbed, node)
        local = run_locally(cases, tmp_path)
        cluster = on_cluster.result()
    known = Known()
    if unknown := _unknown(cases, local, cluster, known):
        # A Job may race with itself (a hook that writes a file which the container reads), and a container runtime
        # may lose the last lines of a container: what differs once only is no difference between the backends.
        again = [case for case in cases if any(line.startswith(f"{case.name}: ") for line in unknown)]
        (tmp_path / "again").mkdir()
        local, cluster = run_locally(again, tmp_path / "again"), run_again_on_cluster(again, testbed, node)
        unknown = _unknown(again, local, cluster, known)
    assert not unknown, "\n" + "\n".join(unknown)
    if not CHOSEN:
        assert known.unseen() == [], "the page lists differences that do not exist"


def _unknown(
    cases: Sequence[Case], local: Mapping[str, JobSeen], cluster: Mapping[str, JobSeen], known: Known
) -> list[str]:
    """The differences that the page does not list."""
    return [
        f"{case.name}: {path}: {_from_difference(ours, theirs)!r} here, {_from_difference(theirs, ours)!r} on the kubelet"
        for case in cases
        for path, (ours, theirs) in differences(local[case.name], cluster[case.name]).items()
        if not known.covers(case.name, path)
    ]


def _from_difference(text: str, other: str) -> str:
    """The text from a little before the place where the other differs, shortened."""
    equal = next(
        (n for n, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other))
    )
    begin = max(0, equal - 40)
    return ("..." if begin else "") + text[begin : begin + 300]


def test_a_difference_in_a_long_text_is_shown() -> None:
    text = "".join(f"{number}\n" for number in range(20_000))
    assert _from_difference(text, text[:-6]).endswith("19999\n")
    assert _from_difference(text[:-6], text).endswith("19998\n")
    assert _from_difference("a", "b") == "a"


def test_the_corpus_is_large_and_its_names_are_jobs() -> None:
    cases = corpus()
    assert len(cases) >= 60
    assert all(case.name == case.job["metadata"]["name"] for case in cases)
    assert {"dev-stderr" in case.name for case in cases} == {True, False}


def _seen(**changes: object) -> JobSeen:
    container = ContainerSeen(exit_code=0, reason="Completed", restarts=0, stdout="a\n")
    job = JobSeen(
        "Completed", "Succeeded", 0, 0, 1, 0, {"t-0": PodSeen("Succeeded", "", {"main": container})}
    )
    for name, value in changes.items():
        setattr(container, name, value)
    return job


def test_a_difference_is_named_by_its_path() -> None:
    assert differences(_seen(), _seen()) == {}
    assert differences(_seen(), _seen(stdout="b\n")) == {"t-0.main.stdout": ("a\n", "b\n")}
    gone = _seen()
    gone.pods.clear()
    assert differences(gone, _seen())["t-0.phase"] == ("absent", "Succeeded")


def test_every_row_of_the_page_names_a_job_of_the_corpus() -> None:
    names = [case.name for case in corpus()]
    known = Known()
    assert [row for row in known.rows if not any(_matches(case, row[0]) for case in names)] == []


def _matches(name: str, pattern: str) -> bool:
    from fnmatch import fnmatchcase

    return fnmatchcase(name, pattern)


def test_a_job_with_a_name_only_differs_where_its_row_says(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Known()
    monkeypatch.setattr(known, "rows", [("exit-*", "*.reason")])
    assert known.covers("exit-1", "t-0.main.reason")
    assert not known.covers("exit-1", "t-0.main.stdout")
    assert not known.covers("other", "t-0.main.reason")
    assert known.unseen() == []
