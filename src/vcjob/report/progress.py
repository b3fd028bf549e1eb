"""Recognises how far a training program is from the last lines that it printed.

Known are tqdm bars (also those of Hugging Face and Lightning), `step 120/5000`, `epoch 3`, `loss: 0.31`, and lines of
the form `vcjob-progress: step=120 total=5000 epoch=3 loss=0.31`, which take precedence. Pure; a backend passes the
lines. What is ambiguous is left out: two bars of different lengths, a download, a step beyond its total.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import NamedTuple

import msgspec

#: A longer line is no progress line.
LONGEST_LINE = 1000
#: Steps per second are computed from lines that are at least so many seconds apart.
_LEAST_SECONDS = 1.0

_NUMBER = r"[-+]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?"
#: The loss may stop to be a number.
_LOSS_NUMBER = rf"{_NUMBER}|nan\b|[-+]?inf(?:inity)?\b"
#: With commas only where a total follows: "step 12,345" may be two values.
_COUNT = r"\d{1,3}(?:,\d{3})+|\d+"
_OWN = re.compile(r"^\s*vcjob-progress:\s*(.*)$")
_PAIR = re.compile(rf"(step|total|epoch|loss)=({_LOSS_NUMBER})(?=\s|$)", re.IGNORECASE)
_BAR = re.compile(
    r"^\s*(?:(?P<name>[^|%]{0,80}):)?\s*(?P<percent>\d{1,3})%\|[^|]{0,300}\|\s*(?P<step>\d{1,15})/(?P<total>\d{1,15})\s*"
    rf"\[[\d:]{{1,15}}<(?P<left>[\d:]{{1,15}}|\?),\s*(?:(?P<rate>{_NUMBER})|\?)\s*(?P<unit>it/s|s/it)(?P<rest>.*)\]\s*$"
)
#: Bars with another name than these prepare data, download or evaluate.
_TRAINING = re.compile(r"train|epoch|step|iter|fit", re.IGNORECASE)
_STEP_OF = re.compile(
    rf"\b(?:global[_ ]?)?(?:step|iter(?:ation)?)s?\b[\s:=#\[(]{{0,20}}({_COUNT})\s*(?:/|\bof\b)\s*({_COUNT})(?!,?\d)",
    re.IGNORECASE,
)
_STEP = re.compile(
    r"\b(?:global[_ ]?)?(?:step|iter(?:ation)?)\b[\s:=#\[(]{0,3}(\d+)(?![\d.]|,\d|\s*%)", re.IGNORECASE
)
_EPOCH = re.compile(rf"\bepoch['\"]?[\s:=#\[(]{{0,3}}['\"]?({_NUMBER})", re.IGNORECASE)
_LOSS = re.compile(
    r"(?:^\s*|[^\w\s]\s*|\d\s+|\b(?:train|training|avg|average|mean|running|lm)[_ /])loss['\"]?"
    rf"(?:\s*[:=]\s*['\"]?|\s+(?=\d+\.|nan\b|[-+]?inf))({_LOSS_NUMBER})(?![\w.])",
    re.IGNORECASE,
)
_OTHER_LOSS = re.compile(r"(?:val|valid|validation|eval|test|best)[_ /]?loss", re.IGNORECASE)


class TimedLine(NamedTuple):
    """A line without its line break, and when it was received (epoch seconds), if known.

    The input of everything that reads progress from a log.
    """

    text: str
    time: float | None = None


class Progress(msgspec.Struct, frozen=True, omit_defaults=True):
    """How far a job is. Every field is what the program printed, or follows from it; None where that is unknown.

    `Handle.progress` returns it; `status`, `list` and the page show it.
    """

    step: int | None = None
    total: int | None = None
    #: Of the steps; of one epoch where `epoch` is set.
    percent: float | None = None
    epoch: float | None = None
    loss: float | None = None
    #: Steps per second.
    rate: float | None = None
    #: Seconds until the last step; unknown where the steps are those of one epoch.
    eta: float | None = None

    def __str__(self) -> str:
        parts = [] if self.epoch is None else [f"epoch {self.epoch:g}"]
        if self.step is not None:
            of = "" if self.total is None else f"/{self.total}"
            percent = "" if self.percent is None else f" ({math.floor(self.percent)}%)"
            parts.append(f"step {self.step}{of}{percent}")
        if self.rate is not None:
            parts.append(f"{self.rate:.3g} steps/s")
        if self.eta is not None:
            parts.append(f"{_clock(self.eta)} left")
        if self.loss is not None:
            parts.append(f"loss {self.loss:.4g}")
        return ", ".join(parts)


class ProgressPoint(NamedTuple):
    """A point of a chart: what one line says. `own`: it is in the form that takes precedence over others.

    The page draws them; a line without a step or a loss has none.
    """

    time: float | None
    step: int | None
    loss: float | None
    own: bool = False


class _Seen(NamedTuple):
    """What one line says. The loss may be infinite or no number: it then hides older ones."""

    own: bool = False
    step: int | None = None
    total: int | None = None
    epoch: float | None = None
    loss: float | None = None
    rate: float | None = None
    left: float | None = None
    time: float | None = None


def progress_of(lines: Iterable[TimedLine]) -> Progress | None:
    """The progress that the lines of one rank show, oldest line first; None where nothing certain is in them."""
    seen = [found for line in lines if (found := _read(line)) is not None]
    if any(found.own for found in seen):
        seen = [found for found in seen if found.own]
    steps = [found for found in seen if found.step is not None]
    steps = [found for found in steps if found.total is not None] or steps
    epoch = next((found.epoch for found in reversed(seen) if found.epoch is not None), None)
    loss = _finite(next((found.loss for found in reversed(seen) if found.loss is not None), None))
    if not steps or len({found.total for found in steps}) > 1:
        return None if epoch is None and loss is None else Progress(epoch=epoch, loss=loss)
    last = steps[-1]
    assert last.step is not None
    rate = last.rate if last.rate is not None else _rate(steps)
    eta = None
    if last.total is not None and epoch is None:
        eta = last.left if last.left is not None else (last.total - last.step) / rate if rate else None
    percent = None if last.total is None else 100.0 * last.step / last.total
    return Progress(last.step, last.total, percent, epoch, loss, rate, eta)


def point_of(line: TimedLine) -> ProgressPoint | None:
    """The step and the loss that one line shows; None where it shows neither."""
    seen = _read(line)
    loss = _finite(seen.loss) if seen else None
    if seen is None or (seen.step is None and loss is None):
        return None
    return ProgressPoint(seen.time, seen.step, loss, seen.own)


def _read(line: TimedLine) -> _Seen | None:
    text = line.text
    if len(text) > LONGEST_LINE:
        return None
    if own := _OWN.match(text):
        pairs = dict(_PAIR.findall(own[1]))
        return _checked(
            pairs.get("step"), pairs.get("total"), own=True, epoch=_real(pairs.get("epoch")),
            loss=_number(pairs.get("loss")), time=line.time,
        )  # fmt: skip
    if "%|" in text:
        return _read_bar(text, line.time)
    epoch, loss = _EPOCH.search(text), None if _OTHER_LOSS.search(text) else _LOSS.search(text)
    of = _STEP_OF.search(text)
    # "Step 1: install" is a step of something else.
    step = of or (_STEP.search(text) if epoch or loss else None)
    if epoch is None and loss is None and step is None:
        return None
    return _checked(
        step[1] if step else None, of[2] if of else None, epoch=_real(epoch[1] if epoch else None),
        loss=_number(loss[1] if loss else None), time=line.time,
    )  # fmt: skip


def _read_bar(text: str, time: float | None) -> _Seen | None:
    bar = _BAR.match(text)
    if bar is None or (bar["name"] and not _TRAINING.search(bar["name"])):
        return None
    step, total = int(bar["step"]), int(bar["total"])
    if total == 0 or abs(100 * step / total - int(bar["percent"])) > 1:
        return None
    speed = _real(bar["rate"])
    if speed is not None and bar["unit"] == "s/it":
        speed = 1 / speed if speed else None
    epoch = _EPOCH.search(bar["name"] or "")
    loss = None if _OTHER_LOSS.search(bar["rest"]) else _LOSS.search(bar["rest"].replace("_loss", " loss"))
    return _checked(
        bar["step"], bar["total"], epoch=_real(epoch[1] if epoch else None),
        loss=_number(loss[1] if loss else None), rate=speed or None, left=_seconds(bar["left"]), time=time,
    )  # fmt: skip


def _checked(
    step: str | None,
    total: str | None,
    *,
    own: bool = False,
    epoch: float | None = None,
    loss: float | None = None,
    rate: float | None = None,
    left: float | None = None,
    time: float | None = None,
) -> _Seen | None:
    """None where the numbers contradict each other."""
    done, most = _whole(step), _whole(total)
    if (step is not None and done is None) or (total is not None and not most):
        return None
    if done is not None and most is not None and done > most:
        return None
    if (total is not None and done is None) or (epoch is not None and epoch < 0):
        return None
    if done is None and epoch is None and loss is None:
        return None
    return _Seen(own, done, most, epoch, loss, rate, left, time)


def _rate(steps: list[_Seen]) -> float | None:
    """Steps per second since the steps last began again."""
    last = first = steps[-1]
    for found in reversed(steps[:-1]):
        if found.time is None or first.step is None or found.step is None or found.step > first.step:
            break
        first = found
    if last.time is None or first.time is None or last.step is None or first.step is None:
        return None
    seconds, count = last.time - first.time, last.step - first.step
    return count / seconds if seconds >= _LEAST_SECONDS and count > 0 else None


def _whole(text: str | None) -> int | None:
    text = (text or "").replace(",", "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _number(text: str | None) -> float | None:
    """Also one that is infinite, or none at all."""
    return None if text is None else float(text)


def _finite(value: float | None) -> float | None:
    return value if value is not None and math.isfinite(value) else None


def _real(text: str | None) -> float | None:
    return _finite(_number(text))


def _seconds(text: str) -> float | None:
    if text == "?":
        return None
    total = 0.0
    for part in text.split(":"):
        if not part:
            return None
        total = total * 60 + float(part)
    return total


def _clock(seconds: float) -> str:
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours}h{minutes}m"
    return f"{minutes}m{rest}s" if minutes else f"{rest}s"
