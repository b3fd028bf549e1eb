"""Progress is recognised where a program prints it, and only where it is certain."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vcjob.report.progress import Progress, TimedLine, point_of, progress_of


def found(*lines: str) -> Progress | None:
    return progress_of([TimedLine(line) for line in lines])


def text(*lines: str) -> str:
    return str(found(*lines))


@pytest.mark.parametrize(
    ("line", "shown"),
    [
        (" 24%|██▍       | 120/500 [00:05<00:15, 24.1it/s]", "step 120/500 (24%), 24.1 steps/s, 15s left"),
        ("  2%|▏         | 120/5000 [01:00<40:40,  2.00s/it]", "step 120/5000 (2%), 0.5 steps/s, 40m40s left"),
        ("  0%|          | 0/500 [00:00<?, ?it/s]", "step 0/500 (0%)"),
        (
            "Epoch 3:  24%|██▍       | 120/500 [00:05<00:15, 24.1it/s, v_num=0, train_loss=0.310]",
            "epoch 3, step 120/500 (24%), 24.1 steps/s, loss 0.31",
        ),
        ("training: 100%|██████████| 9/9 [1:00:05<00:00, 1.5it/s, loss=2e-3]",
         "step 9/9 (100%), 1.5 steps/s, 0s left, loss 0.002"),
        ("{'loss': 0.31, 'grad_norm': 1.2, 'learning_rate': 5e-05, 'epoch': 0.5}", "epoch 0.5, loss 0.31"),
        ("{'loss': '0.31', 'grad_norm': '1.2', 'learning_rate': '5e-05', 'epoch': '0.5'}", "epoch 0.5, loss 0.31"),
        (" [2026-11-16 12:00:00] iteration      100/  500000 | consumed samples:        25600 | elapsed time per iteration "
         "(ms): 105.0 | learning rate: 1.0E-04 | global batch size:   256 | lm loss: 9.1E+00 | loss scale: 1.0 |",
         "step 100/500000 (0%), loss 9.1"),
        ("global_step: 1,200 / 5,000 loss: 0.2", "step 1200/5000 (24%), loss 0.2"),
        ("step 1,234,567 of 2,000,000", "step 1234567/2000000 (61%)"),
        ("step 120/5000", "step 120/5000 (2%)"),
        ("[INFO] Step: [120/5000] loss: 0.31", "step 120/5000 (2%), loss 0.31"),
        ("iter 100: loss 2.3001, time 12ms", "step 100, loss 2.3"),
        ("epoch 3", "epoch 3"),
        ("Epoch [3/10], Step [40/100], Loss: 0.1234", "epoch 3, step 40/100 (40%), loss 0.1234"),
        ("loss: 0.31", "loss 0.31"),
        ("vcjob-progress: step=120 total=5000 loss=0.31 epoch=3", "epoch 3, step 120/5000 (2%), loss 0.31"),
    ],
)  # fmt: skip
def test_a_known_form_is_recognised(line: str, shown: str) -> None:
    assert text("some other output", line, "") == shown


@pytest.mark.parametrize(
    "line",
    [
        "model.safetensors:  45%|████▌     | 1.20G/2.50G [00:10<00:12, 110MB/s]",
        "Map:  45%|████▌     | 450/1000 [00:10<00:12, 45.0it/s]",
        "Validation:  45%|████▌     | 450/1000 [00:10<00:12, 45.0it/s]",
        " 99%|██▍       | 120/500 [00:05<00:15, 24.1it/s]",
        "step 5001/5000",
        "step 3/0",
        "Step 1: install the packages",
        "val_loss: 0.5",
        "packet loss 3",
        "connection loss: 3",
        "stepping 3/4",
        "loss: nan",
        "loss: -inf",
        "vcjob-progress: loss=nan",
        "global step 1,200 loss 3",
        "step 1,20/5,000",
        "vcjob-progress: step=x",
        "12/500 files copied",
        "step 99999999999999999999/999999999999999999999",
        "x" * 2000 + " step 1/2",
        f"  9%|#| {9 * 10**400}/1 [00:10<00:12, 45.0it/s]",
        "",
    ],
)
def test_what_is_no_certain_progress_shows_nothing(line: str) -> None:
    assert found(line) is None


@pytest.mark.parametrize(
    "last", ["step 3/9 loss nan", "step 3/9 loss: NaN", "{'loss': 'nan'}", "step 3/9 loss=-inf"]
)
def test_a_loss_that_is_no_number_hides_the_older_one(last: str) -> None:
    """It is what went wrong."""
    progress = found("step 2/9 loss 0.5", last)
    assert progress is not None and progress.loss is None and progress.total == 9
    own = found("vcjob-progress: step=1 loss=0.5", "vcjob-progress: step=2 loss=nan")
    assert own is not None and (own.step, own.loss) == (2, None)
    point = point_of(TimedLine("step 3/9 loss nan"))
    assert point is not None and (point.step, point.loss) == (3, None)


def test_bars_of_different_lengths_are_ambiguous() -> None:
    train, evaluate = " 2%|▏| 120/5000 [01:00<40:40, 2.00it/s]", " 20%|▏| 10/50 [00:01<00:04, 9.00it/s]"
    assert found(train, evaluate) is None
    assert text(train, evaluate, "loss: 0.5") == "loss 0.5"


def test_lines_of_the_documented_form_take_precedence() -> None:
    assert text("vcjob-progress: step=7 total=10", "step 1/2", "loss: 3.5") == "step 7/10 (70%)"


def test_rate_and_remaining_time_follow_from_the_times_of_the_lines() -> None:
    lines = [TimedLine(f"step {10 * n}/100", 50.0 + 5 * n) for n in range(1, 6)]
    assert str(progress_of(lines)) == "step 50/100 (50%), 2 steps/s, 25s left"
    assert str(progress_of(lines[:1])) == "step 10/100 (10%)"


def test_a_rate_is_not_computed_across_a_new_start() -> None:
    lines = [TimedLine("step 90/100", 10.0), TimedLine("step 1/100", 20.0), TimedLine("step 11/100", 30.0)]
    progress = progress_of(lines)
    assert progress is not None and progress.rate == 1.0


LINES = st.lists(
    st.one_of(
        st.text(max_size=60),
        st.from_regex(r"(step|iter|epoch|loss)[ :=\[]{1,2}[0-9]{1,20}/?[0-9]{0,20}( loss: [0-9.e+-]{1,8})?", fullmatch=True),
        st.from_regex(r"(Epoch [0-9]:)? ?[0-9]{1,3}%\|#{0,5}\| [0-9]{1,6}/[0-9]{1,6} \[[0-9:]{1,6}<[0-9:?]{1,6}, [0-9.]{1,5}(it/s|s/it)\]", fullmatch=True),
        st.from_regex(r"vcjob-progress: (step=[0-9]{1,9})?( total=[0-9]{1,9})?( loss=[0-9.e-]{1,6})?", fullmatch=True),
    ),
    max_size=8,
)  # fmt: skip
TIMES = st.one_of(st.none(), st.floats(0, 1e10))


@given(LINES, TIMES)
def test_any_output_gives_consistent_numbers_or_nothing(lines: list[str], time: float | None) -> None:
    progress = progress_of([TimedLine(line, time) for line in lines])
    if progress is None:
        return
    assert str(progress)
    for value in (progress.loss, progress.rate, progress.eta, progress.epoch):
        assert value is None or math.isfinite(value)
    if progress.total is not None:
        assert progress.step is not None and 0 <= progress.step <= progress.total
        assert progress.percent is not None and 0 <= progress.percent <= 100
    assert progress.rate is None or progress.rate > 0
    assert progress.epoch is None or progress.eta is None


@given(st.integers(0, 10**9), st.integers(1, 10**9))
def test_a_step_of_a_total_is_read_back(step: int, total: int) -> None:
    progress = found(f"step {step}/{total}")
    assert (progress is None) == (step > total)
    if progress is not None:
        assert (progress.step, progress.total) == (step, total)
