"""Counters of the kernel's out-of-memory killer, in files as the kernel writes them, in both versions of cgroups."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from vcjob.local.pod import memory_kills
from vcjob.local.pod.memory_kills import MemoryKill, MemoryKills, cgroup_counts

KILLED, RAISED, SHELL = -9, 1, 137
LOST_A_CHILD = ["RuntimeError: DataLoader worker (pid 7) is killed by signal: Killed. "]
OTHER = ["ValueError: loss is NaN"]
MACHINE = "no memory was left on this machine"

#: Writes the counters of a cgroup: killed processes, how often it was full, and its limit in bytes.
Cgroup = Callable[..., str]


def version_1(folder: Path, killed: int, full: int, limit: int = 9223372036854771712) -> None:
    (folder / "memory.oom_control").write_text(f"oom_kill_disable 0\nunder_oom 0\noom_kill {killed}\n")
    (folder / "memory.failcnt").write_text(f"{full}\n")
    (folder / "memory.limit_in_bytes").write_text(f"{limit}\n")


def version_2(folder: Path, killed: int, full: int, limit: int | str = "max") -> None:
    for name in ("memory.events", "memory.events.local"):
        (folder / name).write_text(f"low 0\nhigh 0\nmax {full}\noom {full}\noom_kill {killed}\n")
    (folder / "memory.max").write_text(f"{limit}\n")


@pytest.fixture(params=[version_1, version_2])
def cgroup(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cgroup:
    monkeypatch.setattr(memory_kills, "ROOT", str(tmp_path))

    def written(name: str, killed: int, full: int = 0, **limit: int) -> str:
        folder = tmp_path / name
        folder.mkdir(parents=True, exist_ok=True)
        request.param(folder, killed, full, **limit)
        return str(folder)

    return written


def shared(folder: str) -> str:
    """Its file that counts kills."""
    return next(
        str(path)
        for path in Path(folder).iterdir()
        if path.name in ("memory.events.local", "memory.oom_control")
    )


@pytest.mark.parametrize("code", [KILLED, RAISED])
def test_a_kill_at_the_limit_of_the_container_is_its_reason(cgroup: Cgroup, code: int) -> None:
    own = cgroup("main", 1, 5)
    kills = MemoryKills(lambda _: own)
    kills.started("main")
    assert kills.reason("main", code, OTHER) is None  # what an earlier instance counted
    cgroup("main", 2, 6)
    assert kills.reason("main", code, OTHER) == MemoryKill("OOMKilled")


@pytest.mark.parametrize(
    ("code", "lines"),
    [(KILLED, []), (SHELL, ["Killed"]), (RAISED, LOST_A_CHILD)],
    ids=["main", "shell", "child"],
)
def test_without_a_limit_a_kill_in_the_enclosing_cgroup_is_the_machines(
    cgroup: Cgroup, code: int, lines: list[str]
) -> None:
    kills = MemoryKills(shared=shared(cgroup("session", 3)))
    kills.started("main")
    cgroup("session", 4)
    assert kills.reason("main", code, lines) == MemoryKill("HostOutOfMemory", MACHINE)


def test_the_machine_may_run_out_of_memory_below_the_limit_of_the_container(cgroup: Cgroup) -> None:
    own = cgroup("main", 0, 0, limit=64 << 20)
    kills = MemoryKills(lambda _: own, shared(cgroup("session", 0)))
    kills.started("main")
    cgroup("main", 1, 0, limit=64 << 20)
    assert kills.reason("main", KILLED, []) == MemoryKill("HostOutOfMemory", MACHINE)


def test_an_enclosing_cgroup_that_is_full_is_named_with_its_limit(cgroup: Cgroup, tmp_path: Path) -> None:
    cgroup("slice", 0, 1, limit=512 << 20)
    kills = MemoryKills(shared=shared(cgroup("slice/session", 0)))
    kills.started("main")
    cgroup("slice/session", 1)
    assert kills.reason("main", KILLED, []) == MemoryKill(
        "HostOutOfMemory", f"the cgroup {tmp_path}/slice has reached its limit of 512Mi"
    )


def test_a_rank_that_fails_while_another_one_is_killed_has_its_own_reason(cgroup: Cgroup) -> None:
    kills = MemoryKills(shared=shared(cgroup("session", 0)))
    kills.started("main")
    cgroup("session", 1)
    assert kills.reason("main", RAISED, OTHER) is None
    assert kills.reason("main", -11, OTHER) is None


def test_a_kill_from_outside_is_not_the_kernels(cgroup: Cgroup) -> None:
    own = cgroup("main", 0)
    for kills in (MemoryKills(lambda _: own), MemoryKills(shared=shared(own))):
        kills.started("main")
        assert kills.reason("main", KILLED, []) is None


def test_without_cgroups_the_kernels_count_of_the_machine_is_used(tmp_path: Path) -> None:
    vmstat = tmp_path / "vmstat"
    kills = MemoryKills(shared=str(vmstat))
    kills.started("main")
    assert kills.reason("main", KILLED, []) is None  # another system, or an old kernel: no such file
    vmstat.write_text("nr_free_pages 1\noom_kill 2\n")
    assert kills.reason("main", KILLED, []) == MemoryKill("HostOutOfMemory", MACHINE)
    kills.started("main")
    assert kills.reason("main", KILLED, []) is None


def test_a_cgroup_without_counters_counts_nothing(tmp_path: Path) -> None:
    assert cgroup_counts(str(tmp_path), "memory.events") == (0, 0)
    (tmp_path / "memory.failcnt").write_text("many\n")
    assert cgroup_counts(str(tmp_path), "memory.events") == (0, 0)
