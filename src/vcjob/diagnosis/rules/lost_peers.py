"""Failed ranks that only complain about each other: none of them shows an error of its own.

Such an error is no proof against the rank that printed it first. `failure` asks here before it names a rank; what torch
itself says about the rank that was missing counts, and where it says nothing, no rank is named as the first.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from vcjob.diagnosis.finding import Evidence, Finding, Ranks
from vcjob.diagnosis.observation import Observation
from vcjob.diagnosis.rules import watchdog
from vcjob.diagnosis.rules.verdict import Verdict
from vcjob.diagnosis.rules.wording import joined
from vcjob.diagnosis.suspect import Suspect, is_of_peer
from vcjob.wellknown import causes

_BARRIER = re.compile(r"Ranks? ([\d, ]{1,2000}) failed to pass monitoredBarrier in (\d{1,18}) ?ms")
_WAITED = re.compile(r"(?:Timed out waiting|[Ww]ait timeout after) (\d{1,18}) ?ms")
_MESH = re.compile(r"connectFullMesh|socketStartConnect|No route to host")
#: Causes that say no more than that a rank has failed.
_GENERAL = frozenset({causes.EXCEPTION, causes.NON_ZERO_EXIT, causes.ABORTED})
#: Ranks of which the output is compared.
_COMPARED = 100


def without_own_error(
    observation: Observation, complaints: Sequence[Suspect], verdict: Callable[[Suspect], Verdict]
) -> Finding:
    """The finding about these ranks, all of which complain about others."""
    answers = [(each, verdict(each)) for each in complaints[:_COMPARED]]
    return (
        _own_error_before(complaints, verdict)
        or _monitored_barrier(observation, complaints)
        or _explained(complaints, [pair for pair in answers if pair[1].cause != causes.COLLECTIVE_TIMEOUT])
        or watchdog.compared(observation)
        or _explained(complaints, answers)
        or _lost(complaints)
    )


def _own_error_before(complaints: Sequence[Suspect], verdict: Callable[[Suspect], Verdict]) -> Finding | None:
    """The error that a rank handled when it lost the others, where not all of them handled one: they run one program."""
    compared = complaints[:_COMPARED]
    own = [before for before in map(_before, compared) if before is not None]
    if not own or len(own) == len(compared):
        return None
    first = own[0]
    answer, name = verdict(first), first.pod.name
    worker = f" ({first.worker})" if first.worker else ""
    victims = tuple(each.pod.name for each in complaints if each.pod.name != name)
    return Finding(
        answer.cause,
        f"{name}{worker} {answer.what}; while it handled that, it lost the connection to another rank",
        Ranks((name,), victims),
        first.evidence(),
        answer.hint,
        "medium",
    )


def _before(suspect: Suspect) -> Suspect | None:
    """The same rank as if it had ended with the error of its own that it handled when a peer was gone, as in
    `finally: dist.barrier()`; None where there was no such error."""
    first = suspect.traceback.chain[-1] if suspect.traceback is not None else None
    if first is None or not suspect.is_complaint or is_of_peer(first):
        return None
    before = Suspect(suspect.pod, suspect.end)
    before.traceback = first
    return before


def _monitored_barrier(observation: Observation, complaints: Sequence[Suspect]) -> Finding | None:
    """Rank 0 of a monitored barrier prints which ranks did not come."""
    found = next(
        ((each, match) for each in complaints[:_COMPARED] if (match := _BARRIER.search(_text(each)))), None
    )
    if found is None:
        return None
    complaint, match = found
    missing = [word for word in match[1].replace(",", " ").split() if len(word) < 10]
    pods = {} if complaint.worker else {str(pod.rank): pod.name for pod in observation.ranks()}
    named = tuple(pods[rank] for rank in missing if rank in pods)
    names = [pods.get(rank, f"global rank {rank}") for rank in missing]
    if not names:
        return None
    return Finding(
        causes.COLLECTIVE_TIMEOUT,
        f"{joined(names)} did not reach monitored_barrier within {int(match[2]) / 1000:g} s",
        Ranks(named, tuple(each.pod.name for each in complaints if each.pod.name not in named)),
        complaint.evidence(),
        "see what it did instead in its output, or with `vcjob stacks` while the job runs",
        "high",
    )


def _explained(complaints: Sequence[Suspect], answers: Sequence[tuple[Suspect, Verdict]]) -> Finding | None:
    """What one of them says besides: the number of ranks that joined, the master's port, a signal."""
    answered = [(each, answer) for each, answer in answers if answer.cause not in _GENERAL]
    if not answered:
        return None
    first, best = next((pair for pair in answered if pair[1].confidence == "high"), answered[0])
    named = tuple(dict.fromkeys(each.pod.name for each, answer in answered if answer == best))
    worker = f" ({first.worker})" if first.worker else ""
    message = f"{first.pod.name}{worker} {best.what}"
    if len(named) > 1:
        message += f"; {joined(named[1:])} failed with the same error"
    victims = tuple(each.pod.name for each in complaints if each.pod.name not in named)
    return Finding(best.cause, message, Ranks(named, victims), first.evidence(), best.hint, best.confidence)


def _lost(complaints: Sequence[Suspect]) -> Finding:
    """Nobody is named: the first to complain is only the first that noticed."""
    waited = [(each, match) for each in complaints[:_COMPARED] if (match := _WAITED.search(_text(each)))]
    ranks = Ranks((), tuple(each.pod.name for each in complaints))
    if waited:
        names = joined([each.pod.name for each, _ in waited])
        seconds = max(int(match[1]) for _, match in waited) / 1000
        return Finding(
            causes.COLLECTIVE_TIMEOUT,
            f"{names} waited {seconds:g} s for another rank{_said(waited[0][0])}",
            ranks,
            _quoted([each for each, _ in waited]),
            "a rank called other collectives, or was slower than the timeout of the process group: see `vcjob stacks` "
            "while the job runs; on a cluster --flight-recorder=true of the plugin pytorch names the rank",
        )
    names = joined([each.pod.name for each in complaints])
    connected = not any(_MESH.search(_text(each)) for each in complaints[:_COMPARED])
    return Finding(
        causes.CONNECTION_LOST,
        f"{names} {'lost the connection' if connected else 'could not connect'} to another rank"
        f"{_said(complaints[0])}",
        ranks,
        _quoted(complaints),
        "a rank was ended from outside, or the network failed: see `vcjob events` and the output of all ranks"
        if connected
        else "set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME to the network interface on which the ranks reach each other, "
        "and check network policies",
    )


def _text(suspect: Suspect) -> str:
    return suspect.traceback.text if suspect.traceback else suspect.reason


def _said(suspect: Suspect) -> str:
    """The complaint of this rank, or the error of its own that it handled at that time."""
    found, before = suspect.traceback, _before(suspect)
    said, own = (
        f", and no rank shows an error of its own: {suspect.reason}",
        found.own_frame if found else None,
    )
    if found is not None:
        first = found.chain[-1]  # the program may have raised another one from it
        said = f", and no rank shows an error of its own: {first.exception}"
        if before is not None:
            worker = f" ({suspect.worker})" if suspect.worker else ""
            said = f"; {suspect.pod.name}{worker} did while it handled {first.exception}"
            own = first.own_frame
    return f"{said} ({own})" if own else said


def _quoted(complaints: Sequence[Suspect]) -> tuple[Evidence, ...]:
    return tuple(line for each in complaints[:2] for line in each.evidence()[:1])
