"""What the race makes of its figures: the fit, the verdict, the words, the pictures."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.race.__main__ import PARTS, TITLES, module_of
from bench.race.growth import exponent
from bench.race.launching.launchers import about_the_rank
from bench.race.report import charts
from bench.race.report.results import limit_row, one_round, row
from bench.race.report.table import markdown, text


@pytest.mark.parametrize("part", PARTS)
def test_every_part_of_the_race_is_a_program_with_help(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    module = module_of(part)
    with pytest.raises(SystemExit) as end:
        module.main(["--help"])
    assert end.value.code == 0
    assert f"python -m {module.__name__} " in capsys.readouterr().out


def test_every_part_of_the_race_has_a_title() -> None:
    assert set(PARTS) == set(TITLES)


@given(st.floats(0.3, 2.5), st.floats(1e-6, 1e3))
def test_the_exponent_of_a_power_is_found_whatever_its_scale(power: float, scale: float) -> None:
    points = [(size, scale * size**power) for size in (10, 100, 1_000, 10_000)]
    assert exponent(points) == pytest.approx(power, abs=1e-6)


def test_a_goal_is_met_up_to_its_ratio_and_missed_above() -> None:
    assert row("a", "them", "s", 0.5, 1.0, 0.5)["met"]
    assert not row("a", "them", "s", 0.51, 1.0, 0.5)["met"]
    assert row("a", "them", "s", 9.0, 1.0, None)["met"], "a row without a goal only tells"
    assert not limit_row("a", "s", 1.06, 1.05)["met"]


def test_a_peer_of_nothing_is_no_division_by_zero() -> None:
    assert not row("a", "them", "s", 1.0, 0.0, 0.5)["met"]


def test_both_tables_say_which_goal_was_missed() -> None:
    rows = [row("quick", "them", "s", 0.2, 1.0, 0.5), row("slow", "them", "s", 2.0, 1.0, 0.5)]
    for shown in (text(rows), markdown(rows)):
        assert [line.split()[-1] for line in shown.replace(" |", "").splitlines()[-2:]] == ["met", "MISSED"]


LOGS = {
    "torchrun": (
        "W1115 Sending process 7 closing signal SIGTERM\n"
        "E1115 failed (exitcode: -9) local_rank: 1 (pid: 8) of binary: python\n"
        "  rank      : 1 (local_rank: 1)\n",
        "E1115 failed (exitcode: -9) local_rank: 1 (pid: 8) of binary: python",
    ),
    "vcjob": (
        "vcjob: rank 1 rank-1 Failed (exit code 137)\n  rank 1 (rank-1) was killed by SIGKILL\n  0 Ended 143\n",
        "rank 1 (rank-1) was killed by SIGKILL",
    ),
    "colours": ("\x1b[31mrank 1 was killed by SIGKILL\x1b[0m\n", "rank 1 was killed by SIGKILL"),
    "only its number": ("[rank 10] fine\n[rank 1] words\n", "[rank 1] words"),
    "nothing": ("it failed\n", ""),
}


@pytest.mark.parametrize("name", LOGS)
def test_the_line_that_names_the_dead_rank_is_found(name: str) -> None:
    log, expected = LOGS[name]
    assert about_the_rank(log) == expected


def test_every_picture_is_well_formed_and_escapes_its_words() -> None:
    rows = [
        row("<a & b>", "them", "s", 3.0, 1.0, 0.5),
        limit_row("growth of render: exponent", "", 1.0, 1.05),
    ]
    times = [one_round("first collective, 4 ranks", who, 1, {"seconds": 1.5}) for who in ("torchrun", "warm")]
    costs = [
        one_round("render", "vcjob", 1, {"pods": size, "cpu_seconds": size / 1000}) for size in (1, 10, 100)
    ]
    for picture in (charts.ratios("x", rows), charts.launchers(times), charts.growth(costs, rows)):
        assert ElementTree.fromstring(picture).tag.endswith("svg")
